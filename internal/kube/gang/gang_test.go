package gang

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// pods makes members of a set, one for each state, named set-0, set-1, ...
func pods(set string, states ...MemberState) []Member {
	var out []Member
	for i, s := range states {
		name := set + "-" + string(rune('0'+i))
		m := Member{UID: types.UID(name), Name: name, Set: set, State: s}
		if s != Pending {
			m.Node = "n" + string(rune('0'+i))
		}
		out = append(out, m)
	}
	return out
}

// all joins lists of members.
func all(lists ...[]Member) []Member {
	var out []Member
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// with changes every member of a list.
func with(change func(*Member), members []Member) []Member {
	for i := range members {
		change(&members[i])
	}
	return members
}

func TestDecide(t *testing.T) {
	admitted := time.Unix(1000, 0)
	gang := func(sets ...Set) Gang {
		return Gang{Key: Key{KindWorkload, "blue", "job"}, Admitted: true, AdmittedAt: admitted, Sets: sets}
	}
	main := func(n, reclaimed int) Set { return Set{Name: "main", Count: n, Reclaimed: reclaimed} }
	at := func(when time.Time) func(*Member) { return func(m *Member) { m.Created = when } }
	oneByOne := func(m *Member) { m.OneByOne = true }

	cases := map[string]struct {
		why     string
		gang    Gang
		members []Member
		want    Decision
	}{
		"not admitted": {
			why:     "without quota no pod may take a node, however many there are",
			gang:    Gang{Key: Key{KindWorkload, "blue", "job"}, Sets: []Set{main(1, 0)}},
			members: pods("main", Pending),
			want:    Decision{Hold, "Workload blue/job is not admitted yet"},
		},
		"incomplete": {
			why:     "a gang takes nothing before all of its pods exist",
			gang:    gang(main(4, 0)),
			members: pods("main", Pending, Pending, Pending),
			want:    Decision{Hold, "Workload blue/job starts as a whole: 3 of 4 pods exist"},
		},
		"complete": {
			why:     "the last pod makes the gang start",
			gang:    gang(main(4, 0)),
			members: pods("main", Pending, Pending, Pending, Pending),
			want:    Decision{Act: Together},
		},
		"made smaller": {
			why:     "what is not asked for never comes",
			gang:    gang(Set{Name: "main", Count: 4, Unasked: 2, Reclaimed: 1}),
			members: pods("main", Pending),
			want:    Decision{Act: Alone},
		},
		"made smaller, incomplete": {
			why:     "what is asked for starts together",
			gang:    gang(Set{Name: "main", Count: 4, Unasked: 1}),
			members: pods("main", Pending, Pending),
			want:    Decision{Hold, "Workload blue/job starts as a whole: 2 of 3 pods exist"},
		},
		"some reserved": {
			why:     "nodes held by this process alone are not a start",
			gang:    gang(main(3, 0)),
			members: pods("main", Reserved, Reserved, Pending),
			want:    Decision{Act: Together},
		},
		"two sets, one incomplete": {
			why:     "surplus pods of one set do not stand in for missing ones of another",
			gang:    gang(Set{Name: "head", Count: 1}, Set{Name: "work", Count: 2}),
			members: all(pods("head", Pending, Pending), pods("work", Pending)),
			want:    Decision{Hold, "Workload blue/job starts as a whole: 2 of 3 pods exist"},
		},
		"single pod": {
			why:     "there is no other pod to wait for",
			gang:    gang(main(1, 0)),
			members: pods("main", Pending),
			want:    Decision{Act: Alone},
		},
		"replacement": {
			why:     "the rest of the gang runs: a lost pod comes back alone",
			gang:    gang(main(4, 0)),
			members: pods("main", Bound, Bound, Pending),
			want:    Decision{Act: Alone},
		},
		"pods succeeded in this run": {
			why:     "a gang that has run needs no new start, even if no pod of it runs now",
			gang:    gang(main(2, 0)),
			members: all(with(at(admitted.Add(time.Second)), pods("main", Succeeded, Failed)), pods("more", Pending)),
			want:    Decision{Act: Alone},
		},
		"pods succeeded before an eviction": {
			why:  "after a new admission what is left starts together again",
			gang: gang(main(4, 2)),
			members: all(
				with(at(admitted.Add(-time.Hour)), pods("main", Succeeded, Succeeded)),
				pods("main", Pending),
			),
			want: Decision{Hold, "Workload blue/job starts as a whole: 1 of 2 pods exist"},
		},
		"all deleted, none ended": {
			why:     "what was deleted takes no part: the gang starts as a whole again, once there are places",
			gang:    gang(main(2, 0)),
			members: pods("main", Leaving, Leaving, Pending),
			want:    Decision{Hold, "Workload blue/job starts as a whole: 1 of 2 pods exist"},
		},
		"reclaimed pods": {
			why:     "pods that are done are not waited for",
			gang:    gang(main(4, 2)),
			members: pods("main", Pending, Pending),
			want:    Decision{Act: Together},
		},
		"one by one": {
			why:     "a StatefulSet creates the second pod when the first runs: waiting for both would wait forever",
			gang:    gang(main(3, 0)),
			members: with(oneByOne, pods("main", Pending)),
			want:    Decision{Act: Alone},
		},
		"one by one, the first reserved": {
			why:     "it has its node already: whoever waited for it to wait again would wait forever",
			gang:    gang(main(3, 0)),
			members: with(oneByOne, pods("main", Reserved, Pending)),
			want:    Decision{Act: Alone},
		},
		"one by one, reserved beside a gang": {
			why:     "it has its node with the others",
			gang:    gang(main(3, 0), Set{Name: "work", Count: 1}),
			members: all(with(oneByOne, pods("main", Reserved)), pods("work", Pending)),
			want:    Decision{Act: Together},
		},
		"later": {
			why:     "what waits for these is not waited for",
			gang:    gang(main(2, 0), Set{Name: "work", Count: 2, Later: true}),
			members: pods("main", Pending, Pending),
			want:    Decision{Act: Together},
		},
		"later, before the others": {
			why:     "those that do not wait are a gang",
			gang:    gang(main(2, 0), Set{Name: "work", Count: 2, Later: true}),
			members: all(pods("main", Pending), pods("work", Pending)),
			want:    Decision{Hold, "Workload blue/job starts as a whole: 2 of 3 pods exist"},
		},
		"one by one beside a gang": {
			why:     "the first pod of a StatefulSet still starts with the rest of its workload",
			gang:    gang(main(3, 0), Set{Name: "work", Count: 2}),
			members: all(with(oneByOne, pods("main", Pending)), pods("work", Pending)),
			want:    Decision{Hold, "Workload blue/job starts as a whole: 2 of 3 pods exist"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Decide(c.gang, c.members)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

func TestQuorum(t *testing.T) {
	cases := map[string]struct {
		why     string
		sets    []Set
		members []Member
		first   types.UID
		want    []string
	}{
		"all of a workload": {
			why:     "every needed pod of every set has a part",
			sets:    []Set{{Name: "a", Count: 1}, {Name: "b", Count: 2}},
			members: all(pods("b", Pending, Pending), pods("a", Pending)),
			first:   "b-0",
			want:    []string{"a-0", "b-0", "b-1"},
		},
		"more pods than needed": {
			why:     "the pod that is looked at has a part, or its turn would be wasted",
			sets:    []Set{{Name: "a", Count: 2}},
			members: pods("a", Pending, Pending, Pending),
			first:   "a-2",
			want:    []string{"a-0", "a-2"},
		},
		"one still holds a node": {
			why:     "a gang never starts without a pod that an earlier attempt has not let go of yet",
			sets:    []Set{{Name: "a", Count: 3}},
			members: pods("a", Pending, Reserved, Pending),
			first:   "a-0",
			want:    nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range Quorum(Gang{Sets: c.sets}, c.members, c.first) {
				got = append(got, m.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

// Pods of one set are told apart by a number at the end, which has no leading zeros.
func TestByRank(t *testing.T) {
	for _, list := range [][]string{
		{"job-0-x7f", "job-2-abc", "job-10-aaa"},
		{"a", "a1", "a2", "a10", "b"},
		{"w-1", "w-01", "w-2"},
		{"pod", "pod-1"},
	} {
		var got []string
		members := []Member{}
		for i := range list {
			members = append(members, Member{Name: list[len(list)-1-i]})
		}
		for _, m := range slices.SortedFunc(slices.Values(members), ByRank) {
			got = append(got, m.Name)
		}
		if diff := cmp.Diff(list, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
