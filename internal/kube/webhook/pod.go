package webhook

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// Pods are queued where teams work, and elsewhere if they name a queue. Who made a
// pod is told by who wrote it and not by its owner references, which any user may
// write: pods of jobs that are queued already are the ones that carry the Workload of
// their job and were written by our controllers, by the controllers of Kubernetes, or
// by an operator whose account is in none of the teams' namespaces.

// podConditions leave out pods that are parts of what is queued already, without a
// call: those of a Job of a thousand pods, for one, and also while no controller of
// ours runs. What the controllers of Kubernetes write of a pod's owner is true.
func podConditions() []admissionregistrationv1.MatchCondition {
	const owned = "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && "
	const counted = "object.metadata.?annotations[?'" + kueue.WorkloadAnnotation + "'].orValue('') != ''"
	return []admissionregistrationv1.MatchCondition{
		{Name: "by-a-user", Expression: byUser},
		{Name: "not-of-a-queued-job", Expression: "!(" + byKubernetes() + " && (" +
			owned + "o.kind == 'DaemonSet') || " + counted + " && " + owned + "o.kind in ['Job', 'ReplicaSet', 'StatefulSet'])))"},
		{Name: "not-a-mirror", Expression: "!request.userInfo.username.startsWith('system:node:')"},
	}
}

// podChangeConditions leave out the changes that touch nothing of ours.
func podChangeConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "by-a-user", Expression: byUser},
		{Name: "of-what-is-kept", Expression: podmeta.Guarded()},
	}
}

// podRestoreConditions leave out the changes of pods that were given nothing, or that
// leave what they were given.
func podRestoreConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "by-a-user", Expression: byUser},
		{
			Name:       "of-what-was-given",
			Expression: "object.spec.?schedulerName.orValue('') != oldObject.spec.?schedulerName.orValue('') || object.spec.?tolerations.orValue([]) != oldObject.spec.?tolerations.orValue([])",
		},
	}
}

// podPlaceConditions leave out pods that mlbatch's scheduler binds, under one of its names: it
// knows where they go. They are those of queued jobs, whoever makes them. The names are one text,
// so that a chart can fill them in. Pods of a group of Sakkara's are told their ranks before they are bound.
func podPlaceConditions(names []string) []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{
		Name: "of-another-scheduler",
		Expression: "object.metadata.?annotations[?'" + kueue.WorkloadAnnotation + "'].orValue('') != '' && " +
			"(!'," + strings.Join(names, ",") + ",'.contains(',' + object.spec.?schedulerName.orValue('') + ',') || " +
			entryOf("object.metadata", "labels", sakkara.MemberLabel) + " != '' && " +
			entryOf("object.metadata", "labels", sakkara.RankLabel) + " == '')",
	}}
}

// podDomainConditions leave out pods that their admission gave no place in a ComputeDomain.
func podDomainConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{
		Name:       "of-a-compute-domain",
		Expression: entryOf("object.metadata", "annotations", kueue.ComputeDomainClaimAnnotation) + " != ''",
	}}
}

// podGroupConditions leave out pods for which no PodGroup of Kubernetes was written, and those that are in one.
func podGroupConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{
		Name:       "of-a-native-pod-group",
		Expression: entryOf("object.metadata", "annotations", kueue.NativePodGroupAnnotation) + " != ''",
	}}
}

// podNoticeConditions leave out pods whose job does not want to be told before it is stopped.
func podNoticeConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{
		Name:       "of-a-job-that-is-told",
		Expression: entryOf("object.metadata", "annotations", kueue.StopFileAnnotation) + " != ''",
	}}
}

// The paths of the questions about pods.
const (
	pathMutatePod       = "/mutate--v1-pod"
	pathPlacePod        = "/place--v1-pod"
	pathShareMemory     = "/share--v1-pod"
	pathTellPod         = "/tell--v1-pod"
	pathGroupPod        = "/group--v1-pod"
	pathValidatePod     = "/validate--v1-pod"
	pathValidatePodKept = "/keep--v1-pod"
	pathRestorePod      = "/restore--v1-pod"
)

// StopDirectory is where containers find the files stop-at and stop-reason, which are empty until their job is about
// to be stopped; stopVolume is what their pod calls the volume.
const (
	StopDirectory = "/etc/mlbatch"
	stopVolume    = "mlbatch-stop"
)

// podHooks are the webhooks about pods. They are called in the namespaces of teams,
// and elsewhere about pods that name a queue, or are held; never in those of the
// cluster itself.
func podHooks(schedulers []string) (mutating, validating []hook) {
	on := func(ops ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
		return rule(corev1.GroupName, []string{"v1"}, []string{"pods"}, ops...)
	}
	mutates := hook{name: "mpod", path: pathMutatePod, rule: on(create), conditions: podConditions()}
	validates := hook{name: "vpod", path: pathValidatePod, rule: on(create), conditions: podConditions()}
	restores := hook{
		name:       "mpodkept",
		path:       pathRestorePod,
		rule:       on(update),
		conditions: podRestoreConditions(),
	}
	keeps := hook{
		name:       "vpodkept",
		path:       pathValidatePodKept,
		rule:       on(update),
		conditions: podChangeConditions(),
	}
	team, queued := keeps, keeps
	team.name, team.namespaces = "vpodkept.team", teamNamespaces()
	queued.name, queued.namespaces = "vpodkept.queued", queueNamespaces()
	// Pods of a team's other jobs are counted by what an admission wrote into them.
	queued.objects = &metav1.LabelSelector{MatchLabels: map[string]string{kueue.ManagedLabel: "true"}}
	restores.objects = queued.objects
	restoresTeam := restores
	restores.name, restores.namespaces = "mpodkept.queued", queued.namespaces
	restoresTeam.name, restoresTeam.namespaces = "mpodkept.team", team.namespaces
	// After the others, which write what it is called for.
	places := hook{
		name:       "mpodplace",
		path:       pathPlacePod,
		rule:       on(create),
		namespaces: queueNamespaces(),
		conditions: podPlaceConditions(schedulers),
	}
	places.objects = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: kueue.PodSetLabel, Operator: metav1.LabelSelectorOpExists},
		},
	}
	shares := places
	shares.name, shares.path, shares.conditions = "mpoddomain", pathShareMemory, podDomainConditions()
	sharesTeam := shares
	shares.name, sharesTeam.name, sharesTeam.namespaces = "mpoddomain.queued", "mpoddomain.team", team.namespaces
	groups := sharesTeam
	groups.path, groups.conditions = pathGroupPod, podGroupConditions()
	groupsTeam := groups
	groups.name, groups.namespaces, groupsTeam.name = "mpodgroup.queued", queueNamespaces(), "mpodgroup.team"
	tells := sharesTeam
	// What it adds is a help: the pods of a job that asked for it start without, and have their annotations.
	tells.path, tells.conditions, tells.optional = pathTellPod, podNoticeConditions(), true
	tellsTeam := tells
	tells.name, tells.namespaces, tellsTeam.name = "mpodnotice.queued", queueNamespaces(), "mpodnotice.team"
	placesTeam := places
	places.name, placesTeam.name, placesTeam.namespaces = "mpodplace.queued", "mpodplace.team", team.namespaces
	return append(
			mutates.whereQueued(),
			restoresTeam,
			restores,
			placesTeam,
			places,
			sharesTeam,
			shares,
			groupsTeam,
			groups,
			tellsTeam,
			tells,
		), append(
			validates.whereQueued(),
			team,
			queued,
		)
}

// queuedAs reports whether a new pod waits for admission, and in which queue. In the
// namespaces of teams all do, whatever kinds the installation queues elsewhere: users
// there may make pods, since they are held.
func (h *podHandler) queuedAs(
	ctx context.Context,
	req admission.Request,
	p *corev1.Pod,
) (queue string, waits bool, err error) {
	if h.pods.Off && !slices.Contains(h.pods.Parents, podmeta.Parent(p)) {
		if team, err := h.cluster.teamNamespace(ctx, req.Namespace); !team || err != nil {
			return "", false, err
		}
	}
	if p.Annotations[kueue.WorkloadAnnotation] != "" {
		operator, err := h.cluster.byOperator(ctx, req)
		if operator || err != nil {
			return "", false, err
		}
	}
	if queue, err = h.queueOf(ctx, p, req.Namespace); err != nil {
		return "", false, err
	}
	waits, err = h.cluster.covers(ctx, h.scope, req.Namespace, queue)
	return queue, waits, err
}

// mutate holds a new pod until it is admitted.
func (h *podHandler) mutate(ctx context.Context, req admission.Request) admission.Response {
	p := &corev1.Pod{}
	e, err := editOf(h.decoder, req, p)
	if err != nil {
		return malformed(err)
	}
	if w, err := h.adopted(ctx, req, p); err != nil {
		return failed(err)
	} else if w != nil {
		if err := adopt(e, p, w); err != nil {
			return malformed(err)
		}
		return e.response()
	}
	queue, waits, err := h.queuedAs(ctx, req, p)
	if err != nil {
		return failed(err)
	}
	if !waits {
		return e.response()
	}
	if p.Spec.NodeName != "" { // the API server would refuse it for its gate, without a cure
		return answer(req, h.checkPod(p, req.Namespace))
	}
	role := podmeta.Role(p)
	if given := p.Annotations[kueue.RoleHashAnnotation]; given != "" &&
		serving.GroupedKind(podmeta.Parent(p)) != nil &&
		slices.Contains(kubeControllers(), req.UserInfo.Username) {
		role = given // that of the set's template, which only our controllers write
	}
	if err := h.hold(ctx, e, p, queue, role); err != nil {
		return malformed(err)
	}
	user, err := h.cluster.author(ctx, req, p)
	if err != nil {
		return failed(err)
	}
	if err := e.sign(user); err != nil {
		return malformed(err)
	}
	odd, wrong, err := h.join(ctx, e, p, req.Namespace, role)
	if err != nil {
		return failed(err)
	}
	if len(wrong) > 0 {
		return answer(req, wrong)
	}
	resp := e.response().WithWarnings(odd...)
	if metav1.GetControllerOf(p) == nil { // else its author does not read it
		resp = resp.WithWarnings(unheededKAI(p, nil, true)...)
	}
	if queue == "" {
		resp = resp.WithWarnings(namesNoQueue(podmeta.GVK().Kind, req.Namespace))
	}
	return resp
}

// join makes a pod part of the group that it names in the way of another scheduler. What
// it says besides, as its author, is a pod group of ours.
func (h *podHandler) join(
	ctx context.Context,
	e *edit,
	p *corev1.Pod,
	namespace, role string,
) (warnings []string, wrong field.ErrorList, err error) {
	e.drop([]string{podmeta.PodGroupKindAnnotation}, "metadata", "annotations")
	group, name := podmeta.Named(p)
	if own := podmeta.Group(p); own != "" {
		return nil, nil, h.groupHeld(e, p, own)
	}
	if group == "" {
		return nil, nil, nil
	}
	if group != podmeta.SakkaraGroup {
		if warning, err := h.withoutPodGroups(group, name); warning != "" || err != nil {
			return []string{warning}, nil, err
		}
	}
	if group == podmeta.NativeGroup && h.composites {
		of, fault, err := h.startsWith(ctx, namespace, name)
		if err != nil || fault != nil {
			return nil, fault, err
		}
		if of.Kind == podmeta.CompositeGroup {
			role = podmeta.RoleWithin(name, role)
			if err := e.set(role, "metadata", "annotations", kueue.RoleHashAnnotation); err != nil {
				return nil, nil, err
			}
		}
		group, name = of.Kind, of.Name
	}
	if err := e.label(kueue.PodGroupNameLabel, name); err != nil {
		return nil, nil, err
	}
	if err := h.groupHeld(e, p, name); err != nil {
		return nil, nil, err
	}
	return nil, nil, e.set(group, "metadata", "annotations", podmeta.PodGroupKindAnnotation)
}

// startsWith is the group of pods that those of a PodGroup of Kubernetes are in, by the CompositePodGroups around it. As
// long as one of these is not there it is the PodGroup's, and the controller moves the pods. What can never be one is wrong.
func (h *podHandler) startsWith(
	ctx context.Context,
	namespace, name string,
) (of composite.Group, wrong field.ErrorList, err error) {
	of = composite.Group{Kind: podmeta.NativeGroup, Name: name}
	var g schedulingv1beta1.PodGroup
	if err := h.cluster.Cached.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &g); err != nil {
		return of, nil, client.IgnoreNotFound(err)
	}
	found, err := composite.GroupOf(ctx, h.cluster.Cached, &g)
	switch f := composite.AsFault(err); {
	case f != nil && f.Lasting:
		at := field.NewPath("spec", "schedulingGroup", "podGroupName")
		return of, field.ErrorList{field.Invalid(at, name, f.Why)}, nil
	case f != nil:
		return of, nil, nil //nolint:nilerr // what is missing may come, and the controller says so meanwhile
	case err != nil:
		return of, nil, err
	}
	return found, nil, nil
}

// groupHeld has a held pod of a group name the PodGroup of Kubernetes that is written for the group, where mlbatch's
// scheduler binds it: another would start none of the group as long as one of its pods is held, such as one too many.
func (h *podHandler) groupHeld(e *edit, p *corev1.Pod, name string) error {
	if !h.writesPodGroups || !h.schedulers.Own(h.schedulers.Of(p.Spec.SchedulerName)) {
		return nil
	}
	return groupAs(e, p, name)
}

// withoutPodGroups says that a pod is in no PodGroup where the cluster has none of an API group; "" if it has.
func (h *podHandler) withoutPodGroups(group, name string) (string, error) {
	kind, _ := podmeta.GangKind(group)
	_, err := h.cluster.Mapper.RESTMapping(kind)
	switch {
	case apimeta.IsNoMatchError(err):
		return fmt.Sprintf(
			"the Pod is queued by itself and does not wait for others of PodGroup %s, because this cluster has no PodGroups of %s: "+
				"give all pods of the group the label %s and the annotation %s",
			name,
			group,
			kueue.PodGroupNameLabel,
			kueue.PodGroupTotalCountAnnotation,
		), nil
	case err != nil:
		return "", fmt.Errorf("find PodGroups of %s: %w", group, err)
	}
	return "", nil
}

// hold adds to a pod what keeps it from being scheduled and from being forgotten, and
// takes out what only an admission writes.
func (h *podHandler) hold(ctx context.Context, e *edit, p *corev1.Pod, queue, role string) error {
	labels, annotations := podmeta.Injected()
	e.drop(labels, "metadata", "labels")
	e.drop(annotations, "metadata", "annotations")
	if err := e.submittedAt(h.clock.Now()); err != nil {
		return err
	}
	if err := e.label(kueue.ManagedLabel, "true"); err != nil {
		return err
	}
	if queue != podmeta.Queue(p) {
		if err := e.label(kueue.QueueNameLabel, queue); err != nil {
			return err
		}
	}
	if h.defaultClass {
		if err := h.cluster.addPriorityClass(ctx, e, p); err != nil {
			return err
		}
	}
	if err := e.set(role, "metadata", "annotations", kueue.RoleHashAnnotation); err != nil {
		return err
	}
	if !podmeta.Kept(p) {
		if err := e.add(kueue.PodFinalizer, "metadata", "finalizers"); err != nil {
			return err
		}
	}
	if !podmeta.Gated(p) {
		if err := e.add(map[string]any{"name": kueue.AdmissionGate}, "spec", "schedulingGates"); err != nil {
			return err
		}
	}
	if p.Annotations[kueue.StopNoticeAnnotation] != "" {
		if err := stopFile(e, p); err != nil {
			return err
		}
	}
	s := h.schedulers.Of(p.Spec.SchedulerName)
	if s != p.Spec.SchedulerName {
		if err := e.overrule(s, "spec", "schedulerName"); err != nil {
			return err
		}
	}
	if h.schedulers.Own(s) || podmeta.Unplaced(p) {
		return nil
	}
	return e.add(map[string]any{"name": kueue.TopologyGate}, "spec", "schedulingGates")
}

// tell lets the containers of a new pod of a queued job read when and why they are stopped.
func (h *podHandler) tell(_ context.Context, req admission.Request) admission.Response {
	p := &corev1.Pod{}
	if err := h.decoder.Decode(req, p); err != nil {
		return malformed(err)
	}
	e, err := newEdit(req.Object.Raw)
	if err != nil {
		return malformed(err)
	}
	if err := stopFile(e, p); err != nil {
		return malformed(err)
	}
	return e.response()
}

// meetsStopDirectory reports whether a volume is where the files are, above or below: of two volumes, one of which is in the
// other, a runtime can start a container only if the outer one has the directory, or may be written.
func meetsStopDirectory(m corev1.VolumeMount) bool {
	at := strings.TrimSuffix(path.Join("/", m.MountPath), "/") + "/"
	return strings.HasPrefix(at, StopDirectory+"/") || strings.HasPrefix(StopDirectory+"/", at)
}

// stopFile adds to a new pod the volume in which it is told when and why it is stopped. A pod that has something else
// there keeps that, and so does each container.
func stopFile(e *edit, p *corev1.Pod) error {
	if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == stopVolume }) {
		return nil
	}
	item := func(path, annotation string) any {
		return map[string]any{
			"path":     path,
			"fieldRef": map[string]any{"fieldPath": "metadata.annotations['" + annotation + "']"},
		}
	}
	if err := e.add(map[string]any{"name": stopVolume, "downwardAPI": map[string]any{"items": []any{
		item("stop-at", kueue.StopAtAnnotation), item("stop-reason", kueue.StopReasonAnnotation),
	}}}, "spec", "volumes"); err != nil {
		return err
	}
	for i := range p.Spec.Containers {
		if slices.ContainsFunc(p.Spec.Containers[i].VolumeMounts, meetsStopDirectory) {
			continue
		}
		if err := e.addIn(
			map[string]any{"name": stopVolume, "mountPath": StopDirectory, "readOnly": true},
			"spec", fmt.Sprintf("containers[%d]", i), "volumeMounts",
		); err != nil {
			return err
		}
	}
	return nil
}

// place holds a new pod of a queued job that another scheduler binds, until it is known which
// node it has: only then may that scheduler look at it.
func (h *podHandler) place(_ context.Context, req admission.Request) admission.Response {
	p := &corev1.Pod{}
	e, err := editOf(h.decoder, req, p)
	if err != nil {
		return malformed(err)
	}
	ranked := p.Labels[sakkara.MemberLabel] != "" && p.Labels[sakkara.RankLabel] == ""
	if h.schedulers.Own(p.Spec.SchedulerName) && !ranked || p.Spec.NodeName != "" || podmeta.Unplaced(p) {
		return e.response()
	}
	if err := e.add(map[string]any{"name": kueue.TopologyGate}, "spec", "schedulingGates"); err != nil {
		return malformed(err)
	}
	return e.response()
}

// group puts a new pod of a queued job into the PodGroup of Kubernetes that was written for the job, unless it is in one.
// Templates of pods cannot be given one once their job is there.
func (h *podHandler) group(_ context.Context, req admission.Request) admission.Response {
	p := &corev1.Pod{}
	e, err := editOf(h.decoder, req, p)
	if err != nil {
		return malformed(err)
	}
	if err := groupAs(e, p, p.Annotations[kueue.NativePodGroupAnnotation]); err != nil {
		return malformed(err)
	}
	return e.response()
}

// groupAs has a new pod name a PodGroup of Kubernetes. Pods that say who has a say in their eviction can be in none.
func groupAs(e *edit, p *corev1.Pod, name string) error {
	if p.Spec.SchedulingGroup != nil || len(p.Spec.EvictionResponders) > 0 {
		return nil
	}
	return e.set(name, "spec", "schedulingGroup", "podGroupName")
}

// share gives a new pod of a queued job the claim by which it gets into the ComputeDomain of the job.
// Templates of pods cannot be given claims once their job is there, and what its claims are called is known
// only when it starts.
func (h *podHandler) share(_ context.Context, req admission.Request) admission.Response {
	p := &corev1.Pod{}
	e, err := editOf(h.decoder, req, p)
	if err != nil {
		return malformed(err)
	}
	if !jobs.SharesMemory(p) {
		return e.response()
	}
	claim := p.Spec.ResourceClaims[len(p.Spec.ResourceClaims)-1]
	if err := e.add(
		map[string]any{"name": claim.Name, "resourceClaimTemplateName": *claim.ResourceClaimTemplateName},
		"spec", "resourceClaims",
	); err != nil {
		return malformed(err)
	}
	for i := range p.Spec.Containers {
		var claims []any
		for _, c := range p.Spec.Containers[i].Resources.Claims {
			entry := map[string]any{"name": c.Name}
			if c.Request != "" {
				entry["request"] = c.Request
			}
			claims = append(claims, entry)
		}
		if len(claims) == 0 {
			continue
		}
		if err := e.set(claims, "spec", fmt.Sprintf("containers[%d]", i), "resources", "claims"); err != nil {
			return malformed(err)
		}
	}
	return e.response()
}

// validate refuses new pods that could never run, or would get around their queue.
func (h *podHandler) validate(ctx context.Context, req admission.Request) admission.Response {
	p := &corev1.Pod{}
	if err := h.decoder.Decode(req, p); err != nil {
		return malformed(err)
	}
	_, waits, err := h.queuedAs(ctx, req, p)
	if err != nil {
		return failed(err)
	}
	if !waits {
		return admission.Allowed("")
	}
	errs := append(h.limits.size(req, field.NewPath("spec")), h.limits.another(req.Namespace)...)
	errs = append(append(append(errs, jobs.ValidateLabels(p)...), h.gates.create(p)...), startsAtOnce(p)...)
	errs = append(errs, podmeta.Validate(p, serving.Counted(podmeta.Parent(p)))...)
	errs = append(errs, h.checkPod(p, req.Namespace)...)
	if !podmeta.Gated(p) {
		errs = append(
			errs,
			field.Required(
				field.NewPath("spec", "schedulingGates"),
				"the gate "+kueue.AdmissionGate+" must stay: another webhook took it out",
			),
		)
	}
	if name := p.Spec.PriorityClassName; name != "" {
		found, err := h.cluster.checkPriorityClass(
			ctx,
			h.limits.Limits,
			name,
			field.NewPath("spec", "priorityClassName"),
		)
		if err != nil {
			return failed(err)
		}
		errs = append(errs, found...)
	}
	found, err := h.canBeLetGo(ctx, req.Namespace, podmeta.Queue(p))
	if err != nil {
		return failed(err)
	}
	errs = append(errs, found...)
	warnings, err := h.cluster.missingOf(ctx, req.Namespace, nil, p)
	if err != nil {
		return failed(err)
	}
	if metav1.GetControllerOf(p) == nil && len(errs) == 0 {
		warnings = append(
			warnings,
			h.never.tellOfPod(
				ctx,
				"Pod",
				req.Namespace,
				podmeta.Queue(p),
				&corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations},
					Spec:       p.Spec,
				},
			)...)
	}
	return answer(req, errs, warnings...)
}

// canBeLetGo refuses pods where the controller may not change any: with the first
// LocalQueue of a namespace it gets the right to, and keeps it while pods are left.
func (h *podHandler) canBeLetGo(ctx context.Context, namespace, queue string) (field.ErrorList, error) {
	without, err := h.cluster.withoutRights(ctx, namespace)
	if !without || err != nil {
		return nil, err
	}
	return field.ErrorList{
		field.Invalid(
			labelPath(kueue.QueueNameLabel),
			queue,
			fmt.Sprintf("namespace %s has no LocalQueue: create one first, or remove the label", namespace),
		),
	}, nil
}

// checkPod refuses pods that would go around the queue, or outlive an eviction.
func (h *podHandler) checkPod(p *corev1.Pod, namespace string) field.ErrorList {
	t := corev1.PodTemplateSpec{ObjectMeta: *p.ObjectMeta.DeepCopy(), Spec: p.Spec}
	t.Finalizers = slices.DeleteFunc(t.Finalizers, func(f string) bool { return f == kueue.PodFinalizer })
	errs := h.limits.ValidateTemplate(jobs.PodTemplate{Template: &t}, namespace)
	for _, e := range errs {
		e.Field = strings.TrimPrefix(e.Field, ".")
	}
	return errs
}

// restore puts back what a pod was given and its manifest does not have, so that the
// manifest can be applied again: the scheduler that its gang is placed by, and the
// tolerations that its admission added.
func (h *podHandler) restore(_ context.Context, req admission.Request) admission.Response {
	is, was := &corev1.Pod{}, &corev1.Pod{}
	if err := h.decoder.Decode(req, is); err != nil {
		return malformed(err)
	}
	if err := h.decoder.DecodeRaw(req.OldObject, was); err != nil {
		return malformed(err)
	}
	e, err := newEdit(req.Object.Raw)
	if err != nil {
		return malformed(err)
	}
	if !podmeta.Managed(was) {
		return e.response()
	}
	if err := e.set(was.Spec.SchedulerName, "spec", "schedulerName"); err != nil {
		return malformed(err)
	}
	for _, t := range was.Spec.Tolerations {
		if slices.ContainsFunc(
			is.Spec.Tolerations,
			func(o corev1.Toleration) bool { return equality.Semantic.DeepEqual(t, o) },
		) {
			continue
		}
		given, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&t)
		if err != nil {
			return failed(fmt.Errorf("write toleration: %w", err))
		}
		if err := e.add(given, "spec", "tolerations"); err != nil {
			return malformed(err)
		}
	}
	return e.response()
}

// validateKept refuses changes of what is not a user's.
func (h *podHandler) validateKept(ctx context.Context, req admission.Request) admission.Response {
	is, was := &corev1.Pod{}, &corev1.Pod{}
	if err := h.decoder.Decode(req, is); err != nil {
		return malformed(err)
	}
	if err := h.decoder.DecodeRaw(req.OldObject, was); err != nil {
		return malformed(err)
	}
	if !podmeta.Managed(was) || !podmeta.Kept(was) && !podmeta.Gated(was) { // the label alone holds nothing
		errs, lost := append(
			podmeta.ValidateInjected(was, is),
			podmeta.ValidatePlaced(was, is)...), podmeta.ValidateCounted(
			was,
			is,
		)
		if was.Annotations[kueue.WorkloadAnnotation] != "" {
			lost = append(
				lost,
				classChange(
					was.Labels[kueue.PriorityClassLabel],
					is.Labels[kueue.PriorityClassLabel],
					"it has no effect: the pod has the class of its job",
				)...)
		}
		if len(lost) > 0 {
			trusted, err := h.trusted(ctx, req)
			if err != nil {
				return failed(err)
			}
			if !trusted {
				errs = append(errs, lost...)
			}
		}
		return answer(req, errs)
	}
	cure := ""
	if !podmeta.Gated(was) {
		cure = "cannot be given to a pod that runs: create the pod anew"
	}
	errs := append(podmeta.ValidateChange(was, is), jobs.ValidateLabels(is)...)
	errs = append(
		errs,
		classChange(was.Labels[kueue.PriorityClassLabel], is.Labels[kueue.PriorityClassLabel], cure)...)
	warnings, err := h.cluster.missingOf(ctx, req.Namespace, was, is)
	if err != nil {
		return failed(err)
	}
	return answer(req, errs, warnings...)
}

// trusted reports whether a write is that of a controller, of Kubernetes or of an operator,
// or of an admin.
func (h *podHandler) trusted(ctx context.Context, req admission.Request) (bool, error) {
	const account = "system:serviceaccount:" + metav1.NamespaceSystem + ":"
	name := req.UserInfo.Username
	if strings.HasPrefix(name, account) || slices.Contains(kubeControllers(), name) ||
		slices.Contains(req.UserInfo.Groups, user.SystemPrivilegedGroup) {
		return true, nil
	}
	return h.cluster.byOperator(ctx, req)
}
