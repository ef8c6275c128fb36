package webhook

import (
	"context"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// wrapperHandler answers for AppWrappers.
type wrapperHandler struct {
	clock        clock.PassiveClock
	decoder      admission.Decoder
	cluster      Cluster
	passed       passed
	defaultQueue string
	scope        jobs.Scope
	limits       limited
	policy       lifecycle.Policy
	// schedulerName is given to the pods.
	schedulerName string
	off           bool // AppWrappers do not wait for admission
	gates         gateRules
	defaultClass  bool // name the default WorkloadPriorityClass
	allowed       []schema.GroupKind
}

// mutate gives a new AppWrapper a queue, writes down who submitted it, and
// suspends it until it is admitted. One that another controller manages, or that
// does not wait for admission where it is, only gets its author.
func (h *wrapperHandler) mutate(ctx context.Context, req admission.Request) admission.Response {
	w := &aw.AppWrapper{}
	if err := h.decoder.Decode(req, w); err != nil {
		return malformed(err)
	}
	e, err := newEdit(req.Object.Raw)
	if err != nil {
		return malformed(err)
	}
	// Whatever the author wrote there is replaced: the labels are for accounting.
	if err := e.label(aw.AppWrapperUserLabel, labelValue(req.UserInfo.Username)); err != nil {
		return malformed(err)
	}
	if err := e.label(aw.AppWrapperUserIDLabel, labelValue(req.UserInfo.UID)); err != nil {
		return malformed(err)
	}
	if !appwrapper.Ours(w) || h.off {
		return e.response()
	}
	queue, err := h.queueOf(ctx, w, req.Namespace)
	if err != nil {
		return failed(err)
	}
	ours, err := h.cluster.covers(ctx, h.scope, req.Namespace, queue)
	if err != nil {
		return failed(err)
	}
	if ours {
		if err := h.fill(ctx, e, w, queue); err != nil {
			return malformed(err)
		}
	}
	return e.response()
}

// queueOf is the queue of a new AppWrapper: the one it names, or that of the
// installation, or else the default one of its namespace. Where the namespace has
// neither, the installation's is named, so that the refusal names it too.
func (h *wrapperHandler) queueOf(ctx context.Context, w *aw.AppWrapper, namespace string) (string, error) {
	if name, ok := w.Labels[kueue.QueueNameLabel]; ok {
		return name, nil
	}
	for _, name := range []string{h.defaultQueue, string(kueue.DefaultLocalQueueName)} {
		if name == "" {
			continue
		}
		ok, err := h.cluster.exists(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &kueue.LocalQueue{})
		if ok || err != nil {
			return name, err
		}
	}
	return h.defaultQueue, nil
}

func (h *wrapperHandler) fill(ctx context.Context, e *edit, w *aw.AppWrapper, queue string) error {
	if err := e.submittedAt(h.clock.Now()); err != nil {
		return err
	}
	if queue != w.Labels[kueue.QueueNameLabel] {
		if err := e.label(kueue.QueueNameLabel, queue); err != nil {
			return err
		}
	}
	if h.defaultClass {
		if err := h.cluster.addPriorityClass(ctx, e, w); err != nil {
			return err
		}
	}
	if w.Spec.Suspend {
		return nil
	}
	return e.overrule(true, "spec", "suspend")
}

// labelValue makes a legal label value of any text.
func labelValue(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, s)
	if len(s) > validation.LabelValueMaxLength {
		s = s[:validation.LabelValueMaxLength]
	}
	return strings.Trim(s, "-_.")
}

func (h *wrapperHandler) validate(ctx context.Context, req admission.Request) admission.Response {
	w := &aw.AppWrapper{}
	if err := h.decoder.Decode(req, w); err != nil {
		return malformed(err)
	}
	if req.Operation != admissionv1.Update {
		return h.validateNew(ctx, req, w)
	}
	was := &aw.AppWrapper{}
	if err := h.decoder.DecodeRaw(req.OldObject, was); err != nil {
		return malformed(err)
	}
	if !appwrapper.Ours(was) {
		return answer(req, appwrapper.ValidateManager(was, w))
	}
	queued, err := h.concerns(ctx, was, w, req.Namespace)
	if err != nil {
		return failed(err)
	}
	errs, err := h.checkChange(ctx, req, was, w, queued)
	if err != nil {
		return failed(err)
	}
	return h.told(ctx, req, was, w, queued, errs)
}

// validateNew checks a new AppWrapper. One that another controller manages is
// none of ours.
func (h *wrapperHandler) validateNew(ctx context.Context, req admission.Request, w *aw.AppWrapper) admission.Response {
	if !appwrapper.Ours(w) {
		return admission.Allowed("")
	}
	// What is too much is refused before anything else is looked up or tried.
	if errs := append(h.limits.another(req.Namespace), h.limits.size(req, field.NewPath("spec", "components"))...); len(errs) > 0 {
		return answer(req, errs)
	}
	queued, err := h.queues(ctx, w, req.Namespace)
	if err != nil {
		return failed(err)
	}
	errs, err := h.checkNew(ctx, req, w, queued)
	if err != nil {
		return failed(err)
	}
	var tried []string
	if len(errs) == 0 {
		errs, tried = h.try(ctx, w)
	}
	return h.told(ctx, req, nil, w, queued, errs).WithWarnings(tried...)
}

// told answers with what the author should know; was is nil for a new
// AppWrapper.
func (h *wrapperHandler) told(ctx context.Context, req admission.Request, was, w *aw.AppWrapper, queued bool, errs field.ErrorList) admission.Response { //nolint:revive // a fact about the AppWrapper
	resp := answer(req, errs)
	if was == nil || !maps.Equal(was.Annotations, w.Annotations) {
		_, malformed := lifecycle.ParsePolicy(h.policy, w.Annotations)
		for _, m := range malformed {
			resp = resp.WithWarnings(m.String())
		}
	}
	if !queued {
		return resp
	}
	var before metav1.Object
	if was != nil {
		before = was
	}
	warnings, err := h.cluster.missingOf(ctx, req.Namespace, before, w)
	if err != nil {
		return failed(err)
	}
	return resp.WithWarnings(warnings...)
}

// concerns reports whether an AppWrapper waits for admission here, or did before
// the change.
func (h *wrapperHandler) concerns(ctx context.Context, was, is *aw.AppWrapper, namespace string) (bool, error) {
	queued, err := h.queues(ctx, is, namespace)
	if queued || err != nil {
		return queued, err
	}
	return h.queues(ctx, was, namespace)
}

func (h *wrapperHandler) checkNew(ctx context.Context, req admission.Request, w *aw.AppWrapper, queued bool) (field.ErrorList, error) { //nolint:revive // a fact about the AppWrapper
	var errs field.ErrorList
	if queued {
		errs = append(validateLabels(w), h.gates.create(w)...)
	}
	// The API server fills in the namespace only later.
	w.Namespace = req.Namespace
	wrong := append(appwrapper.Validate(w), h.limits.components(len(req.Object.Raw), w)...)
	errs = append(errs, wrong...)
	for _, p := range appwrapper.PriorityClassNames(w) {
		found, err := h.cluster.checkPriorityClass(ctx, h.limits.Limits, p.Name, p.Path)
		if err != nil {
			return nil, err
		}
		errs = append(errs, found...)
	}
	if len(wrong) > 0 {
		return errs, nil // what it would create is not clear
	}
	found, err := h.checkRights(ctx, req, w)
	return append(errs, found...), err
}

func (h *wrapperHandler) checkChange(ctx context.Context, req admission.Request, was, w *aw.AppWrapper, inQueue bool) (field.ErrorList, error) { //nolint:revive // a fact about the AppWrapper
	errs := append(appwrapper.ValidateUpdate(was, w), h.limits.size(req, nil)...)
	if !inQueue {
		return errs, nil
	}
	errs = append(append(errs, validateLabels(w)...), h.gates.update(was, w)...)
	hasDefault, err := h.cluster.keepsQueue(ctx, req.Namespace, was, w)
	if err != nil {
		return nil, err
	}
	errs = append(errs, validateLabelChanges(queued{was, was.Spec.Suspend}, queued{w, w.Spec.Suspend}, hasDefault)...)
	if !admissionChanged(was, w) {
		return errs, nil
	}
	may, err := h.cluster.mayAdmit(ctx, req)
	if err != nil || may {
		return errs, err
	}
	return append(errs, field.Forbidden(field.NewPath("spec"),
		"suspend is set to false and podSetInfos are filled in when the job is admitted: leave both as they are")), nil
}

// admissionChanged is true if a change starts an AppWrapper or says where its
// pods go, which is for the admission to decide. Anyone may suspend one.
func admissionChanged(was, is *aw.AppWrapper) bool {
	if was.Spec.Suspend && !is.Spec.Suspend {
		return true
	}
	return !slices.EqualFunc(was.Spec.Components, is.Spec.Components, func(a, b aw.AppWrapperComponent) bool {
		return equality.Semantic.DeepEqual(a.PodSetInfos, b.PodSetInfos)
	})
}
