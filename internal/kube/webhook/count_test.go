package webhook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	trainer "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// What is counted is what waits in queues by itself, once, until it is gone.
func TestJobsAreCounted(t *testing.T) {
	const others = "example.com/others"
	wrapper := func(manager string) *aw.AppWrapper {
		w := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue"}}
		if manager != "" {
			w.Spec.ManagedBy = &manager
		}
		return w
	}
	job := func(queue string, owner ...metav1.OwnerReference) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", OwnerReferences: owner}}
		if queue != "" {
			j.Labels = map[string]string{kueue.QueueNameLabel: queue}
		}
		return j
	}
	of := func(kind string) metav1.OwnerReference {
		return metav1.OwnerReference{Kind: kind, Controller: new(true)}
	}
	elsewhere := job("q")
	elsewhere.Namespace = "red"
	managed := job("q")
	managed.Spec.ManagedBy = ptr.To(others)
	for name, tc := range map[string]struct {
		why   string
		scope jobs.Scope
		do    func(wrappers, batch toolscache.ResourceEventHandler)
		want  map[string]int
	}{
		"comes": {
			why: "both kinds count, each where it is",
			do: func(wrappers, batch toolscache.ResourceEventHandler) {
				wrappers.OnAdd(wrapper(""), true)
				batch.OnAdd(job("q"), false)
				batch.OnAdd(job("q", of("CronJob")), false)
				batch.OnAdd(elsewhere, false)
			},
			want: map[string]int{"blue": 3, "red": 1},
		},
		"not ours": {
			why: "what does not wait here is none of ours",
			do: func(wrappers, batch toolscache.ResourceEventHandler) {
				wrappers.OnAdd(wrapper(others), false)
				batch.OnAdd(managed, false)
				batch.OnAdd(job(""), false)
			},
			want: map[string]int{},
		},
		"component": {
			why: "it has no queue of its own and counts with the whole, whatever else waits", scope: jobs.Scope{WithoutQueue: true},
			do: func(_, batch toolscache.ResourceEventHandler) {
				batch.OnAdd(job("", of(aw.AppWrapperKind)), false)
			},
			want: map[string]int{},
		},
		"forged component": {
			why: "any user may name an owner: the Job is then queued like others",
			do: func(_, batch toolscache.ResourceEventHandler) {
				batch.OnAdd(job("q", of(aw.AppWrapperKind)), false)
			},
			want: map[string]int{"blue": 1},
		},
		"without queue": {
			why: "Jobs without a queue wait too, if the installation says so", scope: jobs.Scope{WithoutQueue: true},
			do:   func(_, batch toolscache.ResourceEventHandler) { batch.OnAdd(job(""), false) },
			want: map[string]int{"blue": 1},
		},
		"is queued later": {
			why: "it counts from then on, and once",
			do: func(_, batch toolscache.ResourceEventHandler) {
				batch.OnAdd(job(""), false)
				batch.OnUpdate(job(""), job("q"))
				batch.OnUpdate(job("q"), job("p"))
			},
			want: map[string]int{"blue": 1},
		},
		"goes": {
			why: "also where the deletion itself was not seen",
			do: func(wrappers, batch toolscache.ResourceEventHandler) {
				wrappers.OnAdd(wrapper(""), false)
				batch.OnAdd(job("q"), false)
				wrappers.OnDelete(wrapper(""))
				batch.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: job("q")})
			},
			want: map[string]int{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &count{of: map[string]int{}}
			all := kinds.All()
			of := func(gvk schema.GroupVersionKind) toolscache.ResourceEventHandler {
				return c.handler(countsAsJob(all, all.Find(gvk), tc.scope), nil)
			}
			tc.do(of(aw.GroupVersion.WithKind(aw.AppWrapperKind)), of(batchv1.SchemeGroupVersion.WithKind("Job")))
			if diff := cmp.Diff(tc.want, c.of); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.why, diff)
			}
			if got := c.in("blue"); got != tc.want["blue"] {
				t.Errorf("%s: %d in blue", tc.why, got)
			}
		})
	}
}

// The jobs of a namespace are weighed as they are stored: when they come, when they change, when what
// they are based on is recorded in them, and until they are gone.
func TestJobsAreWeighed(t *testing.T) {
	all := kinds.All()
	c := &count{of: map[string]int{}, weights: map[types.UID]weight{}, bytes: map[string]int64{}}
	handler := func(gvk schema.GroupVersionKind) toolscache.ResourceEventHandler {
		k := all.Find(gvk)
		return c.handler(countsAsJob(all, k, jobs.Scope{}), c.weigh(k))
	}
	batch, trains := handler(
		batchv1.SchemeGroupVersion.WithKind("Job"),
	), handler(
		trainer.GroupVersion.WithKind("TrainJob"),
	)
	expect := func(what string, least, most int64) {
		t.Helper()
		if n := c.sizeIn("blue"); n < least || n > most {
			t.Errorf("%s: %d bytes, want %d to %d", what, n, least, most)
		}
	}
	job := func(generation int64, image int, note string) *batchv1.Job {
		j := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   "blue",
				UID:         "u",
				Generation:  generation,
				Labels:      map[string]string{kueue.QueueNameLabel: "q"},
				Annotations: map[string]string{"note": note},
			},
		}
		j.Spec.Template.Spec.Containers = []corev1.Container{{Image: strings.Repeat("i", image)}}
		return j
	}
	batch.OnAdd(job(1, 1000, ""), true)
	expect("a Job", 1000, 2000)
	batch.OnUpdate(job(1, 1000, ""), job(2, 5000, ""))
	expect("it was changed", 5000, 6000)
	batch.OnUpdate(job(2, 5000, ""), job(2, 5000, strings.Repeat("n", 10000)))
	expect("it was annotated, which is no new generation", 15000, 16000)
	train := &trainer.TrainJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  "blue",
			UID:        "t",
			Generation: 1,
			Labels:     map[string]string{kueue.QueueNameLabel: "q"},
		},
	}
	trains.OnAdd(train, false)
	expect("a TrainJob, without its runtime", 15000, 17000)
	based := train.DeepCopy()
	based.Status.Runtime = &trainer.ResolvedRuntime{Name: strings.Repeat("r", 20000)}
	trains.OnUpdate(train, based)
	expect("with its runtime", 35000, 37000)
	trains.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: based})
	batch.OnUpdate(job(2, 5000, "n"), func() *batchv1.Job { j := job(2, 5000, "n"); j.Labels = nil; return j }())
	expect("one is gone, one is queued no more", 0, 0)
	if len(c.weights) > 0 || len(c.bytes) > 0 {
		t.Errorf("what is gone is kept: %v, %v", c.weights, c.bytes)
	}
}
