// Package lint judges manifests before they reach a cluster: what the webhooks would refuse, by
// the same functions, and what is accepted and regretted later. Rules is the list; each rule
// has a name, by which it can be switched off.
//
// Without a Cluster nothing is asked; with one, its nodes and queues are, and whether it would
// take the manifests. Nothing is created.
package lint

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/manifest"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/strict"
)

// Options say how to judge.
type Options struct {
	// Disabled are the names of rules that are not asked.
	Disabled []string
	// Namespace of objects that name none.
	Namespace string
	// Cluster is asked by the rules that need one; nil asks none.
	Cluster *Cluster
}

// subject is an object that is judged: a document, or what is inside an AppWrapper.
type subject struct {
	doc manifest.Document
	// kind is what is known of it as a job, nil if it is none; job the object itself, nil if it
	// cannot be decoded.
	kind *jobs.Kind
	job  jobs.Object
	// typed is the object of whatever kind, nil if its kind is not known.
	typed runtime.Object
	// shape is what its fields have wrong.
	shape []strict.Problem
	pods  []pods
	// inside is true of components of an AppWrapper.
	inside bool
	// all are the documents of which it is one.
	all     []manifest.Document
	options *Options
}

// pods are equal pods that an object makes.
type pods struct {
	// path of the template, name for people.
	path, name string
	count      int32
	// elsewhere is true of templates in another object.
	elsewhere bool
	template  *corev1.PodTemplateSpec
}

// Judge asks all rules about all documents.
func Judge(docs []manifest.Document, o Options) []finding.Finding {
	found := []finding.Finding{}
	for _, s := range subjects(docs, &o) {
		for _, rule := range Rules() {
			if slices.Contains(o.Disabled, rule.Name) || rule.Cluster && o.Cluster == nil {
				continue
			}
			for _, h := range rule.find(s) {
				at := h.at
				if at.Line == 0 {
					at = s.doc.At(h.path)
				}
				found = append(found, finding.Finding{
					Rule:     rule.Name,
					Severity: rule.Severity,
					File:     s.doc.File,
					Line:     at.Line,
					Column:   at.Column,
					Object:   s.doc.Title(),
					Path:     h.path,
					Message:  h.message,
				})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b finding.Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return found
}

// subjects are the documents, and what is inside of AppWrappers among them.
func subjects(docs []manifest.Document, o *Options) []*subject {
	known := scheme.New()
	var out []*subject
	for i := range docs {
		whole := newSubject(known, docs[i], docs, o)
		out = append(out, whole)
		if _, is := whole.job.(*aw.AppWrapper); !is {
			continue
		}
		for n := 0; ; n++ {
			component, is := docs[i].Below("spec", "components", n, "template")
			if component.Node == nil {
				break
			}
			if is {
				inner := newSubject(known, component, docs, o)
				inner.inside = true
				out = append(out, inner)
			}
		}
	}
	return out
}

func newSubject(known *runtime.Scheme, doc manifest.Document, all []manifest.Document, o *Options) *subject {
	s := &subject{doc: doc, all: all, options: o}
	gvk := doc.GVK()
	list := kinds.All()
	if i := slices.IndexFunc(list, func(k jobs.Kind) bool {
		return k.GroupKind() == gvk.GroupKind() &&
			(k.GVK().Version == gvk.Version || slices.Contains(k.Naming.Versions, gvk.Version))
	}); i >= 0 {
		s.kind, s.job = &list[i], list[i].New()
		s.typed = s.job
	} else if typed, err := known.New(gvk); err == nil {
		s.typed = typed
	}
	if s.typed == nil {
		s.pods = podsOf(&doc)
		return s
	}
	s.shape = doc.Decode(s.typed)
	if s.kind != nil && s.kind.Queueing.Basis != nil {
		s.base(known, all)
	}
	s.pods = podsOf(&doc)
	if s.kind != nil && s.kind.Queueing.Basis != nil && s.kind.Queueing.Basis.HasPods() &&
		s.kind.Queueing.Templates != nil { // of a runtime that is here too
		for _, t := range s.kind.Queueing.Templates(s.job) {
			s.pods = append(
				s.pods,
				pods{path: "spec.runtimeRef", name: t.Path, count: 1, elsewhere: true, template: t.Template},
			)
		}
	}
	return s
}

// base gives a job the other object that says what it consists of, if that is in the files.
func (s *subject) base(known *runtime.Scheme, all []manifest.Document) {
	for s.kind.Queueing.Basis.Missing(s.job) {
		ref, was := s.kind.Queueing.Basis.Of(s.job), s.job
		for i := range all {
			if all[i].Object.GetKind() != ref.Kind || all[i].Object.GetName() != ref.Name {
				continue
			}
			if o, err := known.New(all[i].GVK()); err == nil {
				all[i].Decode(o)
				if basis, is := o.(jobs.Object); is {
					s.job = s.kind.Queueing.Basis.With(s.job, basis, jobs.Schedulers{})
				}
			}
			break
		}
		if s.job == was {
			return
		}
	}
}

// podsOf are the pods of an object of a kind that AppWrappers know, found as they find them.
func podsOf(doc *manifest.Document) []pods {
	if doc.Object.GetKind() == aw.AppWrapperKind {
		return nil // its components are judged
	}
	named := doc.Object.DeepCopy()
	if named.GetName() == "" {
		named.SetName("x")
	}
	data, err := (&unstructured.Unstructured{Object: named.Object}).MarshalJSON()
	if err != nil {
		return nil
	}
	w := &aw.AppWrapper{Spec: aw.AppWrapperSpec{Components: []aw.AppWrapperComponent{{
		Template: runtime.RawExtension{Raw: data}, DeclaredPodSets: appwrapper.Declare(named.Object),
	}}}}
	w.Name = "x"
	components, err := appwrapper.Components(w)
	if err != nil {
		return nil // what is wrong with it, other rules say
	}
	var out []pods
	for i := range components[0].PodSets {
		ps := &components[0].PodSets[i]
		path := strings.TrimPrefix(strings.TrimPrefix(ps.Path, "template"), ".")
		out = append(
			out,
			pods{path: path, name: cmp.Or(path, doc.Title()), count: ps.Count, template: &ps.Template},
		)
	}
	return out
}

// at is the path of a field below the template.
func (p *pods) at(below string) string {
	if p.elsewhere {
		return p.path
	}
	return strings.TrimPrefix(p.path+"."+below, ".")
}
