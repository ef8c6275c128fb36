package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// checkPlaces marks a running workload whose pods may be planned on nodes that
// take no work.
func (rc *recovery) checkPlaces(w *workload) {
	if !w.Interrupted && slices.ContainsFunc(w.Holds, func(h place.Hold) bool { return !h.Node.TakesWork() }) {
		rc.displace(w)
	}
}

// move gives pods that are planned on nodes that take no work, and do not run
// there, other places with the same quota. Where there is no room the whole
// workload is evicted: a gang is all or nothing.
func (rc *recovery) move() {
	slices.SortFunc(rc.displaced, compareWorkloads)
	for _, w := range rc.displaced {
		w.listed = false
		if w.State() != running || w.Interrupted || rc.workloads[w.Key] != w {
			continue
		}
		moved, some := rc.homeless(w)
		if !some {
			continue
		}
		if a, ok := rc.rehouse(w, moved); ok {
			rc.admissions.changeUsage(w, func() { w.rehouse(a) })
			rc.draft.decide(core.Replace{Key: w.Key, Admission: *a})
			continue
		}
		if rc.interrupts(w) {
			rc.interrupt(w)
		} else {
			rc.admissions.evict(w, core.NodeFailures, nil)
		}
	}
	rc.displaced = rc.displaced[:0]
}

// homeless counts, per pod set and place, the pods that have to move.
func (rc *recovery) homeless(w *workload) (moved [][]int32, some bool) {
	moved = make([][]int32, len(w.admission.PodSets))
	settled := w.obs.details().settled
	for i, p := range w.admission.PodSets {
		moved[i] = make([]int32, len(p.Places))
		for j, pl := range p.Places {
			if n := rc.nodes.Get(pl.Node); n != nil && n.TakesWork() {
				continue
			}
			stay := core.PodsAt(
				settled,
				p.Name,
				pl.Node,
			) - core.PodsOn(
				p.Places[:j],
				pl.Node,
			) // a node may be listed twice
			if left := pl.Count - max(0, stay); left > 0 {
				moved[i][j] = left
				some = true
			}
		}
	}
	return moved, some
}

// rehouse finds new places for the pods that have to move, which take the positions of the old ones, since ranks
// follow the order of places. Pods of a slice go to the domain of its other pods.
func (rc *recovery) rehouse(w *workload, moved [][]int32) (*core.Admission, bool) {
	r := &rehousing{recovery: rc, workload: w, places: make([][]rankPlace, len(moved))}
	for i, p := range w.admission.PodSets {
		r.places[i] = byRank(p.Places, moved[i])
		if r.told(i) == nil && slices.ContainsFunc(moved[i], func(n int32) bool { return n > 0 }) {
			return nil, false
		}
	}
	defer r.giveBack()
	for _, v := range r.vacancies() {
		if !r.fill(v) {
			return nil, false
		}
	}
	a := &core.Admission{Queue: w.admission.Queue, PodSets: slices.Clone(w.admission.PodSets)}
	for i := range a.PodSets {
		a.PodSets[i].Places = inRuns(r.places[i], len(r.request(i).Slices) > 0)
	}
	return a, true
}

// rankPlace is where the pod of one rank is; node is "" while it has none.
type rankPlace struct {
	node string
	// isNew is set if the node was found for it just now.
	isNew bool
}

// byRank lists the node of each pod of a set, "" for those that move.
func byRank(places []core.Place, moved []int32) []rankPlace {
	var out []rankPlace
	for j, pl := range places {
		out = append(out, slices.Repeat([]rankPlace{{node: pl.Node}}, int(pl.Count-moved[j]))...)
		out = append(out, make([]rankPlace, moved[j])...)
	}
	return out
}

// inRuns are places again. Where ranks do not matter beyond nearness no node is listed twice.
func inRuns(ranks []rankPlace, sliced bool) []core.Place {
	var out []core.Place
	for _, r := range ranks {
		switch last, one := len(out)-1, (core.Place{Node: r.node, Count: 1}); {
		case last >= 0 && out[last].Node == r.node:
			out[last].Count++
		case sliced:
			out = append(out, one)
		default:
			out = addPlace(out, one)
		}
	}
	return out
}

// rehousing is the search for new places of pods of one workload.
type rehousing struct {
	*recovery
	workload *workload
	places   [][]rankPlace // by pod set and rank
	classes  []*place.Class
}

// vacancy is pods of a set that must be near to each other in one way and have no place yet, and those of the set
// that they must be near to.
type vacancy struct {
	set      int
	ranks    []int
	near     core.TopologyRequest
	from, to int // ranks of the peers
}

// vacancies lists the pods that need places. Those of a slice of which others stay come before whole slices, since
// these count them.
func (r *rehousing) vacancies() [][]vacancy {
	var out [][]vacancy
	var rest []vacancy
	for i, ranks := range r.places {
		near := r.request(i)
		open := make([]bool, len(ranks))
		for rank, p := range ranks {
			open[rank] = p.node == ""
		}
		for k, s := range slices.Backward(near.Slices) {
			for from := 0; from < len(ranks); from += int(s.Size) {
				to := min(from+int(s.Size), len(ranks))
				v := vacancy{
					set: i, from: from, to: to,
					near: core.TopologyRequest{Required: s.Level, Slices: near.Slices[k+1:]},
				}
				for rank := from; rank < to; rank++ {
					if open[rank] {
						v.ranks = append(v.ranks, rank)
					}
				}
				if n := len(v.ranks); n > 0 && n < to-from {
					for _, rank := range v.ranks {
						open[rank] = false
					}
					out = append(out, []vacancy{v})
				}
			}
		}
		v := vacancy{set: i, to: len(ranks), near: near}
		for rank := range ranks {
			if open[rank] {
				v.ranks = append(v.ranks, rank)
			}
		}
		if len(v.ranks) > 0 {
			rest = append(rest, v)
		}
	}
	if len(rest) > 0 {
		out = append(out, rest) // together, as they were placed
	}
	return out
}

// near says how near to each other the pods of a set must be, and by which topology.
func (r *rehousing) near(set int) (core.TopologyRequest, core.Topology) {
	told := r.told(set)
	if told == nil {
		return core.TopologyRequest{}, core.Topology{}
	}
	return told.Topology.For(told.Count).In(r.topology(r.workload.admission.PodSets[set].FlavorNames()))
}

// request says how near to each other the pods of a set must be.
func (r *rehousing) request(set int) core.TopologyRequest {
	is, _ := r.near(set)
	return is
}

// fill finds places for vacancies, all together.
func (r *rehousing) fill(vacancies []vacancy) bool {
	sets := make([]place.Set, len(vacancies))
	classes := map[int]*place.Class{}
	for k, v := range vacancies {
		told := r.told(v.set)
		c := r.classOf(v)
		classes[v.set] = c
		sets[k] = place.Set{
			Index: k, Class: c, Count: int32(len(v.ranks)), Group: told.Group, //nolint:gosec // pods of one job
			Peers: r.peers(v, c),
		}
		if len(v.near.Parents) > 0 {
			sets[k].Parents, sets[k].Beside = told.Parents, r.beside(told.Parents)
		}
	}
	kept, taken := r.holds(classes)
	spots, _, ok := r.nodes.Place(place.Request{View: place.Free, Sets: sets, Kept: kept, Taken: taken})
	if !ok {
		return false
	}
	for k, v := range vacancies {
		ranks := v.ranks
		for _, sp := range spots[k] {
			for range sp.Count {
				r.places[v.set][ranks[0]] = rankPlace{sp.Node.Name(), true}
				ranks = ranks[1:]
			}
		}
	}
	return true
}

// told is a pod set as the workload asks for it; nil for one that it does not have any more.
func (r *rehousing) told(set int) *core.PodSet {
	if s := r.workload.equivalence.podSet(r.workload.admission.PodSets[set].Name); s >= 0 {
		return &r.workload.equivalence.podSets[s]
	}
	return nil
}

// classOf is the class of pods with a vacancy.
func (r *rehousing) classOf(v vacancy) *place.Class {
	p := &r.workload.admission.PodSets[v.set]
	flavors, told := p.FlavorNames(), r.told(v.set)
	s := r.workload.equivalence.podSet(p.Name)
	if v.near.Equal(r.request(v.set)) {
		return r.recoveryClass(r.workload.equivalence, s, flavors)
	}
	is := told.Constraints()
	is.Filter, is.Topology = r.filter(r.workload.equivalence, s, flavors), v.near
	_, t := r.near(v.set)
	c := r.nodes.Class(told.Requests, is, t)
	r.classes = append(r.classes, c)
	return c
}

func (r *rehousing) giveBack() {
	for _, c := range r.classes {
		r.nodes.Release(c)
	}
}

// peers are the pods that those with a vacancy must be near to: of their set, and of sets that share its domain.
func (r *rehousing) peers(v vacancy, c *place.Class) []place.Hold {
	if v.near.Empty() {
		return nil
	}
	var out []place.Hold
	for _, p := range r.places[v.set][v.from:v.to] {
		out = r.addHold(out, p, c)
	}
	group := r.told(v.set).Group
	for i := range r.places {
		if told := r.told(i); i != v.set && group != "" && told != nil && told.Group == group {
			for _, p := range r.places[i] {
				out = r.addHold(out, p, nil) // they are in no slice of this set
			}
		}
	}
	return out
}

// beside are nodes with pods of the sets of each of some groups; nil where none has a place.
func (r *rehousing) beside(groups []string) []*place.Node {
	out := make([]*place.Node, len(groups))
	for i, group := range groups {
		for set, ranks := range r.places {
			told := r.told(set)
			if told == nil || !slices.Contains(told.Parents, group) && told.Group != group {
				continue
			}
			for _, p := range ranks {
				if p.node != "" && out[i] == nil {
					out[i] = r.nodes.Node(p.node)
				}
			}
		}
	}
	return out
}

// holds are the pods that stay where they are, and those for which places were found already. classes are those of
// pod sets whose pods get places now.
func (r *rehousing) holds(classes map[int]*place.Class) (kept, taken []place.Hold) {
	for i := range r.places {
		told := r.told(i)
		if told == nil {
			continue
		}
		c := classes[i]
		if c == nil {
			c = r.recoveryClass(
				r.workload.equivalence,
				r.workload.equivalence.podSet(told.Name),
				r.workload.admission.PodSets[i].FlavorNames(),
			)
		}
		first, firstTaken := len(kept), len(taken)
		for _, p := range r.places[i] {
			if p.isNew {
				taken = append(taken[:firstTaken], r.addHold(taken[firstTaken:], p, c)...)
			} else if !placedAlone(told) {
				kept = append(kept[:first], r.addHold(kept[first:], p, c)...)
			}
		}
	}
	return kept, taken
}

// addHold adds a pod to those of its set on the same node.
func (r *rehousing) addHold(holds []place.Hold, p rankPlace, c *place.Class) []place.Hold {
	if p.node == "" {
		return holds
	}
	if last := len(holds) - 1; last >= 0 && holds[last].Class == c && holds[last].Node.Name() == p.node {
		holds[last].Count++
		return holds
	}
	return append(holds, place.Hold{Node: r.nodes.Node(p.node), Class: c, Count: 1})
}

// placedAlone reports whether where other pods of a set are matters nothing to one.
func placedAlone(p *core.PodSet) bool {
	return len(p.Limits)+len(p.Filter.Refused)+len(p.Filter.Avoided) == 0 && p.Topology.Empty()
}

func addPlace(ps []core.Place, p core.Place) []core.Place {
	for i := range ps {
		if ps[i].Node == p.Node {
			ps[i].Count += p.Count
			return ps
		}
	}
	return append(ps, p)
}

// displaceUsers marks workloads that may have to move off a node.
func (rc *recovery) displaceUsers(name string) {
	n := rc.nodes.Get(name)
	if n == nil {
		return
	}
	for _, id := range n.Users() {
		rc.displace(rc.byID[id])
	}
}

func (rc *recovery) displace(w *workload) {
	if !w.listed {
		w.listed = true
		rc.displaced = append(rc.displaced, w)
	}
}

// forget drops what a decision would look at again.
func (rc *recovery) forget() {
	for _, w := range rc.displaced {
		w.listed = false
	}
	rc.displaced = nil
	rc.prune()
}
