package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// JournalName is the ConfigMap in which an import writes down what there was.
const JournalName = "mlbatch-import"

// journal is what there was before an import changed it: the way back. What is in it is never
// written over, so that it does not matter how often an import is called.
type journal struct {
	namespace string
	exists    bool
	// replicas are those of Deployments, by namespace/name.
	replicas   map[string]int32
	mutating   map[string]admissionregistrationv1.MutatingWebhookConfiguration
	validating map[string]admissionregistrationv1.ValidatingWebhookConfiguration
	services   map[string]map[string]any
	// conversions are those of definitions.
	conversions map[string]apiextensionsv1.CustomResourceConversion
	// oldOnly: Kueue knew v1beta1 and no newer version.
	oldOnly bool
	// rewritten: objects were written anew when mlbatch was there already.
	rewritten bool
}

// keys of the ConfigMap.
const (
	keyReplicas    = "replicas"
	keyMutating    = "mutatingWebhookConfigurations"
	keyValidating  = "validatingWebhookConfigurations"
	keyServices    = "apiServices"
	keyConversions = "conversions"
	keyOldOnly     = "v1beta1Only"
	keyRewritten   = "rewritten"
)

func (j *journal) parts() map[string]any {
	return map[string]any{
		keyReplicas: &j.replicas, keyMutating: &j.mutating, keyValidating: &j.validating, keyServices: &j.services,
		keyConversions: &j.conversions, keyOldOnly: &j.oldOnly, keyRewritten: &j.rewritten,
	}
}

// readJournal reads it; one that does not exist is empty.
func readJournal(ctx context.Context, c client.Client, namespace string) (*journal, error) {
	j := &journal{namespace: namespace}
	var m corev1.ConfigMap
	err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: JournalName}, &m)
	if apierrors.IsNotFound(err) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what an import wrote down: %w", err)
	}
	j.exists = true
	for key, into := range j.parts() {
		if text := m.Data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				return nil, fmt.Errorf(
					"read %s of ConfigMap %s/%s, which an import wrote: %w",
					key,
					namespace,
					JournalName,
					err,
				)
			}
		}
	}
	return j, nil
}

// write stores it.
func (j *journal) write(ctx context.Context, c client.Client) error {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: JournalName},
		Data:       map[string]string{},
	}
	for key, value := range j.parts() {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("write down %s: %w", key, err)
		}
		m.Data[key] = string(text)
	}
	if j.exists {
		if err := c.Update(ctx, m); err != nil {
			return fmt.Errorf("write down what there was: %w", err)
		}
		return nil
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.namespace}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, ns)); err != nil {
		return fmt.Errorf("make namespace %s: %w", j.namespace, err)
	}
	if err := c.Create(ctx, m); err != nil {
		return fmt.Errorf("write down what there was: %w", err)
	}
	j.exists = true
	return nil
}

// note adds what is not in it, and reports whether there was anything.
func (j *journal) note(p *Picture) bool {
	added := !j.exists
	for _, r := range p.Programs {
		if n := ptr.Deref(r.Deployment.Spec.Replicas, 1); n > 0 {
			added = put(&j.replicas, r.Where(), n) || added
		}
	}
	for i := range p.Mutating {
		added = put(&j.mutating, p.Mutating[i].Name, *plain(p.Mutating[i].DeepCopy())) || added
	}
	for i := range p.Validating {
		added = put(&j.validating, p.Validating[i].Name, *plain(p.Validating[i].DeepCopy())) || added
	}
	for i := range p.APIServices {
		added = put(&j.services, p.APIServices[i].GetName(), plain(p.APIServices[i].DeepCopy()).Object) || added
	}
	if !p.Installed {
		for i := range p.Definitions {
			if d := &p.Definitions[i]; d.Spec.Conversion != nil {
				added = put(&j.conversions, d.Name, *d.Spec.Conversion) || added
			}
		}
		j.oldOnly = j.oldOnly || p.OldOnly
	}
	return added
}

func put[V any](m *map[string]V, key string, value V) bool {
	if _, has := (*m)[key]; has {
		return false
	}
	out := maps.Clone(*m)
	if out == nil {
		out = map[string]V{}
	}
	out[key] = value
	*m = out
	return true
}

// plain takes from an object what the API server writes into it.
func plain[T client.Object](o T) T {
	o.SetResourceVersion("")
	o.SetUID("")
	o.SetCreationTimestamp(metav1.Time{})
	o.SetGeneration(0)
	o.SetManagedFields(nil)
	if u, is := any(o).(*unstructured.Unstructured); is {
		delete(u.Object, "status")
	}
	return o
}
