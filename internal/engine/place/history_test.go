package place

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// stay is what the model knows of a hold, by node and kind of pod.
type stay struct {
	node  string
	kind  int
	count int32
	in    []core.Account
}

// history is nodes to which things happen, and a model that counts anew each time.
type history struct {
	t       *rapid.T
	nodes   *Nodes
	specs   map[string]core.Node
	stays   []stay
	asks    []core.Resources
	filters []core.Filter
	limits  [][]core.Limit
	classes []*Class
}

// TestHistory: whatever happens to nodes and to what is held on them, the indexes of
// all classes say what counting anew does, and pods go where they should.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, nodes: New(core.GPU), specs: map[string]core.Node{}}
		only := core.Filter{Must: core.Selector{{Key: "kind", Operator: core.In, Values: []string{"a"}}}}
		brave := core.Filter{Tolerations: []core.Toleration{{Key: "odd", Exists: true}}}
		h.add(core.Resources{}.With(core.GPU, 1), core.Filter{})
		h.add(core.Resources{}.With(core.CPU, 3), only)
		h.add(core.Resources{}.With(core.GPU, 2).With(core.CPU, 1), brave)
		port, apart := core.Limit{Name: "port", Count: 1, Most: 1}, core.Limit{Name: "apart", Count: 9, Most: 9}
		h.add(core.Resources{}.With(core.GPU, 1), core.Filter{}, port)
		h.add(core.Resources{}.With(core.CPU, 1), core.Filter{}, apart, port)
		h.add(
			core.Resources{}.With(core.CPU, 1),
			only,
			core.Limit{Name: "apart", Count: 1, Most: 9},
			core.Limit{Name: "spread", Own: true, Count: 1, Most: 2},
		)
		h.add(
			core.Resources{}.With(core.GPU, 1),
			core.Filter{Refused: []core.NodeRefusal{{Node: "n0", Most: 1}, {Node: "n64"}}},
		)
		// More than a word of bits, so that some nodes are in the second.
		for i := range 66 {
			h.set(fmt.Sprint("n", i), core.NodeReady, core.Amount(i%3), "b", 0)
		}
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			for range rapid.IntRange(1, 4).Draw(t, "at once") {
				h.happen()
			}
			h.compare(rapid.IntRange(0, len(h.classes)-1).Draw(t, "looks at"))
		}
		for i := range h.classes {
			h.compare(i)
		}
		if err := h.nodes.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

func (h *history) add(r core.Resources, f core.Filter, limits ...core.Limit) {
	h.limits = append(h.limits, limits)
	h.asks, h.filters, h.classes = append(
		h.asks,
		r.With(core.Pods, 1),
	), append(
		h.filters,
		f,
	), append(
		h.classes,
		h.nodes.Class(r, core.Constraints{Filter: f, Limits: limits}, core.Topology{}),
	)
}

func (h *history) set(
	name string,
	state core.NodeState,
	gpus core.Amount,
	kind string,
	foreign core.Amount,
	taints ...core.Taint,
) {
	n := core.Node{
		Name: name, State: state, Labels: map[string]string{"kind": kind}, Taints: taints,
		Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: gpus, core.CPU: 8, core.Pods: 10}),
	}
	if foreign > 0 {
		n.Foreign = core.Resources{}.With(core.CPU, foreign).With("nobody-asks", 1)
		n.ForeignLimits = []core.Limit{
			{Name: "port", Count: int32(foreign % 2), Most: 1},
			{Name: "apart", Count: int32(foreign), Most: 9},
		}
	}
	h.specs[name] = n
	h.nodes.Set(n)
}

func (h *history) happen() {
	t := h.t
	name := fmt.Sprint("n", rapid.SampledFrom([]int{0, 1, 2, 63, 64, 65, 70}).Draw(t, "node"))
	switch rapid.SampledFrom(
		[]string{"set", "set", "take", "take", "take", "give", "give", "gone", "sweep", "class"},
	).
		Draw(t, "event") {
	case "set":
		state := rapid.SampledFrom(
			[]core.NodeState{core.NodeReady, core.NodeReady, core.NodeWarned, core.NodeClosed},
		).
			Draw(t, "state")
		h.set(
			name,
			state,
			core.Amount(rapid.SampledFrom([]int{0, 4, 70, 80}).Draw(t, "gpus")),
			rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind"),
			core.Amount(
				rapid.IntRange(0, 3).Draw(t, "foreign"),
			),
			rapid.SampledFrom([][]core.Taint{nil, {{Key: "odd", Value: "x", Effect: "NoSchedule"}}}).
				Draw(t, "taints")...)
	case "gone":
		h.nodes.Gone(name)
		delete(h.specs, name)
	case "take":
		s := stay{
			node:  name,
			kind:  rapid.IntRange(0, len(h.classes)-1).Draw(t, "class"),
			count: int32(rapid.IntRange(1, 2).Draw(t, "pods")),
			in: rapid.SampledFrom(
				[][]core.Account{
					{core.Current, core.Projected},
					{core.Current, core.Projected},
					{core.Current},
					{core.Projected},
				},
			).
				Draw(t, "accounts"),
		}
		h.stays = append(h.stays, s)
		h.book(s, 1)
	case "give":
		if len(h.stays) > 0 {
			i := rapid.IntRange(0, len(h.stays)-1).Draw(t, "which")
			h.book(h.stays[i], -1)
			h.stays = slices.Delete(h.stays, i, i+1)
		}
	case "sweep":
		h.nodes.Sweep()
	case "class": // of a resource that no pod asked for before
		h.add(core.Resources{}.With(fmt.Sprint("new-", len(h.classes)), 1), core.Filter{})
	}
}

func (h *history) book(s stay, sign int) {
	holds := []Hold{{h.nodes.Node(s.node), h.classes[s.kind], s.count}}
	for _, l := range s.in {
		if sign > 0 {
			h.nodes.Take(l, holds, int32(s.kind))
		} else {
			h.nodes.Give(l, holds, int32(s.kind))
		}
	}
	if len(s.in) == 1 {
		h.nodes.Split(sign)
	}
}

// free is what is left of a resource on a node in an account.
func (h *history) free(n core.Node, resource string, l core.Account) core.Amount {
	left := n.Allocatable.Of(resource).Sub(n.Foreign.Of(resource))
	for _, s := range h.stays {
		if s.node == n.Name && slices.Contains(s.in, l) {
			left = left.Sub(h.asks[s.kind].Of(resource).Mul(int64(s.count)))
		}
	}
	return left
}

func (h *history) slots(n core.Node, kind int, v View) int64 {
	if !n.State.TakesWork() || !h.filters[kind].Admits(&n) {
		return 0
	}
	most := core.Unlimited
	for _, q := range h.asks[kind] {
		most = min(most, h.usable(n, q.Resource, v)/q.Amount)
	}
	return min(int64(most), h.within(n, kind, func(limit string) int64 {
		taken := h.taken(n, limit, core.Projected)
		if v == Free {
			taken = max(taken, h.taken(n, limit, core.Current))
		}
		return taken
	}))
}

// within is how many pods limits and answers let be on a node.
func (h *history) within(n core.Node, kind int, taken func(limit string) int64) int64 {
	most := int64(1 << 40)
	for _, l := range h.limits[kind] {
		most = min(most, max(0, int64(l.Most)-taken(l.Name))/int64(l.Count))
	}
	for _, r := range h.filters[kind].Refused {
		if r.Node == n.Name {
			most = min(most, int64(r.Most))
		}
	}
	return most
}

func (h *history) taken(n core.Node, limit string, l core.Account) int64 {
	taken := int64(0)
	for _, f := range n.ForeignLimits {
		if f.Name == limit {
			taken += int64(f.Count)
		}
	}
	for _, s := range h.stays {
		for _, x := range h.limits[s.kind] {
			if s.node == n.Name && x.Name == limit && !x.Own && slices.Contains(s.in, l) {
				taken += int64(x.Count) * int64(s.count)
			}
		}
	}
	return taken
}

func (h *history) usable(n core.Node, resource string, v View) core.Amount {
	free := h.free(n, resource, core.Projected)
	if v == Free {
		free = min(free, h.free(n, resource, core.Current))
	}
	return max(0, free)
}

// place puts pods on the nodes with the fewest GPUs left, ready ones first.
func (h *history) place(kind int, v View, count int32) string {
	nodes := slices.Collect(maps.Values(h.specs))
	slices.SortFunc(nodes, func(a, b core.Node) int {
		left := func(n core.Node) core.Amount { return min(64, h.usable(n, core.GPU, v)) }
		return cmp.Or(
			order(a.State != core.NodeReady, b.State != core.NodeReady),
			cmp.Compare(left(a), left(b)),
			core.CompareNames(a.Name, b.Name),
		)
	})
	var spots []string
	for _, n := range nodes {
		if k := min(count, int32(h.slots(n, kind, v))); k > 0 {
			spots = append(spots, fmt.Sprint(n.Name, "*", k))
			count -= k
		}
	}
	slices.Sort(spots)
	return fmt.Sprint(spots)
}

func (h *history) compare(kind int) {
	c, ideal, nodes, down := h.classes[kind], int64(0), int32(0), int32(0)
	for _, n := range h.specs {
		if h.filters[kind].Admits(&n) {
			empty := core.Unlimited
			for _, q := range h.asks[kind] {
				empty = min(empty, n.Allocatable.Of(q.Resource)/q.Amount)
			}
			ideal += min(int64(empty), h.within(n, kind, func(string) int64 { return 0 }))
			nodes++
			if !n.State.TakesWork() {
				down++
			}
		}
	}
	if a, b, d := h.nodes.Total(c); a != ideal || b != nodes || d != down {
		h.t.Fatalf(
			"class %d: empty nodes have %d places, %d nodes match, %d out of service; should be %d, %d, %d",
			kind,
			a,
			b,
			d,
			ideal,
			nodes,
			down,
		)
	}
	for _, v := range []View{Free, After} {
		want := int64(0)
		for _, n := range h.specs {
			want += h.slots(n, kind, v)
		}
		if got := h.nodes.slots(c, v); got != want {
			h.t.Fatalf("class %d, view %d: %d pods fit, should be %d", kind, v, got, want)
		}
		for _, count := range []int64{1, 3, want} {
			if count > want || count == 0 {
				continue
			}
			spots, _, ok := h.nodes.Place(Request{View: v, Sets: []Set{{Class: c, Count: int32(count)}}})
			var got []string
			for _, list := range spots {
				for _, s := range list {
					got = append(got, fmt.Sprint(s.Node.Name(), "*", s.Count))
				}
			}
			slices.Sort(got)
			if want := h.place(kind, v, int32(count)); !ok || fmt.Sprint(got) != want {
				h.t.Fatalf("class %d, view %d: %d pods go to %v, should go to %s", kind, v, count, got, want)
			}
		}
	}
	var listed []string
	for _, n := range h.nodes.Specs() {
		listed = append(listed, n.Name)
	}
	if want := slices.Sorted(maps.Keys(h.specs)); !slices.Equal(listed, want) {
		h.t.Fatalf("nodes are %v, should be %v", listed, want)
	}
	users := map[string]int{}
	for _, s := range h.stays {
		if slices.Contains(s.in, core.Current) {
			users[s.node]++
		}
	}
	for name, n := range h.nodes.byName {
		if len(n.Users()) != users[name] {
			h.t.Fatalf("%d hold something on %s, should be %d", len(n.Users()), name, users[name])
		}
		over := slices.ContainsFunc(h.asks, func(r core.Resources) bool {
			return slices.ContainsFunc(
				r,
				func(q core.Quantity) bool { return h.free(h.model(name), q.Resource, core.Projected) < 0 },
			)
		})
		for _, limits := range h.limits {
			for _, l := range limits {
				held := h.taken(core.Node{Name: name}, l.Name, core.Projected)
				over = over || held > 0 && h.taken(h.model(name), l.Name, core.Projected) > int64(l.Most)
			}
		}
		if n.Over(core.Projected) != over && h.specs[name].Name != "" {
			h.t.Fatalf("%s has more promised than it has: %t", name, !over)
		}
	}
}

func (h *history) model(name string) core.Node {
	n := h.specs[name]
	n.Name = name
	return n
}
