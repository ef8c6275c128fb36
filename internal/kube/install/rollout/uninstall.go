package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// Holdings are what depends on mlbatch.
type Holdings struct {
	// Namespace is where it is installed, "" if it is not.
	Namespace string
	// Beside is the address of an mlbatch that runs outside of the cluster, as that of mlbatch
	// up does, "" if none does.
	Beside string
	// Definitions are the kinds that it brought, and Objects how many there are of each.
	Definitions []string
	Objects     map[string]int
	// Jobs are the running jobs, and Waiting the others: they are suspended, or held.
	Running, Waiting int
}

// Hold looks at what depends on an installation.
func (x *Cluster) Hold(ctx context.Context, p *Installation) (*Holdings, error) {
	h := &Holdings{Objects: map[string]int{}}
	all, err := x.labelled(ctx, p.Release.Manager)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if o.GetKind() == "Deployment" {
			h.Namespace = o.GetNamespace()
		}
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := x.Client.List(ctx, validating); err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	h.Beside = beside(validating.Items)
	definitions, err := x.definitions(ctx)
	if err != nil {
		return nil, err
	}
	for i := range definitions {
		crd := &definitions[i]
		h.Definitions = append(h.Definitions, crd.Name)
		objects, err := x.objectsOf(ctx, crd)
		if err != nil {
			return nil, err
		}
		if len(objects) > 0 {
			h.Objects[crd.Spec.Names.Plural] = len(objects)
		}
	}
	workloads := &kueue.WorkloadList{}
	if err := x.Client.List(
		ctx,
		workloads,
	); err != nil && !apimeta.IsNoMatchError(err) &&
		!apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list Workloads: %w", err)
	}
	for i := range workloads.Items {
		switch w := &workloads.Items[i]; {
		case apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished):
		case apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadAdmitted):
			h.Running++
		default:
			h.Waiting++
		}
	}
	return h, nil
}

// definitions are the definitions that were installed with mlbatch.
func (x *Cluster) definitions(ctx context.Context) ([]apiextensionsv1.CustomResourceDefinition, error) {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := x.Client.List(ctx, list, client.MatchingLabels{install.PartLabel: install.App}); err != nil {
		return nil, fmt.Errorf("list definitions: %w", err)
	}
	return list.Items, nil
}

// storage is the version that objects of a kind are stored in: reading it needs no conversion, so
// that it works without a controller.
func storage(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionKind {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			return schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
		}
	}
	return schema.GroupVersionKind{}
}

func (x *Cluster) objectsOf(
	ctx context.Context,
	crd *apiextensionsv1.CustomResourceDefinition,
) ([]metav1.PartialObjectMetadata, error) {
	gvk := storage(crd)
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := x.Client.List(ctx, list); err != nil {
		if apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list %s: %w", crd.Name, err)
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(gvk)
	}
	return list.Items, nil
}

// Uninstall takes an installation out of the cluster. Pods that run go on. The webhook
// configurations go first: from then on nothing is refused because nobody answers.
//
// With the definitions go all objects of their kinds, and with these the pods of jobs of these
// kinds. Finalizers of ours are taken off first: nobody is left who would.
func (x *Cluster) Uninstall( //nolint:revive // a fact
	ctx context.Context,
	p *Installation,
	keepDefinitions bool,
) error {
	all, err := x.labelled(ctx, p.Release.Manager)
	if err != nil {
		return err
	}
	done := map[string]int{}
	namespaces := map[string]bool{p.Release.Namespace: true}
	var programs []client.ObjectKey
	for _, o := range all { // in the order of their kinds
		how := metav1.DeletePropagationBackground
		if o.GetKind() == "Deployment" {
			how = metav1.DeletePropagationForeground // it is there until its pods are gone
		}
		if err := client.IgnoreNotFound(x.Client.Delete(ctx, o, client.PropagationPolicy(how))); err != nil {
			return fmt.Errorf("delete %s: %w", called(o), err)
		}
		if o.GetKind() == "Deployment" {
			namespaces[o.GetNamespace()] = true
			programs = append(programs, client.ObjectKeyFromObject(o))
		}
		done[o.GetKind()]++
		if o.GetKind() == "Deployment" && len(programs) == done["Deployment"] && last(all, o) {
			// A controller that still runs would put back what is taken away here.
			if err := x.await(ctx, x.gone(programs)); err != nil {
				return err
			}
		}
	}
	for _, gvk := range rolled() {
		if n := done[gvk.Kind]; n > 0 {
			x.Say("%-14s %d %s", Removed, n, plural(gvk.Kind, n))
		}
	}
	if err := x.leave(ctx, namespaces, keepDefinitions); err != nil {
		return err
	}
	if keepDefinitions {
		return nil
	}
	return x.dropDefinitions(ctx)
}

func plural(kind string, n int) string {
	if n == 1 {
		return kind
	}
	if stem, is := strings.CutSuffix(kind, "y"); is {
		return stem + "ies"
	}
	return kind + "s"
}

// last reports whether an object is the last of its kind.
func last(all []*unstructured.Unstructured, o *unstructured.Unstructured) bool {
	i := slices.Index(all, o)
	return i == len(all)-1 || all[i+1].GetKind() != o.GetKind()
}

// gone is that Deployments are no more, and their pods neither.
func (x *Cluster) gone(programs []client.ObjectKey) []condition {
	var out []condition
	for _, key := range programs {
		out = append(
			out,
			condition{name: "deployment " + key.Name + " is gone", look: func(ctx context.Context) (string, error) {
				o := &metav1.PartialObjectMetadata{}
				o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
				err := x.Client.Get(ctx, key, o)
				if apierrors.IsNotFound(err) {
					return "", nil
				}
				return "its pods are ending", err
			}},
		)
	}
	return out
}

// leave takes away what the programs made for themselves: leases, and the binding of the
// controller where jobs run, whose finalizer would hold up namespaces that are deleted.
func (x *Cluster) leave( //nolint:revive // a fact
	ctx context.Context,
	namespaces map[string]bool,
	keep bool,
) error {
	bindings := &rbacv1.RoleBindingList{}
	if err := x.Client.List(ctx, bindings); err != nil {
		return fmt.Errorf("list RoleBindings: %w", err)
	}
	n := 0
	for i := range bindings.Items {
		b := &bindings.Items[i]
		if b.Name != rights.Binding || b.RoleRef.Name != rights.Role {
			continue
		}
		if err := x.unhold(ctx, b, func(string) bool { return true }); err != nil {
			return err
		}
		if err := client.IgnoreNotFound(x.Client.Delete(ctx, b)); err != nil {
			return fmt.Errorf("delete rolebinding %s in %s: %w", b.Name, b.Namespace, err)
		}
		n++
	}
	if n > 0 {
		x.Say("%-14s %d %s of the controller where jobs run", Removed, n, plural("RoleBinding", n))
	}
	for ns := range namespaces {
		for _, name := range []string{install.Controller, install.Scheduler} {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"})
			o.SetNamespace(ns)
			o.SetName(name)
			if err := client.IgnoreNotFound(x.Client.Delete(ctx, o)); err != nil {
				return fmt.Errorf("delete lease %s: %w", name, err)
			}
		}
	}
	if keep {
		return nil
	}
	return x.releasePods(ctx)
}

// releasePods takes our finalizer off pods: without it they can end.
func (x *Cluster) releasePods(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := x.Client.List(ctx, pods, client.HasLabels{kueue.ManagedLabel}); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		if err := x.unhold(ctx, &pods.Items[i], ofOurs(nil)); err != nil {
			return err
		}
	}
	return nil
}

// ofOurs tells which finalizers nobody takes off once mlbatch is gone.
func ofOurs(groups map[string]bool) func(string) bool {
	return func(f string) bool {
		domain, _, _ := strings.Cut(f, "/")
		return domain == "mlbatch.dev" || domain == "kueue.x-k8s.io" || groups[domain]
	}
}

// unhold takes finalizers off an object.
func (x *Cluster) unhold(ctx context.Context, o client.Object, which func(string) bool) error {
	has := o.GetFinalizers()
	left := slices.DeleteFunc(slices.Clone(has), which)
	if len(left) == len(has) {
		return nil
	}
	before, _ := o.DeepCopyObject().(client.Object)
	o.SetFinalizers(left)
	if err := x.Client.Patch(ctx, o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take the finalizer off %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// dropDefinitions deletes the kinds, and all objects with them.
func (x *Cluster) dropDefinitions(ctx context.Context) error {
	definitions, err := x.definitions(ctx)
	if err != nil {
		return err
	}
	groups := map[string]bool{}
	for i := range definitions {
		groups[definitions[i].Spec.Group] = true
	}
	for i := range definitions {
		crd := &definitions[i]
		// Conversions would be asked for, of nobody.
		if crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
			before := crd.DeepCopy()
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
			if err := x.Client.Patch(ctx, crd, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("change %s: %w", crd.Name, err)
			}
		}
		objects, err := x.objectsOf(ctx, crd)
		if err != nil {
			return err
		}
		for j := range objects {
			if err := x.unhold(ctx, &objects[j], ofOurs(groups)); err != nil {
				return err
			}
		}
		if err := client.IgnoreNotFound(x.Client.Delete(ctx, crd)); err != nil {
			return fmt.Errorf("delete %s: %w", crd.Name, err)
		}
	}
	x.Say("%-14s %d kinds, and all objects of them", Removed, len(definitions))
	var waits []condition
	for i := range definitions {
		name := definitions[i].Name
		waits = append(waits, condition{name: name + " is gone", look: func(ctx context.Context) (string, error) {
			err := x.Client.Get(ctx, client.ObjectKey{Name: name}, &apiextensionsv1.CustomResourceDefinition{})
			if apierrors.IsNotFound(err) {
				return "", nil
			}
			return "objects of it are being deleted", err
		}})
	}
	quiet := *x
	quiet.Say = func(string, ...any) {}
	return quiet.await(ctx, waits)
}

// Left is what an uninstallation leaves, in sentences with what to do about it.
func (x *Cluster) Left( //nolint:revive // a fact
	ctx context.Context,
	p *Installation,
	h *Holdings,
	kept bool,
) ([]string, error) {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	say(
		"namespace %s, with what mlbatch did not install there: kubectl delete namespace %s",
		p.Release.Namespace,
		p.Release.Namespace,
	)
	if kept {
		say(
			"%d kinds with their objects: queues, quotas and jobs are as they were, and mlbatch install goes on from there",
			len(h.Definitions),
		)
		if h.Running > 0 {
			say(
				"%d jobs that run: their pods go on; nobody restarts them on other nodes, and nobody counts their quota",
				h.Running,
			)
		}
		if h.Waiting > 0 {
			say("%d jobs that wait: they stay suspended or held until mlbatch is back", h.Waiting)
		}
		say("objects of Kueue's kinds in version v1beta1 cannot be read until mlbatch is back: it converts them")
	}
	jobs := &batchv1.JobList{}
	if err := x.Client.List(ctx, jobs, client.HasLabels{kueue.QueueNameLabel}); err != nil {
		return nil, fmt.Errorf("list Jobs: %w", err)
	}
	suspended, running := 0, 0
	for i := range jobs.Items {
		switch j := &jobs.Items[i]; {
		case ptr.Deref(j.Spec.Suspend, false):
			suspended++
		case j.Status.Active > 0:
			running++
		}
	}
	if !kept && running > 0 {
		say("%d Jobs that run go on", running)
	}
	if !kept && suspended > 0 {
		say(
			"%d Jobs are suspended, and nobody starts them: kubectl patch job NAME -n NAMESPACE -p '{\"spec\":{\"suspend\":false}}'",
			suspended,
		)
	}
	return out, nil
}
