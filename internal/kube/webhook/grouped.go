package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// identify is the question which place a new pod has.
const identify = "identify"

func groupedPath(question string, k *jobs.GroupedKind) string {
	if question == identify {
		return "/mutate--v1-pod-" + strings.ToLower(k.GVK.Kind)
	}
	return pathOfGVK(question, k.GVK)
}

// groupedHooks are the webhooks about the objects of a kind: they are checked wherever they are,
// since our controller acts on them all, and their pods are told their places before
// anything else looks at them.
func groupedHooks(k *jobs.GroupedKind) (mutating, validating []hook) {
	kind, mark := strings.ToLower(k.GVK.Kind), k.Admission.Mark
	identifies := hook{
		name:       "mpodplace",
		path:       groupedPath(identify, k),
		rule:       rule(corev1.GroupName, []string{"v1"}, []string{"pods"}, create),
		namespaces: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notSystem()}},
		objects: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: k.NameLabel, Operator: metav1.LabelSelectorOpExists},
			},
		},
		conditions: []admissionregistrationv1.MatchCondition{
			{Name: "by-a-controller", Expression: byKubernetes()},
			{
				Name: "run-by-mlbatch",
				Expression: entryOf(
					"object.metadata",
					"annotations",
					mark,
				) + " == 'true' || " + entryOf(
					"object.metadata",
					"labels",
					mark,
				) + " == 'true'",
			},
		},
	}
	validates := hook{
		name: "v" + kind,
		path: groupedPath(validate, k),
		rule: rule(k.GVK.Group, []string{k.GVK.Version}, []string{k.Resource}, create, update),
		conditions: []admissionregistrationv1.MatchCondition{
			{Name: "by-a-user", Expression: byUser},
			{
				Name:       "changes-a-set",
				Expression: "request.operation == 'CREATE' || object.spec != oldObject.spec || " + relabeled,
			},
		},
	}
	signs := validates
	signs.name, signs.path = "m"+kind, groupedPath(mutate, k)
	return []hook{signs, identifies}, []hook{validates}
}

// groupedHandler answers for the objects of one kind.
type groupedHandler struct {
	*jobHandler
	grouped *jobs.GroupedKind
	// off: they are somebody else's.
	off bool
}

func newGroupedHandler(base *jobHandler, k *jobs.GroupedKind, frameworks []string) *groupedHandler {
	return &groupedHandler{base, k, frameworks != nil && !slices.Contains(frameworks, k.Framework)}
}

// identify tells a new pod of an object its place in it.
func (h *groupedHandler) identify(_ context.Context, req admission.Request) admission.Response {
	p := &corev1.Pod{}
	e, err := editOf(h.decoder, req, p)
	if err != nil {
		return malformed(err)
	}
	id := h.grouped.Admission.Identify(p, req.Namespace)
	if id == nil {
		return e.response()
	}
	if err := place(e, p, id); err != nil {
		return malformed(err)
	}
	if err := e.sign(jobs.User(nil, p)); err != nil { // its template has no label for it
		return malformed(err)
	}
	return e.response()
}

// place writes into a pod what it has to know.
func place(e *edit, p *corev1.Pod, id *jobs.PodIdentity) error {
	for _, key := range slices.Sorted(maps.Keys(id.Labels)) {
		if err := e.label(key, id.Labels[key]); err != nil {
			return err
		}
	}
	if id.Role != "" {
		if err := e.set(id.Role, "metadata", "annotations", kueue.RoleHashAnnotation); err != nil {
			return err
		}
	}
	if id.Subdomain != "" {
		if err := e.set(id.Subdomain, "spec", "subdomain"); err != nil {
			return err
		}
	}
	if id.Affinity != nil {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(id.Affinity)
		if err != nil {
			return fmt.Errorf("write affinity: %w", err)
		}
		if err := e.set(content, "spec", "affinity"); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		name string
		of   []corev1.Container
	}{{"initContainers", p.Spec.InitContainers}, {"containers", p.Spec.Containers}} {
		for i := range list.of {
			if err := e.set(id.EnvOf(&list.of[i]), "spec", fmt.Sprintf("%s[%d]", list.name, i), "env"); err != nil {
				return err
			}
		}
	}
	return nil
}

// validate refuses objects that could never run, or whose pods would take what another job
// was given.
func (h *groupedHandler) validate(ctx context.Context, req admission.Request) admission.Response {
	rules := &h.grouped.Admission
	is := h.grouped.New()
	if err := h.decoder.Decode(req, is); err != nil {
		return malformed(err)
	}
	var was jobs.Object
	if req.Operation == admissionv1.Update {
		was = h.grouped.New()
		if err := h.decoder.DecodeRaw(req.OldObject, was); err != nil {
			return malformed(err)
		}
	}
	if h.off || is.GetDeletionTimestamp() != nil {
		return admission.Allowed("")
	}
	errs := append(h.limits.size(req, field.NewPath(rules.Bulk)), jobs.ValidateLabels(is)...)
	errs = append(append(errs, startsAtOnce(is)...), rules.Validate(is)...)
	var changed []string
	if was != nil {
		from, to := was.GetLabels()[kueue.PriorityClassLabel], is.GetLabels()[kueue.PriorityClassLabel]
		errs = append(append(errs, rules.ValidateChange(was, is)...), classChange(from, to, "")...)
		if from != to && rules.Replicas(was) > 0 {
			changed = []string{
				fmt.Sprintf(
					"%s: the groups are made anew, one after the other, to have the WorkloadPriorityClass",
					labelPath(kueue.PriorityClassLabel),
				),
			}
		}
	}
	found, err := h.checkSet(ctx, was, is)
	if err != nil {
		return failed(err)
	}
	var before metav1.Object // nil, and not an object that is nil
	if was != nil {
		before = was
	}
	warnings, err := h.cluster.missingOf(ctx, req.Namespace, before, is)
	if err != nil {
		return failed(err)
	}
	held, err := h.heldWithoutQueue(ctx, req.Namespace, was, is)
	if err != nil {
		return failed(err)
	}
	warnings = slices.Concat(warnings, held, changed, news(h.unheeded(was), h.unheeded(is)))
	var said []string // when its pods were tried
	if errs = append(errs, found...); was == nil && len(errs) == 0 {
		warnings = append(
			warnings,
			h.never.tell(
				ctx,
				h.grouped.GVK.Kind,
				req.Namespace,
				is.GetLabels()[kueue.QueueNameLabel],
				rules.PodSets(is),
			)...)
		without, err := h.cluster.withoutRights(ctx, req.Namespace)
		if err != nil {
			return failed(err)
		}
		if without {
			said = []string{fmt.Sprintf(hasNoRights, h.grouped.GVK.Kind, req.Namespace)}
		} else {
			errs, said = h.tryPods(ctx, is, req.Namespace)
		}
	}
	return answer(req, errs, warnings...).WithWarnings(said...)
}

// unheeded is what a queued object asks for and does not get; nil is no object.
func (h *groupedHandler) unheeded(o jobs.Object) []string {
	if o == nil || o.GetLabels()[kueue.QueueNameLabel] == "" {
		return nil
	}
	templates := h.grouped.Admission.Templates(o)
	return slices.Concat(
		h.grouped.Admission.Warnings(o), h.otherSchedulers(templates), unheededKAI(o, templates, true),
	)
}

// otherSchedulers says which schedulers do not place the pods of a queued object.
func (h *groupedHandler) otherSchedulers(templates []jobs.PodTemplate) (out []string) {
	for _, t := range templates {
		asked := t.Template.Spec.SchedulerName
		if s := h.schedulers.Of(asked); asked != "" && s != asked {
			out = append(
				out,
				fmt.Sprintf(
					"%s.spec.schedulerName: it has no effect: %s places pods of groups that are queued",
					t.Path,
					s,
				),
			)
		}
	}
	return out
}

// tryPods has the API server check one pod of each template of a new object: StatefulSets are made
// where their pods may not be.
func (h *groupedHandler) tryPods(
	ctx context.Context,
	o jobs.Object,
	namespace string,
) (field.ErrorList, []string) {
	if h.cluster.Trial == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialSeconds*time.Second)
	defer cancel()
	t := trials{client: h.cluster.Trial, reader: h.cluster.Live}
	maker := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: o.GetName()}}
	for _, x := range h.grouped.Admission.Templates(o) {
		of := x.Template.DeepCopy()
		for _, claim := range h.grouped.Admission.Claims(o) { // a StatefulSet gives each pod its own
			v := corev1.Volume{
				Name: claim,
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
				},
			}
			of.Spec.Volumes = append(
				slices.DeleteFunc(of.Spec.Volumes, func(x corev1.Volume) bool { return x.Name == v.Name }),
				v,
			)
		}
		if o := podOf(of, maker, appsv1.SchemeGroupVersion.WithKind("StatefulSet")); o != nil {
			t.create(ctx, o, field.NewPath(x.Path))
		}
	}
	return t.errs, t.warnings
}

// checkSet applies the rules for templates of jobs. Of a queued object all pods of a group are admitted
// together.
func (h *groupedHandler) checkSet(ctx context.Context, was, is jobs.Object) (field.ErrorList, error) {
	var old []jobs.PodTemplate
	if was != nil {
		old = h.grouped.Admission.Templates(was)
	}
	var errs field.ErrorList
	templates := h.grouped.Admission.Templates(is)
	for _, t := range templates {
		before := &corev1.PodTemplateSpec{}
		if i := slices.IndexFunc(old, func(o jobs.PodTemplate) bool { return o.Path == t.Path }); i >= 0 {
			before = old[i].Template
		}
		for _, e := range podmeta.ValidateInjected(before, t.Template) {
			e.Field = t.Path + "." + e.Field
			errs = append(errs, e)
		}
	}
	if was != nil && joins(was, is) {
		old = nil
	}
	judged, err := h.checkTemplates(
		ctx,
		is.GetNamespace(),
		old,
		templates,
		is.GetLabels()[kueue.QueueNameLabel] != "",
	)
	return append(errs, judged...), err
}

// heldWithoutQueue tells the author of an object that names no queue, where all pods need
// one. was is nil for a new object.
func (h *groupedHandler) heldWithoutQueue(
	ctx context.Context,
	namespace string,
	was, is jobs.Object,
) ([]string, error) {
	if h.grouped.Admission.Part(is) ||
		was != nil && was.GetLabels()[kueue.QueueNameLabel] == is.GetLabels()[kueue.QueueNameLabel] {
		return nil, nil
	}
	queue, err := h.queueOf(ctx, is, namespace)
	if err != nil || queue != "" {
		return nil, err
	}
	waits, err := h.cluster.covers(ctx, h.scope, namespace, "")
	if err != nil || !waits {
		return nil, err
	}
	return []string{(&serving.Kind{GVK: h.grouped.GVK, Group: true}).Explain(namespace)}, nil
}
