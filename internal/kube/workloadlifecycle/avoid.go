package workloadlifecycle

import (
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// avoidedFor is for how long a workload gets other nodes than one on which it failed, if there are some. A node that is
// still bad then takes no work anyway.
const avoidedFor = time.Hour

// mostAvoided is how many nodes a workload avoids: the last ones.
const mostAvoided = 16

// avoid writes that a workload lost what it had because nodes failed, so that its next plan leaves them out where it can.
func avoid(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time, failed []string) {
	known := apimeta.FindStatusCondition(next.Conditions, kueue.WorkloadNodesAvoided) != nil
	if len(failed) == 0 || !known && len(next.Conditions) > mostConditions {
		return
	}
	all := slices.DeleteFunc(convert.Avoided(w), func(n convert.AvoidedNode) bool {
		return now.Sub(n.Since) >= avoidedFor || slices.Contains(failed, n.Name)
	})
	slices.SortStableFunc(all, func(a, b convert.AvoidedNode) int { return b.Since.Compare(a.Since) })
	for _, name := range failed[:min(len(failed), mostAvoided)] {
		all = slices.Insert(all, 0, convert.AvoidedNode{Name: name, Since: now})
	}
	set := NewConditions(w, next, now)
	set.clear(kueue.ReasonNodeFailures, "", kueue.WorkloadNodesAvoided) // its time is that of the last failure
	set.Set(
		kueue.WorkloadNodesAvoided,
		metav1.ConditionTrue,
		kueue.ReasonNodeFailures,
		convert.AvoidedText(all[:min(len(all), mostAvoided)]),
	)
}

// forgive forgets which nodes a workload avoids, once they have had their time.
func forgive(f Facts) (Write, bool) {
	w := f.Workload
	c := condition(w, kueue.WorkloadNodesAvoided)
	if w.Status.Admission != nil || c == nil || c.Status != metav1.ConditionTrue {
		return Write{}, false
	}
	if end := c.LastTransitionTime.Add(avoidedFor); end.After(f.Now) {
		return Write{Again: end}, false
	}
	next := w.Status.DeepCopy()
	NewConditions(w, next, f.Now).Set(c.Type, metav1.ConditionFalse, kueue.ReasonRefusalLapsed, c.Message)
	return Write{Status: next}, true
}
