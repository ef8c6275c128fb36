package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// staysSuspended tells who asks a running job to be suspended that the admission
// decides about that.
const staysSuspended = "spec.suspend stays false, because the admission of a queued job sets it: delete the job to stop it, or let an admin set spec.active of its Workload to false"

// keeper is what the kinds of jobs differ in when one is changed.
type keeper[T client.Object] struct {
	// queues reports whether a job that exists waits for admission here.
	queues func(ctx context.Context, job T, namespace string) (bool, error)
	// keep returns the new state with what is not its writer's as it was.
	keep func(ctx context.Context, was, is T) (T, error)
	// given is the queue that a job which names none was given; "" for none.
	given     func(ctx context.Context, job T, namespace string) (string, error)
	spec      func(T) any
	suspended func(T) bool
}

// answer leaves in a job that somebody changes what is not theirs. is and was are
// empty objects to decode into.
func (k keeper[T]) answer(ctx context.Context, decoder admission.Decoder, req admission.Request, is, was T) admission.Response {
	if err := decoder.Decode(req, is); err != nil {
		return malformed(err)
	}
	if err := decoder.DecodeRaw(req.OldObject, was); err != nil {
		return malformed(err)
	}
	queued, err := k.queues(ctx, was, req.Namespace)
	if err != nil {
		return failed(err)
	}
	if !queued {
		return admission.Allowed("")
	}
	kept, err := k.keep(ctx, was, is)
	if err != nil {
		return failed(err)
	}
	given := ""
	if clears(was, is) {
		if given, err = k.given(ctx, is, req.Namespace); err != nil {
			return failed(err)
		}
	}
	keepQueueing(was, kept, given)
	if !equality.Semantic.DeepEqual(k.spec(is), k.spec(kept)) { // what is put back is not its writer's
		if err := disownSpec(kept, changedSince(was)); err != nil {
			return malformed(err)
		}
	}
	resp := difference(is, kept)
	if k.suspended(is) && !k.suspended(kept) {
		resp = resp.WithWarnings(staysSuspended)
	}
	return resp
}

// keep leaves in an AppWrapper that somebody changes what is not theirs.
func (h *wrapperHandler) keep(ctx context.Context, req admission.Request) admission.Response {
	return keeper[*aw.AppWrapper]{
		queues: h.queues,
		keep: func(_ context.Context, was, is *aw.AppWrapper) (*aw.AppWrapper, error) {
			return appwrapper.Keep(was, is), nil
		},
		given:     h.queueOf,
		spec:      func(w *aw.AppWrapper) any { return w.Spec },
		suspended: func(w *aw.AppWrapper) bool { return w.Spec.Suspend },
	}.answer(ctx, h.decoder, req, &aw.AppWrapper{}, &aw.AppWrapper{})
}

// queues reports whether an AppWrapper that exists waits for admission here.
func (h *wrapperHandler) queues(ctx context.Context, w *aw.AppWrapper, namespace string) (bool, error) {
	if h.off || !appwrapper.Ours(w) {
		return false, nil
	}
	return h.cluster.covers(ctx, h.scope, namespace, w.Labels[kueue.QueueNameLabel])
}

// keep leaves in a Job that somebody changes what is not theirs.
func (h *jobHandler) keep(ctx context.Context, req admission.Request) admission.Response {
	return keeper[*batchv1.Job]{
		queues: h.queues,
		keep: func(ctx context.Context, was, is *batchv1.Job) (*batchv1.Job, error) {
			original, err := h.cluster.original(ctx, was)
			if err != nil {
				return nil, err
			}
			return batchjob.Keep(was, is, original), nil
		},
		given: func(ctx context.Context, _ *batchv1.Job, namespace string) (string, error) {
			if has, err := h.cluster.hasDefaultQueue(ctx, namespace); !has || err != nil {
				return "", err
			}
			return string(kueue.DefaultLocalQueueName), nil
		},
		spec:      func(j *batchv1.Job) any { return j.Spec },
		suspended: suspended,
	}.answer(ctx, h.decoder, req, &batchv1.Job{}, &batchv1.Job{})
}

// queues reports whether a Job that exists waits for admission here.
func (h *jobHandler) queues(ctx context.Context, j *batchv1.Job, namespace string) (bool, error) {
	if h.off || !batchjob.Ours(j) {
		return false, nil
	}
	return h.cluster.covers(ctx, h.scope, namespace, j.Labels[kueue.QueueNameLabel])
}

// original is the pod set of a Job as its Workload has it, nil if there is none.
func (c Cluster) original(ctx context.Context, j *batchv1.Job) (*kueue.PodSet, error) {
	name := j.Spec.Template.Annotations[kueue.WorkloadAnnotation]
	if name == "" {
		return nil, nil
	}
	w := &kueue.Workload{}
	err := c.Cached.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: name}, w)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up Workload %s: %w", name, err)
	case len(w.Spec.PodSets) != 1:
		return nil, nil
	}
	return &w.Spec.PodSets[0], nil
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

// disown takes out of the record of who owns which field what one of our
// controllers has just written into a spec. What an admission adds is nobody's:
// if it were ours, whoever applies the manifest again from the server's side
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
			return old.Manager == m.Manager && old.Operation == m.Operation && equality.Semantic.DeepEqual(old.FieldsV1, m.FieldsV1)
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
