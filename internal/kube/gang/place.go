package gang

import (
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

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
	live, done := map[string]int32{}, map[string]int32{}
	for _, m := range members {
		if m.Set != s.Name || m.Node == "" {
			continue
		}
		switch m.State {
		case Reserved, Bound, Leaving:
			live[m.Node]++
		case Succeeded:
			if (s.Reclaimed > 0 || s.Once) && !m.Created.Before(admitted) {
				done[m.Node]++
			}
		case Pending, Failed:
		}
	}
	open := remaining(s.Places, live, done)
	if len(open) == 0 && !s.Once {
		open = remaining(s.Places, live, nil)
	}
	if s.Reclaimed == 0 {
		return open
	}
	needed := -int32(s.Reclaimed) //nolint:gosec // pods of one job
	for _, p := range s.Places {
		needed += p.Count
	}
	for _, n := range live {
		needed -= n
	}
	return first(open, max(needed, 0))
}

// first are the first places for so many pods.
func first(places []core.Place, n int32) []core.Place {
	var out []core.Place
	for _, p := range places {
		if p.Count = min(p.Count, n); p.Count > 0 {
			out = append(out, p)
			n -= p.Count
		}
	}
	return out
}

// remaining subtracts what is taken from each place, keeping the order. A node
// may be listed more than once; what is taken there is charged to its first
// places first.
func remaining(places []core.Place, taken ...map[string]int32) []core.Place {
	charge := map[string]int32{}
	for _, t := range taken {
		for node, n := range t {
			charge[node] += n
		}
	}
	var open []core.Place
	for _, p := range places {
		used := min(p.Count, charge[p.Node])
		charge[p.Node] -= used
		if p.Count > used {
			open = append(open, core.Place{Node: p.Node, Count: p.Count - used})
		}
	}
	return open
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
