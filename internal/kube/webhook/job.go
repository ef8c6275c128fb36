package webhook

import (
	"context"
	"fmt"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// jobHandler answers for batch/v1 Jobs without the components of AppWrappers (see
// jobConditions).
type jobHandler struct {
	scope         jobs.Scope
	limits        limited
	off           bool // Jobs do not wait for admission
	gates         gateRules
	defaultClass  bool // name the default WorkloadPriorityClass
	decoder       admission.Decoder
	cluster       Cluster
	clock         clock.PassiveClock
	schedulerName string
}

// mutate gives a new Job the default queue of its namespace if it names none,
// suspends it until it is admitted if it waits for that, and hands its pods to
// our scheduler.
func (h *jobHandler) mutate(ctx context.Context, req admission.Request) admission.Response {
	job := &batchv1.Job{}
	if err := h.decoder.Decode(req, job); err != nil {
		return malformed(err)
	}
	queue := job.Labels[kueue.QueueNameLabel]
	if queue == "" {
		has, err := h.cluster.hasDefaultQueue(ctx, req.Namespace)
		if err != nil {
			return failed(err)
		}
		if has {
			queue = string(kueue.DefaultLocalQueueName)
		}
	}
	ours, err := h.cluster.covers(ctx, h.scope, req.Namespace, queue)
	if err != nil {
		return failed(err)
	}
	if !ours || h.off || !batchjob.Ours(job) {
		return admission.Allowed("")
	}
	e, err := newEdit(req.Object.Raw)
	if err != nil {
		return malformed(err)
	}
	if err := h.fill(ctx, e, job, queue); err != nil {
		return malformed(err)
	}
	resp := e.response()
	if queue == "" {
		resp = resp.WithWarnings(fmt.Sprintf("the Job is held and does not run, because it names no queue: set the label %s to a LocalQueue of namespace %s",
			kueue.QueueNameLabel, req.Namespace))
	}
	return resp
}

func (h *jobHandler) fill(ctx context.Context, e *edit, job *batchv1.Job, queue string) error {
	if err := e.submittedAt(h.clock.Now()); err != nil {
		return err
	}
	if queue != job.Labels[kueue.QueueNameLabel] {
		if err := e.label(kueue.QueueNameLabel, queue); err != nil {
			return err
		}
	}
	if h.defaultClass {
		if err := h.cluster.addPriorityClass(ctx, e, job); err != nil {
			return err
		}
	}
	if !ptr.Deref(job.Spec.Suspend, false) {
		if err := e.overrule(true, "spec", "suspend"); err != nil {
			return err
		}
	}
	asked := job.Spec.Template.Spec.SchedulerName
	if s := jobs.Scheduler(asked, h.schedulerName); s != asked {
		return e.overrule(s, "spec", "template", "spec", "schedulerName")
	}
	return nil
}

func (h *jobHandler) validate(ctx context.Context, req admission.Request) admission.Response {
	job := &batchv1.Job{}
	if err := h.decoder.Decode(req, job); err != nil {
		return malformed(err)
	}
	var was *batchv1.Job
	if req.Operation == admissionv1.Update {
		was = &batchv1.Job{}
		if err := h.decoder.DecodeRaw(req.OldObject, was); err != nil {
			return malformed(err)
		}
	}
	queued, err := h.concerns(ctx, was, job, req.Namespace)
	if err != nil {
		return failed(err)
	}
	if !queued {
		return admission.Allowed("")
	}
	if errs := h.tooMuch(req, was, job); len(errs) > 0 {
		return answer(req, errs)
	}
	errs, err := h.check(ctx, req.Namespace, was, job)
	if err != nil {
		return failed(err)
	}
	warnings, err := h.cluster.missingOf(ctx, req.Namespace, labelsOf(was), job)
	if err != nil {
		return failed(err)
	}
	return answer(req, errs).WithWarnings(warnings...)
}

// tooMuch refuses a Job that is one too many for its namespace, now that it is
// queued, or too large; was is nil for a new one.
func (h *jobHandler) tooMuch(req admission.Request, was, job *batchv1.Job) field.ErrorList {
	errs := h.limits.size(req, field.NewPath("spec", "template"))
	counts := countsAsJob(h.scope)
	if counts(job) && (was == nil || !counts(was)) {
		errs = append(errs, h.limits.another(req.Namespace)...)
	}
	return errs
}

// concerns reports whether a Job waits for admission here, or did before the
// change; was is nil for a new one. What others do with labels like ours, where
// no job is queued, is theirs.
func (h *jobHandler) concerns(ctx context.Context, was, is *batchv1.Job, namespace string) (bool, error) {
	queued, err := h.queues(ctx, is, namespace)
	if queued || err != nil || was == nil {
		return queued, err
	}
	return h.queues(ctx, was, namespace)
}

// labelsOf is a Job as an object with labels, nil for none.
func labelsOf(j *batchv1.Job) metav1.Object {
	if j == nil {
		return nil
	}
	return j
}

// check applies the rules for Jobs; was is nil for a new one.
func (h *jobHandler) check(ctx context.Context, namespace string, was, job *batchv1.Job) (field.ErrorList, error) {
	errs := validateLabels(job)
	if was == nil {
		errs = append(errs, h.gates.create(job)...)
		errs = append(errs, validateParallelism(job)...)
		found, err := h.checkTemplate(ctx, job)
		return append(errs, found...), err
	}
	hasDefault, err := h.cluster.keepsQueue(ctx, namespace, was, job)
	if err != nil {
		return nil, err
	}
	before, after := queued{was, suspended(was)}, queued{job, suspended(job)}
	errs = append(errs, h.gates.update(was, job)...)
	errs = append(errs, validateLabelChanges(before, after, hasDefault)...)
	return append(errs, validateParallelismChange(was, job)...), nil
}

// checkTemplate refuses pods that would go around the queue, or outlive an
// eviction for longer than the installation allows.
func (h *jobHandler) checkTemplate(ctx context.Context, job *batchv1.Job) (field.ErrorList, error) {
	spec, at := &job.Spec.Template.Spec, field.NewPath("spec", "template", "spec")
	var errs field.ErrorList
	if spec.NodeName != "" {
		errs = append(errs, field.Forbidden(at.Child("nodeName"),
			fmt.Sprintf("it goes around the scheduler: use nodeSelector {%s: %s} to ask for a node", corev1.LabelHostname, spec.NodeName)))
	}
	if list := job.Spec.Template.Finalizers; len(list) > 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "template", "metadata", "finalizers"), "they would keep pods that have to go: remove them"))
	}
	if grace, most := ptr.Deref(spec.TerminationGracePeriodSeconds, 0), int64(h.limits.Termination.Seconds()); most > 0 && grace > most {
		errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), grace,
			fmt.Sprintf("an evicted job may keep its pods for %d seconds at most here (tenants.maxTerminationTime of the configuration): use less", most)))
	}
	if spec.PriorityClassName == "" {
		return errs, nil
	}
	found, err := h.cluster.checkPriorityClass(ctx, h.limits.Limits, spec.PriorityClassName, at.Child("priorityClassName"))
	return append(errs, found...), err
}

func suspended(j *batchv1.Job) bool { return ptr.Deref(j.Spec.Suspend, false) }

// validateParallelism checks the annotations by which a Job may start with
// fewer pods than it asks for.
func validateParallelism(j *batchv1.Job) field.ErrorList {
	var errs field.ErrorList
	pods := ptr.Deref(j.Spec.Parallelism, 1)
	if v, ok := j.Annotations[kueue.JobMinParallelismAnnotation]; ok {
		if n, err := strconv.ParseInt(v, 10, 32); err != nil || n <= 0 || n >= int64(pods) {
			errs = append(errs, field.Invalid(annotationPath(kueue.JobMinParallelismAnnotation), v,
				fmt.Sprintf("use a whole number between 0 and %d, which is one less than spec.parallelism", pods-1)))
		}
	}
	if v, ok := j.Annotations[kueue.JobCompletionsEqualParallelismAnnotation]; ok {
		at := annotationPath(kueue.JobCompletionsEqualParallelismAnnotation)
		on, err := strconv.ParseBool(v)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at, v, "use true or false"))
		case on && ptr.Deref(j.Spec.CompletionMode, "") != batchv1.IndexedCompletion:
			errs = append(errs, field.Invalid(at, v, "needs spec.completionMode Indexed"))
		case on && ptr.Deref(j.Spec.Completions, 0) != pods:
			errs = append(errs, field.Invalid(at, v, "needs spec.completions equal to spec.parallelism"))
		}
	}
	return errs
}

func validateParallelismChange(was, is *batchv1.Job) field.ErrorList {
	var errs field.ErrorList
	fewest := kueue.JobMinParallelismAnnotation
	same := kueue.JobCompletionsEqualParallelismAnnotation
	if was.Annotations[fewest] != is.Annotations[fewest] || was.Annotations[same] != is.Annotations[same] {
		errs = append(errs, validateParallelism(is)...)
	}
	if was.Annotations[same] != is.Annotations[same] && !suspended(was) && !suspended(is) {
		errs = append(errs, field.Forbidden(annotationPath(same), "cannot be changed while the Job runs"))
	}
	if _, partial := was.Annotations[fewest]; partial && !suspended(was) && !suspended(is) &&
		ptr.Deref(was.Spec.Parallelism, 1) != ptr.Deref(is.Spec.Parallelism, 1) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "parallelism"),
			"cannot be changed while the Job runs, since its admission set it"))
	}
	return errs
}
