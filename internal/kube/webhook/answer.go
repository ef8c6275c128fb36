package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// answer allows what has no errors, with warnings of what becomes of it. Otherwise it refuses in
// the form in which the API server refuses by itself, so that kubectl shows the fields, and warns
// of none of it: what is refused becomes nothing.
func answer(req admission.Request, errs field.ErrorList, warnings ...string) admission.Response {
	if len(errs) == 0 {
		return admission.Allowed("").WithWarnings(warnings...)
	}
	name := req.Name
	if name == "" {
		name = "(generated name)"
	}
	for i, e := range errs {
		if e.Field == "" || e.Field == (*field.Path)(nil).String() { // of a part that has no path
			whole := *e
			whole.Field = "spec"
			errs[i] = &whole
		}
	}
	status := apierrors.NewInvalid(
		schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind},
		name,
		errs,
	).ErrStatus
	resp := admission.Denied("")
	resp.Result = &status
	return resp
}

// failed says that the question could not be answered.
func failed(err error) admission.Response {
	return admission.Errored(http.StatusInternalServerError, err)
}

// malformed says that the object could not be read.
func malformed(err error) admission.Response {
	return admission.Errored(http.StatusBadRequest, err)
}

// edit changes some fields of a raw object and leaves all others as they were
// written, fields that our types do not know included.
type edit struct {
	raw    []byte
	object *unstructured.Unstructured
}

func newEdit(raw []byte) (*edit, error) {
	e := &edit{raw: raw, object: &unstructured.Unstructured{}}
	if err := json.Unmarshal(raw, &e.object.Object); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	return e, nil
}

// editOf reads an object that is admitted into a type of ours, and makes an edit of it.
func editOf(d admission.Decoder, req admission.Request, into runtime.Object) (*edit, error) {
	if err := d.Decode(req, into); err != nil {
		return nil, err //nolint:wrapcheck // it says what cannot be read
	}
	return newEdit(req.Object.Raw)
}

// set writes a value at a path of fields, of which "name[n]" is one of a list.
func (e *edit) set(value any, path ...string) error {
	at, last, err := e.parent(path)
	if err != nil {
		return fmt.Errorf("set %w", err)
	}
	at[last] = value
	return nil
}

// parent is the object that has the last field of a path, with the name of that field: see within.
func (e *edit) parent(path []string) (at map[string]any, last string, err error) {
	at = e.object.Object
	for _, step := range path[:len(path)-1] {
		next, is := within(at, step)
		if !is {
			return nil, "", fmt.Errorf("%s: %s is not an object", strings.Join(path, "."), step)
		}
		at = next
	}
	return at, path[len(path)-1], nil
}

// within is the object at one step of a path, which is made if it is missing.
func within(o map[string]any, step string) (map[string]any, bool) {
	name, index, listed := strings.Cut(step, "[")
	if listed {
		list, _ := o[name].([]any)
		n, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || n < 0 || n >= len(list) {
			return nil, false
		}
		next, is := list[n].(map[string]any)
		return next, is
	}
	if o[name] == nil {
		o[name] = map[string]any{}
	}
	next, is := o[name].(map[string]any)
	return next, is
}

// drop removes entries of a map.
func (e *edit) drop(keys []string, path ...string) {
	for _, key := range keys {
		unstructured.RemoveNestedField(e.object.Object, append(slices.Clip(path), key)...)
	}
}

// add appends a value to a list.
func (e *edit) add(value any, path ...string) error {
	list, _, err := unstructured.NestedSlice(e.object.Object, path...)
	if err != nil {
		return fmt.Errorf("add to %s: %w", strings.Join(path, "."), err)
	}
	return e.set(append(list, value), path...)
}

// addIn appends a value to a list in an entry of another list: see within.
func (e *edit) addIn(value any, path ...string) error {
	at, last, err := e.parent(path)
	if err != nil {
		return fmt.Errorf("add to %w", err)
	}
	list, _ := at[last].([]any)
	at[last] = append(list, value)
	return nil
}

// overrule writes a value into a new object whatever its author wrote there, who
// does not own the field then: applying the manifest again from the server's side,
// as another tool, would meet a conflict with a value that is not there.
func (e *edit) overrule(value any, path ...string) error {
	fields := []string{"fieldsV1"}
	for _, p := range path {
		fields = append(fields, "f:"+p)
	}
	entries, _, err := unstructured.NestedSlice(e.object.Object, "metadata", "managedFields")
	if err != nil {
		return fmt.Errorf("read managed fields: %w", err)
	}
	for _, entry := range entries {
		if m, ok := entry.(map[string]any); ok && m["operation"] != string(metav1.ManagedFieldsOperationApply) {
			unstructured.RemoveNestedField(m, fields...)
		}
	}
	if len(entries) > 0 {
		if err := e.set(entries, "metadata", "managedFields"); err != nil {
			return err
		}
	}
	return e.set(value, path...)
}

// label sets one label.
func (e *edit) label(key, value string) error {
	return e.set(value, "metadata", "labels", key)
}

// submittedAt stamps a new job with the moment of its creation, whatever its
// author wrote there.
func (e *edit) submittedAt(now time.Time) error {
	return e.set(now.UTC().Format(time.RFC3339Nano), "metadata", "annotations", kueue.SubmittedAtAnnotation)
}

// response asks the API server for the changes.
func (e *edit) response() admission.Response {
	after, err := json.Marshal(e.object.Object)
	if err != nil {
		return failed(fmt.Errorf("write object: %w", err))
	}
	return admission.PatchResponseFromRaw(e.raw, after)
}

func labelPath(key string) *field.Path { return field.NewPath("metadata", "labels").Key(key) }

func annotationPath(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }

// difference asks the API server for what differs between two states.
func difference(before, after any) admission.Response {
	from, err := json.Marshal(before)
	if err != nil {
		return failed(fmt.Errorf("write object: %w", err))
	}
	to, err := json.Marshal(after)
	if err != nil {
		return failed(fmt.Errorf("write object: %w", err))
	}
	return admission.PatchResponseFromRaw(from, to)
}
