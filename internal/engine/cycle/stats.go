package cycle

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Stats is how the quota tree and its queues stand, for monitoring. It
// costs time proportional to what exists, and nothing until it is asked for.
type Stats struct {
	// Cohorts, with the ones that exist only by name in others, and Queues are sorted by name.
	Cohorts []CohortStats
	Queues  []QueueStats
	// UsageRanks are of the LocalQueues whose queue goes by past usage, sorted by
	// namespace and name.
	UsageRanks []LocalUsageRank
}

// CohortStats is one cohort with all below it.
type CohortStats struct {
	// Name, Parent and Root name cohorts; Parent is "" for a root, whose Root is
	// itself.
	Name, Parent, Root string
	// Amounts by flavor and resource, sorted.
	Amounts []SubtreeAmount
	// Admitted is how many workloads below hold quota and may run.
	Admitted int
}

// SubtreeAmount is one flavor's resource in a cohort and all below it.
type SubtreeAmount struct {
	core.FlavorResource
	// Quota that can be used from above: what queues keep for themselves is not in
	// it. Reserved is what all queues below use together.
	Quota, Reserved core.Amount
}

// QueueStats is one queue.
type QueueStats struct {
	// Name is the queue's, Cohort its parent, Root the top of that; "" for none.
	Name, Cohort, Root string
	// ActiveClasses and ParkedClasses are how many equivalence classes of workloads wait,
	// looked at or parked.
	ActiveClasses, ParkedClasses int
	// Pending is what all waiting workloads ask for together.
	Pending core.Resources
}

// LocalUsageRank is where a LocalQueue stands in a queue that goes by past usage.
type LocalUsageRank struct {
	Namespace, Name, Queue string
	UsageRank              core.UsageRank
}

// Stats counts them. Edits count from the next Decide.
func (e *Engine) Stats() Stats {
	var out Stats
	cohorts := map[*quota.Node]*cohortSum{}
	for _, q := range e.sortedQueues() {
		if q.spec == nil {
			continue
		}
		c := QueueStats{Name: q.name, Cohort: q.node.CohortName()}
		if c.Cohort != "" {
			c.Root = q.node.Root().Name
		}
		e.countWaiting(q, &c)
		out.Queues = append(out.Queues, c)
		_, checking := e.checking(q)
		for n := q.node.Parent(); n != nil; n = n.Parent() {
			s := cohorts[n]
			if s == nil {
				s = &cohortSum{reserved: map[quota.FlavorResource]core.Amount{}}
				cohorts[n] = s
			}
			s.admitted += q.reserving - checking
			for _, p := range e.forest.PairsOf(q.node) {
				s.reserved[p] = s.reserved[p].Add(q.node.Usage(core.Current, p))
			}
		}
	}
	for _, n := range e.forest.Cohorts() {
		out.Cohorts = append(out.Cohorts, e.cohortStats(n, cohorts[n]))
	}
	for _, d := range e.sortedLocalQueues() {
		if d.spec != nil && d.stands != nil {
			out.UsageRanks = append(
				out.UsageRanks,
				LocalUsageRank{d.key.namespace, d.key.name, d.queue.name, *d.stands},
			)
		}
	}
	return out
}

// cohortSum is what is below a cohort.
type cohortSum struct {
	reserved map[quota.FlavorResource]core.Amount
	admitted int
}

// countWaiting adds what waits in a queue.
func (e *Engine) countWaiting(q *queue, c *QueueStats) {
	sum := map[string]core.Amount{}
	add := func(s *equivalence, times int) {
		for i := range s.podSets {
			ps := &s.podSets[i]
			pods := core.Amount(times) * core.Amount(ps.Count)
			for _, r := range ps.Counted() {
				sum[r.Resource] = sum[r.Resource].Add(r.Amount.Mul(int64(pods)))
			}
			sum[core.Pods] = sum[core.Pods].Add(pods)
		}
	}
	for _, g := range q.groups {
		if !g.considered() {
			c.ParkedClasses++
		} else {
			c.ActiveClasses++
		}
		add(g.key.equivalence, g.members.Len())
	}
	for _, w := range q.reserved {
		add(w.equivalence, 1)
	}
	c.Pending = core.MakeResources(sum)
}

func (e *Engine) cohortStats(n *quota.Node, s *cohortSum) CohortStats {
	c := CohortStats{Name: n.Name, Parent: n.CohortName(), Root: n.Root().Name}
	if s == nil {
		s = &cohortSum{}
	}
	c.Admitted = s.admitted
	for _, p := range e.forest.Below(n) {
		c.Amounts = append(
			c.Amounts,
			SubtreeAmount{FlavorResource: e.forest.Name(p), Quota: n.Subtree(p), Reserved: s.reserved[p]},
		)
	}
	slices.SortFunc(c.Amounts, func(a, b SubtreeAmount) int {
		return cmp.Or(cmp.Compare(a.Flavor, b.Flavor), cmp.Compare(a.Resource, b.Resource))
	})
	return c
}
