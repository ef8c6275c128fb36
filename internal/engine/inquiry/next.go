package inquiry

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What else a workload would wait for is found out in a copy of what matters: the first
// obstacle is taken out of the way there, and it is asked again. Others that wait are left
// out, so that what is taken out of the way is so for this workload.

// mostNext bounds how many further obstacles are named.
const mostNext = 3

// removable reports whether an obstacle can be taken out of the way in a copy.
func removable(why core.Reason) bool {
	switch why.Code {
	case core.WaitingForQuota, core.ExceedsMaxQuota, core.OnHold:
		return true
	case core.Suspended:
		return why.Cause == core.QueueStopped
	case core.Misconfigured:
		return why.Cause == core.ResourceUncovered
	case core.NoMatchingFlavor:
		return why.Cause == core.UntoleratedTaint
	case core.AdmissionGated:
		return true
	case core.WaitingForPodsReady: // what those others hold then is not known here
	case core.TopologyPlacementFailed,
		core.WaitingForPreempted,
		core.PendingEvaluation: // the last before it starts
	}
	return false
}

// next adds what else the workload would wait for, one after the other.
func (q *question) next() {
	why := q.found.Reason
	if q.copied == nil || !removable(why) {
		return
	}
	t, err := begin(q.copied, q.key, q.at)
	if err != nil {
		return
	}
	if t.engine.View().Unconfirmed() {
		return // nobody is evicted in place of one that is not seen yet: in a moment it may be
	}
	for _, k := range t.engine.View().Waiting() {
		if k != q.key {
			t.engine.Apply(core.WorkloadGone{Key: k})
		}
	}
	seen := []core.Reason{why}
	for len(seen) <= mostNext && t.remove(why) {
		if _, ok := t.starts(); ok {
			return
		}
		var waits bool
		if why, waits = t.engine.Why(
			q.key,
		); !waits || why.Code == core.PendingEvaluation ||
			slices.ContainsFunc(seen, func(r core.Reason) bool { return sameObstacle(r, why) }) {
			return
		}
		why.Ahead, why.Holders = core.Key{}, nil // they are of the copy
		seen = append(seen, why)
		q.found.Next = append(q.found.Next, why)
	}
}

// sameObstacle reports whether two reasons are about the same thing, whatever the amounts.
func sameObstacle(a, b core.Reason) bool {
	return a.Code == b.Code && a.Cause == b.Cause && a.PodSet == b.PodSet && a.Flavor == b.Flavor &&
		a.Resource == b.Resource &&
		a.Detail == b.Detail
}

// remove takes an obstacle out of the way; false if it cannot.
func (t *trial) remove(why core.Reason) bool {
	if !removable(why) {
		return false
	}
	o := t.told()
	switch why.Code {
	case core.WaitingForQuota:
		if why.Cause == core.BehindStrict || why.Cause == core.QuotaClaimed {
			return true // others that wait are left out
		}
		return t.grant(why, why.Need.Sub(why.Have))
	case core.ExceedsMaxQuota:
		return t.grant(why, why.Need.Sub(why.Limit))
	case core.AdmissionGated:
		o.GatedBy, o.PreemptionGate = "", ""
	case core.OnHold:
		o.Held, o.NotBefore = "", t.at
	case core.Suspended:
		advice := core.Advice{Kind: core.ResumeLocal}
		if why.Detail == "ClusterQueue" {
			advice.Kind = core.ResumeQueue
		}
		_, leads := t.engine.QueueOf(o.Key.Namespace, o.Queue)
		return leads && t.heed(advice, nil)
	case core.Misconfigured:
		o.PodSets = slices.Clone(o.PodSets)
		for i := range o.PodSets {
			if o.PodSets[i].Name == why.PodSet {
				ask(&o.PodSets[i], why.Resource, 0)
			}
		}
	case core.NoMatchingFlavor:
		f, is := t.engine.View().Flavor(why.Flavor)
		if is {
			f.Taints = slices.DeleteFunc(
				slices.Clone(f.Taints),
				func(taint core.Taint) bool { return taint.String() == why.Detail },
			)
			t.engine.Apply(core.FlavorSet{Flavor: f})
		}
		return is
	default:
		return false
	}
	t.observe(o)
	return true
}

// grant gives the queue as much more of its own as is missing.
func (t *trial) grant(why core.Reason, missing core.Amount) bool {
	spec, is := t.engine.View().Queue(why.Queue)
	if !is || missing <= 0 {
		return false
	}
	spec.Groups = slices.Clone(spec.Groups)
	for g := range spec.Groups {
		spec.Groups[g].Flavors = slices.Clone(spec.Groups[g].Flavors)
		for f := range spec.Groups[g].Flavors {
			flavor := &spec.Groups[g].Flavors[f]
			i := slices.IndexFunc(flavor.Quotas, func(o core.Quota) bool { return o.Resource == why.Resource })
			if flavor.Flavor != why.Flavor || i < 0 {
				continue
			}
			flavor.Quotas = slices.Clone(flavor.Quotas)
			flavor.Quotas[i].Nominal = flavor.Quotas[i].Nominal.Add(missing)
			t.engine.Apply(core.QueueSet{Queue: spec})
			return true
		}
	}
	return false
}
