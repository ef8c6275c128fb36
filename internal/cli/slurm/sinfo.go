package slurm

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Partition is a queue, with the nodes that its jobs may be on.
type Partition struct {
	Name string
	// Up says that its jobs may start.
	Up bool
	// Nodes are nil if the user may not read them.
	Nodes []view.Node
	// Nominal is what quota of GPUs its queue has, by their resource: all that can be told of its
	// size to whoever may not read nodes.
	Nominal map[string]int64
}

// quota is the size of a partition of which no nodes are known.
func (p *Partition) quota() string {
	var gpus int64
	var parts map[string]int64
	for resource, n := range p.Nominal { // sums
		if name := view.Slice(resource); name != "" {
			parts = view.AddSlices(parts, map[string]int64{name: n})
		} else {
			gpus += n
		}
	}
	return devices("gpu", ":", gpus, parts)
}

// group are nodes of a partition that are in the same state.
type group struct {
	partition string
	up        bool
	state     string
	nodes     []string
	gpus      int64
	slices    map[string]int64
	known     bool
	// quota is what is told of devices where nodes are not known.
	quota string
}

// NodeState is that of a node in Slurm's words.
func NodeState(n view.Node) string {
	held := n.Pods != nil && *n.Pods > 0
	devices, free := n.GPUs, n.Free
	for name, all := range n.Slices { // sums
		if devices += all; free != nil {
			free = new(*free + n.FreeSlices[name])
		}
	}
	if devices > 0 && free != nil {
		held = *free < devices
	}
	switch {
	case n.State == core.NodeLost:
		return "down"
	case !n.State.TakesWork() && held:
		return "drng"
	case !n.State.TakesWork():
		return "drain"
	case n.Pods == nil:
		return "unk"
	case !held:
		return "idle"
	case devices > 0 && *free <= 0:
		return "alloc"
	}
	return "mix"
}

// groups are the lines of partitions.
func groups(partitions []Partition, each bool) (out []group) { //nolint:revive // a line for each node
	for _, p := range partitions {
		if p.Nodes == nil {
			out = append(out, group{partition: p.Name, up: p.Up, quota: p.quota()})
			continue
		}
		by := map[string]*group{}
		for _, n := range p.Nodes {
			key := NodeState(n)
			if each {
				key += " " + n.Name
			}
			g := by[key]
			if g == nil {
				g = &group{partition: p.Name, up: p.Up, state: NodeState(n), known: true}
				by[key] = g
			}
			g.nodes, g.gpus, g.slices = append(g.nodes, n.Name), g.gpus+n.GPUs, view.AddSlices(g.slices, n.Slices)
		}
		var some []group
		for _, g := range by { // sorted below
			slices.Sort(g.nodes)
			some = append(some, *g)
		}
		slices.SortFunc(some, func(a, b group) int {
			return cmp.Or(cmp.Compare(a.state, b.state), slices.Compare(a.nodes, b.nodes))
		})
		if len(some) == 0 {
			some = []group{{partition: p.Name, up: p.Up, known: true}}
		}
		out = append(out, some...)
	}
	return out
}

func nodeFields() []field[group] {
	count := func(g group) string {
		if !g.known {
			return "n/a"
		}
		return strconv.Itoa(len(g.nodes))
	}
	return []field[group]{
		{key: "P", title: "PARTITION", text: func(g group) string { return g.partition }},
		{key: "R", title: "PARTITION", text: func(g group) string { return g.partition }},
		{key: "a", title: "AVAIL", text: func(g group) string {
			if g.up {
				return "up"
			}
			return "inact"
		}},
		{key: "l", title: "TIMELIMIT", text: func(group) string { return "infinite" }},
		{key: "D", title: "NODES", text: count},
		{key: "t", title: "STATE", text: func(g group) string { return cmp.Or(g.state, "n/a") }},
		{key: "T", title: "STATE", text: func(g group) string {
			long := map[string]string{
				"mix":   "mixed",
				"alloc": "allocated",
				"drng":  "draining",
				"drain": "drained",
				"unk":   "unknown",
			}
			return cmp.Or(long[g.state], g.state, "n/a")
		}},
		{key: "N", title: "NODELIST", text: func(g group) string { return strings.Join(g.nodes, ",") }},
		{key: "G", title: "GRES", text: func(g group) string {
			each := int64(max(1, len(g.nodes)))
			parts := map[string]int64{}
			for name, n := range g.slices { // a set
				parts[name] = n / each
			}
			return cmp.Or(g.quota, devices("gpu", ":", g.gpus/each, parts), "(null)")
		}},
	}
}

// Nodes is how nodes are printed.
type Nodes struct {
	Format string
	// Each prints a line for each node.
	Each  bool
	Bare  bool
	Width int
	// Colours prints states in their colours.
	Colours bool
	// States are those wanted, in either form; all if there are none.
	States []string
}

// Print prints partitions.
func (n *Nodes) Print(w io.Writer, partitions []Partition) error {
	rows := groups(partitions, n.Each)
	fields := nodeFields()
	if len(n.States) > 0 {
		long := find(fields, "T", false)
		rows = slices.DeleteFunc(rows, func(g group) bool {
			return !slices.ContainsFunc(n.States, func(s string) bool {
				return strings.EqualFold(s, g.state) || strings.EqualFold(s, long.text(g))
			})
		})
	}
	if n.Format != "" {
		return printFormat(w, fields, n.Format, rows, n.Bare)
	}
	which := "P a l D t N"
	if slices.ContainsFunc(rows, func(g group) bool { return g.quota != "" }) {
		which = "P a l D t G"
	}
	if n.Each {
		which = "N D P t G"
	}
	return cli.PrintTable(
		w,
		columns(fields, which, map[string]int{"a": 3, "l": 4, "G": 2}),
		rows,
		cli.Layout{Width: n.Width, Bare: n.Bare, Colours: n.Colours},
	)
}
