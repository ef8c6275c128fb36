package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// What is counted is what waits in queues by itself, once, until it is gone.
func TestS21JobsAreCounted(t *testing.T) {
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
				return c.handler(countsAsJob(all, all.Find(gvk), tc.scope))
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
