package cycle

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
	case core.TopologyPlacementFailed, core.WaitingForPreempted, core.PendingEvaluation: // the last before it starts
	}
	return false
}

// next adds what else the workload would wait for, one after the other.
func (c *inquiry) next() {
	why := c.found.Reason
	if c.copied == nil || !removable(why) {
		return
	}
	e, err := Load(c.opt, c.copied.state)
	if err != nil {
		return
	}
	t := trial{Engine: e, key: c.key, at: c.at}
	if slices.ContainsFunc(e.byID, func(w *workload) bool { return w != nil && w.assumed }) {
		return // nobody is evicted in place of one that is not seen yet: in a moment it may be
	}
	for _, w := range e.byID {
		if w != nil && w.Key != c.key && w.State() != running && w.State() != leaving {
			t.Apply(core.WorkloadGone{Key: w.Key})
		}
	}
	seen := []core.Reason{why}
	for len(seen) <= mostNext && t.remove(why) {
		if _, ok := t.starts(); ok {
			return
		}
		var waits bool
		if why, waits = t.Why(c.key); !waits || why.Code == core.PendingEvaluation || slices.ContainsFunc(seen, func(r core.Reason) bool { return sameObstacle(r, why) }) {
			return
		}
		why.Ahead, why.Holders = core.Key{}, nil // they are of the copy
		seen = append(seen, why)
		c.found.Next = append(c.found.Next, why)
	}
}

// sameObstacle reports whether two reasons are about the same thing, whatever the amounts.
func sameObstacle(a, b core.Reason) bool {
	return a.Code == b.Code && a.Cause == b.Cause && a.PodSet == b.PodSet && a.Flavor == b.Flavor && a.Resource == b.Resource && a.Detail == b.Detail
}

// remove takes an obstacle out of the way; false if it cannot.
func (t *trial) remove(why core.Reason) bool {
	if !removable(why) {
		return false
	}
	w := t.workloads[t.key]
	o := w.waits()
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
		return w.localQueue.queue != nil && t.heed(advice, nil)
	case core.Misconfigured:
		o.PodSets = slices.Clone(o.PodSets)
		for i := range o.PodSets {
			if o.PodSets[i].Name == why.PodSet {
				ask(&o.PodSets[i], why.Resource, 0)
			}
		}
	case core.NoMatchingFlavor:
		f := t.flavors[why.Flavor]
		if f == nil {
			return false
		}
		spec := f.spec
		spec.Taints = slices.DeleteFunc(slices.Clone(spec.Taints), func(taint core.Taint) bool { return taint.String() == why.Detail })
		t.Apply(core.FlavorSet{Flavor: spec})
		return true
	default:
		return false
	}
	t.Apply(core.WorkloadSet{Workload: o})
	return true
}

// grant gives the queue as much more of its own as is missing.
func (t *trial) grant(why core.Reason, missing core.Amount) bool {
	q := t.queues[why.Queue]
	if q == nil || q.spec == nil || missing <= 0 {
		return false
	}
	spec := *q.spec
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
			t.Apply(core.QueueSet{Queue: spec})
			return true
		}
	}
	return false
}
