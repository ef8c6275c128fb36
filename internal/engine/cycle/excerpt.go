package cycle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Excerpt is a part of what an engine knows, as it was when it was made: engines made of it show
// what would be. It is never changed, and the engine that gave it out may go on.
type Excerpt struct {
	// Cut are, of workloads that are alike and are not all in it, the keys of the ones that are. Alike
	// are such keys of workloads that are like the one that was asked about.
	Cut   [][]core.Key
	Alike []core.Key

	state   *Snapshot
	options Options
}

// mostBefore is how many others may come before the workload that was asked about, of workloads like
// it, for all of them to be in an excerpt. With more of them it does not start anyway.
const mostBefore = 64

func (e *Engine) excerpt(s *Snapshot) *Excerpt {
	x := &Excerpt{state: s, options: e.opt}
	x.options.Budget, x.options.StabilizationWindow = 0, 0 // the next decisions go on with the same outcome
	return x
}

// Engine makes an engine of what is in it.
func (x *Excerpt) Engine() (*Engine, error) { return Load(x.options, x.state) }

// Size is how many workloads, groups of workloads that are alike, and nodes are in it: what it costs
// to make an engine of.
func (x *Excerpt) Size() (workloads, groups, nodes int) {
	for i := range x.state.Queues {
		groups += len(x.state.Queues[i].Groups)
	}
	return len(x.state.Workloads), groups, len(x.state.Nodes)
}

// All is everything that the engine knows. It fails with ErrUnsettled as Engine.Dump does.
func (v View) All() (*Excerpt, error) {
	s, err := v.engine.Dump()
	if err != nil {
		return nil, err
	}
	return v.engine.excerpt(s), nil
}

// Surroundings are what the engine was told, without workloads and as it is when nothing is lost: no quota is cut, and no
// node is kept for recovery. They fail as All does.
func (v View) Surroundings() (*Excerpt, error) {
	if v.engine.unsettled() {
		return nil, ErrUnsettled
	}
	s := &Snapshot{Version: StateVersion}
	v.engine.dumpModel(s)
	for i := range s.Queues {
		if q := s.Queues[i].Spec; q != nil {
			whole := *q
			whole.Groups = asPromised(q.Groups, q.Name == v.engine.opt.SlackQueue)
			s.Queues[i].Spec = &whole
		}
	}
	for i := range s.Cohorts {
		s.Cohorts[i].Groups = asPromised(s.Cohorts[i].Groups, false)
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Labels[core.SpareLabel] != "" {
			n.Labels = maps.Clone(n.Labels)
			delete(n.Labels, core.SpareLabel)
		}
	}
	return v.engine.excerpt(s), nil
}

// Excerpt is what matters for a workload that waits: of many that wait and are alike only so many.
// It fails as All does, and for workloads that are unknown.
func (v View) Excerpt(k core.Key, now time.Time, alike int) (*Excerpt, error) {
	e := v.engine
	w := e.workloads[k]
	switch {
	case e.unsettled():
		return nil, ErrUnsettled
	case w == nil:
		return nil, fmt.Errorf("there is no workload %s", k)
	}
	x := e.excerpt(nil)
	kept := map[*group][]*workload{}
	var workloads []*workload
	for _, o := range e.byID {
		// One whose back-off ends later comes before the workload then: advice may be about that time.
		if o != nil && (o.State() != waiting || o.inbox || o == w || o.timer != nil) {
			workloads = append(workloads, o)
		}
	}
	for _, o := range e.sortedQueues() {
		for _, g := range o.groups {
			some := x.some(g.members.Items(), w, alike)
			kept[g] = some
			workloads = append(workloads, some...)
		}
	}
	if w.group == nil && w.localQueue.queue != nil { // it may be resumed
		for _, same := range setAside(w.localQueue.queue.localQueues, now) {
			workloads = append(workloads, x.some(same, w, alike)...)
		}
	}
	slices.SortFunc(workloads, func(a, b *workload) int { return a.Key.Compare(b.Key) })
	x.state = e.dump(slices.Compact(workloads), func(g *group) []*workload { return kept[g] })
	for i := range x.state.Queues {
		for k := range x.state.Queues[i].Groups {
			// what was told does not matter
			x.state.Queues[i].Groups[k].Fresh, x.state.Queues[i].Groups[k].Unjudged = nil, false
		}
	}
	return x, nil
}

// some is the first of the workloads that are alike, and all of them that come before w.
func (x *Excerpt) some(alike []*workload, w *workload, most int) []*workload {
	own := slices.Contains(alike, w)
	if own {
		before := 0
		for _, o := range alike {
			if o.Before(w) {
				before++
			}
		}
		if before < mostBefore { // else it does not start anyway
			most = max(most, before+1)
		}
	}
	if len(alike) <= most {
		return alike
	}
	some := make([]*workload, 0, most+1)
	for _, o := range alike {
		if len(some) == most && !o.Before(some[most-1]) {
			continue
		}
		at := len(some)
		for at > 0 && o.Before(some[at-1]) {
			at--
		}
		if some = slices.Insert(some, at, o); len(some) > most {
			some = some[:most]
		}
	}
	var keys []core.Key
	for _, o := range some {
		if o != w {
			keys = append(keys, o.Key)
		}
	}
	switch {
	case !own:
		x.Cut = append(x.Cut, keys)
	case !slices.Contains(some, w):
		x.Cut = append(x.Cut, keys)
		some = append(some, w)
	default:
		x.Alike = keys
	}
	if g := alike[0].group; g != nil && g.queue.blocker != nil && g.queue.blocker.group == g &&
		!slices.Contains(some, g.queue.blocker) {
		some = append(some, g.queue.blocker)
	}
	return some
}

// setAside are the workloads that are in no group and would be in one if their local queues were
// open, by what they have in common, in no particular order.
func setAside(localQueues []*localQueue, now time.Time) [][]*workload {
	alike := map[groupKey][]*workload{}
	for _, d := range localQueues {
		for _, w := range d.workloads {
			if w.State() != waiting || w.group != nil ||
				w.obs.rest != nil && (w.obs.rest.bars() || w.obs.rest.notBefore.After(now)) {
				continue
			}
			key := groupKey{equivalence: w.equivalence, localQueue: d}
			if len(w.spare) > 0 {
				key.spare = fmt.Sprint(w.spare)
			}
			alike[key] = append(alike[key], w)
		}
	}
	return slices.Collect(maps.Values(alike))
}
