package view

import (
	"maps"
	"slices"
)

// The copies of types without a time.Time are generated.

// DeepCopyInto makes out a copy that shares nothing.
func (j *Job) DeepCopyInto(out *Job) {
	*out = *j
	out.Position, out.Priority, out.TimeLimit, out.ExitCode = clone(
		j.Position,
	), clone(
		j.Priority,
	), clone(
		j.TimeLimit,
	), clone(
		j.ExitCode,
	)
	out.Started, out.Since, out.Start = clone(j.Started), clone(j.Since), j.Start.DeepCopy()
	out.Slices, out.SlicesHeld, out.Nodes = maps.Clone(j.Slices), maps.Clone(j.SlicesHeld), slices.Clone(j.Nodes)
}

// DeepCopyInto makes out a copy that shares nothing.
func (n *Node) DeepCopyInto(out *Node) {
	*out = *n
	out.Free, out.Pods, out.UsedSince, out.Drained = clone(
		n.Free,
	), clone(
		n.Pods,
	), clone(
		n.UsedSince,
	), clone(
		n.Drained,
	)
	out.Health, out.Faults = clone(n.Health), clone(n.Faults)
	if n.Faults != nil {
		out.Faults.Kinds = maps.Clone(n.Faults.Kinds)
	}
	out.Slices, out.FreeSlices, out.Jobs = maps.Clone(n.Slices), maps.Clone(n.FreeSlices), maps.Clone(n.Jobs)
	out.Domain = slices.Clone(n.Domain)
}

func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	return new(*v)
}
