package webhook

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// Names of the webhook configurations.
const (
	MutatingName   = "mlbatch-mutating-webhook"
	ValidatingName = "mlbatch-validating-webhook"
)

// timeoutSeconds is how long the API server waits for an answer,
// optionalSeconds for one that it can do without.
const (
	timeoutSeconds  = 10
	optionalSeconds = 2
)

// Location says where the webhooks are served: the client configuration for a
// path.
type Location func(path string) admissionregistrationv1.WebhookClientConfig

// AtURL serves the webhooks at an address of its own, e.g.
// https://127.0.0.1:9443.
func AtURL(url string, ca []byte) Location {
	return func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{
			URL:      new(strings.TrimSuffix(url, "/") + path),
			CABundle: ca,
		}
	}
}

// AtService serves the webhooks behind a Service.
func AtService(namespace, name string, port int32, ca []byte) Location {
	return func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{
				Namespace: namespace,
				Name:      name,
				Path:      &path,
				Port:      &port,
			},
			CABundle: ca,
		}
	}
}

// Conversion is where objects are converted between versions.
func Conversion(at Location) admissionregistrationv1.WebhookClientConfig { return at(pathConvert) }

// Conditions under which the API server calls at all, in CEL. It evaluates them
// by itself, in microseconds.
const (
	// mayAdmit: the author may decide on admission, as controllers may.
	mayAdmit = "authorizer.group('kueue.x-k8s.io').resource('workloads').subresource('status').namespace(request.namespace).check('update').allowed()"
	// relabeled: labels or annotations changed.
	relabeled = "object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) || object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})"
	// byOthers: the write is not one of our controllers. A user who pretends otherwise
	// gets past a check that is for their own good, and past nothing else.
	byOthers = "request.?options.?fieldManager.orValue('') != '" + FieldOwner + "'"
	// byUser: the write is not one of our controllers, and a user who pretends
	// otherwise is not believed.
	byUser = byOthers + " || !" + mayAdmit
	// applied: people apply the object as a manifest, so that users may look at the
	// record of who owns which field.
	applied = "oldObject.metadata.?managedFields.orValue([]).exists(m, m.operation == 'Apply' || m.manager.startsWith('kubectl'))"
)

// FieldOwner is the name under which the controllers write. The webhooks of
// Workloads are not called about such writes.
const FieldOwner = "mlbatch-controller"

// specConditions leave out updates that change no spec, such as those of
// finalizers: they must go through while no controller answers.
func specConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "spec-changed", Expression: changed("spec")}}
}

// workloadConditions leave out the writes of our own controllers, which are by
// far the most, and updates that leave the parts with rules as they were: of a
// status above all writes that only say that the workload has finished.
func workloadConditions(parts ...string) []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "by-others", Expression: byOthers + " && (" + changed(parts...) + ")"},
	}
}

// keptConditions leave out updates that change nothing that an admission was
// decided on.
func keptConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "suspicious", Expression: suspicious}}
}

// changed is true of new objects and of updates that change one of the parts.
func changed(parts ...string) string {
	expression := []string{"request.operation == 'CREATE'"}
	for _, part := range parts {
		expression = append(expression, "object.?"+part+" != oldObject.?"+part)
	}
	return strings.Join(expression, " || ")
}

// isComponent is true of objects that say that they belong to a job which is made
// of components. Only a controller is believed, or any user could run a Job unqueued
// by saying so.
func isComponent(all jobs.Kinds) string {
	var owners []string
	for i := range all {
		if gvk := all[i].GVK(); all[i].Whole() {
			owners = append(owners, "o.kind == '"+gvk.Kind+"' && o.apiVersion.startsWith('"+gvk.Group+"/')")
		}
	}
	return "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller && (" + strings.Join(
		owners,
		" || ",
	) + "))"
}

// createConditions leave out what is a component of another job, which starts with
// it.
func createConditions(all jobs.Kinds, k *jobs.Kind) []admissionregistrationv1.MatchCondition {
	if k.Queueing.Wrapped == nil {
		return nil // it is a component of none
	}
	return []admissionregistrationv1.MatchCondition{
		{Name: "not-a-component", Expression: "!(" + isComponent(all) + ") || !" + mayAdmit},
	}
}

// validateConditions also leave out the changes by which our controllers start and stop
// jobs: what an administrator applies is checked as what others do.
func validateConditions(all jobs.Kinds, k *jobs.Kind) []admissionregistrationv1.MatchCondition {
	expression := "request.operation == 'CREATE' || " + relabeled
	if k.Admission.Fixed != "" {
		expression += " || " + k.Admission.Fixed
	}
	return append(
		createConditions(all, k),
		admissionregistrationv1.MatchCondition{
			Name:       "not-a-step-of-ours",
			Expression: expression + " || " + byUser,
		},
	)
}

// keepConditions leave out the writes of our own controllers, and writes that
// touch nothing of what has to be kept: the spec, how the job is queued, and our
// finalizer.
func keepConditions(k *jobs.Kind) []admissionregistrationv1.MatchCondition {
	expression := "object.spec != oldObject.spec || " + relabeled
	if f := "metadata.?finalizers.orValue([]).exists(f, f == '" + k.Running.Finalizer + "')"; k.Running.Finalizer != "" {
		expression += " || oldObject." + f + " && !object." + f
	}
	return []admissionregistrationv1.MatchCondition{
		{Name: "by-a-user", Expression: byUser},
		{Name: "changes-a-job", Expression: expression},
	}
}

// disownConditions select the writes by which our controllers start and stop
// jobs that people apply.
func disownConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "by-us", Expression: "!(" + byOthers + ")"},
		{Name: "applied", Expression: "object.spec != oldObject.spec && " + applied},
	}
}

// queueNamespaces are all namespaces but those of the cluster itself and, since
// they have an entry of their own, those of teams.
func queueNamespaces() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		notSystem(),
		{Key: kueue.TeamNamespaceLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
	}}
}

// teamNamespaces are those of teams. A namespace of the cluster itself is none,
// whatever its labels: it has to start while no controller of ours runs.
func teamNamespaces() *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchLabels:      map[string]string{kueue.TeamNamespaceLabel: "true"},
		MatchExpressions: []metav1.LabelSelectorRequirement{notSystem()},
	}
}

func notSystem() metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{
		Key:      "kubernetes.io/metadata.name",
		Operator: metav1.LabelSelectorOpNotIn,
		Values:   []string{"kube-system", "kube-public", "kube-node-lease"},
	}
}

func queuedObjects() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: kueue.QueueNameLabel, Operator: metav1.LabelSelectorOpExists},
	}}
}

func unqueuedObjects() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: kueue.QueueNameLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
}

// hook is what our webhooks differ in.
type hook struct {
	name       string
	path       string
	rule       admissionregistrationv1.RuleWithOperations
	namespaces *metav1.LabelSelector
	objects    *metav1.LabelSelector
	conditions []admissionregistrationv1.MatchCondition
	// optional: without an answer the object is written as it is.
	optional bool
	// exact: it is called about the versions of the rule alone, and not about others that
	// can be converted.
	exact bool
}

// match is which versions of a kind it is called about.
func (h hook) match() *admissionregistrationv1.MatchPolicyType {
	if h.exact {
		return ptr.To(admissionregistrationv1.Exact)
	}
	return ptr.To(admissionregistrationv1.Equivalent)
}

// onFailure is what happens without an answer, and after how many seconds.
func (h hook) onFailure() (*admissionregistrationv1.FailurePolicyType, *int32) {
	if h.optional {
		return ptr.To(admissionregistrationv1.Ignore), ptr.To[int32](optionalSeconds)
	}
	return ptr.To(admissionregistrationv1.Fail), ptr.To[int32](timeoutSeconds)
}

// The operations that webhooks are called about.
const (
	create = admissionregistrationv1.Create
	update = admissionregistrationv1.Update
	remove = admissionregistrationv1.Delete
)

// jobHooks are the webhooks about the jobs of one kind. Namespaces without the team
// label depend on them for jobs with a queue only, kube-system not at all, unless
// jobs of the kind are queued wherever they are. Others without a queue are given
// the default one of their namespace, if there is an answer.
func jobHooks(all jobs.Kinds, k *jobs.Kind) (mutating, validating []hook) {
	gvk := k.GVK()
	name := strings.ToLower(gvk.Kind)
	on := func(ops ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
		return rule(gvk.Group, []string{gvk.Version}, []string{k.Naming.Resource}, ops...)
	}
	mutates := hook{
		name:       "m" + name,
		path:       pathOf(mutate, k),
		rule:       on(create),
		conditions: createConditions(all, k),
	}
	keeps := hook{name: "k" + name, path: pathOf(keep, k), rule: on(update), conditions: keepConditions(k)}
	validates := hook{
		name:       "v" + name,
		path:       pathOf(validate, k),
		rule:       on(create, update),
		conditions: validateConditions(all, k),
	}
	disowns := hook{
		name:       "d" + name,
		path:       pathDisown,
		rule:       on(update),
		conditions: disownConditions(),
		optional:   true,
	}
	if k.Queueing.OnlyQueued {
		return []hook{mutates, keeps, disowns}, []hook{validates}
	}
	if len(k.Naming.Versions) > 0 {
		// What a job is depends on the mark, wherever it is.
		anywhere := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notSystem()}}
		mutating = append(
			mutating,
			hook{
				name:       "s" + name,
				path:       pathStamp,
				rule:       rule(gvk.Group, k.Naming.Versions, []string{k.Naming.Resource}, create),
				namespaces: anywhere,
				exact:      true,
			},
		)
	}
	unnamed := mutates
	unnamed.name, unnamed.namespaces, unnamed.objects, unnamed.optional = mutates.name+".default", queueNamespaces(), unqueuedObjects(), true
	mutating = append(append(mutating, mutates.whereQueued()...), unnamed)
	validating = validates.whereQueued()
	if k.Running.MadeHere || k.Running.Operated != nil { // our controllers act on them all
		validating = append(validating, validates.elsewhere())
	}
	return append(append(mutating, keeps.whereQueued()...), disowns), validating
}

// elsewhere calls a webhook about objects that name no queue where none has to, if it can be
// called.
func (h hook) elsewhere() hook {
	h.name, h.namespaces, h.objects, h.optional = h.name+".elsewhere", queueNamespaces(), unqueuedObjects(), true
	return h
}

// whereQueued calls a webhook about all objects in namespaces of teams, and about
// jobs that name a queue in others.
func (h hook) whereQueued() []hook {
	team, queued := h, h
	team.name, team.namespaces = h.name+".team", teamNamespaces()
	queued.name, queued.namespaces, queued.objects = h.name+".queued", queueNamespaces(), queuedObjects()
	return []hook{team, queued}
}

// Configurations returns what tells the API server to call the webhooks about these
// kinds of jobs, and about our own kinds. schedulers are the names that mlbatch's scheduler
// answers to.
func Configurations(
	all jobs.Kinds,
	at Location,
	schedulers []string,
) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	queueing := func(resources []string, ops ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
		return rule(kueue.GroupVersion.Group, queueVersions(), resources, ops...)
	}

	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: MutatingName},
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ValidatingName},
	}
	type pair struct{ mutates, validates []hook }
	var about []pair
	for i := range all {
		mutates, validates := jobHooks(all, &all[i])
		about = append(about, pair{mutates, validates})
	}
	for _, b := range all.Bases() {
		about = append(about, pair{nil, basisHooks(&b)})
	}
	for _, k := range serving.Grouped() { // what they write is what pods are held by
		mutates, validates := groupedHooks(&k)
		about = append(about, pair{mutates, validates})
	}
	mutates, validates := podHooks(schedulers)
	about = append(about, pair{mutates, validates})
	about = append(about, pair{nil, append(graceHooks(), partHooks(all)...)}, pair{[]hook{pinHook()}, nil})
	for _, k := range serving.All() {
		mutates, validates := servingHooks(&k)
		about = append(about, pair{mutates, validates})
	}
	for _, p := range about {
		for _, h := range p.mutates {
			mutating.Webhooks = append(mutating.Webhooks, h.mutating(at))
		}
		for _, h := range p.validates {
			validating.Webhooks = append(validating.Webhooks, h.validating(at))
		}
	}
	for _, h := range []hook{
		{name: "vclusterqueue", path: pathValidateClusterQueue, rule: queueing([]string{"clusterqueues"}, create, update), conditions: specConditions()},
		{name: "vcohort", path: pathValidateCohort, rule: queueing([]string{"cohorts"}, create, update), conditions: specConditions()},
		{name: "vlocalqueue", path: pathValidateLocalQueue, rule: queueing([]string{"localqueues"}, create, update), conditions: specConditions()},
		{name: "vresourceflavor", path: pathValidateResourceFlavor, rule: queueing([]string{"resourceflavors"}, create, update), conditions: specConditions()},
		{name: "vworkload", path: pathValidateWorkload, rule: queueing([]string{"workloads"}, create, update), conditions: workloadConditions("spec")},
		{name: "vworkloadkept", path: pathValidateWorkloadKept, rule: queueing([]string{"workloads", "workloads/status"}, update), conditions: keptConditions()},
		// A controller that answers an admission check must be able to while no controller runs;
		// the rules of the schema hold all the same.
		{name: "vworkloadstatus", path: pathValidateWorkload, rule: queueing([]string{"workloads/status"}, update), conditions: workloadConditions("status.?admission", "status.?admissionChecks"), optional: true},
	} {
		validating.Webhooks = append(validating.Webhooks, h.validating(at))
	}
	return mutating, validating
}

// queueVersions are those of the API of queues.
func queueVersions() []string {
	return []string{v1beta1.GroupVersion.Version, kueue.GroupVersion.Version}
}

func rule(
	group string,
	versions, resources []string,
	ops ...admissionregistrationv1.OperationType,
) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: ops,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: versions, Resources: resources,
			Scope: ptr.To(admissionregistrationv1.AllScopes),
		},
	}
}

func (h hook) mutating(at Location) admissionregistrationv1.MutatingWebhook {
	policy, timeout := h.onFailure()
	return admissionregistrationv1.MutatingWebhook{
		Name: h.name + ".mlbatch.dev", ClientConfig: at(h.path),
		Rules:                   []admissionregistrationv1.RuleWithOperations{h.rule},
		FailurePolicy:           policy,
		MatchPolicy:             h.match(),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		ReinvocationPolicy:      ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
		TimeoutSeconds:          timeout,
		NamespaceSelector:       orEverything(h.namespaces),
		ObjectSelector:          orEverything(h.objects),
		MatchConditions:         h.conditions,
		AdmissionReviewVersions: []string{"v1"},
	}
}

func (h hook) validating(at Location) admissionregistrationv1.ValidatingWebhook {
	policy, timeout := h.onFailure()
	return admissionregistrationv1.ValidatingWebhook{
		Name: h.name + ".mlbatch.dev", ClientConfig: at(h.path),
		Rules:                   []admissionregistrationv1.RuleWithOperations{h.rule},
		FailurePolicy:           policy,
		MatchPolicy:             h.match(),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          timeout,
		NamespaceSelector:       orEverything(h.namespaces),
		ObjectSelector:          orEverything(h.objects),
		MatchConditions:         h.conditions,
		AdmissionReviewVersions: []string{"v1"},
	}
}

// orEverything writes the default down, so that what is applied equals what the
// API server has.
func orEverything(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return &metav1.LabelSelector{}
	}
	return s
}
