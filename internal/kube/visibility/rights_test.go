package visibility

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// TestRightsAreThoseOfTheObjectTheUserEdits: advice names the right for what a user submitted and
// would change, also where the Workload that stands for it has no owner, and for a hold the right
// of who may end that.
func TestRightsAreThoseOfTheObjectTheUserEdits(t *testing.T) {
	made := func(gvk, name string) map[string]string {
		return map[string]string{
			kueue.IsGroupWorkloadAnnotation: "true",
			kueue.JobOwnerGVKAnnotation:     gvk,
			kueue.JobOwnerNameAnnotation:    name,
		}
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		owner       *metav1.OwnerReference
		held        bool
		advice      core.AdviceKind
		want        string
	}{
		"a job":                     {owner: &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "a", Controller: new(true)}, advice: core.FewerPods, want: "create jobs.batch"},
		"a LeaderWorkerSet":         {annotations: made("leaderworkerset.x-k8s.io/v1, Kind=LeaderWorkerSet", "a"), advice: core.SmallerPods, want: "create leaderworkersets.leaderworkerset.x-k8s.io"},
		"a StatefulSet":             {annotations: made("apps/v1, Kind=StatefulSet", "a"), advice: core.RaisePriority, want: "create statefulsets.apps"},
		"a pod group":               {annotations: map[string]string{kueue.IsGroupWorkloadAnnotation: "true"}, advice: core.FewerPods, want: "create pods"},
		"a Workload alone":          {advice: core.FewerPods, want: "create workloads.kueue.x-k8s.io"},
		"a hold of a member":        {held: true, advice: core.Release, want: "patch workloads.kueue.x-k8s.io"},
		"a hold of administrators":  {annotations: map[string]string{kueue.HeldByAnnotation: "root"}, held: true, advice: core.Release, want: "update workloads.kueue.x-k8s.io"},
		"what comes after another":  {annotations: map[string]string{kueue.AfterAnnotation: "ok:b"}, owner: &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "a", Controller: new(true)}, advice: core.OpenGate, want: "patch jobs.batch"},
		"a policy of its queue":     {advice: core.PreemptBorrowing, want: "patch clusterqueues.kueue.x-k8s.io"},
		"a gate of nobody's object": {advice: core.OpenGate, want: "patch workloads.kueue.x-k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &kueue.Workload{
				ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w", Annotations: c.annotations},
			}
			if c.owner != nil {
				w.OwnerReferences = []metav1.OwnerReference{*c.owner}
			}
			w.Spec.Active = new(!c.held)
			if got := (&asker{}).needs(w, c.advice).String(); got != c.want {
				t.Errorf("%s needs %q, want %q", c.advice, got, c.want)
			}
		})
	}
}
