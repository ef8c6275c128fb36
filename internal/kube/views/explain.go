package views

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// Explain says to a user, who may ask that, why a workload waits.
type Explain func(ctx context.Context, who user.Info, namespace, workload string) (*visibility.Explanation, error)

// part is what is told of one job alone: a subresource of its view.
type part struct {
	name, kind string
	read       func(context.Context, *reader, view.Ref, metav1.TypeMeta, metav1.ObjectMeta) (any, error)
}

// parts are all of them.
func parts() []part {
	return []part{{viewapi.Explanation, "JobExplanation", explanation}, {viewapi.Details, "JobDetails", details}}
}

// one answers for a part of a view of a job.
func (q *question) one(ctx context.Context, p part) (any, error) {
	ref, known := refOf(q.namespace, q.name)
	notThere := apierrors.NewNotFound(
		schema.GroupResource{Group: viewapi.GroupVersion.Group, Resource: viewapi.JobViews},
		q.name,
	)
	if !known {
		return nil, notThere
	}
	end, err := q.turns.take(ctx, q.asker)
	if err != nil {
		return nil, apierrors.NewTimeoutError("others are answered first", 1)
	}
	defer end()
	as, of := metav1.TypeMeta{
		APIVersion: viewapi.GroupVersion.String(),
		Kind:       p.kind,
	}, metav1.ObjectMeta{
		Namespace: q.namespace,
		Name:      q.name,
	}
	out, err := p.read(ctx, q.reader(), ref, as, of)
	if missing(err) && ref.Kind == view.KindPod { // a group of pods has the name of none of them
		ref.Kind = ""
		out, err = p.read(ctx, q.reader(), ref, as, of)
	}
	if missing(err) {
		return nil, notThere
	}
	if err != nil {
		return nil, refused(err)
	}
	return out, nil
}

// missing reports whether an error says that there is no such job.
func missing(err error) bool {
	_, is := errors.AsType[*why.MissingError](err)
	return is
}

// refOf is the job that the name of a view means.
func refOf(namespace, of string) (ref view.Ref, known bool) {
	kind, name, _ := strings.Cut(of, ".")
	all := append(why.Kinds(), view.KindGroup)
	for _, s := range gather.Sets() {
		all = append(all, s.Kind)
	}
	at := slices.IndexFunc(all, func(k view.Kind) bool { return strings.ToLower(string(k)) == kind })
	if at < 0 || name == "" {
		return view.Ref{}, false
	}
	return view.Ref{Kind: all[at], Namespace: namespace, Name: name}, true
}

// Explanation asks the engine why a workload waits, for those who may ask that.
func (r *reader) Explanation(
	ctx context.Context,
	namespace, workload string,
) (*visibility.Explanation, error) {
	resource := schema.GroupResource{Group: visibility.GroupVersion.Group, Resource: "workloads/explanation"}
	if !r.can(ctx, right{"get", resource, namespace, workload}) {
		return nil, r.denied("get", resource, workload)
	}
	return r.explain(ctx, r.user, namespace, workload)
}

func explanation(
	ctx context.Context,
	r *reader,
	ref view.Ref,
	as metav1.TypeMeta,
	of metav1.ObjectMeta,
) (any, error) {
	about, err := why.Gather(ctx, r, r, ref, r.clock.Now())
	if err != nil {
		return nil, err
	}
	return why.JobExplanation{
		TypeMeta:    as,
		ObjectMeta:  of,
		Answer:      r.answer(),
		Explanation: why.Explain(about),
	}, nil
}

func details(
	ctx context.Context,
	r *reader,
	ref view.Ref,
	as metav1.TypeMeta,
	of metav1.ObjectMeta,
) (any, error) {
	all, err := why.Show(ctx, r, nil, ref, 0, r.clock.Now()) // logs are read by those who may read them
	if err != nil {
		return nil, err
	}
	return why.JobDetails{TypeMeta: as, ObjectMeta: of, Answer: r.answer(), Details: *all}, nil
}

func (h *Handler) answer() view.Answer {
	return view.Answer{At: metav1.NewTime(h.clock.Now()), Replica: h.replica}
}
