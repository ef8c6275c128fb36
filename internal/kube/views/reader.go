package views

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// right is a verb on objects of a resource, of one name or, if that is "", of all of a namespace; all
// namespaces are "".
type right struct {
	verb            string
	resource        schema.GroupResource
	namespace, name string
}

// reader reads objects for somebody who asks, with their rights and not with the controller's: what they may
// not read is forbidden to it. It lives as long as one answer is made.
type reader struct {
	*Handler
	user user.Info
	// own says that it reads with the controller's rights, for an answer in which nothing of what it reads is named.
	own bool
	// whole says that a list is of all namespaces that are asked for, or forbidden.
	whole bool

	mu  sync.Mutex // guards may: lists are read at the same time
	may map[right]bool

	once       sync.Once
	namespaces []string // whose Workloads the asker may list
}

var _ client.Reader = (*reader)(nil)

// can reports whether the asker has a right. An unknown user has none.
func (r *reader) can(ctx context.Context, of right) bool {
	if r.own {
		return true
	}
	r.mu.Lock()
	yes, known := r.may[of]
	r.mu.Unlock()
	if known {
		return yes
	}
	if r.user != nil {
		decision, _, err := r.rights.Authorize(ctx, authorizer.AttributesRecord{
			User: r.user, Verb: of.verb, APIGroup: of.resource.Group, APIVersion: "*", Resource: of.resource.Resource,
			Namespace: of.namespace, Name: of.name, ResourceRequest: true,
		})
		yes = err == nil && decision == authorizer.DecisionAllow
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.may[of] = yes
	return yes
}

// NodeHealth is what is remembered of nodes. Whoever is told of nodes is told how they are.
func (r *reader) NodeHealth(ctx context.Context) *corev1.ConfigMap { return r.health(ctx) }

// denied is the error of a right that the asker does not have.
func (r *reader) denied(verb string, of schema.GroupResource, name string) error {
	return apierrors.NewForbidden(
		of,
		name,
		fmt.Errorf("%s may not %s it", cmp.Or(nameOf(r.user), "somebody unknown"), verb),
	)
}

// atOnce is how many rights are asked for at the same time.
const atOnce = 16

// seen are the namespaces that an asker is told of who may not list what is in all of them.
func (r *reader) seen(ctx context.Context) []string {
	r.once.Do(func() {
		var all corev1.NamespaceList
		if r.objects.List(ctx, &all, client.UnsafeDisableDeepCopy) != nil {
			return
		}
		may, turn := make([]bool, len(all.Items)), make(chan struct{}, atOnce)
		var asking sync.WaitGroup
		for i := range all.Items {
			asking.Go(func() {
				turn <- struct{}{}
				defer func() { <-turn }()
				may[i] = r.can(
					ctx,
					right{
						"list",
						schema.GroupResource{Group: kueue.GroupVersion.Group, Resource: "workloads"},
						all.Items[i].Name,
						"",
					},
				)
			})
		}
		asking.Wait()
		for i := range all.Items {
			if may[i] {
				r.namespaces = append(r.namespaces, all.Items[i].Name)
			}
		}
	})
	return r.namespaces
}

// List reads what the asker may list of a kind.
func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	gvk, resource, namespaced, err := r.resourceOf(list)
	if err != nil {
		return err
	}
	if r.can(ctx, right{"list", resource, o.Namespace, ""}) {
		return r.readList(ctx, gvk, list, &o)
	}
	var parts []client.ListOptions
	if o.Namespace == "" && !r.whole {
		for _, namespace := range r.seen(ctx) {
			part := o
			switch {
			case gvk.GroupKind() == (schema.GroupKind{Kind: "Namespace"}): // it is asked for as a thing that is within itself
				if !r.can(ctx, right{"get", resource, namespace, namespace}) {
					continue
				}
			case !namespaced || !r.can(ctx, right{"list", resource, namespace, ""}):
				continue
			}
			part.Namespace = namespace
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return r.denied("list", resource, "")
	}
	return r.readParts(ctx, gvk, list, parts)
}

// readParts reads a list namespace by namespace.
func (r *reader) readParts(
	ctx context.Context,
	gvk schema.GroupVersionKind,
	list client.ObjectList,
	parts []client.ListOptions,
) error {
	empty := list.DeepCopyObject()
	var items []runtime.Object
	for i := range parts {
		part, is := empty.DeepCopyObject().(client.ObjectList)
		if !is {
			return fmt.Errorf("%T is no list", list)
		}
		if err := r.readPart(ctx, gvk, part, &parts[i]); err != nil {
			return err
		}
		more, err := apimeta.ExtractList(part)
		if err != nil {
			return fmt.Errorf("read a list of %s: %w", gvk.Kind, err)
		}
		items = append(items, more...)
	}
	return apimeta.SetList(list, items)
}

// readPart reads what is in one namespace; the namespace itself, of namespaces.
func (r *reader) readPart(
	ctx context.Context,
	gvk schema.GroupVersionKind,
	part client.ObjectList,
	o *client.ListOptions,
) error {
	namespaces, is := part.(*corev1.NamespaceList)
	if !is {
		return r.readList(ctx, gvk, part, o)
	}
	var n corev1.Namespace
	if err := r.objects.Get(ctx, client.ObjectKey{Name: o.Namespace}, &n); err != nil {
		return client.IgnoreNotFound(err)
	}
	if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(n.Labels)) {
		namespaces.Items = append(namespaces.Items, n)
	}
	return nil
}

// Get reads an object that the asker may get.
func (r *reader) Get(
	ctx context.Context,
	key client.ObjectKey,
	o client.Object,
	_ ...client.GetOption,
) error {
	gvk, resource, _, err := r.resourceOf(o)
	if err != nil {
		return err
	}
	within := key.Namespace
	if gvk.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		within = key.Name
	}
	if !r.can(ctx, right{"get", resource, within, key.Name}) {
		return r.denied("get", resource, key.Name)
	}
	partial, is := o.(*metav1.PartialObjectMetadata)
	switch watched := r.watched[gvk.GroupKind()]; {
	case !watched:
		return r.live.Get(ctx, key, o)
	case !is:
		return r.objects.Get(ctx, key, o)
	}
	full, err := r.scheme.New(gvk)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", gvk.Kind, key, err)
	}
	whole, is := full.(client.Object)
	if !is {
		return fmt.Errorf("%T is no object", full)
	}
	if err := r.objects.Get(ctx, key, whole); err != nil {
		return err
	}
	*partial = *metadataOf(gvk, whole)
	return nil
}

// resourceOf is what the API calls an object or what is in a list.
func (r *reader) resourceOf(o runtime.Object) (schema.GroupVersionKind, schema.GroupResource, bool, error) {
	gvk, err := apiutil.GVKForObject(o, r.scheme)
	if err != nil {
		return gvk, schema.GroupResource{}, false, fmt.Errorf("read %T: %w", o, err)
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	mapping, err := r.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return gvk, schema.GroupResource{}, false, err // gather asks what it is
	}
	return gvk, mapping.Resource.GroupResource(), mapping.Scope.Name() == apimeta.RESTScopeNameNamespace, nil
}

// readList reads a list from where it costs least. Metadata of kinds that controllers watch is that of the
// objects that they have: a second cache would hold the same again.
func (r *reader) readList(
	ctx context.Context,
	gvk schema.GroupVersionKind,
	list client.ObjectList,
	o *client.ListOptions,
) error {
	partial, is := list.(*metav1.PartialObjectMetadataList)
	switch watched := r.watched[gvk.GroupKind()]; {
	case is && !watched && r.metadata[gvk.GroupKind()], !is && watched:
		return r.objects.List(ctx, list, o, client.UnsafeDisableDeepCopy)
	case !watched:
		o.Raw = &metav1.ListOptions{ResourceVersion: "0"} // as the API server has it in its own cache
		return r.live.List(ctx, list, o)
	}
	made, err := r.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	whole, is := made.(client.ObjectList)
	if !is {
		return fmt.Errorf("%T is no list", made)
	}
	if err := r.objects.List(ctx, whole, o, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	partial.Items = make([]metav1.PartialObjectMetadata, 0, apimeta.LenList(whole))
	return apimeta.EachListItem(whole, func(item runtime.Object) error {
		if one, is := item.(client.Object); is {
			partial.Items = append(partial.Items, *metadataOf(gvk, one))
		}
		return nil
	})
}

// metadataOf is the metadata of an object. It shares what it refers to with it.
func metadataOf(gvk schema.GroupVersionKind, o client.Object) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(gvk)
	if of, is := o.(metav1.ObjectMetaAccessor); is {
		if m, is := of.GetObjectMeta().(*metav1.ObjectMeta); is {
			out.ObjectMeta = *m
		}
	}
	return out
}
