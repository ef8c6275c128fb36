package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Initial is what may be in the store of an API server before it starts for the first time: the
// definitions as it would keep them once it serves them, and a record that they were applied. An API
// server that finds them has nothing to do for them but to serve them.
func (x *Installation) Initial(now time.Time) ([]*unstructured.Unstructured, error) {
	record := &Record{namespace: x.namespace, entries: map[string]entry{}}
	var out []*unstructured.Unstructured
	for _, o := range slices.Concat(x.steps...) {
		if o.GroupVersionKind() != definitionKind() {
			continue
		}
		digest, err := digestOf(o)
		if err != nil {
			return nil, err
		}
		stored, err := established(o, now)
		if err != nil {
			return nil, fmt.Errorf("install %s: %w", o.GetName(), err)
		}
		record.note(idOf(definitionKind(), "", o.GetName()), entry{digest, markOf(stored)})
		out = append(out, stored)
	}
	kept, err := record.object()
	if err != nil {
		return nil, err
	}
	created(kept, now)
	return append(out, kept), nil
}

// created notes in an object what the API server notes when an object is applied that was not there.
func created(o *unstructured.Unstructured, now time.Time) {
	at := metav1.NewTime(now)
	fields, err := json.Marshal(owned(o.Object, ""))
	if err != nil {
		fields = nil // it is a tree of names
	}
	o.SetUID(uuid.NewUUID())
	o.SetCreationTimestamp(at)
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: FieldOwner, Operation: metav1.ManagedFieldsOperationApply, APIVersion: o.GetAPIVersion(),
		Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields)),
	}})
}

// owned are the fields of an object that was applied, as who applied it owns them: lists as a whole, as
// all lists are that we apply with Initial.
func owned(value any, at string) map[string]any {
	out := map[string]any{}
	fields, _ := value.(map[string]any)
	for name, v := range fields {
		path := at + "." + name
		switch path {
		case ".apiVersion", ".kind", ".metadata.name", ".metadata.namespace":
			continue // they say which object it is
		}
		out["f:"+name] = owned(v, path)
	}
	if at == "" {
		for _, part := range []string{"f:metadata"} {
			if m, is := out[part].(map[string]any); is && len(m) == 0 {
				delete(out, part)
			}
		}
	}
	return out
}

// established is a definition that was applied and is served.
func established(o *unstructured.Unstructured, now time.Time) (*unstructured.Unstructured, error) {
	names := apiextensionsv1.CustomResourceDefinitionNames{}
	versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
	if err != nil {
		return nil, fmt.Errorf("read its versions: %w", err)
	}
	spec, _, err := unstructured.NestedMap(o.Object, "spec", "names")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &names)
	}
	if err != nil {
		return nil, fmt.Errorf("read its names: %w", err)
	}
	if names.Singular == "" {
		names.Singular = strings.ToLower(names.Kind)
	}
	if names.ListKind == "" {
		names.ListKind = names.Kind + "List"
	}
	status := apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names}
	for _, v := range versions {
		if version, is := v.(map[string]any); is && version["storage"] == true {
			name, _ := version["name"].(string)
			status.StoredVersions = append(status.StoredVersions, name)
		}
	}
	for _, c := range []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Reason: "NoConflicts", Message: "no conflicts found"},
		{Type: apiextensionsv1.Established, Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
	} {
		c.Status, c.LastTransitionTime = apiextensionsv1.ConditionTrue, metav1.NewTime(now)
		status.Conditions = append(status.Conditions, c)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("write its status: %w", err)
	}
	out := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(out.Object, o.Object) // what is deep in it is only read
	metadata, _, err := unstructured.NestedMap(o.Object, "metadata")
	if err != nil {
		return nil, fmt.Errorf("read its metadata: %w", err)
	}
	out.Object["metadata"] = metadata
	created(out, now)
	out.SetGeneration(1)
	out.Object["status"] = content
	return out, nil
}
