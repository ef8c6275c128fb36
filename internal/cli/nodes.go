package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// NodeColumns are those of a list of nodes.
func NodeColumns(now time.Time) []Column[view.Node] {
	return []Column[view.Node]{
		{Title: "NAME", Text: func(r view.Node) string { return r.Name }},
		{Title: "STATE", State: true, Text: func(r view.Node) string { return string(r.State) }},
		{
			Title: "GPUS",
			Rank:  1,
			Text:  func(r view.Node) string { return devices(r.GPUs, r.Slices) },
			Less:  func(a, b view.Node) int { return cmp.Compare(a.GPUs, b.GPUs) },
		},
		{
			Title: "FREE", Text: func(r view.Node) string {
				if r.Free == nil {
					return ""
				}
				return devices(*r.Free, r.FreeSlices)
			},
			Less: func(a, b view.Node) int { return cmp.Compare(ptr.Deref(a.Free, 0), ptr.Deref(b.Free, 0)) },
		},
		KnownNumberColumn(Column[view.Node]{Title: "PODS", Rank: 3}, func(r view.Node) *int { return r.Pods }),
		AgeColumn(
			Column[view.Node]{Title: "AGE", Rank: 4},
			now,
			func(r view.Node) *time.Time { return &r.Created },
		),
		{Title: "WHY", Rank: 2, Text: func(r view.Node) string {
			if r.Drained != nil {
				return r.Drained.Words(now)
			}
			return r.Why
		}},
		{Title: "JOBS WITH GPUS", Text: func(r view.Node) string {
			var out []string
			for _, job := range slices.Sorted(maps.Keys(r.Jobs)) {
				out = append(out, fmt.Sprintf("%s (%d)", job, r.Jobs[job]))
			}
			return strings.Join(out, ", ")
		}},
	}
}

// NodesInDomainsColumns are NodeColumns with where each is.
func NodesInDomainsColumns(now time.Time) []Column[view.Node] {
	where := Column[view.Node]{
		Title: "DOMAIN",
		Text:  func(r view.Node) string { return strings.Join(r.Domain, "/") },
	}
	return slices.Insert(NodeColumns(now), 1, where)
}

// heldNodes are how many are held in service, since too many others are out of it.
func heldNodes(rows []view.Node) (n int) {
	for _, r := range rows {
		if r.Health != nil && r.Health.Held {
			n++
		}
	}
	return n
}

// SumOfNodes says in a line how full the nodes are.
func SumOfNodes(rows []view.Node) string {
	var gpus, used, free, block, out int64
	var parts, left map[string]int64
	for _, r := range rows {
		parts, left = view.AddSlices(parts, r.Slices), view.AddSlices(left, r.FreeSlices)
		whole := ptr.Deref(r.Free, 0)
		gpus, used = gpus+r.GPUs, used+r.GPUs-whole
		if r.State != core.NodeReady {
			out += whole
			continue
		}
		free, block = free+whole, max(block, whole)
	}
	text := fmt.Sprintf(
		"%s, %s: %d used, %d free",
		words.Count(len(rows), "node"),
		words.Count(int(gpus), "GPU"),
		used,
		free,
	)
	if block > 0 && block < free {
		text += fmt.Sprintf(" (%d on one node at most)", block)
	}
	if out > 0 {
		text += fmt.Sprintf(", %d on nodes that are closed or suspect", out)
	}
	if held := heldNodes(rows); held > 0 {
		text += fmt.Sprintf(
			"; %s would be out of service if not too many were already, which looks like a fault of what watches them",
			words.Count(held, "node"),
		)
	}
	said := []string{text}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		said = append(
			said,
			fmt.Sprintf("%d %s: %d used, %d free", parts[name], name, parts[name]-left[name], left[name]),
		)
	}
	return strings.Join(said, ", ")
}

// LemonColumns are those of a list of nodes that had faults.
func LemonColumns(now time.Time) []Column[view.Node] {
	return []Column[view.Node]{
		{Title: "NAME", Text: func(r view.Node) string { return r.Name }},
		{Title: "STATE", State: true, Text: func(r view.Node) string { return string(r.State) }},
		NumberColumn(Column[view.Node]{Title: "LEMON"}, func(r view.Node) int { return r.Faults.Lemon }),
		{
			Title: "FAULTS",
			Text: func(r view.Node) string {
				var out []string
				for _, kind := range slices.Sorted(maps.Keys(r.Faults.Kinds)) {
					out = append(out, fmt.Sprintf("%d %s", r.Faults.Kinds[kind], kind))
				}
				return strings.Join(out, ", ")
			},
			Less: func(a, b view.Node) int { return cmp.Compare(a.Faults.Count(), b.Faults.Count()) },
		},
		NumberColumn(
			Column[view.Node]{Title: "JOBS LOST", Rank: 1},
			func(r view.Node) int { return r.Faults.JobsLost },
		),
		AgeColumn(
			Column[view.Node]{Title: "SINCE", Rank: 2},
			now,
			func(r view.Node) *time.Time { return &r.Faults.Since },
		),
		{
			Title: "LAST FAULT",
			Text: func(r view.Node) string {
				return fmt.Sprintf("%s %s ago", r.Faults.LastKind, age(now, r.Faults.Last))
			},
			Less: func(a, b view.Node) int { return b.Faults.Last.Compare(a.Faults.Last) },
		},
	}
}

// Lemons are the nodes that had faults, the worst first.
func Lemons(nodes []view.Node) []view.Node {
	out := slices.DeleteFunc(slices.Clone(nodes), func(n view.Node) bool { return n.Faults == nil })
	slices.SortStableFunc(out, func(a, b view.Node) int {
		return cmp.Or(
			cmp.Compare(b.Faults.Lemon, a.Faults.Lemon), cmp.Compare(b.Faults.Count(), a.Faults.Count()),
			cmp.Compare(b.Faults.JobsLost, a.Faults.JobsLost), b.Faults.Last.Compare(a.Faults.Last),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return out
}
