package gather

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
	"github.com/mlbatch/mlbatch/internal/view"
)

// serverKinds are what makes pods that serve, each queued by itself or in groups: there is nothing
// of them in a queue until the first pod is made.
func serverKinds() map[view.Kind]schema.GroupVersionKind {
	out := map[view.Kind]schema.GroupVersionKind{}
	for _, k := range []view.Kind{view.KindDeployment, view.KindStatefulSet, view.KindReplicaSet} {
		out[k] = appsv1.SchemeGroupVersion.WithKind(string(k))
	}
	for _, k := range serving.Grouped() {
		out[view.Kind(k.GVK.Kind)] = k.GVK
	}
	return out
}

// Serves reports whether objects of a kind make pods that serve.
func Serves(k view.Kind) bool {
	_, is := serverKinds()[k]
	return is
}

// mostServers is how many objects without pods are read one by one at most.
const mostServers = 100

// server is an object that makes pods which serve.
type server struct {
	kind view.Kind
	meta *metav1.PartialObjectMetadata
}

// readServers reads what makes pods that serve, as far as the user may: their metadata, since most
// of them have pods.
func (s *reading) readServers(ctx context.Context, k view.Kind, gvk schema.GroupVersionKind) error {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := s.c.List(ctx, &list, client.InNamespace(s.namespace), &s.options)
	if err := Readable(err); err != nil && !apimeta.IsNoMatchError(err) {
		return fmt.Errorf("list %ss: %w", k, err)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	for i := range list.Items {
		if o := &list.Items[i]; metav1.GetControllerOf(o) == nil {
			s.servers = append(s.servers, server{k, o})
		}
	}
	return nil
}

// podless are the lines of what should have pods in queues, and has none, so that nothing else of
// it is to be seen there.
func (s *reading) podless(ctx context.Context, rows []view.Job) (out []view.Job, err error) {
	there := map[view.Ref]bool{}
	for i := range rows {
		there[view.Ref{Kind: rows[i].Kind, Namespace: rows[i].Namespace, Name: rows[i].Name}] = true
	}
	groups := serving.Grouped()
	for i := range s.pods {
		p := &s.pods[i]
		kind, name := MadeBy(p)
		there[view.Ref{Kind: kind, Namespace: p.Namespace, Name: name}] = true
		for _, k := range groups {
			there[view.Ref{Kind: view.Kind(k.GVK.Kind), Namespace: p.Namespace, Name: p.Labels[k.NameLabel]}] = true
		}
	}
	slices.SortFunc(s.servers, func(a, b server) int {
		return cmp.Or(
			cmp.Compare(a.meta.Namespace, b.meta.Namespace),
			cmp.Compare(a.meta.Name, b.meta.Name),
			cmp.Compare(a.kind, b.kind),
		)
	})
	events := map[string][]corev1.Event{}
	for _, o := range s.servers {
		m := o.meta
		queued := m.Labels[kueue.QueueNameLabel] != "" || s.teams[m.Namespace]
		if !queued || m.DeletionTimestamp != nil ||
			there[view.Ref{Kind: o.kind, Namespace: m.Namespace, Name: m.Name}] ||
			len(out) == mostServers {
			continue
		}
		row, is, err := s.rowOfServer(ctx, o, events)
		if err != nil {
			return nil, err
		}
		if is {
			out = append(out, row)
		}
	}
	return out, nil
}

// rowOfServer is the line of an object that has no pods; false if it is to have none. events are
// those of namespaces that were read before.
func (s *reading) rowOfServer(
	ctx context.Context,
	o server,
	events map[string][]corev1.Event,
) (view.Job, bool, error) {
	full := emptyServer(o.kind)
	m := o.meta
	if err := s.c.Get(ctx, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, full); err != nil {
		if err := Readable(err); err != nil {
			return view.Job{}, false, fmt.Errorf("read %s %s/%s: %w", o.kind, m.Namespace, m.Name, err)
		}
		return view.Job{}, false, nil
	}
	n, template := Copies(full)
	if n == 0 {
		return view.Job{}, false, nil
	}
	why := NotMade(full)
	if why == "" {
		list, read := events[m.Namespace]
		if !read {
			var err error
			if list, err = s.eventsIn(ctx, m.Namespace); err != nil {
				return view.Job{}, false, err
			}
			events[m.Namespace] = list
		}
		why = failedOf(list, full, o.kind)
	}
	if e, err := TakenName(ctx, s.c, full, nil); err != nil {
		return view.Job{}, false, err
	} else if why == "" && e != nil {
		why = e.Message
	}
	row := view.Job{
		Namespace: m.Namespace,
		Kind:      o.kind,
		Name:      m.Name,
		Title:     m.Labels[view.TitleLabel],
		Queue:     m.Labels[kueue.QueueNameLabel],
		State:     view.Starting,
		Reason:    ReasonPodsQueued,
		Pods:      int(n),
		GPUs:      int64(n) * view.GPUs(&template.Spec),
		Slices:    view.Slices(&template.Spec, n),
		Created:   m.CreationTimestamp.UTC(),
		User:      jobs.User(nil, m),
		Trouble:   "its pods are not there yet",
	}
	if why != "" {
		row.Trouble = "its pods could not be made: " + why
	}
	return row, true, nil
}

// eventsIn are the events of a namespace, none if the user may not read them.
func (s *reading) eventsIn(ctx context.Context, namespace string) ([]corev1.Event, error) {
	var list corev1.EventList
	if err := Readable(s.c.List(ctx, &list, client.InNamespace(namespace))); err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return list.Items, nil
}

// Copies is how many pods there are to be of an object that makes pods which serve, and what they
// are like.
func Copies(o client.Object) (int32, *corev1.PodTemplateSpec) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(o.Spec.Replicas, 1), &o.Spec.Template
	case *appsv1.StatefulSet:
		return ptr.Deref(o.Spec.Replicas, 1), &o.Spec.Template
	case *appsv1.ReplicaSet:
		return ptr.Deref(o.Spec.Replicas, 1), &o.Spec.Template
	}
	if k := serving.GroupedOf(o); k != nil {
		return k.Viewing.Pods(o)
	}
	return 0, nil
}

// NotMade is what the status of such an object says of pods that could not be made; "" if nothing.
// Of StatefulSets only events tell.
func NotMade(o client.Object) string {
	switch o := o.(type) {
	case *appsv1.Deployment:
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	case *appsv1.ReplicaSet:
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	}
	if k := serving.GroupedOf(o); k != nil {
		return k.Viewing.NotMade(o)
	}
	return ""
}

// failedOf is what the last event says of pods of an object that could not be made, "" if there
// is none.
func failedOf(events []corev1.Event, o client.Object, kind view.Kind) string {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		of := e.InvolvedObject
		about := of.Kind == string(kind) ||
			Grouped(kind) != nil && of.Kind == string(view.KindStatefulSet)
		if about && of.Name == o.GetName() && Unmade(e.Reason) && !When(e).Before(o.GetCreationTimestamp().Time) &&
			Later(e, last) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return last.Message
}

// TakenName tells that the next pod of a StatefulSet cannot be made, since another's has its name, as the
// event would of which Kubernetes makes none; nil if that is not so. pods are the pods that it has.
func TakenName(
	ctx context.Context,
	c client.Reader,
	o client.Object,
	pods []corev1.Pod,
) (*corev1.Event, error) {
	set, is := o.(*appsv1.StatefulSet)
	if !is {
		return nil, nil
	}
	n, _ := Copies(set)
	first := int32(0)
	if set.Spec.Ordinals != nil {
		first = set.Spec.Ordinals.Start
	}
	for i := range n {
		name := fmt.Sprintf("%s-%d", set.Name, first+i)
		if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == name }) {
			continue
		}
		there := &metav1.PartialObjectMetadata{}
		there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(view.KindPod)))
		if err := Readable(
			c.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, there),
		); err != nil {
			return nil, fmt.Errorf("read pod %s/%s: %w", set.Namespace, name, err)
		}
		if there.UID == "" || metav1.IsControlledBy(there, set) {
			return nil, nil // there is none, or it may not be read
		}
		return &corev1.Event{
			InvolvedObject: corev1.ObjectReference{
				Kind:      string(view.KindStatefulSet),
				Namespace: set.Namespace,
				Name:      set.Name,
			},
			Reason:        NameTaken,
			LastTimestamp: younger(set, there),
			Message:       "there is another Pod " + name + ", which is not this set's: delete it, or give the set another name",
		}, nil
	}
	return nil, nil
}

// younger is when the younger of two objects was created.
func younger(a, b metav1.Object) metav1.Time {
	if t := b.GetCreationTimestamp(); t.After(a.GetCreationTimestamp().Time) {
		return t
	}
	return a.GetCreationTimestamp()
}

// emptyServer is an object of a kind that makes pods which serve.
func emptyServer(k view.Kind) client.Object {
	for _, s := range Sets() {
		if s.Kind == k {
			return s.Object
		}
	}
	return &appsv1.Deployment{}
}
