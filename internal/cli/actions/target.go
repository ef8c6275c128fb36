package actions

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// Kinds of what is no job itself, but makes pods or Jobs that are.
const (
	StatefulSet = view.KindStatefulSet
	ReplicaSet  = view.KindReplicaSet
	CronJob     = view.KindCronJob
)

// Target is what a command acts on: a job, or a set of pods that are queued by themselves.
type Target struct {
	why.JobObjects
}

// Find finds what a name means: a job by any of its objects, or a set.
func Find(ctx context.Context, c client.Reader, ref view.Ref) (*Target, error) {
	p, err := why.Find(ctx, c, ref)
	if err == nil {
		return &Target{JobObjects: p}, nil
	}
	if _, missing := errors.AsType[*why.MissingError](err); !missing {
		return nil, err
	}
	set, e := why.FindAny(ctx, c, ref)
	switch {
	case e != nil:
		return nil, e
	case set.Asked.Kind == view.KindDaemonSet: // that is for those who run the nodes
		return nil, err
	}
	set.Workload, set.Parts, set.Made = nil, nil, nil // what stands for it is what makes its pods
	return &Target{JobObjects: set}, nil
}

// Object is that of the job or the set itself; nil if the user may not read it.
func (t *Target) Object() client.Object { return t.Root() }

// group reports whether the job is a group of pods without an object of its own, and which: then
// its pods are the job.
func (t *Target) group() bool {
	if t.Asked.Kind == view.KindGroup {
		return true
	}
	if t.Set != nil || t.Workload == nil || t.Root() != client.Object(t.Workload) {
		return false
	}
	return slices.ContainsFunc(
		t.Pods,
		func(p corev1.Pod) bool { return p.Labels[kueue.PodGroupNameLabel] == t.Workload.Name },
	)
}

// Select names the jobs of a namespace with these labels, the oldest first.
func Select(
	ctx context.Context,
	c client.Reader,
	namespace string,
	with labels.Selector,
) ([]view.Ref, error) {
	survey, err := gather.Jobs(ctx, c, namespace, client.ListOptions{LabelSelector: with})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(survey.Items, func(a, b view.Job) int { return a.Created.Compare(b.Created) })
	var out []view.Ref
	for i := range survey.Items {
		r := &survey.Items[i]
		kind := r.Kind
		switch {
		case kind == view.KindPod && r.Workload == r.Name: // a group, which only its Workload stands for
			kind = view.KindWorkload
		case kind == view.KindPod && r.Workload == "":
			kind = view.KindGroup
		}
		out = append(out, view.Ref{Kind: kind, Namespace: r.Namespace, Name: r.Name})
	}
	return out, nil
}

// title is KIND NAMESPACE/NAME of the job, "pod group" for groups.
func (t *Target) title() string {
	if t.group() && t.Workload != nil {
		return "pod group " + t.Asked.Namespace + "/" + t.Asked.Name
	}
	return t.Asked.String()
}

// name is NAMESPACE/NAME of the job.
func (t *Target) name() string { return t.Asked.Namespace + "/" + t.Asked.Name }

// job is the object of the job as one; nil for what is none.
func (t *Target) job() jobs.Object {
	o, _ := t.Object().(jobs.Object)
	return o
}

// Remember is a reader that asks for the pods of a namespace once: for commands about many jobs,
// each of which looks for its own among them.
func Remember(c client.Reader) client.Reader {
	return &memory{Reader: c, pods: map[string][]corev1.Pod{}}
}

type memory struct {
	client.Reader
	pods map[string][]corev1.Pod
}

// List is that of the reader, save that lists of all pods of a namespace are kept.
func (m *memory) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	into, pods := list.(*corev1.PodList)
	if !pods || o.LabelSelector != nil || o.FieldSelector != nil || o.Namespace == "" {
		return m.Reader.List(ctx, list, options...)
	}
	has, known := m.pods[o.Namespace]
	if !known {
		if err := m.Reader.List(ctx, into, options...); err != nil {
			return err
		}
		m.pods[o.Namespace] = into.Items
		return nil
	}
	into.Items = has
	return nil
}
