package worldfile

import (
	"errors"
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// script makes the world's script of the file's events. Edits of one object build
// on each other in the order in which they are listed.
func (b *builder) script() error {
	var errs []error
	for i := range b.file.Events {
		h := &b.file.Events[i]
		where := fmt.Sprintf("events[%d]", i)
		n := 0
		for _, given := range []bool{h.Node != "", h.Team != "", h.Cohort != "", h.Restart} {
			if given {
				n++
			}
		}
		if n != 1 {
			errs = append(errs, wrong(where, "give exactly one of node, team, cohort and restart"))
			continue
		}
		var err error
		switch {
		case h.Node != "":
			err = b.nodeEvent(h, where)
		case h.Team != "":
			err = b.teamEvent(h, where)
		case h.Cohort != "":
			err = b.cohortEvent(h, where)
		default:
			b.at(h.At, sim.Op{Restart: true})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (b *builder) at(at Duration, op sim.Op) {
	op.At = time.Duration(at)
	b.world.Script = append(b.world.Script, op)
}

func (b *builder) nodeEvent(h *Happens, where string) error {
	n, ok := b.nodes[h.Node]
	if !ok {
		return wrong(where, "there is no node %q", h.Node)
	}
	state, err := oneOf(
		where+".state",
		h.State,
		core.NodeLost,
		core.NodeReady,
		core.NodeWarned,
		core.NodeClosed,
		core.NodeEvicted,
	)
	if err != nil {
		return err
	}
	after := n
	n.State, n.Why = state, "scripted"
	b.at(h.At, sim.Op{Object: core.NodeSet{Node: n}})
	if h.For > 0 {
		b.at(h.At+h.For, sim.Op{Object: core.NodeSet{Node: after}})
		return nil
	}
	b.nodes[h.Node] = n
	return nil
}

func (b *builder) teamEvent(h *Happens, where string) error {
	q, ok := b.queues[h.Team]
	if !ok {
		return wrong(where, "there is no team %q", h.Team)
	}
	quotas := h.Quotas
	if h.GPUs != nil {
		quotas = gpuQuota(*h.GPUs)
	}
	var err error
	if len(quotas) > 0 {
		if q.Groups, err = b.groups(quotas, where); err != nil {
			return err
		}
	}
	if h.Stop != "" {
		if q.Stop, err = oneOf(
			where+".stopPolicy",
			h.Stop,
			core.StopNone,
			core.Hold,
			core.HoldAndDrain,
		); err != nil {
			return err
		}
	}
	if h.MoveTo != nil {
		q.Cohort = *h.MoveTo
	}
	b.queues[h.Team] = q
	b.at(h.At, sim.Op{Object: core.QueueSet{Queue: q}})
	return nil
}

func (b *builder) cohortEvent(h *Happens, where string) error {
	c, ok := b.tree[h.Cohort]
	if !ok {
		return wrong(where, "there is no cohort %q", h.Cohort)
	}
	if len(h.Quotas) > 0 {
		var err error
		if c.Groups, err = b.groups(h.Quotas, where); err != nil {
			return err
		}
	}
	if h.MoveTo != nil {
		c.Parent = *h.MoveTo
	}
	b.tree[h.Cohort] = c
	b.at(h.At, sim.Op{Object: core.CohortSet{Cohort: c}})
	return nil
}
