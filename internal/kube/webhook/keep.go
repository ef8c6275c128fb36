package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// staysSuspended tells a user who asks a running job to be suspended that the admission
// decides about that.
const staysSuspended = "spec.suspend stays false, because the admission of a queued job sets it: delete the job to stop it, or set spec.active of its Workload to false (mlbatch hold)"

// keep leaves in a queued job that a user changes what is not theirs.
func (h *jobHandler) keep(ctx context.Context, req admission.Request) admission.Response {
	is, was := h.kind.New(), h.kind.New()
	if err := h.decoder.Decode(req, is); err != nil {
		return malformed(err)
	}
	if err := h.decoder.DecodeRaw(req.OldObject, was); err != nil {
		return malformed(err)
	}
	queued, err := h.queues(ctx, was, req.Namespace)
	if err != nil {
		return failed(err)
	}
	if !queued {
		return h.signQueued(ctx, req, is)
	}
	original, err := h.cluster.original(ctx, req.Namespace, h.templates(was))
	if err != nil {
		return failed(err)
	}
	kept := h.kind.Admission.Keep(was, is, original)
	if h.kind.Running.Injection != nil {
		kept = h.kind.Running.Injection.Keep(was, kept, original)
	}
	given := ""
	if clears(was, is) {
		if given, err = h.queueOf(ctx, is, req.Namespace); err != nil {
			return failed(err)
		}
	}
	keepQueueing(was, kept, given)
	jobs.KeepUser(was, kept)
	if !equality.Semantic.DeepEqual(specOf(is), specOf(kept)) { // what is put back is not its writer's
		if err := disownSpec(kept, changedSince(was)); err != nil {
			return malformed(err)
		}
	}
	resp := difference(is, kept)
	if h.kind.Queueing.Suspended(is) && !h.kind.Queueing.Suspended(kept) {
		resp = resp.WithWarnings(staysSuspended)
	}
	return resp
}

// specOf is the spec of an object of any kind, which API objects have in a field of
// that name.
func specOf(o jobs.Object) any {
	spec := reflect.ValueOf(o).Elem().FieldByName("Spec")
	if !spec.IsValid() {
		return nil
	}
	return spec.Interface()
}

// original are the pod sets of a job as the Workload has them that its templates
// name, nil if there is none.
func (c Cluster) original(
	ctx context.Context,
	namespace string,
	templates []jobs.PodTemplate,
) ([]kueue.PodSet, error) {
	name := ""
	for _, t := range templates {
		name = cmp.Or(name, t.Template.Annotations[kueue.WorkloadAnnotation])
	}
	if name == "" {
		return nil, nil
	}
	w := &kueue.Workload{}
	err := c.Cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, w)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up Workload %s: %w", name, err)
	}
	return sakkara.Authored(w), nil
}

// keepQueueing leaves in a job's metadata what was given to it when it was
// created: when that was, and the queue (given, "" for none) and the class that
// it has because it named none. Any other queue or class that is left out is
// taken for removed.
func keepQueueing(was, is metav1.Object, given string) {
	if at, ok := was.GetAnnotations()[kueue.SubmittedAtAnnotation]; ok {
		annotations := is.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[kueue.SubmittedAtAnnotation] = at
		is.SetAnnotations(annotations)
	}
	for key, value := range map[string]string{kueue.QueueNameLabel: given, kueue.PriorityClassLabel: defaultClass} {
		labels := is.GetLabels()
		if _, says := labels[key]; says || value == "" || was.GetLabels()[key] != value {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		is.SetLabels(labels)
	}
}

// disown takes out of the record of who owns which field what one of our
// controllers has just written into a spec. What an admission adds has no owner:
// if it were ours, a user who applies the manifest again from the server's side
// would be told of a conflict with us.
func disown(_ context.Context, req admission.Request) admission.Response {
	is := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(req.Object.Raw, is); err != nil {
		return malformed(fmt.Errorf("read object: %w", err))
	}
	kept := is.DeepCopy()
	err := disownSpec(kept, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == FieldOwner })
	if err != nil {
		return malformed(err)
	}
	return difference(is, kept)
}

// disownSpec takes the fields of the spec from those who wrote some of them,
// without applying, and are selected by took.
func disownSpec(o metav1.Object, took func(metav1.ManagedFieldsEntry) bool) error {
	var out []metav1.ManagedFieldsEntry
	for _, m := range o.GetManagedFields() {
		if m.Operation == metav1.ManagedFieldsOperationUpdate && m.FieldsV1 != nil && took(m) {
			rest, err := withoutSpec(m.FieldsV1.GetRawBytes())
			if err != nil {
				return err
			}
			if rest == nil {
				continue
			}
			m.FieldsV1 = metav1.NewFieldsV1(string(rest))
		}
		out = append(out, m)
	}
	o.SetManagedFields(out)
	return nil
}

// changedSince selects the entries that are not among those of an earlier state.
func changedSince(was metav1.Object) func(metav1.ManagedFieldsEntry) bool {
	return func(m metav1.ManagedFieldsEntry) bool {
		return !slices.ContainsFunc(was.GetManagedFields(), func(old metav1.ManagedFieldsEntry) bool {
			return old.Manager == m.Manager && old.Operation == m.Operation &&
				equality.Semantic.DeepEqual(old.FieldsV1, m.FieldsV1)
		})
	}
}

// withoutSpec returns a set of fields without those of the spec, nil if no other
// is left.
func withoutSpec(fields []byte) ([]byte, error) {
	set := map[string]json.RawMessage{}
	if err := json.Unmarshal(fields, &set); err != nil {
		return nil, fmt.Errorf("read managed fields: %w", err)
	}
	delete(set, "f:spec")
	if len(set) == 0 {
		return nil, nil
	}
	out, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("write managed fields: %w", err)
	}
	return out, nil
}

const pathDisown = "/disown"
