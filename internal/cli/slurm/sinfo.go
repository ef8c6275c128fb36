package slurm

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/core"
)

// Partition is a queue, with the nodes that its jobs may be on.
type Partition struct {
	Name string
	// Up says that its jobs may start.
	Up bool
	// Nodes are nil if the user may not read them.
	Nodes []cli.NodeRow
}

// group are nodes of a partition that are in the same state.
type group struct {
	partition string
	up        bool
	state     string
	nodes     []string
	gpus      int64
	known     bool
}

// NodeState is that of a node in Slurm's words.
func NodeState(n cli.NodeRow) string {
	held := n.Pods != nil && *n.Pods > 0
	if n.GPUs > 0 && n.Free != nil {
		held = *n.Free < n.GPUs
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
	case n.GPUs > 0 && *n.Free <= 0:
		return "alloc"
	}
	return "mix"
}

// groups are the lines of partitions.
func groups(partitions []Partition, each bool) (out []group) { //nolint:revive // a line for each node
	for _, p := range partitions {
		if p.Nodes == nil {
			out = append(out, group{partition: p.Name, up: p.Up})
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
			g.nodes, g.gpus = append(g.nodes, n.Name), g.gpus+n.GPUs
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
			long := map[string]string{"mix": "mixed", "alloc": "allocated", "drng": "draining", "drain": "drained", "unk": "unknown"}
			return cmp.Or(long[g.state], g.state, "n/a")
		}},
		{key: "N", title: "NODELIST", text: func(g group) string { return strings.Join(g.nodes, ",") }},
		{key: "G", title: "GRES", text: func(g group) string {
			if g.gpus == 0 {
				return "(null)"
			}
			return "gpu:" + strconv.FormatInt(g.gpus/int64(len(g.nodes)), 10)
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
	if n.Each {
		which = "N D P t G"
	}
	return cli.PrintTable(w, columns(fields, which, map[string]int{"a": 3, "l": 4, "G": 2}), rows, cli.Layout{Width: n.Width, Bare: n.Bare})
}
