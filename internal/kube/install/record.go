package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RecordName is the ConfigMap in mlbatch's namespace that keeps a Record, recordKey where in it.
const (
	RecordName = "mlbatch-applied"
	recordKey  = "objects"
)

// apiServices is the group of APIServices. They are applied always: the API server counts no changes of
// them, and notes down in each how it fares.
const apiServices = "apiregistration.k8s.io"

// definitionKind is the kind of definitions.
func definitionKind() schema.GroupVersionKind {
	return apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
}

// entry is what is recorded of an object: a digest of what was applied, and the mark of the object
// that came of it.
type entry struct {
	Digest string `json:"digest"`
	Mark   string `json:"mark"`
}

// Record knows what was applied to a cluster before. An object is not applied again if the same was
// applied last, and nobody has changed the object since.
type Record struct {
	// Labels are what the object is found by that keeps the record; nil is none.
	Labels map[string]string

	namespace string
	// marks are those of the objects that the cluster has, of the kinds that were asked about.
	marks map[string]string

	mu      sync.Mutex // guards entries and changed
	entries map[string]entry
	changed bool
}

// ReadRecord reads the record of an installation whose namespace this is, and what there is of the
// objects that are about to be applied: their metadata alone, one list for each kind.
func ReadRecord(
	ctx context.Context,
	c client.Client,
	namespace string,
	objects []*unstructured.Unstructured,
) (*Record, error) {
	r := &Record{namespace: namespace, marks: map[string]string{}, entries: map[string]entry{}}
	var kept corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: RecordName}, &kept)
	if apierrors.IsNotFound(err) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was installed before: %w", err)
	}
	if json.Unmarshal([]byte(kept.Data[recordKey]), &r.entries) != nil {
		r.entries = map[string]entry{} // somebody wrote it: all is applied
	}
	type place struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	seen := map[place]bool{}
	for _, o := range objects {
		at := place{o.GroupVersionKind(), o.GetNamespace()}
		if _, known := r.entries[idOf(o.GroupVersionKind(), o.GetNamespace(), o.GetName())]; !known || seen[at] {
			continue
		}
		seen[at] = true
		if err := r.look(ctx, c, at.kind, at.namespace); err != nil {
			return nil, fmt.Errorf("look at what was installed before: list %ss: %w", at.kind.Kind, err)
		}
	}
	return r, nil
}

// look notes the marks of the objects of a kind in a namespace, or of one without namespaces.
func (r *Record) look(
	ctx context.Context,
	c client.Client,
	kind schema.GroupVersionKind,
	namespace string,
) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := c.List(ctx, list, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // nobody brought the kind
	}
	if err != nil {
		return err
	}
	for i := range list.Items {
		o := &list.Items[i]
		r.marks[idOf(kind, o.Namespace, o.Name)] = markOf(o)
	}
	return nil
}

// Put applies an object, unless it is as it was left when the same was applied last.
func (r *Record) Put(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	id := idOf(o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	digest, err := digestOf(o)
	if err != nil {
		return err
	}
	if r.holds(id, digest) {
		return nil
	}
	if o.GroupVersionKind() == definitionKind() {
		if err := handOver(ctx, c, o); err != nil {
			return err
		}
	}
	after, err := put(ctx, c, o)
	if err != nil {
		return err
	}
	if o.GroupVersionKind().Group != apiServices {
		r.note(id, entry{digest, markOf(after)})
	}
	return nil
}

// Holds reports whether an object is as it was left when the same was applied last.
func (r *Record) Holds(o *unstructured.Unstructured) bool {
	digest, err := digestOf(o)
	return err == nil && r.holds(idOf(o.GroupVersionKind(), o.GetNamespace(), o.GetName()), digest)
}

func (r *Record) holds(id, digest string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.entries[id]
	return known && last.Digest == digest && last.Mark == r.marks[id]
}

// exists reports whether an object without a namespace is known to be there.
func (r *Record) exists(kind schema.GroupVersionKind, name string) bool {
	_, is := r.marks[idOf(kind, "", name)]
	return is
}

func (r *Record) note(id string, e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[id] != e {
		r.entries[id], r.changed = e, true
	}
	if r.marks != nil {
		r.marks[id] = e.Mark
	}
}

// Renew looks again at the objects of a kind that have one of these names and are of no namespace:
// what was applied has been changed since by ours, who told them whom the API server trusts.
func (r *Record) Renew(
	ctx context.Context,
	c client.Client,
	kind schema.GroupVersionKind,
	names []string,
) error {
	if err := r.look(ctx, c, kind, ""); err != nil {
		return fmt.Errorf("look at what was installed: list %ss: %w", kind.Kind, err)
	}
	for _, name := range names {
		id := idOf(kind, "", name)
		r.mu.Lock()
		e, known := r.entries[id]
		r.mu.Unlock()
		if known {
			r.note(id, entry{e.Digest, r.marks[id]})
		}
	}
	return nil
}

// Save keeps the record in the cluster.
func (r *Record) Save(ctx context.Context, c client.Client) error {
	if !r.changed {
		return nil
	}
	kept, err := r.object()
	if err != nil {
		return err
	}
	if err := Put(ctx, c, kept); err != nil {
		return fmt.Errorf("keep what was installed: %w", err)
	}
	return nil
}

// object is the record as it is kept.
func (r *Record) object() (*unstructured.Unstructured, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := json.Marshal(r.entries)
	if err != nil {
		return nil, fmt.Errorf("keep what was installed: %w", err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{recordKey: string(text)}}}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	u.SetNamespace(r.namespace)
	u.SetName(RecordName)
	u.SetLabels(r.Labels)
	return u, nil
}

func idOf(kind schema.GroupVersionKind, namespace, name string) string {
	return strings.TrimPrefix(strings.Join([]string{kind.Group, kind.Kind, namespace, name}, "/"), "/")
}

// digestOf is a short form of what is applied.
func digestOf(o *unstructured.Unstructured) (string, error) {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return "", fmt.Errorf("write it as JSON: %w", err)
	}
	return short(text), nil
}

// markOf changes with whatever is changed of an object but its status; where the API server counts no
// changes of the rest, with any change.
func markOf(o client.Object) string {
	if o.GetGeneration() == 0 {
		return string(o.GetUID()) + " " + o.GetResourceVersion()
	}
	said, err := json.Marshal([]map[string]string{o.GetLabels(), o.GetAnnotations()})
	if err != nil {
		return "" // strings can be written
	}
	return fmt.Sprintf("%s %d %s", o.GetUID(), o.GetGeneration(), short(said))
}

func short(text []byte) string {
	const bytes = 16
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:bytes])
}
