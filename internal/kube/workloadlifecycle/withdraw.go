package workloadlifecycle

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// RefusalPatience is how long planned nodes may refuse a job's pods, for reasons that the engine
// counts itself, before the plan is withdrawn: nodes and pods may be about to change.
const RefusalPatience = time.Minute

// refusalLapses is how long a refusal is remembered at most while its job waits. What changes on
// the node or its pods is seen; what else a rule looked at, such as volumes and devices, may not be.
const refusalLapses = 10 * time.Minute

// Refused is that planned nodes refuse a job's pods.
type Refused struct {
	// Nodes are the nodes that refuse the pods by a rule that the engine does not know; none if it is
	// something that the engine counts and that the scheduler sees otherwise.
	Nodes []convert.Refusal
	// Why is what the scheduler says, Since when; zero if it found a place for all.
	Why   string
	Since time.Time
	// Ran is true if a pod of the job has a node.
	Ran bool
}

// Due reports whether the plan is to be withdrawn: at once where nodes refuse for good and nothing
// runs, and else after RefusalPatience, of which so much is left.
func (r Refused) Due(now time.Time) (left time.Duration, due bool) {
	switch {
	case len(r.Nodes) > 0 && !r.Ran:
		return 0, true
	case r.Since.IsZero():
		return 0, false
	}
	left = r.Since.Add(RefusalPatience).Sub(now)
	return max(left, 0), left <= 0
}

// answer is why nodes refuse the pods, for people: what they answered themselves, each once.
func (r Refused) answer() string {
	var out []string
	for _, n := range r.Nodes {
		if !slices.Contains(out, n.Why) {
			out = append(out, n.Why)
		}
	}
	if len(out) == 0 {
		return r.Why
	}
	return strings.Join(out, "; ")
}

// Withdraw evicts a job whose planned nodes refuse its pods. Nodes that refuse them are left out
// of its next plan, which is made at once; where none is named, or one refuses them again, it is
// queued again after a pause that doubles, so that others get their turn meanwhile.
func Withdraw(w *kueue.Workload, r Refused, now time.Time) (*kueue.WorkloadStatus, Event) {
	next := w.Status.DeepCopy()
	set := NewConditions(w, next, now)
	message := "The planned nodes refuse its pods: " + r.answer()
	pause := time.Duration(0)
	if len(r.Nodes) > 0 {
		all, times := added(w, r.Nodes)
		if times > 1 {
			pause = min(time.Second<<min(times-1, 10), refusalLapses)
		}
		set.refused(all)
	} else {
		const first, longest = time.Minute, time.Hour
		n := int32(1)
		if next.RequeueState != nil {
			n += ptr.Deref(next.RequeueState.Count, 0)
		}
		pause = min(first<<min(n-1, 10), longest)
		next.RequeueState = &kueue.RequeueState{Count: &n}
	}
	if pause > 0 {
		if next.RequeueState == nil {
			next.RequeueState = &kueue.RequeueState{}
		}
		next.RequeueState.RequeueAt = new(wholeSecond(now.Add(pause)))
	}
	event := Evict(w, next, now, Eviction{Reason: kueue.ReasonNodesRefused, Message: message, Unbegun: !r.Ran})
	if !r.Ran { // so that no time counts as used
		set.Set(kueue.WorkloadAdmitted, metav1.ConditionFalse, kueue.ReasonNodesRefused, message)
	}
	return next, event
}

// NoteRefused returns the status of a workload that is evicted for another reason while planned
// nodes refuse its pods, so that its next plan leaves them out, too; nil if it says so already. To be
// written before its pods are removed, and with them what they say.
func NoteRefused(w *kueue.Workload, r Refused, now time.Time) *kueue.WorkloadStatus {
	known := convert.Refusals(w)
	if r.Ran || !slices.ContainsFunc(r.Nodes, func(n convert.Refusal) bool {
		return !slices.ContainsFunc(
			known,
			func(k convert.Refusal) bool { return k.PodSet == n.PodSet && k.Node == n.Node && k.Most <= n.Most },
		)
	}) {
		return nil
	}
	next := w.Status.DeepCopy()
	all, _ := added(w, r.Nodes)
	NewConditions(w, next, now).refused(all)
	return next
}

// refused notes all nodes that refuse a workload's pods. The condition's time is that of the last of them.
func (c Conditions) refused(all []convert.Refusal) {
	c.Set(kueue.WorkloadNodesRefused, metav1.ConditionFalse, kueue.ReasonNodesRefused, "")
	c.Set(kueue.WorkloadNodesRefused, metav1.ConditionTrue, kueue.ReasonNodesRefused, convert.RefusalsText(all))
}

// added adds refusals to those of a workload that hold, and returns how often the most stubborn of
// them refused: refusals that lapsed count on, and are left out no longer unless they refused again.
func added(w *kueue.Workload, more []convert.Refusal) (all []convert.Refusal, times int32) {
	var earlier []convert.Refusal
	if c := condition(w, kueue.WorkloadNodesRefused); c != nil {
		earlier = convert.ReadRefusals(c.Message)
	}
	all = convert.Refusals(w)
	for _, r := range more {
		same := func(o convert.Refusal) bool { return o.PodSet == r.PodSet && o.Node == r.Node }
		r.Times = 1
		if i := slices.IndexFunc(
			earlier,
			same,
		); i >= 0 &&
			r.Most >= earlier[i].Most { // it takes what it took, or more
			r.Times = earlier[i].Times + 1
		}
		all = append(slices.DeleteFunc(all, same), r)
		times = max(times, r.Times)
	}
	return all, times
}

// lapse forgets the refusals of a workload that has waited with them for long: what they were
// about may have changed unseen.
func lapse(f Facts) (Write, bool) {
	w := f.Workload
	c := condition(w, kueue.WorkloadNodesRefused)
	if w.Status.Admission != nil || c == nil || c.Status != metav1.ConditionTrue {
		return Write{}, false
	}
	if end := c.LastTransitionTime.Add(refusalLapses); end.After(f.Now) {
		return Write{Again: end}, false
	}
	next := w.Status.DeepCopy()
	NewConditions(
		w,
		next,
		f.Now,
	).Set(kueue.WorkloadNodesRefused, metav1.ConditionFalse, kueue.ReasonRefusalLapsed, c.Message)
	return Write{Status: next}, true
}

// RefusePods evicts a job of which the API server lets no pods be made. It is held for that
// (kueue.PodsRefusedAnnotation), and needs no pause besides.
func RefusePods(w *kueue.Workload, why string, now time.Time) (*kueue.WorkloadStatus, Event) {
	next := w.Status.DeepCopy()
	return next, Evict(w, next, now, Eviction{
		Reason:  kueue.ReasonPodsReadyTimeout,
		Cause:   kueue.ReasonWaitForStart,
		Message: "Its pods may not be made: " + why,
		Unbegun: true,
	})
}
