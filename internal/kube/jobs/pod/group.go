package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Unit is the pods that are one job: a pod alone, or a group.
type Unit struct {
	// Pods are in the order of their creation.
	Pods []*corev1.Pod
	// Name of the group, "" for a pod alone.
	Name string
	// Total is how many pods the group has, 1 for a pod alone.
	Total int32
	// Owned: the pods are made, replaced and deleted by a controller that knows how
	// many there shall be.
	Owned bool
	// Early: quota is given for all of them once the first is there.
	Early bool
	// Serving: the pods run for ever.
	Serving bool
	// Final: a failed pod is not replaced.
	Final bool
	// Sets are what all its pods ask for, as their controller says; nil if only the pods do.
	Sets []kueue.PodSet
	// Near are annotations that say how near to each other the pods are, beside those of the pods themselves.
	Near map[string]string
	// Open: it is the least that there has to be, and there may be more.
	Open bool
	// Single: the pods are no unit, each is one by itself.
	Single bool
	// Wrong says why the pods cannot be one unit, "" if they can.
	Wrong string
	// gang is what its PodGroup says, if it is of one.
	gang Gang
}

// NewUnit reads the pods of one unit. replicas is how many pods the controller that
// owns them makes, nil if there is none.
func NewUnit(pods []*corev1.Pod, replicas *int32) Unit {
	u := Unit{Pods: slices.Clone(pods), Total: 1}
	slices.SortFunc(u.Pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if len(u.Pods) == 0 || podmeta.Group(u.Pods[0]) == "" {
		return u
	}
	u.Name = podmeta.Group(u.Pods[0])
	u.Total = 0
	for _, p := range u.Pods {
		u.Early = u.Early || p.Annotations[kueue.PodGroupFastAdmissionAnnotation] == "true"
		u.Serving = u.Serving || p.Annotations[kueue.PodGroupServingAnnotation] == "true"
		u.Final = u.Final || p.Annotations[kueue.RetriableInGroupAnnotation] == "false"
	}
	if replicas != nil {
		u.Total, u.Owned = *replicas, true
		return u
	}
	for _, p := range u.Pods {
		n, err := strconv.ParseInt(p.Annotations[kueue.PodGroupTotalCountAnnotation], 10, 32)
		switch {
		case p.DeletionTimestamp != nil || Ended(p):
			if u.Total == 0 && err == nil {
				u.Total = int32(n)
			}
		case (err != nil || n < 1) && p.Annotations[podmeta.PodGroupKindAnnotation] == "":
			u.Wrong = fmt.Sprintf(
				"pod %s does not say how many pods the group has: set the annotation %s",
				p.Name,
				kueue.PodGroupTotalCountAnnotation,
			)
		case u.Total != 0 && err == nil && u.Total != int32(n):
			u.Wrong = fmt.Sprintf(
				"pod %s says that the group has %d pods, and another one says %d: give them the same annotation %s",
				p.Name,
				n,
				u.Total,
				kueue.PodGroupTotalCountAnnotation,
			)
		case u.Wrong == "" && podmeta.Queue(p) != podmeta.Queue(u.Pods[0]):
			u.Wrong = fmt.Sprintf(
				"pod %s names queue %q, and pod %s queue %q: name the same one",
				p.Name,
				podmeta.Queue(p),
				u.Pods[0].Name,
				podmeta.Queue(u.Pods[0]),
			)
		}
		if err == nil && u.Total == 0 {
			u.Total = int32(n)
		}
	}
	return u
}

// Alone reports whether the unit is one pod without a group.
func (u *Unit) Alone() bool { return u.Name == "" }

// First is the pod that speaks for the unit: the oldest that is not on its way out.
func (u *Unit) First() *corev1.Pod {
	for _, p := range u.Pods {
		if Active(p) {
			return p
		}
	}
	if len(u.Pods) == 0 {
		return nil
	}
	return u.Pods[0]
}

// Where returns the pods for which a condition holds.
func (u *Unit) Where(holds func(*corev1.Pod) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range u.Pods {
		if holds(p) {
			out = append(out, p)
		}
	}
	return out
}

func (u *Unit) count(holds func(*corev1.Pod) bool) int32 {
	return int32(len(u.Where(holds))) //nolint:gosec // a namespace has far fewer pods
}

// succeeded and failed pods ended by themselves. One that was stopped may end in any
// way, which says nothing about its work.
func succeeded(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded && !Stopped(p) }
func failed(p *corev1.Pod) bool    { return p.Status.Phase == corev1.PodFailed && !Stopped(p) }

// counts reports whether a pod is one of the pods that the unit has: it runs, will, or
// has succeeded. A failed one is expected to be replaced, and so is any that shall run
// for ever.
func (u *Unit) counts(p *corev1.Pod) bool { return Active(p) || succeeded(p) && !u.Serving }

// Lacks is how many of the unit's pods are not there.
func (u *Unit) Lacks() int32 {
	n := int32(0)
	for _, s := range u.shares() {
		n += max(s.least-u.count(func(p *corev1.Pod) bool { return s.has(p) && u.counts(p) }), 0)
	}
	return n
}

// share is some of the pods of a unit, of which so many start together.
type share struct {
	least int32
	has   func(*corev1.Pod) bool
}

// shares are the unit's pods: all of them or, if they are in groups within it, those of each.
func (u *Unit) shares() []share {
	var out []share
	for i := range u.gang.Parts {
		if part := &u.gang.Parts[i]; part.Least > 0 {
			out = append(out, share{part.Least, func(p *corev1.Pod) bool {
				return podmeta.Within(p, &p.Spec) == part.Name
			}})
		}
	}
	if len(out) == 0 {
		return []share{{u.Total, func(*corev1.Pod) bool { return true }}}
	}
	return out
}

// Failed reports whether a pod failed by itself.
func (u *Unit) Failed() bool { return u.count(failed) > 0 }

// Missing is how many pods have to be created before the unit can be queued.
func (u *Unit) Missing() int32 {
	if u.Early && u.count(u.counts) > 0 {
		return 0
	}
	return u.Lacks()
}

// done is how many pods need not run again, of those for which a condition holds.
func (u *Unit) done(holds func(*corev1.Pod) bool) int32 {
	if u.Serving {
		return 0
	}
	return u.count(func(p *corev1.Pod) bool { return succeeded(p) && holds(p) })
}

// Extra are the pods that a group has too many: held ones first, then the newest.
// Those of a controller that knows how many it makes are its own to delete.
func (u *Unit) Extra() []*corev1.Pod {
	if u.Open {
		return nil
	}
	return u.tooMany()
}

// tooMany are the pods above the total, in the order of Extra.
func (u *Unit) tooMany() []*corev1.Pod {
	if u.Alone() || u.Owned || u.Wrong != "" {
		return nil
	}
	var out []*corev1.Pod
	for _, s := range u.shares() {
		free := s.least - u.done(s.has)
		active := u.Where(func(p *corev1.Pod) bool { return s.has(p) && Active(p) })
		slices.SortStableFunc(active, func(a, b *corev1.Pod) int { return cmp.Compare(rank(a), rank(b)) })
		if int32(len(active)) > free { //nolint:gosec // see count
			out = append(out, active[max(free, 0):]...)
		}
	}
	return out
}

// rank puts pods that were started before held ones.
func rank(p *corev1.Pod) int {
	if podmeta.Gated(p) {
		return 1
	}
	return 0
}

// PodSets are what the unit asks for, one for each role, in the order in which they
// came. Pods of a unit that is complete early are all of the first one's role.
func (u *Unit) PodSets() []kueue.PodSet {
	if u.Sets != nil {
		return u.Sets
	}
	var out []kueue.PodSet
	beyond := u.beyond()
	for _, p := range u.Pods {
		if !u.counts(p) || slices.Contains(beyond, p) {
			continue
		}
		at := slices.IndexFunc(out, func(ps kueue.PodSet) bool { return string(ps.Name) == role(p) })
		if at < 0 {
			out = append(out, kueue.PodSet{Name: kueue.PodSetReference(role(p)), Template: template(p)})
			at = len(out) - 1
		}
		out[at].Count++
	}
	if len(out) == 0 {
		return nil
	}
	u.near(out)
	if u.Early {
		others := int32(0)
		for i := range out[1:] {
			others += out[i+1].Count
		}
		out[0].Count = max(u.Total-others, out[0].Count)
	}
	return out
}

// Role is the pod set of a pod.
func Role(p *corev1.Pod) kueue.PodSetReference { return kueue.PodSetReference(role(p)) }

// Reclaimable are the pods of each pod set of a Workload that are done: they succeeded,
// or their controller makes fewer than it did. detached is how many pods of that
// controller are queued by themselves.
func (u *Unit) Reclaimable(sets []kueue.PodSet, detached int32) []kueue.ReclaimablePod {
	var out []kueue.ReclaimablePod
	shrunk := int32(0)
	if u.Owned {
		all := int32(0)
		for i := range sets {
			all += sets[i].Count
		}
		shrunk = max(all-max(u.Total-detached, 0), 0)
	}
	for i := range sets {
		ps := &sets[i]
		mine := func(p *corev1.Pod) bool { return Role(p) == ps.Name }
		n := u.done(mine)
		live := u.count(
			func(p *corev1.Pod) bool { return mine(p) && !podmeta.Gated(p) && convert.PodState(p).HoldsQuota() },
		)
		gone := min(shrunk, max(ps.Count-live, 0))
		shrunk -= gone
		if n += gone; n > 0 {
			out = append(out, kueue.ReclaimablePod{Name: ps.Name, Count: min(n, ps.Count)})
		}
	}
	return out
}

// Ready reports whether all pods run and are ready, or have succeeded.
func (u *Unit) Ready() bool {
	return u.count(func(p *corev1.Pod) bool { return u.counts(p) && !podmeta.Gated(p) && Ready(p) }) >= u.Total
}

// Outcome is how the unit ended; nil if it has not.
func (u *Unit) Outcome() *jobs.Outcome {
	if len(u.Pods) == 0 || u.Serving || u.Wrong != "" {
		return nil
	}
	ok, bad, active := u.count(
		succeeded,
	), u.count(
		failed,
	), u.count(
		func(p *corev1.Pod) bool { return !Ended(p) },
	)
	switch {
	case u.Alone() && ok > 0:
		return &jobs.Outcome{Success: true, Message: "The pod succeeded"}
	case u.Alone() && bad > 0:
		return &jobs.Outcome{Message: cmp.Or(u.Pods[0].Status.Message, "The pod failed")}
	case u.Alone():
		return nil
	case ok >= u.Total:
		return &jobs.Outcome{Success: true, Message: fmt.Sprintf("Pods succeeded: %d/%d", ok, u.Total)}
	case u.Final && bad > 0 && active == 0:
		return &jobs.Outcome{
			Message: fmt.Sprintf(
				"Pods succeeded: %d/%d; %d failed and are not replaced (annotation %s)",
				ok,
				u.Total,
				bad,
				kueue.RetriableInGroupAnnotation,
			),
		}
	}
	return nil
}

// UnitState is what a unit's Workload says of it, as far as it matters to pods.
type UnitState int

// The standings.
const (
	// Unqueued: it has none.
	Unqueued UnitState = iota
	// Queued: it has one that has not ended.
	Queued
	// Losing: its pods are being stopped.
	Losing
	// Over: it has ended.
	Over
)

// Accounted are the pods that nothing has to be remembered of any more, so that
// their finalizer may go. A pod that holds quota is never one, whatever deleted it.
func (u *Unit) Accounted(stands UnitState) []*corev1.Pod {
	none := u.count(Active) == 0
	leaving := u.count(func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil }) == 0
	return u.Where(func(p *corev1.Pod) bool {
		switch {
		case !podmeta.Kept(p) || convert.PodState(p).HoldsQuota():
			return false
		case stands == Over, !Ended(p): // it was deleted before it had a node
			return true
		case u.Serving, Stopped(p):
			return true
		case u.Alone():
			return stands != Queued // otherwise its end is written first
		case stands == Unqueued && none, leaving:
			return true
		case failed(p):
			return !u.Final
		}
		return false
	})
}

// Detached reports whether a pod that a StatefulSet made is queued by itself.
func Detached(p *corev1.Pod) bool {
	o := metav1.GetControllerOf(p)
	return o != nil && o.Kind == "StatefulSet" && podmeta.Group(p) == ""
}
