package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// mutate gives a new job a queue if it names none, suspends it until it is admitted
// if it waits for that, notes who submitted it, and hands its pods to our scheduler.
// Where it does not wait, or another controller manages it, nobody is noted but by the
// labels of its kind, if it has any.
func (h *jobHandler) mutate(ctx context.Context, req admission.Request) admission.Response {
	job := h.kind.New()
	e, err := editOf(h.decoder, req, job)
	if err != nil {
		return malformed(err)
	}
	if err := h.sign(e, req); err != nil {
		return malformed(err)
	}
	user, err := h.cluster.author(ctx, req, job)
	if err != nil {
		return failed(err)
	}
	if err := e.sign(""); err != nil {
		return malformed(err)
	}
	if h.off || !h.kind.Ours(job) {
		return e.response()
	}
	if b := h.kind.Queueing.Basis; b != nil && b.Annotation != "" { // what it is based on is read, not told
		e.drop([]string{b.Annotation}, "metadata", "annotations")
	}
	queue, err := h.queueOf(ctx, job, req.Namespace)
	if err != nil {
		return failed(err)
	}
	ours, err := h.cluster.covers(ctx, h.scope, req.Namespace, queue)
	if err != nil {
		return failed(err)
	}
	if !ours {
		return e.response()
	}
	if err := e.sign(user); err != nil {
		return malformed(err)
	}
	if err := h.fill(ctx, e, job, queue); err != nil {
		return malformed(err)
	}
	resp := e.response()
	if queue == "" {
		resp = resp.WithWarnings(namesNoQueue(h.kind.GVK().Kind, req.Namespace))
	}
	return resp
}

// sign writes down who submitted a job, where its kind has labels of its own for that.
// Whatever its author wrote there is replaced: the labels are for accounting.
func (h *jobHandler) sign(e *edit, req admission.Request) error {
	if h.kind.Admission.UserLabel == "" {
		return nil
	}
	if err := e.label(h.kind.Admission.UserLabel, jobs.LabelValue(req.UserInfo.Username)); err != nil {
		return err
	}
	return e.label(h.kind.Admission.UserIDLabel, jobs.LabelValue(req.UserInfo.UID))
}

func (h *jobHandler) fill(ctx context.Context, e *edit, job jobs.Object, queue string) error {
	if err := e.submittedAt(h.clock.Now()); err != nil {
		return err
	}
	if queue != job.GetLabels()[kueue.QueueNameLabel] {
		if err := e.label(kueue.QueueNameLabel, queue); err != nil {
			return err
		}
	}
	if h.defaultClass {
		if err := h.cluster.addPriorityClass(ctx, e, job); err != nil {
			return err
		}
	}
	if !h.kind.Queueing.Suspended(job) {
		if err := e.overrule(true, h.kind.Queueing.SuspendPath...); err != nil {
			return err
		}
	}
	for _, t := range h.templates(job) {
		asked := t.Template.Spec.SchedulerName
		if s := h.schedulers.Of(asked); s != asked {
			if err := e.overrule(s, append(strings.Split(t.Path, "."), "spec", "schedulerName")...); err != nil {
				return err
			}
		}
	}
	return nil
}

// validate refuses jobs that break a rule. The objects of kinds that are made here
// are checked wherever they are: our controllers act on them all.
func (h *jobHandler) validate(ctx context.Context, req admission.Request) admission.Response {
	job := h.kind.New()
	if err := h.decoder.Decode(req, job); err != nil {
		return malformed(err)
	}
	var was jobs.Object
	first := job
	if req.Operation == admissionv1.Update {
		was = h.kind.New()
		if err := h.decoder.DecodeRaw(req.OldObject, was); err != nil {
			return malformed(err)
		}
		first = was
	}
	if h.kind.RunHere() && !h.kind.Ours(first) {
		return answer(req, h.changed(was, job))
	}
	queued, err := h.concerns(ctx, was, job, req.Namespace)
	if err != nil {
		return failed(err)
	}
	if !queued && !h.kind.RunHere() {
		return admission.Allowed("").WithWarnings(unheededAfter(was, job)...)
	}
	// What is too much is refused before anything else is looked up or tried.
	if errs := h.tooMuch(req, was, job); len(errs) > 0 {
		return answer(req, errs)
	}
	var errs field.ErrorList
	var tried []string
	if was == nil {
		errs, tried, err = h.checkNew(ctx, req, job, queued)
	} else {
		errs, err = h.checkChange(ctx, req, was, job, queued)
	}
	if err != nil {
		return failed(err)
	}
	warnings, err := h.told(ctx, req.Namespace, was, job, queued)
	if err != nil {
		return failed(err)
	}
	return answer(req, errs, warnings...).WithWarnings(tried...)
}

// tooMuch refuses a job that is one too many for its namespace, now that it counts,
// or too large; was is nil for a new one.
func (h *jobHandler) tooMuch(req admission.Request, was, job jobs.Object) field.ErrorList {
	errs := h.limits.size(req, field.NewPath(h.kind.Admission.Bulk))
	if h.counts(job) && (was == nil || !h.counts(was)) {
		errs = append(errs, h.limits.another(req.Namespace)...)
	}
	return errs
}

// concerns reports whether a job waits for admission here, or did before the change;
// was is nil for a new one. What others do with labels like ours, where no job is
// queued, is theirs.
func (h *jobHandler) concerns(ctx context.Context, was, is jobs.Object, namespace string) (bool, error) {
	queued, err := h.queues(ctx, is, namespace)
	if queued || err != nil || was == nil {
		return queued, err
	}
	return h.queues(ctx, was, namespace)
}

// checkNew applies the rules for new jobs. tried is what the author should know of
// a trial of its components.
func (h *jobHandler) checkNew( //nolint:revive // a fact about the job
	ctx context.Context,
	req admission.Request,
	job jobs.Object,
	inQueue bool,
) (errs field.ErrorList, tried []string, err error) {
	if inQueue {
		errs = append(append(jobs.ValidateLabels(job), h.gates.create(job)...), nearnessOfAll(job)...)
	}
	if inQueue {
		taken, err := h.cluster.prebuilt(ctx, req.Namespace, nil, job)
		if err != nil {
			return nil, nil, err
		}
		errs = append(errs, taken...)
	}
	job.SetNamespace(req.Namespace) // the API server fills it in only later
	job, missing, err := h.based(ctx, job)
	if err != nil || len(missing) > 0 {
		return append(errs, missing...), nil, err
	}
	var wrong field.ErrorList
	if h.kind.Admission.Validate != nil {
		wrong = h.kind.Admission.Validate(job)
	}
	if len(wrong) == 0 {
		wrong = h.limits.made(h.kind, job)
	}
	templates := h.templates(job)
	judged, err := h.checkTemplates(ctx, req.Namespace, nil, templates, inQueue)
	if err != nil {
		return nil, nil, err
	}
	errs = append(errs, judged...)
	forged, err := h.forged(ctx, req, nil, templates)
	if err != nil {
		return nil, nil, err
	}
	errs = append(errs, forged...)
	adopted, err := h.adopted(ctx, req, nil, job)
	if err != nil {
		return nil, nil, err
	}
	errs = append(errs, adopted...)
	var made components
	if h.kind.Queueing.Components != nil {
		made = h.components(job)
		wrong = append(
			wrong,
			h.limits.components(h.kind.GVK().Kind, h.kind.Admission.Bulk, len(req.Object.Raw), made)...)
	}
	errs = append(errs, wrong...)
	if inQueue {
		errs = append(errs, apart(job, slices.Concat(templates, made.templates()))...)
	}
	for _, t := range made.templates() { // what else there is to say of them is the kind's
		found, err := h.checkPriority(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		if errs = append(errs, found...); inQueue {
			errs = append(append(errs, inGroup(t)...), nearness(t)...)
		}
	}
	if h.kind.Running.Operated != nil && h.kind.RunHere() && len(errs) == 0 {
		// Who has no rights in the namespace would wait for them, longer than the API server does.
		if without, err := h.cluster.withoutRights(ctx, req.Namespace); without || err != nil {
			return nil, nil, err
		}
		errs, tried = h.tryMembers(ctx, job)
		return errs, tried, nil
	}
	if h.kind.Queueing.Components == nil || len(wrong) > 0 {
		return errs, nil, nil // what it would make is not clear
	}
	found, err := h.checkRights(ctx, req, made)
	if errs = append(errs, found...); len(errs) == 0 && err == nil {
		errs, tried = h.try(ctx, job, made)
	}
	return errs, tried, err
}

// changed applies the kind's own rules for changes; was is nil for a new job.
func (h *jobHandler) changed(was, job jobs.Object) field.ErrorList {
	if was == nil || h.kind.Admission.ValidateChange == nil {
		return nil
	}
	return h.kind.Admission.ValidateChange(was, job)
}

// checkChange applies the rules for jobs that are changed.
func (h *jobHandler) checkChange( //nolint:revive // a fact about the job
	ctx context.Context,
	req admission.Request,
	was, job jobs.Object,
	inQueue bool,
) (field.ErrorList, error) {
	errs := append(h.changed(was, job), h.samePods(was, job)...)
	if len(errs) == 0 && len(h.limits.made(h.kind, was)) == 0 {
		errs = h.limits.made(h.kind, job) // as it is: it may have grown
	}
	var templates []jobs.PodTemplate
	if !joins(was, job) {
		templates = h.templates(was)
	}
	judged, err := h.checkTemplates(ctx, req.Namespace, templates, h.templates(job), inQueue)
	if err != nil {
		return nil, err
	}
	errs = append(errs, judged...)
	if !inQueue {
		return errs, nil
	}
	adopted, err := h.adopted(ctx, req, was, job)
	if err != nil {
		return nil, err
	}
	errs = append(errs, adopted...)
	errs = append(append(errs, jobs.ValidateLabels(job)...), h.gates.update(was, job)...)
	if len(nearnessOfAll(was)) == 0 { // what was let in before stays
		errs = append(errs, nearnessOfAll(job)...)
	}
	if len(apart(was, h.templates(was))) == 0 {
		errs = append(errs, apart(job, h.templates(job))...)
	}
	taken, err := h.cluster.prebuilt(ctx, req.Namespace, was, job)
	if err != nil {
		return nil, err
	}
	errs = append(errs, taken...)
	hasDefault, err := h.cluster.keepsQueue(ctx, req.Namespace, was, job)
	if err != nil {
		return nil, err
	}
	forged, err := h.forged(ctx, req, h.templates(was), h.templates(job))
	if err != nil {
		return nil, err
	}
	errs = append(errs, forged...)
	before, after := queued{was, h.kind.Queueing.Suspended(was)}, queued{job, h.kind.Queueing.Suspended(job)}
	errs = append(errs, validateLabelChanges(before, after, hasDefault)...)
	if h.kind.Admission.Admits == nil {
		return errs, nil
	}
	leave := h.kind.Admission.Admits(was, job)
	if leave == "" {
		return errs, nil
	}
	may, err := h.cluster.mayAdmit(ctx, req)
	if err != nil || may {
		return errs, err
	}
	return append(errs, field.Forbidden(field.NewPath("spec"), leave)), nil
}

// told is what the author of a job should know; was is nil for a new one.
func (h *jobHandler) told( //nolint:revive // a fact about the job
	ctx context.Context,
	namespace string,
	was, job jobs.Object,
	queued bool,
) ([]string, error) {
	var out []string
	if h.kind.Admission.Warnings != nil &&
		(was == nil || !maps.Equal(was.GetAnnotations(), job.GetAnnotations())) {
		out = h.kind.Admission.Warnings(job, h.policy)
	}
	if !queued {
		out = append(out, unheededAfter(was, job)...)
		if was != nil || !h.kind.RunHere() || metav1.GetControllerOf(job) != nil {
			return out, nil
		}
		without, err := h.cluster.withoutRights(ctx, namespace)
		if without {
			out = append(out, fmt.Sprintf(hasNoRights, h.kind.GVK().Kind, namespace))
		}
		return out, err
	}
	var before metav1.Object
	if was != nil {
		before = was
	}
	out = append(out, unheededRetries(h.kind, before, job)...)
	out = append(out, news(h.unheededKAI(was), h.unheededKAI(job))...)
	if was == nil {
		out = append(out, unheededGroups(h.kind, job)...)
		told, err := h.unheededDomain(job)
		if err != nil {
			return out, err
		}
		out = append(out, told...)
	} else {
		if clears(was, job) { // a new one was told already
			out = append(out, namesNoQueue(h.kind.GVK().Kind, namespace))
		}
	}
	out = append(out, h.foresee(ctx, namespace, was, job)...)
	warnings, err := h.cluster.missingOf(ctx, namespace, before, job)
	return append(out, warnings...), err
}
