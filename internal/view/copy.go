package view

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopy is a copy that shares nothing.
func (j *Job) DeepCopy() *Job {
	out := *j
	out.Position, out.Priority, out.TimeLimit, out.ExitCode = clone(j.Position), clone(j.Priority), clone(j.TimeLimit), clone(j.ExitCode)
	out.Started, out.Since, out.Start = clone(j.Started), clone(j.Since), j.Start.DeepCopy()
	out.Slices, out.SlicesHeld, out.Nodes = maps.Clone(j.Slices), maps.Clone(j.SlicesHeld), slices.Clone(j.Nodes)
	return &out
}

// DeepCopy is a copy that shares nothing.
func (n *Node) DeepCopy() *Node {
	out := *n
	out.Free, out.Pods, out.UsedSince, out.Drained = clone(n.Free), clone(n.Pods), clone(n.UsedSince), clone(n.Drained)
	out.Slices, out.FreeSlices, out.Jobs = maps.Clone(n.Slices), maps.Clone(n.FreeSlices), maps.Clone(n.Jobs)
	return &out
}

// DeepCopy is a copy that shares nothing.
func (v *NodeView) DeepCopy() *NodeView {
	out := *v
	out.ObjectMeta = *v.ObjectMeta.DeepCopy()
	out.Node = *v.Node.DeepCopy()
	return &out
}

// DeepCopyObject is DeepCopy, as a [runtime.Object] has it.
func (v *NodeView) DeepCopyObject() runtime.Object { return v.DeepCopy() }

// DeepCopyObject is DeepCopy, as a [runtime.Object] has it.
func (l *NodeViewList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy is a copy that shares nothing.
func (l *NodeViewList) DeepCopy() *NodeViewList {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Unread = slices.Clone(l.Unread)
	out.Items = copies(l.Items, (*NodeView).DeepCopy)
	return &out
}

func copies[T any](items []T, deep func(*T) *T) []T {
	out := slices.Clone(items)
	for i := range out {
		out[i] = *deep(&items[i])
	}
	return out
}

func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	return new(*v)
}

// DeepCopy is a copy that shares nothing.
func (v *JobView) DeepCopy() *JobView {
	out := *v
	out.ObjectMeta = *v.ObjectMeta.DeepCopy()
	out.Job = *v.Job.DeepCopy()
	return &out
}

// DeepCopyObject is DeepCopy, as a [runtime.Object] has it.
func (v *JobView) DeepCopyObject() runtime.Object { return v.DeepCopy() }

// DeepCopyObject is DeepCopy, as a [runtime.Object] has it.
func (l *JobViewList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy is a copy that shares nothing.
func (l *JobViewList) DeepCopy() *JobViewList {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Unread = slices.Clone(l.Unread)
	out.Items = copies(l.Items, (*JobView).DeepCopy)
	return &out
}
