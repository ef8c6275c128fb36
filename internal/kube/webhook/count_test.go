package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
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
		do    func(h toolscache.ResourceEventHandler)
		want  map[string]int
	}{
		"comes": {
			why: "both kinds count, each where it is",
			do: func(h toolscache.ResourceEventHandler) {
				h.OnAdd(wrapper(""), true)
				h.OnAdd(job("q"), false)
				h.OnAdd(job("q", of("CronJob")), false)
				h.OnAdd(elsewhere, false)
			},
			want: map[string]int{"blue": 3, "red": 1},
		},
		"not ours": {
			why: "what does not wait here is none of ours",
			do: func(h toolscache.ResourceEventHandler) {
				h.OnAdd(wrapper(others), false)
				h.OnAdd(managed, false)
				h.OnAdd(job(""), false)
			},
			want: map[string]int{},
		},
		"component": {
			why: "it has no queue of its own and counts with the whole, whatever else waits", scope: jobs.Scope{WithoutQueue: true},
			do:   func(h toolscache.ResourceEventHandler) { h.OnAdd(job("", of(aw.AppWrapperKind)), false) },
			want: map[string]int{},
		},
		"forged component": {
			why:  "anybody may name an owner: who does has the Job queued like others",
			do:   func(h toolscache.ResourceEventHandler) { h.OnAdd(job("q", of(aw.AppWrapperKind)), false) },
			want: map[string]int{"blue": 1},
		},
		"without queue": {
			why: "Jobs without a queue wait too, if the installation says so", scope: jobs.Scope{WithoutQueue: true},
			do:   func(h toolscache.ResourceEventHandler) { h.OnAdd(job(""), false) },
			want: map[string]int{"blue": 1},
		},
		"is queued later": {
			why: "it counts from then on, and once",
			do: func(h toolscache.ResourceEventHandler) {
				h.OnAdd(job(""), false)
				h.OnUpdate(job(""), job("q"))
				h.OnUpdate(job("q"), job("p"))
			},
			want: map[string]int{"blue": 1},
		},
		"goes": {
			why: "also where the deletion itself was not seen",
			do: func(h toolscache.ResourceEventHandler) {
				h.OnAdd(wrapper(""), false)
				h.OnAdd(job("q"), false)
				h.OnDelete(wrapper(""))
				h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: job("q")})
			},
			want: map[string]int{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &count{counts: countsAsJob(tc.scope), of: map[string]int{}}
			tc.do(c.handler())
			if diff := cmp.Diff(tc.want, c.of); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.why, diff)
			}
			if got := c.in("blue"); got != tc.want["blue"] {
				t.Errorf("%s: %d in blue", tc.why, got)
			}
		})
	}
}
