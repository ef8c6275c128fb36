package webhook

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// based returns a new job with what it is based on, so that it is judged by the pods that it
// will have. One that names what is not there is refused, unless it waits for it: how it is to run is
// not known.
func (h *jobHandler) based(ctx context.Context, job jobs.Object) (jobs.Object, field.ErrorList, error) {
	b := h.kind.Queueing.Basis
	if b == nil {
		return job, nil, nil
	}
	if name := appwrapper.WrapperOf(h.kind.GVK(), job); name != "" {
		w := &aw.AppWrapper{}
		// It was written a moment ago, which the cache may not show.
		if err := h.cluster.Live.Get(
			ctx,
			client.ObjectKey{Namespace: job.GetNamespace(), Name: name},
			w,
		); client.IgnoreNotFound(
			err,
		) != nil {
			return nil, nil, fmt.Errorf("look up AppWrapper %s: %w", name, err)
		}
		inherited, is, err := appwrapper.Inherit(w, h.kind.GVK(), job)
		if is || err != nil {
			return inherited, nil, err // whatever has become of what it names
		}
	}
	for b.Missing(job) {
		next, errs, err := h.basedOnce(ctx, b, job)
		if err != nil || len(errs) > 0 || next == job {
			return next, errs, err
		}
		job = next
	}
	return job, nil, nil
}

// basedOnce is based for the next object that a job names; the same job is one that names none.
func (h *jobHandler) basedOnce(
	ctx context.Context,
	b *jobs.Basis,
	job jobs.Object,
) (jobs.Object, field.ErrorList, error) {
	ref := b.Of(job)
	k := b.Kind(ref)
	if k == nil || ref.Name == "" {
		return job, nil, nil // which the kind says
	}
	key := client.ObjectKey{Name: ref.Name}
	if k.Namespaced {
		key.Namespace = job.GetNamespace()
	}
	basis := k.New()
	ok, err := h.cluster.exists(ctx, key, basis)
	if err != nil {
		return nil, nil, err
	}
	if ok {
		return b.With(job, basis, h.schedulers), nil, nil
	}
	if b.Awaited {
		return job, nil, nil
	}
	others, err := h.cluster.namesOf(ctx, k, key.Namespace)
	if err != nil {
		return nil, nil, err
	}
	cure := "create it first"
	if len(others) > 0 {
		cure = "use one of " + strings.Join(others, ", ") + ", or create it first"
	}
	return nil, field.ErrorList{
		field.Invalid(ref.At, ref.Name, fmt.Sprintf("there is no %s of this name: %s", ref.Kind, cure)),
	}, nil
}

// mostNames is how many names an error lists.
const mostNames = 20

// namesOf lists what there is of a kind.
func (c Cluster) namesOf(ctx context.Context, k *jobs.BasisKind, namespace string) ([]string, error) {
	gvk := k.GVK
	gvk.Kind += "List"
	made, err := c.Scheme.New(gvk)
	list, is := made.(client.ObjectList)
	if err != nil || !is {
		return nil, fmt.Errorf("list %s: %w", k.Resource, err)
	}
	if err := c.Live.List(ctx, list, client.InNamespace(namespace), client.Limit(mostNames)); err != nil {
		return nil, fmt.Errorf("list %s: %w", k.Resource, err)
	}
	var out []string
	err = meta.EachListItem(list, func(o runtime.Object) error {
		if named, is := o.(client.Object); is {
			out = append(out, named.GetName())
		}
		return nil
	})
	return out, err
}

// basisHandler answers for the objects that jobs are based on. Their pods are judged here too,
// since they may be changed between the look at a job and the moment in which they are
// recorded in it.
type basisHandler struct {
	*jobHandler
	basis *jobs.BasisKind
}

func basisPath(k *jobs.BasisKind) string {
	return "/validate-" + strings.ReplaceAll(
		k.GVK.Group,
		".",
		"-",
	) + "-" + k.GVK.Version + "-" + strings.ToLower(
		k.GVK.Kind,
	)
}

// basisHooks are the webhooks about objects that users of teams may make and jobs are based
// on. Others are an admin's.
func basisHooks(k *jobs.BasisKind) []hook {
	if !k.Namespaced {
		return nil
	}
	h := hook{
		name: "v" + strings.ToLower(
			k.GVK.Kind,
		),
		path: basisPath(k),
		rule: rule(k.GVK.Group, []string{k.GVK.Version}, []string{k.Resource}, create, update),
		conditions: []admissionregistrationv1.MatchCondition{
			{Name: "changes-it", Expression: "request.operation == 'CREATE' || object.spec != oldObject.spec"},
		},
	}
	elsewhere := h
	elsewhere.name, elsewhere.namespaces, elsewhere.optional = h.name+".other", queueNamespaces(), true
	h.name, h.namespaces = h.name+".team", teamNamespaces()
	return []hook{h, elsewhere}
}

func (h *basisHandler) validate(ctx context.Context, req admission.Request) admission.Response {
	is := h.basis.New()
	if err := h.decoder.Decode(req, is); err != nil {
		return malformed(err)
	}
	var before []jobs.PodTemplate
	if req.Operation == admissionv1.Update {
		was := h.basis.New()
		if err := h.decoder.DecodeRaw(req.OldObject, was); err != nil {
			return malformed(err)
		}
		before = h.basis.Templates(was)
	}
	errs := h.limits.size(req, field.NewPath("spec", "template"))
	templates := h.basis.Templates(is)
	team, err := h.cluster.teamNamespace(ctx, req.Namespace)
	if err != nil {
		return failed(err)
	}
	judged, err := h.checkTemplates(ctx, req.Namespace, before, templates, team) // there, all jobs are queued
	if err != nil {
		return failed(err)
	}
	errs = append(errs, judged...)
	forged, err := h.forged(ctx, req, before, templates)
	if err != nil {
		return failed(err)
	}
	return answer(req, append(errs, forged...))
}
