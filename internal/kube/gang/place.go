package gang

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Assign says which nodes pending members of a gang are given that are to be placed now, by UID; "" leaves the choice
// to the scheduler, and members for whom there is no room are left out. members are all there are, next may be some.
//
// Ranks follow the order of places: a member that tells its rank gets the place of that rank, if it is open, and the
// others get the places that are left, in their order. A member whose predecessor of the same rank was deleted and has
// not ended waits for it, whatever else is open. So pods that follow each other are near to each other, and a
// slice is in one domain. The scheduler, and the controller that tells pods their nodes, assign by this and nothing
// else. It depends on nothing but its arguments, and not on the order of members.
func Assign(g Gang, members, next []Member) map[types.UID]string {
	out := make(map[types.UID]string, len(next))
	for _, s := range g.Sets {
		s.assign(g, members, next, out)
	}
	return out
}

func (s Set) assign(g Gang, members, next []Member, out map[types.UID]string) {
	leaving := map[int]bool{} // ranks
	for _, m := range members {
		if m.Set == s.Name && m.State == Leaving {
			leaving[m.Rank] = true
		}
	}
	var waiting []Member
	for _, m := range next {
		if m.Set == s.Name && m.State == Pending && (m.Rank < 0 || !leaving[m.Rank]) {
			waiting = append(waiting, m)
		}
	}
	room := Room(g, s, members)
	if len(waiting) == 0 || room == 0 {
		return
	}
	slices.SortFunc(waiting, ByRank)
	if s.Places == nil {
		for _, m := range waiting[:min(len(waiting), room)] {
			out[m.UID] = ""
		}
		return
	}
	slots := openSlots(s, g.AdmittedAt, members)
	give := func(m Member, slot int) {
		out[m.UID], slots[slot].taken = slots[slot].node, true
		room--
	}
	for _, m := range waiting {
		if room > 0 && m.Rank >= 0 && m.Rank < len(slots) && !slots[m.Rank].taken {
			give(m, m.Rank)
		}
	}
	first := 0
	for _, m := range waiting {
		if _, has := out[m.UID]; has {
			continue
		}
		for first < len(slots) && slots[first].taken {
			first++
		}
		if first == len(slots) || room == 0 {
			break
		}
		give(m, first)
	}
}

// Open returns the places of a set that a new pod may take, in stored order,
// with how many pods each still has room for.
//
// A place is held by a live pod, by one that was deleted and has not ended (it may
// take as long as it likes, and its replacement waits for it), and, in a set that gave
// pods back, also by a pod that succeeded there: its room may have been given away. Only when no other
// place is left (a Job with more completions than parallelism runs its next pod
// where an earlier one finished) are those places offered again, and never in a set
// of which no pod follows one that succeeded. Failed pods hold nothing, and neither
// do members that succeeded before the gang was admitted: they never were in this plan.
//
// Where pods were given back that left no trace, since their job was made smaller, the last
// places went with them (cache.podTable.ended).
func Open(s Set, admitted time.Time, members []Member) []core.Place {
	var open []core.Place
	for _, slot := range openSlots(s, admitted, members) {
		if slot.taken {
			continue
		}
		if last := len(open) - 1; last >= 0 && open[last].Node == slot.node {
			open[last].Count++
			continue
		}
		open = append(open, core.Place{Node: slot.node, Count: 1})
	}
	return open
}

// slot is the place of one pod, at the position of its rank.
type slot struct {
	node  string
	taken bool
}

// openSlots are the places of a set, those taken that Open does not offer.
func openSlots(s Set, admitted time.Time, members []Member) []slot {
	var live, done []Member
	for _, m := range members {
		if m.Set != s.Name || m.Node == "" {
			continue
		}
		switch m.State {
		case Reserved, Bound, Leaving:
			live = append(live, m)
		case Succeeded:
			if (s.Reclaimed > 0 || s.Once) && !m.Created.Before(admitted) {
				done = append(done, m)
			}
		case Pending, Failed:
		}
	}
	slots := slotsOf(s)
	holders := hold(slots, append(slices.Clone(live), done...))
	if holders == len(slots) && !s.Once && len(done) > 0 {
		slots = slotsOf(s)
		hold(slots, live)
	}
	if s.Reclaimed == 0 {
		return slots
	}
	needed := len(slots) - s.Reclaimed - len(live)
	for i := range slots {
		if slots[i].taken {
			continue
		}
		if needed--; needed < 0 {
			slots[i].taken = true
		}
	}
	return slots
}

func slotsOf(s Set) []slot {
	var out []slot
	for _, p := range s.Places {
		out = append(out, slices.Repeat([]slot{{node: p.Node}}, int(p.Count))...)
	}
	return out
}

// hold marks the places of members as taken, and returns how many are. One whose rank has its place on the node
// where it is holds that place, another the first that is left there.
func hold(slots []slot, members []Member) (taken int) {
	var others []Member
	for _, m := range members {
		if m.Rank >= 0 && m.Rank < len(slots) && slots[m.Rank] == (slot{node: m.Node}) {
			slots[m.Rank].taken = true
			taken++
			continue
		}
		others = append(others, m)
	}
	first := map[string]int{} // where to go on looking for a node
	for _, m := range others {
		i := first[m.Node]
		for i < len(slots) && slots[i] != (slot{node: m.Node}) {
			i++
		}
		if first[m.Node] = i; i < len(slots) {
			slots[i].taken = true
			taken++
		}
	}
	return taken
}

// Room is how many more pods of a set may have a node: as many as it was given
// places, or quota where it has no places. A pod on a node that the plan has left,
// because it takes no work any more, counts until it has ended. PodGroups may have
// any number.
func Room(g Gang, s Set, members []Member) int {
	given := s.Need()
	if s.Once {
		given = s.Count // members that succeeded count as well
	}
	open := given
	if s.Places != nil {
		given, open = 0, 0
		for _, p := range s.Places {
			given += int(p.Count)
		}
		for _, p := range Open(s, g.AdmittedAt, members) {
			open += int(p.Count)
		}
	}
	if g.Key.Kind == KindPodGroup && s.Places == nil {
		return max(given, len(members))
	}
	for _, m := range members {
		if m.Set != s.Name {
			continue
		}
		switch m.State {
		case Reserved, Bound, Leaving:
			given--
		case Succeeded:
			if s.Once && !m.Created.Before(g.AdmittedAt) {
				given--
			}
		case Pending, Failed:
		}
	}
	return max(min(given, open), 0)
}

// Full says why there is no room in a set.
func Full(g Gang, s Set, members []Member) string {
	for _, m := range members {
		if m.Set == s.Name && m.State == Leaving {
			return fmt.Sprintf("pod %s was deleted and %s %s until it has ended", m.Name, convert.PlaceKept, m.Node)
		}
	}
	return fmt.Sprintf(
		"pod set %q of %s was admitted with %d pods, and all its places are taken",
		s.Name,
		g.Key,
		s.Count,
	)
}
