package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// servingConditions leave out the writes of controllers, which make ReplicaSets of
// Deployments and components of AppWrappers, and changes that concern no template.
func servingConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "by-a-user", Expression: "(" + byUser + ") && !(" + byKubernetes() + ")"},
		{
			Name:       "changes-a-template",
			Expression: "request.operation == 'CREATE' || object.spec != oldObject.spec || " + relabeled,
		},
	}
}

func servingPath(question string, k *serving.Kind) string {
	return "/" + question + "-" + k.GVK.Group + "-" + k.GVK.Version + "-" + strings.ToLower(k.GVK.Kind)
}

// servingHooks are the webhooks about objects that make pods or Jobs.
func servingHooks(k *serving.Kind) (mutating, validating []hook) {
	on := rule(k.GVK.Group, []string{k.GVK.Version}, []string{k.Resource}, create, update)
	name := strings.ToLower(k.GVK.Kind)
	mutates := hook{name: "m" + name, path: servingPath(mutate, k), rule: on, conditions: servingConditions()}
	validates := hook{
		name:       "v" + name,
		path:       servingPath(validate, k),
		rule:       on,
		conditions: servingConditions(),
	}
	return mutates.whereQueued(), validates.whereQueued()
}

// servingHandler answers for the objects of one kind.
type servingHandler struct {
	*jobHandler
	kind *serving.Kind
	// off: what the objects make does not wait for admission.
	off bool
}

func newServingHandler(base *jobHandler, k *serving.Kind, frameworks []string) *servingHandler {
	wanted := []string{k.Framework}
	if !k.Jobs {
		wanted = append(wanted, podmeta.Framework)
	}
	off := frameworks != nil &&
		!slices.ContainsFunc(wanted, func(f string) bool { return slices.Contains(frameworks, f) })
	return &servingHandler{base, k, off}
}

// object reads an object; nil if there is none.
func object(raw runtime.RawExtension) (map[string]any, error) {
	if len(raw.Raw) == 0 {
		return nil, nil //nolint:nilnil // of a new object there is no earlier one
	}
	var out map[string]any
	return out, json.Unmarshal(raw.Raw, &out)
}

// read returns an object and its earlier state, and whether what it makes waits for
// admission. Parts of jobs that are queued already do not.
func (h *servingHandler) read(
	ctx context.Context,
	req admission.Request,
) (was, is map[string]any, waits bool, err error) {
	if is, err = object(req.Object); err == nil && req.Operation == admissionv1.Update {
		was, err = object(req.OldObject)
	}
	if err != nil || h.off || was != nil && h.kind.Part(was) {
		return was, is, false, err
	}
	waits, err = h.cluster.covers(ctx, h.scope, req.Namespace, queueNamed(is))
	return was, is, waits, err
}

func queueNamed(o map[string]any) string {
	name, _, _ := unstructured.NestedString(o, "metadata", "labels", kueue.QueueNameLabel)
	return name
}

// mutate gives a template what makes its pods wait in the queue of their object.
func (h *servingHandler) mutate(ctx context.Context, req admission.Request) admission.Response {
	was, is, waits, err := h.read(ctx, req)
	if err != nil {
		return malformed(err)
	}
	if was != nil && h.kind.Part(was) {
		return admission.Allowed("")
	}
	e, err := newEdit(req.Object.Raw)
	if err != nil {
		return malformed(err)
	}
	if err := h.signTemplate(ctx, e, req, was, waits); err != nil {
		return malformed(err)
	}
	if !waits {
		return e.response()
	}
	for _, m := range h.kind.Marks(is) {
		if err := e.set(m.Value, append(slices.Clone(h.kind.Template), "metadata", m.Map, m.Key)...); err != nil {
			return malformed(err)
		}
	}
	resp := e.response()
	if queue := h.kind.Queue(
		is,
	); queue == "" &&
		(was == nil || h.kind.Queue(was) != "") { // what else is written of it is about other things
		given, err := h.cluster.hasDefaultQueue(ctx, req.Namespace)
		if err != nil {
			return failed(err)
		}
		if !given {
			resp = resp.WithWarnings(h.kind.Explain(req.Namespace))
		}
	}
	return resp
}

// signTemplate writes into an object and its template who submitted it: who makes it, or
// puts it into a queue. What waits for no admission names nobody.
func (h *servingHandler) signTemplate( //nolint:revive // a fact about the object
	ctx context.Context,
	e *edit,
	req admission.Request,
	was map[string]any,
	waits bool,
) error {
	own, made := "", ""
	if waits {
		own, made = req.UserInfo.Username, req.UserInfo.Username
	}
	if was != nil && waits {
		before, err := h.cluster.covers(ctx, h.scope, req.Namespace, queueNamed(was))
		if err != nil {
			return err
		}
		if before {
			own, made = userAt(was), userAt(was, h.kind.Template...)
		}
	}
	if err := e.sign(own); err != nil {
		return err
	}
	return e.sign(made, h.kind.Template...)
}

// userAt is who submitted what is at a path of an object.
func userAt(o map[string]any, path ...string) string {
	at, _, _ := unstructured.NestedMap(o, path...)
	return jobs.User(nil, &unstructured.Unstructured{Object: at})
}

// validate refuses templates whose pods would be refused, or would take what another
// job was given.
func (h *servingHandler) validate(ctx context.Context, req admission.Request) admission.Response {
	was, is, waits, err := h.read(ctx, req)
	if err != nil {
		return malformed(err)
	}
	if !waits && (was == nil || !h.kind.Part(was) && queueNamed(was) == "") {
		return admission.Allowed("")
	}
	o := &unstructured.Unstructured{Object: is}
	errs := append(h.limits.size(req, h.kind.Path()), h.kind.Validate(was, is)...)
	errs = append(append(errs, jobs.ValidateLabels(o)...), startsAtOnce(o)...)
	t, err := h.template(is)
	if err != nil {
		return failed(err)
	}
	found, err := h.checkPods(ctx, was, is, req.Namespace)
	if err != nil {
		return failed(err)
	}
	errs = append(errs, found...)
	var before metav1.Object
	if was != nil {
		before = &unstructured.Unstructured{Object: was}
	}
	warnings, err := h.cluster.missingOf(ctx, req.Namespace, before, o)
	if err != nil {
		return failed(err)
	}
	if was != nil {
		from, to, cure, told := h.kind.Classes(was, is)
		errs = append(errs, classChange(from, to, cure)...)
		if told != "" {
			warnings = append(warnings, fmt.Sprintf("%s: %s", labelPath(kueue.PriorityClassLabel), told))
		}
	}
	if queue := h.kind.Queue(
		is,
	); len(errs) == 0 &&
		(was == nil || h.kind.Queue(was) != queue || !h.kind.SamePods(was, is)) {
		warnings = append(warnings, h.never.tellOfPod(ctx, h.kind.GVK.Kind, req.Namespace, queue, t)...)
	}
	return answer(req, errs, warnings...)
}

// template is that of the pods which an object makes.
func (h *servingHandler) template(is map[string]any) (*corev1.PodTemplateSpec, error) {
	raw, _, err := unstructured.NestedMap(is, h.kind.Pods()...)
	if err != nil {
		return nil, err
	}
	t := &corev1.PodTemplateSpec{}
	return t, runtime.DefaultUnstructuredConverter.FromUnstructured(raw, t)
}

// checkPods applies the rules for templates of jobs, to those of Jobs that are made again and again,
// too: each would be refused, and its author told nothing. was is nil of a new object.
func (h *servingHandler) checkPods(
	ctx context.Context,
	was, is map[string]any,
	namespace string,
) (field.ErrorList, error) {
	var all [2][]jobs.PodTemplate
	for i, o := range []map[string]any{was, is} {
		if o == nil || i == 0 && h.kind.Queue(was) == "" && h.kind.Queue(is) != "" {
			continue // nobody may have judged it before it had a queue
		}
		t, err := h.template(o)
		if err != nil {
			return nil, err
		}
		all[i] = []jobs.PodTemplate{{Path: strings.Join(h.kind.Pods(), "."), Template: t}}
	}
	return h.checkTemplates(ctx, namespace, all[0], all[1], h.kind.Together(is))
}
