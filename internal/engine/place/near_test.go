package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// inRacks makes nodes of 8 GPUs, a word for each: BLOCK/RACK/NAME, then =N for so many free GPUs, then ! for
// a warned node and - for one out of service, and ~N for so many faults. A rack or block of "" is no label.
func inRacks(t interface{ Fatalf(string, ...any) }, text string) *Nodes {
	s := New(core.GPU)
	filler := s.Class(gpus(1), core.Constraints{}, core.Topology{})
	for word := range strings.FieldsSeq(text) {
		state := core.NodeReady
		word, faults, _ := strings.Cut(word, "~")
		if w, is := strings.CutSuffix(word, "!"); is {
			word, state = w, core.NodeWarned
		}
		if w, is := strings.CutSuffix(word, "-"); is {
			word, state = w, core.NodeClosed
		}
		path, free, has := strings.Cut(word, "=")
		names := strings.Split(path, "/")
		n := machine(names[2], 8, state)
		if faults != "" {
			n.Faults = int32(faults[0] - '0')
		}
		if names[0] != "" {
			n.Labels["block"] = names[0]
		}
		if names[1] != "" {
			n.Labels["rack"] = names[1]
		}
		s.Set(n)
		if has {
			held := int32(0)
			if _, err := fmt.Sscan(free, &held); err != nil {
				t.Fatalf("%s: %v", word, err)
			}
			hold := []Hold{{s.Node(names[2]), filler, 8 - held}}
			s.Take(core.Current, hold, 1)
			s.Take(core.Projected, hold, 1)
		}
	}
	return s
}

var blocks = core.Topology{Name: "dc", Levels: []string{"block", "rack"}}

func spotsText(spots []Spot) string {
	var out []string
	for _, sp := range spots {
		out = append(out, fmt.Sprintf("%s*%d", sp.Node.Name(), sp.Count))
	}
	return strings.Join(out, " ")
}

func TestGangsAreNear(t *testing.T) {
	type request = core.TopologyRequest
	rack, block := request{Required: "rack"}, request{Required: "block"}
	tests := map[string]struct {
		why   string
		nodes string
		is    request
		gpus  core.Amount
		pods  int32
		want  string
		short Shortage
	}{
		"the rack that just does": {
			"the other keeps its eight nodes", "/r1/a /r1/b /r2/c /r2/d /r2/e", rack, 8, 2, "a*1 b*1", Shortage{},
		},
		"a node that is in use": {
			"a whole node stays whole", "/r1/a=2 /r1/b /r2/c", rack, 2, 1, "a*1", Shortage{},
		},
		"a rack that is in use": {
			"the whole rack stays whole, though it comes first",
			"/r1/a /r1/b /r2/c=4 /r2/d",
			rack,
			8,
			1,
			"d*1",
			Shortage{},
		},
		"no rack has room": {
			"four nodes are free and no rack has three", "/r1/a /r1/b /r1/c=7 /r2/d /r2/e", rack, 8, 3, "",
			Shortage{
				Cause: core.DomainsShort, Fit: 2, Wanted: 3, Nodes: 5, Level: "rack", Domain: "r1", Usable: 3, Free: 4,
			},
		},
		"no rack is large enough": {
			"no wait helps",
			"/r1/a /r1/b /r2/c-",
			rack,
			8,
			3,
			"",
			Shortage{
				Cause:  core.DomainTooSmall,
				Fit:    2,
				Wanted: 3,
				Nodes:  3,
				Down:   1,
				Level:  "rack",
				Domain: "r1",
				Usable: 2,
				Free:   2,
			},
		},
		"all nodes are too few": {
			"no rack would help", "/r1/a=4 /r1/b=0", rack, 8, 2, "",
			Shortage{Cause: core.DomainsShort, Wanted: 2, Nodes: 2, Level: "rack", Domain: "r1", Usable: 2},
		},
		"nodes without the label": {
			"they are in no rack", "//a //b /r1/c", rack, 8, 2, "",
			Shortage{Cause: core.GangTooLarge, Fit: 1, Wanted: 2, Nodes: 1},
		},
		"a block, and few racks of it": {
			"two racks of three do",
			"x/r1/a x/r2/b x/r2/c x/r3/d x/r3/e y/r4/f",
			block,
			8,
			4,
			"b*1 c*1 d*1 e*1",
			Shortage{},
		},
		"equal names in two blocks": {
			"rack 1 of block x is not rack 1 of block y", "x/1/a x/2/b y/1/c y/2/d", rack, 8, 2, "",
			Shortage{
				Cause: core.DomainTooSmall, Fit: 1, Wanted: 2, Nodes: 4, Level: "rack", Domain: "1", Usable: 1, Free: 4,
			},
		},
		"preferred, and there is one": {
			"a rack has room", "x/r1/a x/r2/b x/r2/c", request{Preferred: "rack"}, 8, 2, "b*1 c*1", Shortage{},
		},
		"preferred, and there is none": {
			"a block is the next best",
			"x/r1/a y/r2/b y/r3/c",
			request{Preferred: "rack"},
			8,
			2,
			"b*1 c*1",
			Shortage{},
		},
		"preferred, across blocks": {
			"better than not at all", "x/r1/a y/r2/b", request{Preferred: "rack"}, 8, 2, "a*1 b*1", Shortage{},
		},
		"required and preferred": {
			"no rack has two, and the block must", "x/r1/a x/r2/b y/r3/c",
			request{Required: "block", Preferred: "rack"},
			8, 2, "a*1 b*1",
			Shortage{},
		},
		"slices": {
			"two pods in each rack, none alone", "/r1/a /r1/b /r1/c /r2/d /r2/e",
			request{Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
			8, 4, "a*1 b*1 d*1 e*1",
			Shortage{},
		},
		"a node with fewer pods": {
			"it comes last, so that pods 1 to 4 are on one node, and 5 to 8, whatever nodes and racks are called",
			"x/r1/n1=6 x/r1/n2=4 x/r2/n3 x/r2/n10",
			block,
			2, 13, "n3*4 n10*4 n1*3 n2*2",
			Shortage{},
		},
		"slices, and names that lie": {
			"pods are in the order of racks, so that those of a slice are in one", "/r1/a /r2/b /r1/c /r2/d",
			request{Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
			8, 4, "a*1 c*1 b*1 d*1",
			Shortage{},
		},
		"slices that do not fit": {
			"five nodes hold four pods, two by two, not six", "/r1/a /r1/b /r1/c /r2/d /r2/e /r3/f",
			request{Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
			8, 6, "",
			Shortage{Cause: core.GangTooLarge, Fit: 4, Wanted: 6, Nodes: 6},
		},
		"no request": {
			"what asks for nothing leaves the whole rack to others", "x/r1/a x/r1/b x/r2/c=4 x/r2/d=5",
			request{},
			2, 3, "d*2 c*1",
			Shortage{},
		},
		"slices of slices": {
			"a block has four, its racks two each", "x/1/a x/1/b x/2/c x/2/d x/3/e y/4/f y/4/g y/5/h y/5/i y/5/j",
			request{Slices: []core.PodSetSlice{{Level: "block", Size: 4}, {Level: "rack", Size: 2}}},
			8, 8,
			"a*1 b*1 c*1 d*1 f*1 g*1 h*1 i*1",
			Shortage{},
		},
		"more than any greedy split": {
			"four in each of three racks with five nodes, in slices of four",
			"/1/a /1/b /1/c /1/d /1/e /2/f /2/g /2/h /2/i /2/j /3/k /3/l /3/m /3/n /3/o",
			request{Slices: []core.PodSetSlice{{Level: "rack", Size: 4}}},
			8, 12,
			"a*1 b*1 c*1 d*1 f*1 g*1 h*1 i*1 k*1 l*1 m*1 n*1",
			Shortage{},
		},
		"warned nodes last": {
			"a rack without one is as near", "/r1/a! /r1/b /r2/c /r2/d", rack, 8, 2, "c*1 d*1", Shortage{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := inRacks(t, tc.nodes)
			topology := blocks
			if !strings.Contains(tc.nodes, "x/") {
				topology = core.Topology{}
			}
			c := s.Class(gpus(tc.gpus), core.Constraints{Topology: tc.is}, topology)
			set := Set{Class: c, Count: tc.pods}
			spots, short, ok := s.Place(Request{View: Free, Sets: []Set{set}})
			got := ""
			if ok {
				got = spotsText(spots[0])
			}
			if got != tc.want || ok != s.Can(set, Free) {
				t.Errorf("%s: placed on %q, want %q; Can says %t", tc.why, got, tc.want, !ok)
			}
			if d := cmp.Diff(tc.short, short); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplacedPodsStayInTheirDomain: what replaces lost pods goes where the rest of the gang, or of
// its slice, is.
func TestReplacedPodsStayInTheirDomain(t *testing.T) {
	for name, tc := range map[string]struct {
		is   core.TopologyRequest
		kept string
		pods int32
		want string
	}{
		"in the rack":         {core.TopologyRequest{Required: "rack"}, "d e", 1, "f*1"},
		"no room in the rack": {core.TopologyRequest{Required: "rack"}, "d e f", 1, ""},
		"in the slices": {
			core.TopologyRequest{Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}}, "a d", 2, "b*1 e*1",
		},
		"as near as preferred": {core.TopologyRequest{Preferred: "rack"}, "d e", 1, "f*1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := inRacks(t, "/r1/a /r1/b /r1/c /r2/d /r2/e /r2/f /r3/g")
			c := s.Class(gpus(8), core.Constraints{Topology: tc.is}, core.Topology{})
			var kept []Hold
			for node := range strings.FieldsSeq(tc.kept) {
				kept = append(kept, Hold{s.Node(node), c, 1})
			}
			s.Take(core.Current, kept, 1)
			s.Take(core.Projected, kept, 1)
			spots, _, ok := s.Place(
				Request{View: Free, Sets: []Set{{Class: c, Count: tc.pods, Peers: kept}}, Kept: kept},
			)
			got := ""
			if ok {
				got = spotsText(spots[0])
			}
			if got != tc.want {
				t.Errorf("replaced on %q, want %q", got, tc.want)
			}
		})
	}
}

// TestGroupedPodSetsShareADomain: a leader and its workers are in one rack, though one that is best for the
// workers has no room for the leader.
func TestReplacedPodsSpreadBesideThoseThatStay(t *testing.T) {
	limits := []core.Limit{{Name: "spread", Own: true, Count: 1, Level: "rack", Skew: 1}}
	for _, tc := range []struct{ kept, want string }{
		{"a*2", "b*2"},     // what stays makes as many in the other rack as even as they can be
		{"a*1", "a*1 b*1"}, // one more may be here, too
	} {
		s := inRacks(t, "x/1/a x/2/b")
		c := s.Class(gpus(4), core.Constraints{Limits: limits}, core.Topology{})
		var n int32
		if _, err := fmt.Sscanf(tc.kept, "a*%d", &n); err != nil {
			t.Fatal(err)
		}
		kept := []Hold{{s.Node("a"), c, n}}
		s.Take(core.Current, kept, 1)
		s.Take(core.Projected, kept, 1)
		spots, short, ok := s.Place(Request{View: Free, Sets: []Set{{Class: c, Count: 2}}, Kept: kept})
		if !ok {
			t.Errorf("beside %s there is no place: %+v", tc.kept, short)
			continue
		}
		if got := spotsText(spots[0]); got != tc.want {
			t.Errorf("beside %s pods go to %s, want %s", tc.kept, got, tc.want)
		}
	}
}

// TestUnevenPodsKeepNoneFromOtherDomains: where pods are uneven already, as after nodes were lost, one more goes where
// it makes them no more so; only where it would is it refused.
func TestUnevenPodsKeepNoneFromOtherDomains(t *testing.T) {
	for _, own := range []bool{true, false} {
		limits := []core.Limit{{Name: "spread", Own: own, Count: 1, Level: "rack", Skew: 1}}
		s := inRacks(t, "x/1/a x/2/b x/3/c")
		c := s.Class(gpus(1), core.Constraints{Limits: limits}, core.Topology{})
		kept := []Hold{{s.Node("a"), c, 4}}
		s.Take(core.Current, kept, 1)
		s.Take(core.Projected, kept, 1)
		place := func(count int32) string {
			spots, _, ok := s.Place(Request{View: Free, Sets: []Set{{Class: c, Count: count}}, Kept: kept})
			if !ok {
				return "nowhere"
			}
			return spotsText(spots[0])
		}
		if got := place(1); got != "b*1" {
			t.Errorf("own is %t: one more goes to %s, want b", own, got)
		}
		if got := place(11); got != "b*5 c*5 a*1" {
			t.Errorf("own is %t: eleven more go to %s", own, got)
		}
	}
}

// TestReservedPodsSpreadByTheNodesThatTheyMayUse: a reservation does not end because pods of a set that may use other
// nodes are uneven beside it, else it would be made and ended again; it ends when its own are.
func TestReservedPodsSpreadByTheNodesThatTheyMayUse(t *testing.T) {
	limits := []core.Limit{{Name: "spread", Own: true, Count: 1, Level: "rack", Skew: 1}}
	only := core.Filter{Must: core.Selector{{Key: "rack", Operator: core.In, Values: []string{"1"}}}}
	s := inRacks(t, "x/1/a x/2/b")
	anywhere := s.Class(gpus(1), core.Constraints{Limits: limits}, core.Topology{})
	there := s.Class(gpus(2), core.Constraints{Limits: limits, Filter: only}, core.Topology{})
	a, b := s.Node("a"), s.Node("b")
	for _, tc := range []struct {
		why   string
		holds []Hold
		want  bool
	}{
		{"one in each", []Hold{{a, anywhere, 1}, {b, anywhere, 1}}, false},
		{"two in one", []Hold{{a, anywhere, 2}}, true},
		{"two in the only one", []Hold{{a, there, 2}}, false},
		{"two in the only one, beside one of another set", []Hold{{a, there, 2}, {a, anywhere, 1}}, false},
	} {
		if got := s.Uneven(tc.holds); got != tc.want {
			t.Errorf("%s: uneven is %t", tc.why, got)
		}
	}
}

// TestSpreadOverManyDomainsIsBoundedByTheSkew: over more domains than are counted no domain has more pods than the skew.
func TestSpreadOverManyDomainsIsBoundedByTheSkew(t *testing.T) {
	var words strings.Builder
	for i := range widestField + 1 {
		fmt.Fprintf(&words, "x/%d/n%d ", i, i)
	}
	s := inRacks(t, words.String())
	limits := []core.Limit{{Name: "spread", Own: true, Count: 1, Level: "rack", Skew: 2}}
	c := s.Class(gpus(1), core.Constraints{Limits: limits}, core.Topology{})
	most := int32(2 * (widestField + 1))
	for _, count := range []int32{5, most, most + 1} {
		set := Set{Class: c, Count: count}
		spots, _, ok := s.Place(Request{View: Free, Sets: []Set{set}})
		if ok != (count <= most) || ok != s.Can(set, Free) {
			t.Fatalf("%d pods have places: %t, can: %t", count, ok, s.Can(set, Free))
		}
		if !ok {
			continue
		}
		for _, sp := range spots[0] {
			if sp.Count > 2 {
				t.Errorf("%d pods are on %s", sp.Count, sp.Node.Name())
			}
		}
	}
}

func TestGroupedPodSetsShareADomain(t *testing.T) {
	s := inRacks(t, "/r1/a /r1/b /r2/c /r2/d /r2/e")
	near := core.Constraints{Topology: core.TopologyRequest{Required: "rack"}}
	workers, leader := s.Class(gpus(8), near, core.Topology{}), s.Class(gpus(1), near, core.Topology{})
	for group, want := range map[string]string{"": "a*1 b*1, c*1", "g": "c*1 d*1, e*1"} {
		spots, _, ok := s.Place(Request{View: Free, Sets: []Set{
			{Index: 0, Class: workers, Count: 2, Group: group}, {Index: 1, Class: leader, Count: 1, Group: group},
		}})
		if !ok {
			t.Fatalf("group %q has no place", group)
		}
		if got := spotsText(spots[0]) + ", " + spotsText(spots[1]); got != want {
			t.Errorf("group %q is on %s, want %s", group, got, want)
		}
	}
}

// naive enumerates every way to place a set, and returns the least cost by its own count.
type naive struct {
	s      *Nodes
	c      *Class
	is     core.TopologyRequest
	limits []core.Limit
	free   []int64
	best   []int64
	found  bool
}

func (x *naive) search(at int, left int32, given []int32) {
	if at == len(x.s.order) {
		if left == 0 && x.holds(given) {
			if is := x.price(given); !x.found || slices.Compare(is, x.best) < 0 {
				x.best, x.found = is, true
			}
		}
		return
	}
	n := x.s.order[at]
	most := int32(0)
	if n.TakesWork() {
		most = int32(x.free[at] / max(1, x.c.pack))
	}
	for k := int32(0); k <= min(most, left); k++ {
		given[at] = k
		x.search(at+1, left-k, given)
	}
	given[at] = 0
}

// domain is the domain of a node down to a level, "" if it is in none.
func domainName(n *Node, level int) string {
	out := ""
	for _, label := range blocks.Levels[:level+1] {
		v, has := n.spec.Labels[label]
		if !has {
			return ""
		}
		out += "/" + v
	}
	return out
}

// used are the pods by domain of a level, "" for those in none.
func (x *naive) used(given []int32, level int) map[string]int32 {
	out := map[string]int32{}
	for i, k := range given {
		if k > 0 {
			out[domainName(x.s.order[i], level)] += k
		}
	}
	return out
}

func (x *naive) holds(given []int32) bool {
	if i := slices.Index(blocks.Levels, x.is.Required); i >= 0 {
		if u := x.used(given, i); len(u) > 1 || u[""] > 0 {
			return false
		}
	}
	for _, l := range x.limits {
		if !x.within(given, l) {
			return false
		}
	}
	for _, slice := range x.is.Slices {
		u := x.used(given, slices.Index(blocks.Levels, slice.Level))
		if u[""] > 0 {
			return false
		}
		for _, k := range u {
			if k%slice.Size != 0 {
				return false
			}
		}
	}
	return true
}

// within reports whether a limit of domains holds.
func (x *naive) within(given []int32, l core.Limit) bool {
	level := slices.Index(blocks.Levels, l.Level)
	pods, counted := map[string]int32{}, map[string]bool{}
	for i, n := range x.s.order {
		name, has := n.spec.Labels[l.Level]
		if level >= 0 {
			name = domainName(n, level)
			has = name != ""
		}
		switch {
		case has:
			pods[name] += given[i]
			counted[name] = counted[name] || l.Unselected ||
				n.spec.Labels["old"] == "" && (!l.Tolerated || len(n.spec.Taints) == 0 && n.spec.State.TakesWork())
		case l.Skew > 0 && given[i] > 0:
			return false
		}
	}
	if l.Skew == 0 {
		for _, n := range pods {
			if n*l.Count > l.Most {
				return false
			}
		}
		return true
	}
	over := slices.DeleteFunc(
		slices.Collect(maps.Keys(counted)),
		func(name string) bool { return !counted[name] },
	)
	least, most := int32(0), int32(0)
	for i, name := range over {
		if i == 0 || pods[name] < least {
			least = pods[name]
		}
	}
	for _, n := range pods {
		most = max(most, n)
	}
	if len(over) < int(l.MinDomains) {
		return most <= l.Skew
	}
	return len(over) < 2 || most-least <= l.Skew
}

// balance is how well shares of domains of the balanced level are equal: whether one of them holds all or, if not,
// whether shares differ by one slice at most, how wide the domain of all is, and how many there are. Where pods are
// spread, one domain is not enough, several are better than few, and no narrower one counts than is preferred.
func (x *naive) balance(given []int32) []int64 {
	level, unit := slices.Index(blocks.Levels, x.is.Balanced+x.is.Spread), int32(1)
	for _, slice := range x.is.Slices {
		if slices.Index(blocks.Levels, slice.Level) >= level {
			unit = slice.Size
			break
		}
	}
	u := x.used(given, level)
	span := -1
	for l := range blocks.Levels {
		if v := x.used(given, l); len(v) == 1 && v[""] == 0 {
			span = l
		}
	}
	counts := slices.Sorted(maps.Values(u))
	switch equal := u[""] == 0 && counts[len(counts)-1]-counts[0] <= unit; {
	case x.is.Spread != "" && (!equal || len(counts) < 2):
		return []int64{2, 0, 0}
	case x.is.Spread != "":
		preferred := slices.Index(blocks.Levels, x.is.Preferred)
		return []int64{
			1,
			-int64(min(span, max(preferred, slices.Index(blocks.Levels, x.is.Required)))),
			-int64(len(counts)),
		}
	case span >= level:
		return []int64{0, 0, 0}
	case u[""] == 0 && counts[len(counts)-1]-counts[0] <= unit:
		return []int64{1, -int64(span), int64(len(counts))}
	}
	return []int64{2, 0, 0}
}

// price is, least first: how wide the narrowest domain of all pods is, domains used by level, warned nodes,
// whole domains and whole nodes broken, nodes used, and what is left on them.
func (x *naive) price(given []int32) []int64 {
	span := -1
	for level := range blocks.Levels {
		if u := x.used(given, level); len(u) == 1 && u[""] == 0 {
			span = level
		}
	}
	out := make([]int64, 8)
	out[0] = -int64(span)
	for level := span + 1; level < len(blocks.Levels); level++ {
		u := x.used(given, level)
		delete(u, "")
		out[1+level] = int64(len(u))
	}
	for i, k := range given {
		if k == 0 {
			continue
		}
		n := x.s.order[i]
		if n.spec.State == core.NodeWarned {
			out[3]++
		}
		out[6]++
		left := x.free[i] - int64(k)*x.c.pack
		out[7] += left
		if x.free[i] == 8 && left > 0 {
			out[5]++
		}
	}
	for level := max(span, 0); level < len(blocks.Levels); level++ {
		for name, k := range x.used(given, level) {
			if name != "" && x.breaks(name, level, k) {
				out[4]++
			}
		}
	}
	return out
}

// breaks reports whether so many pods leave room in a domain that was whole.
func (x *naive) breaks(name string, level int, k int32) bool {
	room, whole := int64(0), true
	for i, n := range x.s.order {
		if domainName(n, level) != name || !n.TakesWork() || x.free[i] < x.c.pack {
			continue
		}
		narrow := -1
		for l := range blocks.Levels {
			if domainName(n, l) != "" {
				narrow = l
			}
		}
		if narrow < x.c.near.depth {
			continue
		}
		room += x.free[i] / x.c.pack
		whole = whole && x.free[i] == 8
	}
	// Of a domain that slices cut, the rest is of no use.
	for _, l := range slices.Backward(x.c.near.layers) {
		if l.level >= level {
			return whole && int64(k) < x.sliced(name, level)
		}
	}
	return whole && int64(k) < room
}

func (x *naive) sliced(name string, level int) int64 {
	ix := x.s.index(x.c, Free)
	for i := range x.c.near.tree.domains {
		d := int32(i)
		text := ""
		for at := d; at != root; at = x.c.near.tree.domains[at].in {
			text = "/" + x.c.near.tree.domains[at].value + text
		}
		if text == name && x.c.near.tree.domains[d].level == level {
			return ix.domains.of(x.c.near, d)
		}
	}
	return 0
}

// TestPlacesAreTheBestThereAre compares with every way to place a gang in small ragged trees.
func TestPlacesAreTheBestThereAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var words []string
		for i := range rapid.IntRange(1, 7).Draw(t, "nodes") {
			word := fmt.Sprintf("%s/%s/n%d=%d",
				rapid.SampledFrom([]string{"x", "x", "y", "y", ""}).Draw(t, "block"),
				rapid.SampledFrom([]string{"1", "2", "3", ""}).Draw(t, "rack"), i,
				rapid.SampledFrom([]int{0, 2, 4, 5, 8, 8, 8}).Draw(t, "free"))
			word += rapid.SampledFrom([]string{"", "", "", "", "!", "-"}).Draw(t, "state")
			words = append(words, word+rapid.SampledFrom([]string{"", "", "~1", "~2"}).Draw(t, "faults"))
		}
		is := rapid.SampledFrom([]core.TopologyRequest{
			{Required: "rack"},
			{Required: "block"},
			{Preferred: "rack"},
			{Required: "block", Preferred: "rack"},
			{Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
			{Required: "block", Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
			{Slices: []core.PodSetSlice{{Level: "block", Size: 4}, {Level: "rack", Size: 2}}},
			{Balanced: "rack"},
			{Balanced: "rack", Required: "block"},
			{Balanced: "block"},
			{Balanced: "block", Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
			{Spread: "rack"},
			{Spread: "rack", Preferred: "block"},
			{Spread: "rack", Required: "block"},
			{Spread: "block", Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
		}).Draw(t, "request")
		limits := rapid.SampledFrom([][]core.Limit{
			nil, nil, nil,
			{{Name: "apart", Own: true, Count: 1, Most: 1, Level: "rack"}},
			{{Name: "apart", Own: true, Count: 2, Most: 7, Level: "block"}},
			{{Name: "apart", Own: true, Count: 1, Most: 1, Level: "zone"}},
			{{Name: "spread", Own: true, Count: 1, Skew: 1, Level: "rack"}},
			{{Name: "spread", Own: true, Count: 1, Skew: 2, Level: "block"}},
			{{Name: "spread", Own: true, Count: 1, Skew: 1, Level: "zone"}},
			{{Name: "spread", Own: true, Count: 1, Skew: 2, Level: "rack", MinDomains: 3}},
			{{Name: "spread", Own: true, Count: 1, Skew: 2, Level: "rack", Unselected: true}},
			{{Name: "spread", Own: true, Count: 1, Skew: 1, Level: "block", Tolerated: true, MinDomains: 2}},
			{
				{Name: "apart", Own: true, Count: 1, Most: 2, Level: "rack"},
				{Name: "spread", Own: true, Count: 1, Skew: 1, Level: "block"},
			},
		}).Draw(t, "limits")
		zones := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a", "b", "c", ""}), len(words), len(words)).
			Draw(t, "zones")
		s := inRacks(t, strings.Join(words, " "))
		unused := map[string]bool{} // nodes that the pods do not select, or do not tolerate
		for i, zone := range zones {
			n := s.Node(fmt.Sprintf("n%d", i)).spec
			switch kind := rapid.SampledFrom([]string{"", "", "", "", "old", "tainted"}).Draw(t, "kind"); kind {
			case "old":
				n.Labels["old"], unused[n.Name] = "yes", true
				s.Set(n)
			case "tainted":
				n.Taints, unused[n.Name] = []core.Taint{{Key: "mine", Effect: core.NoSchedule}}, true
				s.Set(n)
			}
			if block := n.Labels["block"]; block != "" { // a block is in one zone
				zone = zones[strings.Index("xy", block)%len(zones)]
			}
			if zone != "" {
				n.Labels["zone"] = zone
				s.Set(n)
			}
		}
		c := s.Class(
			gpus(rapid.SampledFrom([]core.Amount{2, 4, 8}).Draw(t, "gpus")),
			core.Constraints{
				Topology: is, Limits: limits,
				Filter: core.Filter{Must: core.Selector{{Key: "old", Operator: core.DoesNotExist}}},
			},
			blocks,
		)
		spreads := len(limits) > 0 && limits[len(limits)-1].Skew > 0
		set := Set{Class: c, Count: rapid.Int32Range(1, 8).Draw(t, "pods")}
		s.settle()
		x := &naive{s: s, c: c, is: is, limits: limits}
		for _, n := range s.order {
			free := n.free[core.Current][s.packID]
			if unused[n.spec.Name] {
				free = 0
			}
			x.free = append(x.free, free)
		}
		x.search(0, set.Count, make([]int32, len(s.order)))
		greedy := rapid.Bool().Draw(t, "greedy")
		if greedy { // as for gangs for which the search would take too long
			s.merges = 0
		}
		spots, short, ok := s.Place(Request{View: Free, Sets: []Set{set}})
		if ok != x.found || ok != s.Can(set, Free) {
			t.Fatalf("placed: %t (%+v), a place there is: %t, Can: %t", ok, short, x.found, s.Can(set, Free))
		}
		if !ok {
			return
		}
		given := make([]int32, len(s.order))
		for _, sp := range spots[0] {
			given[sp.Node.rank] += sp.Count
		}
		if !x.holds(given) {
			t.Fatalf("%s is not as near as %+v asks", spotsText(spots[0]), is)
		}
		for _, slice := range is.Slices { // whatever nodes are called, pods whose ranks follow each other are near
			if run := scattered(spots[0], slices.Index(blocks.Levels, slice.Level), slice.Size); run >= 0 {
				t.Fatalf("run %d of %d pods is not in one %s: %s", run, slice.Size, slice.Level, spotsText(spots[0]))
			}
		}
		if is.Balanced+is.Spread != "" && len(limits) == 0 && !greedy {
			if best, got := x.evenest(set.Count), x.balance(given); !slices.Equal(best, got) {
				t.Fatalf("%s is balanced as %v, and there is a place for %v", spotsText(spots[0]), got, best)
			}
		}
		switch got := x.price(given); {
		case is.Balanced+is.Spread != "" || spreads || len(limits) > 0 && (limits[0].Level == "zone" || len(is.Slices) > 0): // not decided by price alone
		case greedy && got[0] != x.best[0]:
			t.Fatalf("%s spans a wider domain than it has to", spotsText(spots[0]))
		case !greedy && !slices.Equal(got, x.best):
			t.Fatalf("%s costs %v, and there is a place for %v", spotsText(spots[0]), got, x.best)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

// evenest is the best balance of all ways to place a set.
func (x *naive) evenest(count int32) (best []int64) {
	given := make([]int32, len(x.s.order))
	var search func(at int, left int32)
	search = func(at int, left int32) {
		if at == len(given) {
			if left > 0 || !x.holds(given) {
				return
			}
			if is := x.balance(given); best == nil || slices.Compare(is, best) < 0 {
				best = is
			}
			return
		}
		most := int32(0)
		if x.s.order[at].TakesWork() {
			most = int32(x.free[at] / max(1, x.c.pack))
		}
		for k := int32(0); k <= min(most, left); k++ {
			given[at] = k
			search(at+1, left-k)
		}
		given[at] = 0
	}
	search(0, count)
	return best
}

// scattered is a run of so many pods, in the order of places, that is not in one domain; -1 if all are.
func scattered(spots []Spot, level int, size int32) int {
	in, rank := "", int32(0)
	for _, sp := range spots {
		for range sp.Count {
			switch is := domainName(sp.Node, level); {
			case rank%size == 0:
				in = is
			case in != is:
				return int(rank / size)
			}
			rank++
		}
	}
	return -1
}

// BenchmarkNear plans gangs on 10,000 nodes in racks of 16 and blocks of 160, of which every third node is in use;
// on full ones all but one GPU of each is, so that a gang of 1,024 pods needs seven blocks. It reports the median and
// the 99th percentile of a plan.
func BenchmarkNear(b *testing.B) {
	for name, bc := range map[string]struct {
		is   core.TopologyRequest
		gpus core.Amount
		pods int32
		full bool
		can  bool
		// lemons is of how many nodes one has faults.
		lemons int
	}{
		"pods=1024/gpus=8/preferred/lemons": {
			is: core.TopologyRequest{Preferred: "rack"}, gpus: 8, pods: 1024, can: true, lemons: 50,
		},
		"pods=1024/gpus=1/preferred/lemons": {
			is: core.TopologyRequest{Preferred: "rack"}, gpus: 1, pods: 1024, can: true, lemons: 50,
		},
		"pods=8/gpus=8/rack/lemons": {
			is: core.TopologyRequest{Required: "rack"}, gpus: 8, pods: 8, can: true, lemons: 50,
		},
		"pods=1024/gpus=8/preferred": {is: core.TopologyRequest{Preferred: "rack"}, gpus: 8, pods: 1024, can: true},
		"pods=1024/gpus=1/preferred": {is: core.TopologyRequest{Preferred: "rack"}, gpus: 1, pods: 1024, can: true},
		"pods=1024/gpus=1/root": {
			is: core.TopologyRequest{Preferred: "rack"}, gpus: 1, pods: 1024, full: true, can: true,
		},
		"pods=64/gpus=8/block": {is: core.TopologyRequest{Required: "block"}, gpus: 8, pods: 64, can: true},
		"pods=1/gpus=1/any":    {gpus: 1, pods: 1, can: true},
		"pods=8/gpus=8/rack":   {is: core.TopologyRequest{Required: "rack"}, gpus: 8, pods: 8, can: true},
		"pods=17/gpus=8/never": {is: core.TopologyRequest{Required: "rack"}, gpus: 8, pods: 17},
	} {
		b.Run(name, func(b *testing.B) {
			var text strings.Builder
			for i := range 10_000 {
				free := []int{8, 8, 4 + i/7%4}[i%3]
				if bc.full {
					free = 1
				}
				fmt.Fprintf(&text, " b%d/r%d/n%d=%d", i/160, i/16, i, free)
				if bc.lemons > 0 && i%bc.lemons == 0 {
					fmt.Fprintf(&text, "~%d", 1+i/bc.lemons%3)
				}
			}
			s := inRacks(b, text.String())
			set := Set{Class: s.Class(gpus(bc.gpus), core.Constraints{Topology: bc.is}, blocks), Count: bc.pods}
			r, moved := Request{View: Free, Sets: []Set{set}}, Hold{s.Node("n0"), set.Class, 1}
			var took []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				s.book(core.Projected, moved, 1) // a pod came and went
				s.book(core.Projected, moved, -1)
				if _, _, ok := s.Place(r); ok != bc.can {
					b.Fatal("placed:", ok)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "µs-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "µs-p99")
		})
	}
}

// BenchmarkEvent is what it costs that a node of 10,000 changes, or that a pod comes to it or goes, until all classes of
// pods know: each counts its slots in racks and blocks.
func BenchmarkEvent(b *testing.B) {
	const classes = 20
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, " b%d/r%d/n%d=8", i/160, i/16, i)
	}
	s := inRacks(b, text.String())
	var all []*Class
	for i := range classes {
		asks := gpus(core.Amount(1+i%8)).With(core.CPU, core.Amount(1+i/8))
		all = append(
			all,
			s.Class(asks, core.Constraints{Topology: core.TopologyRequest{Preferred: "rack"}}, blocks),
		)
	}
	known := func() {
		for _, c := range all {
			s.index(c, Free)
		}
	}
	n := *s.Node("n77").Spec()
	moved, taken := Hold{s.Node("n77"), all[0], 1}, core.Amount(0)
	for name, happens := range map[string]func(){
		"node": func() {
			taken = 1 - taken
			n.Foreign = core.MakeResources(map[string]core.Amount{core.GPU: taken})
			s.Set(n)
		},
		"pod": func() {
			taken = 1 - taken
			s.book(core.Projected, moved, int64(2*taken-1))
		},
	} {
		b.Run(name, func(b *testing.B) {
			known()
			taken = 0
			for b.Loop() {
				happens()
				known()
			}
			if taken == 1 {
				happens()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*classes), "ns/class")
		})
	}
}
