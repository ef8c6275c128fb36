package gang

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/core"
)

func TestOpen(t *testing.T) {
	admitted := time.Unix(2000, 0)
	on := func(node string, s MemberState) Member {
		return Member{Set: "main", Node: node, State: s, Created: admitted}
	}
	before := func(m Member) Member { m.Created = admitted.Add(-time.Minute); return m }
	cases := map[string]struct {
		why     string
		places  []core.Place
		back    int // pods given back
		once    bool
		members []Member
		want    []core.Place
	}{
		"fresh": {
			why:    "stored order is kept",
			places: []core.Place{placed("b", 2), placed("a", 1)},
			want:   []core.Place{placed("b", 2), placed("a", 1)},
		},
		"partly taken": {
			why:     "bound and reserved pods hold their places",
			places:  []core.Place{placed("a", 2), placed("b", 2)},
			members: []Member{on("a", Bound), on("a", Reserved), on("b", Bound)},
			want:    []core.Place{placed("b", 1)},
		},
		"deleted pod": {
			why:     "it may ignore the signal for a day: its replacement waits until it has ended",
			places:  []core.Place{placed("a", 1), placed("b", 2)},
			members: []Member{on("a", Leaving), on("b", Leaving), on("b", Bound)},
			want:    nil,
		},
		"failed pod": {
			why:     "its replacement goes where it was",
			places:  []core.Place{placed("a", 1), placed("b", 1)},
			members: []Member{on("a", Failed), on("b", Bound)},
			want:    []core.Place{placed("a", 1)},
		},
		"succeeded pod": {
			why:     "its room may have been given to others, so a free place is taken first",
			places:  []core.Place{placed("a", 1), placed("b", 1)},
			back:    1,
			members: []Member{on("a", Succeeded)},
			want:    []core.Place{placed("b", 1)},
		},
		"succeeded pod, nothing given back": {
			why:     "another pod of the set follows it",
			places:  []core.Place{placed("a", 1), placed("b", 1)},
			members: []Member{on("a", Succeeded)},
			want:    []core.Place{placed("a", 1), placed("b", 1)},
		},
		"succeeded pod of an earlier admission": {
			why:     "its place was in another plan, and the gang needs all of this one",
			places:  []core.Place{placed("a", 2), placed("b", 1)},
			back:    1,
			members: []Member{before(on("a", Succeeded)), on("b", Succeeded)},
			want:    []core.Place{placed("a", 2)},
		},
		"given back, and no trace of a pod": {
			why:     "the job was made smaller: the last places are given to others",
			places:  []core.Place{placed("a", 1), placed("b", 2), placed("c", 1)},
			back:    2,
			members: []Member{on("b", Bound)},
			want:    []core.Place{placed("a", 1)},
		},
		"given back, and as many pods as are left": {
			why:     "a pod more has no quota",
			places:  []core.Place{placed("a", 1), placed("b", 1)},
			back:    1,
			members: []Member{on("b", Bound)},
			want:    nil,
		},
		"only places of succeeded pods": {
			why:     "a Job with more completions than parallelism runs on where it ran",
			places:  []core.Place{placed("a", 1), placed("b", 1)},
			members: []Member{on("a", Succeeded), on("a", Succeeded), on("b", Bound)},
			want:    []core.Place{placed("a", 1)},
		},
		"a pod made twice": {
			why:     "the controller of a Job makes a pod again when the API server dies before it answers; where all have succeeded it must not run",
			places:  []core.Place{placed("a", 1), placed("b", 1)},
			once:    true,
			members: []Member{on("a", Succeeded), on("b", Succeeded)},
			want:    nil,
		},
		"a pod made twice before others ran": {
			why:     "those of an earlier admission do not count",
			places:  []core.Place{placed("a", 1), placed("b", 1)},
			once:    true,
			members: []Member{before(on("a", Succeeded)), on("b", Succeeded)},
			want:    []core.Place{placed("a", 1)},
		},
		"full": {
			why:     "no pod more than planned",
			places:  []core.Place{placed("a", 1)},
			members: []Member{on("a", Bound)},
			want:    nil,
		},
		"node listed twice": {
			why:     "a pod takes one place, not one in each mention of its node",
			places:  []core.Place{placed("a", 1), placed("b", 1), placed("a", 2)},
			members: []Member{on("a", Bound), on("a", Bound)},
			want:    []core.Place{placed("b", 1), placed("a", 1)},
		},
		"elsewhere": {
			why:     "pods on nodes outside the plan, or of other sets, hold no place in it",
			places:  []core.Place{placed("a", 1)},
			members: []Member{on("x", Bound), {Set: "other", Node: "a", State: Bound}},
			want:    []core.Place{placed("a", 1)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(
				c.want,
				Open(Set{Name: "main", Places: c.places, Reclaimed: c.back, Once: c.once}, admitted, c.members),
			); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

func TestRoomIsWhatQuotaAndPlanLeave(t *testing.T) {
	set := Set{Name: "main", Count: 3, Reclaimed: 1}
	workload, group := Gang{Key: Key{Kind: KindWorkload}}, Gang{Key: Key{Kind: KindPodGroup}}
	planned := set
	planned.Places = []core.Place{placed("n1", 2), placed("n2", 1)}
	once := set
	once.Once = true
	for name, c := range map[string]struct {
		why     string
		gang    Gang
		set     Set
		members []Member
		want    int
	}{
		"unplanned, fresh":             {"as many as it has quota for", workload, set, pods("main", Pending, Pending, Pending, Pending), 2},
		"unplanned, deleted pods":      {"they keep the quota until they have ended", workload, set, pods("main", Leaving, Leaving, Pending), 0},
		"unplanned, too many already":  {"never less than none", workload, set, pods("main", Leaving, Bound, Reserved), 0},
		"unplanned, ended pods":        {"they hold nothing", workload, set, pods("main", Failed, Succeeded, Bound, Pending), 1},
		"unplanned, all succeeded":     {"no pod follows one that succeeded", workload, once, pods("main", Succeeded, Succeeded, Succeeded, Pending), 0},
		"unplanned, one of them fails": {"it is replaced, beside those that succeeded and were given back", workload, once, pods("main", Succeeded, Bound, Failed, Pending), 1},
		"unplanned, another set":       {"every set has its own quota", workload, set, pods("more", Bound, Leaving), 2},
		"planned":                      {"the open places that were not given back", workload, planned, pods("main", Pending, Leaving), 1},
		"planned, on a node that the plan has left": {
			"a pod that ignores the signal on a cordoned node keeps the quota", workload, planned,
			[]Member{{Set: "main", Node: "n9", State: Leaving}, {Set: "main", Node: "n1", State: Bound}, {Set: "main", State: Pending}},
			0,
		},
		"planned, one of two on a node that the plan has left": {
			"the other has quota", workload, planned, []Member{{Set: "main", Node: "n9", State: Leaving}, {Set: "main", State: Pending}}, 1,
		},
		"outside the queues": {"a PodGroup may have more than it needs", group, set, pods("main", Bound, Bound, Bound, Pending), 4},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Room(c.gang, c.set, c.members); got != c.want {
				t.Errorf("%d, want %d: %s", got, c.want, c.why)
			}
		})
	}
}

// placed is room for some pods on a node.
func placed(node string, pods int32) core.Place { return core.Place{Node: node, Count: pods} }

func TestPodsGetThePlacesOfTheirRanks(t *testing.T) {
	admitted := time.Unix(2000, 0)
	// of makes members from words: name, state by its first letter, node, and rank after a colon.
	of := func(words string) []Member {
		var out []Member
		for word := range strings.FieldsSeq(words) {
			word, rank, has := strings.Cut(word, ":")
			name, node, _ := strings.Cut(word, "@")
			m := Member{UID: types.UID(name), Name: name, Set: "main", Node: node, Created: admitted, Rank: -1}
			if has {
				m.Rank, _ = strconv.Atoi(rank)
			}
			switch {
			case strings.HasPrefix(name, "failed"):
				m.State = Failed
			case strings.HasPrefix(name, "leaving"):
				m.State = Leaving
			case node != "":
				m.State = Bound
			}
			out = append(out, m)
		}
		return out
	}
	for name, tc := range map[string]struct {
		why     string
		places  []core.Place
		members string
		want    string
	}{
		"by name": {
			"pod 10 comes after pod 2, and the first places are those of the first pods",
			[]core.Place{placed("b", 2), placed("a", 1)},
			"p-10 p-2 p-1", "p-10@a p-1@b p-2@b",
		},
		"by rank": {
			"names may say anything",
			[]core.Place{placed("b", 2), placed("a", 1)},
			"x:2 y:1 z:0", "x@a y@b z@b",
		},
		"the others are missing": {
			"a replacement has the place of its rank, though others are open",
			[]core.Place{placed("a", 2), placed("b", 2)},
			"r0@a:0 r2@b:2 new:3", "new@b",
		},
		"two were replaced": {
			"each goes where it was, whichever came first",
			[]core.Place{placed("a", 1), placed("b", 1), placed("c", 1)},
			"two:2 one@b:1 zero:0", "two@c zero@a",
		},
		"its place is taken": {
			"one that was placed before ranks were heeded holds the place of another",
			[]core.Place{placed("a", 1), placed("b", 1)},
			"zero:0 one@a:1", "zero@b",
		},
		"on its own node": {
			"it holds the place of its rank, not the first on the node",
			[]core.Place{placed("a", 1), placed("b", 1), placed("a", 1)},
			"two@a:2 zero:0 one:1", "one@b zero@a",
		},
		"beyond all ranks": {
			"a Job with more completions than parallelism has such: it gets what is left",
			[]core.Place{placed("a", 1), placed("b", 1)},
			"seven:7 one:1", "one@b seven@a",
		},
		"who fails leaves its place": {
			"to the one that follows it",
			[]core.Place{placed("a", 1), placed("b", 1)},
			"failed@b:1 zero@a:0 again:1", "again@b",
		},
		"its predecessor has not ended": {
			"it does not take the place of another rank, whose pod comes in a moment",
			[]core.Place{placed("a", 1), placed("b", 1)},
			"leaving@a:0 again:0", "",
		},
		"one predecessor has not ended": {
			"the other has its own place, though it comes later by rank",
			[]core.Place{placed("a", 1), placed("b", 1)},
			"leaving@a:0 again:0 one:1", "one@b",
		},
		"on a node that the plan has left": {
			"its new place waits for it, and not for the other",
			[]core.Place{placed("a", 1), placed("b", 1)},
			"leaving@dead:0 again:0 one:1", "one@b",
		},
		"too many": {
			"who comes last by rank gets none",
			[]core.Place{placed("a", 2)},
			"p-3 p-1 p-2", "p-1@a p-2@a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			members := of(tc.members)
			g := Gang{
				Key:        Key{Kind: KindWorkload},
				AdmittedAt: admitted,
				Sets:       []Set{{Name: "main", Places: tc.places}},
			}
			for range members { // in any order
				var got []string
				for uid, node := range Assign(g, members, members) {
					got = append(got, string(uid)+"@"+node)
				}
				slices.Sort(got)
				if is := strings.Join(got, " "); is != tc.want {
					t.Errorf("%s:\n got %s\nwant %s", tc.why, is, tc.want)
				}
				members = append(members[1:], members[0])
			}
		})
	}
}

func TestPodsTellTheirRanks(t *testing.T) {
	for name, tc := range map[string]struct {
		ranks  Ranks
		labels map[string]string
		want   int
	}{
		"by index":               {Ranks{Label: "i"}, map[string]string{"i": "3"}, 3},
		"by index in a subgroup": {Ranks{Label: "i", SubGroup: "g", Size: 4}, map[string]string{"i": "3", "g": "2"}, 11},
		"none is asked for":      {Ranks{}, map[string]string{"": "1"}, -1},
		"without a label":        {Ranks{Label: "i"}, nil, -1},
		"of no subgroup":         {Ranks{Label: "i", SubGroup: "g", Size: 4}, map[string]string{"i": "3"}, -1},
		"no number":              {Ranks{Label: "i"}, map[string]string{"i": "first"}, -1},
		"below none":             {Ranks{Label: "i"}, map[string]string{"i": "-1"}, -1},
		"beyond its subgroup":    {Ranks{Label: "i", SubGroup: "g", Size: 4}, map[string]string{"i": "4", "g": "0"}, -1},
	} {
		if got := tc.ranks.Of(tc.labels); got != tc.want {
			t.Errorf("%s: rank %d, want %d", name, got, tc.want)
		}
	}
}
