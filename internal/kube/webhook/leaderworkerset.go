package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/leaderworkerset"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// The paths of the questions about LeaderWorkerSets and their pods.
const (
	pathValidateSet  = "/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
	pathSignSet      = "/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
	pathIdentifyPods = "/mutate--v1-pod-leaderworkerset"
)

// setHooks are the webhooks about LeaderWorkerSets: they are checked wherever they are,
// since our controller acts on them all, and their pods are told their places before
// anything else looks at them.
func setHooks() (mutating, validating []hook) {
	gvk := leaderworkerset.GVK()
	identify := hook{
		name: "mpodplace", path: pathIdentifyPods, rule: rule(corev1.GroupName, []string{"v1"}, []string{"pods"}, create),
		namespaces: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notSystem()}},
		objects:    &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: api.NameLabel, Operator: metav1.LabelSelectorOpExists}}},
		conditions: []admissionregistrationv1.MatchCondition{
			{Name: "by-a-controller", Expression: byKubernetes()},
			{Name: "run-by-mlbatch", Expression: entryOf("object.metadata", "annotations", leaderworkerset.Ours) + " == 'true' || " + entryOf("object.metadata", "labels", leaderworkerset.Ours) + " == 'true'"},
		},
	}
	validates := hook{
		name: "vleaderworkerset", path: pathValidateSet, rule: rule(gvk.Group, []string{gvk.Version}, []string{leaderworkerset.Resource}, create, update),
		conditions: []admissionregistrationv1.MatchCondition{
			{Name: "by-a-user", Expression: byUser},
			{Name: "changes-a-set", Expression: "request.operation == 'CREATE' || object.spec != oldObject.spec || " + relabeled},
		},
	}
	signs := validates
	signs.name, signs.path = "mleaderworkerset", pathSignSet
	return []hook{signs, identify}, []hook{validates}
}

// setHandler answers for LeaderWorkerSets.
type setHandler struct {
	*jobHandler
	// off: they are somebody else's.
	off bool
}

func newSetHandler(base *jobHandler, frameworks []string) *setHandler {
	return &setHandler{base, frameworks != nil && !slices.Contains(frameworks, leaderworkerset.Framework)}
}

// identify tells a new pod of a set its place in it.
func (h *setHandler) identify(_ context.Context, req admission.Request) admission.Response {
	p := &corev1.Pod{}
	if err := h.decoder.Decode(req, p); err != nil {
		return malformed(err)
	}
	e, err := newEdit(req.Object.Raw)
	if err != nil {
		return malformed(err)
	}
	id := leaderworkerset.Identify(p, req.Namespace)
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
func place(e *edit, p *corev1.Pod, id *leaderworkerset.Identity) error {
	for _, key := range slices.Sorted(maps.Keys(id.Labels)) {
		if err := e.label(key, id.Labels[key]); err != nil {
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

// validate refuses sets that could never run, or whose pods would take what another job
// was given.
func (h *setHandler) validate(ctx context.Context, req admission.Request) admission.Response {
	is := &api.LeaderWorkerSet{}
	if err := h.decoder.Decode(req, is); err != nil {
		return malformed(err)
	}
	var was *api.LeaderWorkerSet
	if req.Operation == admissionv1.Update {
		was = &api.LeaderWorkerSet{}
		if err := h.decoder.DecodeRaw(req.OldObject, was); err != nil {
			return malformed(err)
		}
	}
	if h.off || is.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	errs := append(h.limits.size(req, field.NewPath("spec", "leaderWorkerTemplate")), jobs.ValidateLabels(is)...)
	errs = append(append(errs, startsAtOnce(is)...), leaderworkerset.Validate(is)...)
	var changed []string
	if was != nil {
		from, to := was.Labels[kueue.PriorityClassLabel], is.Labels[kueue.PriorityClassLabel]
		errs = append(append(errs, leaderworkerset.ValidateChange(was, is)...), classChange(from, to, "")...)
		if from != to && leaderworkerset.Replicas(was) > 0 {
			changed = []string{fmt.Sprintf("%s: the groups are made anew, one after the other, to have the WorkloadPriorityClass", labelPath(kueue.PriorityClassLabel))}
		}
	}
	found, err := h.checkSet(ctx, was, is)
	if err != nil {
		return failed(err)
	}
	var before metav1.Object // nil, and not a set that is nil
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
		warnings = append(warnings, h.never.tell(ctx, "LeaderWorkerSet", req.Namespace, is.Labels[kueue.QueueNameLabel], leaderworkerset.Of(is).PodSets(is.Name, 0))...)
		without, err := h.cluster.withoutRights(ctx, req.Namespace)
		if err != nil {
			return failed(err)
		}
		if without {
			said = []string{fmt.Sprintf(hasNoRights, api.Kind, req.Namespace)}
		} else {
			errs, said = h.tryPods(ctx, is, req.Namespace)
		}
	}
	return answer(req, errs, warnings...).WithWarnings(said...)
}

// unheeded is what a queued set asks for and does not get; nil is no set.
func (h *setHandler) unheeded(l *api.LeaderWorkerSet) []string {
	if l == nil || l.Labels[kueue.QueueNameLabel] == "" {
		return nil
	}
	return slices.Concat(leaderworkerset.Warnings(l), placesOf(leaderworkerset.Templates(l)), h.otherSchedulers(l))
}

// otherSchedulers says which schedulers do not place the pods of a queued set.
func (h *setHandler) otherSchedulers(l *api.LeaderWorkerSet) (out []string) {
	for _, t := range leaderworkerset.Templates(l) {
		asked := t.Template.Spec.SchedulerName
		if s := h.schedulers.Of(asked); asked != "" && s != asked {
			out = append(out, fmt.Sprintf("%s.spec.schedulerName: it has no effect: %s places pods of groups that are queued", t.Path, s))
		}
	}
	return out
}

// tryPods has the API server check one pod of each template of a new set: StatefulSets are made
// where their pods may not be.
func (h *setHandler) tryPods(ctx context.Context, l *api.LeaderWorkerSet, namespace string) (field.ErrorList, []string) {
	if h.cluster.Trial == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialSeconds*time.Second)
	defer cancel()
	t := trials{client: h.cluster.Trial, reader: h.cluster.Live}
	maker := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: l.Name}}
	for _, x := range leaderworkerset.Templates(l) {
		of := x.Template.DeepCopy()
		for _, claim := range l.Spec.LeaderWorkerTemplate.VolumeClaimTemplates { // a StatefulSet gives each pod its own
			v := corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}
			of.Spec.Volumes = append(slices.DeleteFunc(of.Spec.Volumes, func(x corev1.Volume) bool { return x.Name == v.Name }), v)
		}
		if o := podOf(of, maker, appsv1.SchemeGroupVersion.WithKind("StatefulSet")); o != nil {
			t.create(ctx, o, field.NewPath(x.Path))
		}
	}
	return t.errs, t.warnings
}

// checkSet applies the rules for templates of jobs. Of a queued set all pods of a group are admitted
// together.
func (h *setHandler) checkSet(ctx context.Context, was, is *api.LeaderWorkerSet) (field.ErrorList, error) {
	var old []jobs.PodTemplate
	if was != nil {
		old = leaderworkerset.Templates(was)
	}
	var errs field.ErrorList
	for _, t := range leaderworkerset.Templates(is) {
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
	judged, err := h.checkTemplates(ctx, is.Namespace, old, leaderworkerset.Templates(is), is.Labels[kueue.QueueNameLabel] != "")
	return append(errs, judged...), err
}

// heldWithoutQueue tells the author of a set that names no queue, where all pods need
// one. was is nil for a new set.
func (h *setHandler) heldWithoutQueue(ctx context.Context, namespace string, was, is *api.LeaderWorkerSet) ([]string, error) {
	if leaderworkerset.Part(is) || was != nil && was.Labels[kueue.QueueNameLabel] == is.Labels[kueue.QueueNameLabel] {
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
	return []string{(&serving.Kind{GVK: leaderworkerset.GVK(), Group: true}).Explain(namespace)}, nil
}
