package migrate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Picture is a cluster at one moment, as far as an import looks at it. Objects of Kueue are in
// v1beta2, in whichever version the cluster serves them.
type Picture struct {
	System System
	Now    time.Time

	// Programs are those of the system that are there.
	Programs []Program
	// Mutating, Validating and APIServices are the configurations that lead to them.
	Mutating    []admissionregistrationv1.MutatingWebhookConfiguration
	Validating  []admissionregistrationv1.ValidatingWebhookConfiguration
	APIServices []unstructured.Unstructured
	Definitions []apiextensionsv1.CustomResourceDefinition
	Leases      []coordinationv1.Lease
	// Configuration is Kueue's file, and ConfigurationName where it is from; "" if none was found.
	Configuration, ConfigurationName string
	// WrapperConfiguration is the AppWrapper controller's file, "" if none was found.
	WrapperConfiguration string
	// Installed: mlbatch's webhooks are in the cluster.
	Installed bool
	// OldOnly: Kueue's objects are served in v1beta1 and no newer version.
	OldOnly bool

	Flavors     []kueue.ResourceFlavor
	Cohorts     []kueue.Cohort
	Queues      []kueue.ClusterQueue
	LocalQueues []kueue.LocalQueue
	Checks      []kueue.AdmissionCheck
	Topologies  []kueue.Topology
	MultiKueue  []kueue.MultiKueueCluster
	Workloads   []kueue.Workload
	AppWrappers []aw.AppWrapper
	Nodes       []corev1.Node
	Pods        []corev1.Pod
	Namespaces  []corev1.Namespace
	LimitRanges []corev1.LimitRange
	Runtimes    []nodev1.RuntimeClass
	Volumes     []corev1.PersistentVolume
	Jobs        []batchv1.Job
	RayClusters int // that run
	OldMPIJobs  int
	// parents are what controls owners of pods, by their UIDs.
	parents map[types.UID]types.UID
}

// Take reads the cluster.
func Take(ctx context.Context, c client.Client, system System, now time.Time) (*Picture, error) {
	p := &Picture{System: system, Now: now}
	for _, read := range []func(context.Context, client.Client) error{p.programs, p.hooks, p.definitions, p.settings, p.queues, p.surroundings, p.running} {
		if err := read(ctx, c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// programs finds what of the system runs, and who holds which lease.
func (p *Picture) programs(ctx context.Context, c client.Client) error {
	var deployments []appsv1.Deployment
	err := list(ctx, c, &deployments)
	if err != nil {
		return err
	}
	for _, kind := range p.System.parts() {
		for i := range deployments {
			if kind.is(&deployments[i]) {
				p.Programs = append(p.Programs, Program{part: kind, Deployment: deployments[i]})
			}
		}
	}
	return list(ctx, c, &p.Leases)
}

// hooks finds who is called about objects.
func (p *Picture) hooks(ctx context.Context, c client.Client) error {
	var mutating []admissionregistrationv1.MutatingWebhookConfiguration
	var validating []admissionregistrationv1.ValidatingWebhookConfiguration
	if err := errors.Join(list(ctx, c, &mutating), list(ctx, c, &validating)); err != nil {
		return err
	}
	for i := range mutating {
		p.Installed = p.Installed || mutating[i].Name == oursMutating
		if slices.ContainsFunc(
			mutating[i].Webhooks,
			func(w admissionregistrationv1.MutatingWebhook) bool { return p.theirs(w.ClientConfig.Service) },
		) {
			p.Mutating = append(p.Mutating, mutating[i])
		}
	}
	for i := range validating {
		if slices.ContainsFunc(
			validating[i].Webhooks,
			func(w admissionregistrationv1.ValidatingWebhook) bool { return p.theirs(w.ClientConfig.Service) },
		) {
			p.Validating = append(p.Validating, validating[i])
		}
	}
	services := &unstructured.UnstructuredList{}
	services.SetGroupVersionKind(
		schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIServiceList"},
	)
	if err := c.List(ctx, services); err != nil {
		return fmt.Errorf("list APIServices: %w", err)
	}
	for _, s := range services.Items {
		group, _, _ := unstructured.NestedString(s.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(s.Object, "spec", "service", "name")
		if group == visibilityGroup && !strings.HasPrefix(name, "mlbatch-") {
			p.APIServices = append(p.APIServices, s)
		}
	}
	return nil
}

// theirs reports whether a webhook is answered by a program that is taken over. It may be gone
// already, and its webhooks left.
func (p *Picture) theirs(s *admissionregistrationv1.ServiceReference) bool {
	return s != nil && slices.ContainsFunc(p.System.parts(), func(k part) bool {
		return slices.Contains(k.services, s.Name)
	})
}

func (p *Picture) definitions(ctx context.Context, c client.Client) error {
	var all []apiextensionsv1.CustomResourceDefinition
	if err := list(ctx, c, &all); err != nil {
		return err
	}
	for i := range all {
		switch d := &all[i]; d.Spec.Group {
		case kueue.GroupVersion.Group:
			p.Definitions = append(p.Definitions, *d)
			if d.Spec.Names.Kind == "ClusterQueue" {
				p.OldOnly = !served(d, kueue.GroupVersion.Version)
			}
		case aw.GroupVersion.Group:
			p.Definitions = append(p.Definitions, *d)
		}
	}
	if len(p.Definitions) == 0 {
		return fmt.Errorf(
			"%w: the cluster has none of its definitions; mlbatch install begins a cluster without it",
			p.System.absent(),
		)
	}
	return nil
}

// reads is the version in which objects of a kind are read.
func (p *Picture) reads(kind string) string {
	for i := range p.Definitions {
		if d := &p.Definitions[i]; d.Spec.Names.Kind == kind && liftable(d) {
			return alpha
		}
	}
	if p.OldOnly {
		return v1beta1.GroupVersion.Version
	}
	return kueue.GroupVersion.Version
}

func served(d *apiextensionsv1.CustomResourceDefinition, version string) bool {
	return slices.ContainsFunc(
		d.Spec.Versions,
		func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version && v.Served },
	)
}

// settings reads the configuration files of the programs.
func (p *Picture) settings(ctx context.Context, c client.Client) error {
	for _, r := range p.Programs {
		if r.config == "" {
			continue
		}
		var m corev1.ConfigMap
		err := c.Get(
			ctx,
			types.NamespacedName{Namespace: r.Deployment.Namespace, Name: configMapOf(&r.Deployment, r.config)},
			&m,
		)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the configuration of %s: %w", r.name, err)
		}
		text := ""
		for _, key := range sortedKeys(m.Data) {
			text = m.Data[key]
			if strings.Contains(key, "config") {
				break
			}
		}
		if r.name == kueueName {
			p.Configuration, p.ConfigurationName = text, "ConfigMap "+m.Namespace+"/"+m.Name
		} else {
			p.WrapperConfiguration = text
		}
	}
	return nil
}

// configMapOf is the ConfigMap that a program mounts with its file: the usual one, or one whose
// name ends the same, as charts add a hash or a prefix.
func configMapOf(d *appsv1.Deployment, usual string) string {
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil &&
			(v.ConfigMap.Name == usual || strings.Contains(v.ConfigMap.Name, "manager-config") || strings.Contains(v.ConfigMap.Name, "operator-config")) {
			return v.ConfigMap.Name
		}
	}
	return usual
}

// queues reads Kueue's objects.
func (p *Picture) queues(ctx context.Context, c client.Client) error {
	return errors.Join(
		in[v1beta1.ResourceFlavor](ctx, c, p.reads, &p.Flavors),
		in[v1beta1.Cohort](ctx, c, p.reads, &p.Cohorts),
		in[v1beta1.ClusterQueue](ctx, c, p.reads, &p.Queues),
		in[v1beta1.LocalQueue](ctx, c, p.reads, &p.LocalQueues),
		in[v1beta1.AdmissionCheck](ctx, c, p.reads, &p.Checks),
		in[v1beta1.Topology](ctx, c, p.reads, &p.Topologies),
		in[v1beta1.MultiKueueCluster](ctx, c, p.reads, &p.MultiKueue),
		in[v1beta1.Workload](ctx, c, p.reads, &p.Workloads),
	)
}

// surroundings reads what else decisions depend on.
func (p *Picture) surroundings(ctx context.Context, c client.Client) (err error) {
	return errors.Join(
		list(ctx, c, &p.Nodes),
		list(ctx, c, &p.Namespaces),
		list(ctx, c, &p.LimitRanges),
		list(ctx, c, &p.Runtimes),
		list(ctx, c, &p.Volumes),
		list(ctx, c, &p.Pods),
	)
}

// running reads jobs whose kinds have programs of their own.
func (p *Picture) running(ctx context.Context, c client.Client) (err error) {
	if err := list(ctx, c, &p.Jobs); err != nil {
		return err
	}
	if err := list(ctx, c, &p.AppWrappers); err != nil && !unserved(err) {
		return err
	}
	count := func(group, version, kind string, counts func(*unstructured.Unstructured) bool) (n int, err error) {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
		err = c.List(ctx, l)
		if unserved(err) {
			return 0, nil
		}
		for i := range l.Items {
			if counts(&l.Items[i]) {
				n++
			}
		}
		return n, err //nolint:wrapcheck // below
	}
	p.RayClusters, err = count("ray.io", "v1", "RayCluster", func(u *unstructured.Unstructured) bool {
		suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
		return !suspended
	})
	if err != nil {
		return fmt.Errorf("list RayClusters: %w", err)
	}
	p.OldMPIJobs, err = count(
		"kubeflow.org",
		"v1",
		"MPIJob",
		func(*unstructured.Unstructured) bool { return true },
	)
	if err != nil {
		return fmt.Errorf("list MPIJobs: %w", err)
	}
	return p.ancestors(ctx, c)
}

// ancestors follows owners of pods up to what owns a Workload that holds quota, in namespaces
// that have one.
func (p *Picture) ancestors(ctx context.Context, c client.Client) error {
	holders, where := p.holders(), map[string]bool{}
	for _, w := range holders {
		where[w.Namespace] = true
	}
	p.parents = map[types.UID]types.UID{}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if !where[pod.Namespace] || convert.PodState(pod).Ended {
			continue
		}
		at := metav1.GetControllerOf(pod)
		for range nesting {
			if at == nil || holders[at.UID] != nil {
				break
			}
			if _, known := p.parents[at.UID]; known {
				break
			}
			owner := &metav1.PartialObjectMetadata{}
			owner.SetGroupVersionKind(schema.FromAPIVersionAndKind(at.APIVersion, at.Kind))
			err := c.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: at.Name}, owner)
			if err != nil && !unserved(err) {
				return fmt.Errorf("read %s %s/%s, which owns pods: %w", at.Kind, pod.Namespace, at.Name, err)
			}
			above := metav1.GetControllerOf(owner)
			if err != nil || owner.UID != at.UID || above == nil {
				p.parents[at.UID] = ""
				break
			}
			p.parents[at.UID] = above.UID
			at = above
		}
	}
	return nil
}

// unserved reports whether a cluster does not have a kind.
func unserved(err error) bool { return apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// list reads all objects of a kind.
func list[T any, Object object[T]](ctx context.Context, c client.Client, into *[]T) error {
	one := Object(new(T))
	gvk, err := c.GroupVersionKindFor(one)
	if err != nil {
		return fmt.Errorf("find the kind of %T: %w", one, err)
	}
	made, err := c.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return fmt.Errorf("list %T: %w", *new(T), err)
	}
	all, is := made.(client.ObjectList)
	if !is {
		return fmt.Errorf("%T is no list", made)
	}
	if err := c.List(ctx, all); err != nil {
		return fmt.Errorf("list %T: %w", *new(T), err)
	}
	items, is := reflect.TypeAssert[[]T](reflect.ValueOf(all).Elem().FieldByName("Items"))
	if !is {
		return fmt.Errorf("%T has other items than %T", all, one)
	}
	*into = items
	return nil
}

// in reads all objects of one of Kueue's kinds, in the newest version that there is. A kind that
// this Kueue does not have has none.
func in[Old, New any, Older older[Old, New], Object object[New]](
	ctx context.Context,
	c client.Client,
	version func(kind string) string,
	into *[]New,
) error {
	gvk, err := c.GroupVersionKindFor(Object(new(New)))
	if err != nil {
		return fmt.Errorf("find the kind of %T: %w", *new(New), err)
	}
	old := version(gvk.Kind) != gvk.Version
	gvk.Version = version(gvk.Kind)
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := c.List(ctx, l); err != nil {
		if unserved(err) {
			return nil
		}
		return fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	for i := range l.Items {
		var is New
		if !old {
			err = fromUnstructured(&l.Items[i], &is)
		} else {
			var was Old
			lifted(&l.Items[i])
			if err = fromUnstructured(&l.Items[i], &was); err == nil {
				err = Older(&was).ConvertTo(&is)
			}
		}
		if err != nil {
			return fmt.Errorf("read %s %s: %w", gvk.Kind, l.Items[i].GetName(), err)
		}
		*into = append(*into, is)
	}
	return nil
}

// object is an object of the API.
type object[T any] interface {
	*T
	client.Object
}

// older is one in a version that can be converted to the newest.
type older[T, Newest any] interface {
	object[T]
	ConvertTo(newest *Newest) error
}

// age is the time since a moment, zero for none.
func age(now time.Time, t *metav1.MicroTime) time.Duration {
	if t == nil {
		return 0
	}
	return now.Sub(t.Time)
}
