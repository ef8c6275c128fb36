package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// A job that asks for it has a ComputeDomain of NVIDIA's DRA driver from its start to its end, named after and
// owned by its Workload. The driver makes the claim template by which pods get into it. A job does not start
// before that is there: its pods could not.

const (
	// domainPause is how long to wait for the driver before looking again.
	domainPause = 500 * time.Millisecond
	// domainPatience is how long a job that was admitted waits for its ComputeDomain with quota and nodes.
	domainPatience = time.Minute
	// domainTrialPause is after how long it is looked again whether a job that waits without quota can have one.
	domainTrialPause = 15 * time.Second
	// domainOwnerLabel is what the driver labels a claim template with: the UID of its ComputeDomain.
	domainOwnerLabel = "resource.nvidia.com/computeDomain"
)

// claimTemplateGVK is the kind of the templates that the driver makes for them.
func claimTemplateGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate"}
}

// domain is the ComputeDomain of a job, as it was found.
type domain struct {
	// served: the cluster has the kind.
	served bool
	// object is what has the domain's name, and template what has that of its claim template; nil if nothing has.
	object, template metav1.Object
	// nodes is for how many it was made.
	nodes int64
}

// domainNote is what a Workload notes of the pod sets that are in a ComputeDomain (ComputeDomainPodSetsAnnotation).
func domainNote(s *facts) string {
	asks := append(jobs.AsksComputeDomain(s.job.GetAnnotations(), s.facts.PodSets), s.facts.ComputeDomain...)
	var out []string
	for i := range s.facts.PodSets {
		name := s.facts.PodSets[i].Name
		if template := s.ownDomains[name]; template != "" {
			out = append(out, string(name)+"="+template)
		} else if slices.Contains(asks, name) {
			out = append(out, string(name))
		}
	}
	return strings.Join(out, ",")
}

// domainMade reports whether a ComputeDomain is made for a Workload with such a note.
func domainMade(note string) bool {
	return note != "" && slices.ContainsFunc(
		strings.Split(note, ","),
		func(entry string) bool { return !strings.Contains(entry, "=") },
	)
}

// ownDomainsOf finds out which pod sets are in a ComputeDomain that the job's author made: those whose pods
// have a claim of its template. It notes the template of each, and that the pods are near as such pods have to
// be.
func (r *reconciler) ownDomainsOf(ctx context.Context, s *facts) error {
	claims := map[kueue.PodSetReference][]string{}
	for i := range s.facts.PodSets {
		for _, c := range s.facts.PodSets[i].Template.Spec.ResourceClaims {
			if c.ResourceClaimTemplateName != nil {
				claims[s.facts.PodSets[i].Name] = append(claims[s.facts.PodSets[i].Name], *c.ResourceClaimTemplateName)
			}
		}
	}
	if len(claims) == 0 || !s.facts.Suspended {
		return nil
	}
	if served, err := r.servesDomains(); !served {
		return err // the claims are of something else
	}
	all := &unstructured.UnstructuredList{}
	gvk := jobs.ComputeDomainGVK()
	all.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := r.opts.Live.List(ctx, all, client.InNamespace(s.job.GetNamespace())); err != nil {
		return fmt.Errorf("list ComputeDomains of namespace %s: %w", s.job.GetNamespace(), err)
	}
	s.ownDomains = map[kueue.PodSetReference]string{}
	var in []kueue.PodSetReference
	for i := range s.facts.PodSets {
		name := s.facts.PodSets[i].Name
		for _, o := range all.Items {
			template, _, _ := unstructured.NestedString(o.Object, "spec", "channel", "resourceClaimTemplate", "name")
			if s.ownDomains[name] == "" && slices.Contains(claims[name], template) {
				s.ownDomains[name] = template
				in = append(in, name)
			}
		}
	}
	jobs.InOneClique(s.facts.PodSets, in, "compute-domain-of-author")
	return nil
}

// domainOf looks for the ComputeDomain of a job where it decides what comes next: before the job starts, and when its
// pods are gone. What it lacks is why the job's pods may not be made.
func (r *reconciler) domainOf(ctx context.Context, s *facts) error {
	w := s.workload
	if w == nil || w.Status.Admission == nil && w.Annotations[kueue.PodsRefusedAnnotation] == "" {
		return r.domainServed(s, domainNote(s))
	}
	if !s.facts.Suspended && s.facts.Finished == nil || s.pods.Live > 0 || convert.Finished(w) {
		return nil
	}
	note := w.Annotations[kueue.ComputeDomainPodSetsAnnotation]
	if err := r.domainServed(s, note); err != nil || s.domain == nil || !s.domain.served {
		return err
	}
	at := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(jobs.ComputeDomainGVK())
	switch err := r.opts.Live.Get(ctx, at, object); {
	case err == nil:
		s.domain.object = object
		s.domain.nodes, _, _ = unstructured.NestedInt64(object.Object, "spec", "numNodes")
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read ComputeDomain %s: %w", at, err)
	}
	if !s.facts.Suspended || convert.Evicted(w) && w.Status.Admission != nil {
		return nil // it goes
	}
	template := &metav1.PartialObjectMetadata{}
	template.SetGroupVersionKind(claimTemplateGVK())
	switch err := r.opts.Live.Get(ctx, at, template); {
	case err == nil:
		s.domain.template = template
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read ResourceClaimTemplate %s: %w", at, err)
	}
	why, soon := s.domain.lacks(w)
	if why != "" && (w.Status.Admission == nil || !soon || waited(w, s.now) >= domainPatience) {
		s.tried, s.refusal, s.triesAgain = true, why, domainTrialPause
	}
	return nil
}

// domainServed notes for a job that gets one whether the cluster has ComputeDomains at all.
func (r *reconciler) domainServed(s *facts, note string) error {
	if !domainMade(note) {
		return nil
	}
	served, err := r.servesDomains()
	if err != nil {
		return err
	}
	if s.domain = (&domain{served: served}); !served {
		s.tried, s.refusal, s.triesAgain = true, jobs.NoComputeDomains(), domainTrialPause
	}
	return nil
}

// servesDomains reports whether the cluster has ComputeDomains at all.
func (r *reconciler) servesDomains() (bool, error) {
	gvk := jobs.ComputeDomainGVK()
	_, err := r.opts.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if apimeta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find out whether there are ComputeDomains: %w", err)
	}
	return true, nil
}

// waited is for how long a Workload has been admitted.
func waited(w *kueue.Workload, now time.Time) time.Duration {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAdmitted)
	if c == nil || c.Status != metav1.ConditionTrue {
		return 0
	}
	return now.Sub(c.LastTransitionTime.Time)
}

// lacks says why a Workload's pods cannot be in their ComputeDomain, "" if they can or if it has to be made first;
// soon: that may change without anybody doing anything.
func (d *domain) lacks(w *kueue.Workload) (why string, soon bool) {
	switch {
	case d.earlier(w):
		return fmt.Sprintf("an earlier ComputeDomain %s has not gone yet", w.Name), true
	case d.object != nil && !metav1.IsControlledBy(d.object, w):
		return fmt.Sprintf("there is another ComputeDomain %s, which is not this job's: delete it", w.Name), false
	case d.template == nil && d.object == nil:
		return "", false
	case d.template == nil:
		return fmt.Sprintf(
			"NVIDIA's DRA driver has not made the ResourceClaimTemplate of ComputeDomain %s: see to its controller",
			w.Name,
		), true
	}
	switch of := d.template.GetLabels()[domainOwnerLabel]; {
	case d.object != nil && of == string(d.object.GetUID()):
		return "", false
	case d.object == nil && of != "":
		return fmt.Sprintf(
			"the ResourceClaimTemplate %s of an earlier ComputeDomain has not gone yet",
			w.Name,
		), true
	}
	return fmt.Sprintf(
		"there is another ResourceClaimTemplate %s, which is not that of this job's ComputeDomain: delete it",
		w.Name,
	), false
}

// earlier reports whether a ComputeDomain of the Workload's name is one that goes: an earlier Workload's of the same
// job, or one that is being deleted.
func (d *domain) earlier(w *kueue.Workload) bool {
	if d.object == nil {
		return false
	}
	owner := metav1.GetControllerOf(d.object)
	return owner != nil && owner.Kind == "Workload" && owner.Name == w.Name &&
		(d.object.GetDeletionTimestamp() != nil || owner.UID != w.UID)
}

// prepareDomain is the next step towards the ComputeDomain of a job that is about to start; false if it has all it
// needs.
func prepareDomain(s facts) (step, bool) {
	d, w := s.domain, s.workload
	if d == nil || !d.served {
		return step{}, false
	}
	nodes := domainNodes(w)
	switch {
	case d.object != nil && d.object.GetDeletionTimestamp() == nil && (d.earlier(w) || d.nodes != nodes):
		return step{removeDomain: d.object, again: domainPause}, true
	case d.object == nil && d.template == nil:
		return step{
			domain: newDomain(w, nodes),
			again:  domainPause,
			tell: &jobEvent{
				reason: "ComputeDomainCreated",
				message: fmt.Sprintf(
					"Created ComputeDomain %s for %d node(s); the job starts when its claim template is there",
					w.Name,
					nodes,
				),
			},
		}, true
	}
	if why, _ := d.lacks(w); why != "" {
		return step{again: domainPause}, true
	}
	return step{}, false
}

// dropDomain removes the ComputeDomain of a job whose pods are gone; false if there is none to remove. A job
// that is held because of it keeps it: that is how it is seen whether the driver makes its claim template.
func dropDomain(s facts) (step, bool) {
	d := s.domain
	if d == nil || d.object == nil || d.object.GetDeletionTimestamp() != nil ||
		!metav1.IsControlledBy(d.object, s.workload) || s.workload.Annotations[kueue.PodsRefusedAnnotation] != "" {
		return step{}, false
	}
	return step{removeDomain: d.object, again: domainPause}, true
}

// domainNodes is on how many nodes the pods of an admitted Workload are that are in a ComputeDomain: each has
// one of its own.
func domainNodes(w *kueue.Workload) (nodes int64) {
	in := kueue.ComputeDomainClaims(w)
	for _, a := range w.Status.Admission.PodSetAssignments {
		if in[a.Name] == w.Name && a.Count != nil {
			nodes += int64(*a.Count)
		}
	}
	return nodes
}

// newDomain is the ComputeDomain of a Workload, and goes with it at the latest. numNodes matters to drivers that hold
// pods until all nodes have joined (before 25.8); to others it says when the domain counts as ready.
func newDomain(w *kueue.Workload, nodes int64) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"numNodes": nodes,
			"channel":  map[string]any{"resourceClaimTemplate": map[string]any{"name": w.Name}},
		},
	}}
	out.SetGroupVersionKind(jobs.ComputeDomainGVK())
	out.SetNamespace(w.Namespace)
	out.SetName(w.Name)
	out.SetOwnerReferences([]metav1.OwnerReference{
		*metav1.NewControllerRef(w, kueue.GroupVersion.WithKind("Workload")),
	})
	return out
}

// makeDomain creates a ComputeDomain. That the kind is gone is no sign of another write that was faster.
func (r *reconciler) makeDomain(ctx context.Context, o *unstructured.Unstructured) error {
	err := r.opts.Client.Create(ctx, o)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("create ComputeDomain %s: %s", o.GetName(), err.Error())
	}
	return err
}

// removeDomain deletes just this ComputeDomain.
func (r *reconciler) removeDomain(ctx context.Context, o metav1.Object) error {
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(jobs.ComputeDomainGVK())
	is.SetNamespace(o.GetNamespace())
	is.SetName(o.GetName())
	uid := o.GetUID()
	return client.IgnoreNotFound(r.opts.Client.Delete(ctx, is, client.Preconditions{UID: &uid}))
}
