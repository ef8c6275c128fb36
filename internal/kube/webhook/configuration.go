package webhook

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

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

// specConditions leave out updates that change no spec, such as those of
// finalizers: they must go through while no controller answers.
func specConditions(parts ...string) []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "spec-changed", Expression: changed(append(parts, "spec")...)},
	}
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

// isComponent is true of objects that say that they belong to a job which is made
// of components. Only a controller is believed, or any user could run a Job unqueued
// by saying so.
func isComponent(all jobs.Kinds) string {
	var owners []string
	for i := range all {
		if gvk := all[i].GVK(); all[i].IsParent() {
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
	if k.Running.RunsJobs || k.Running.Operator != nil { // our controllers act on them all
		validating = append(validating, validates.elsewhere())
	}
	return append(append(mutating, keeps.whereQueued()...), disowns), validating
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
		{name: "vclusterqueue", path: pathValidateClusterQueue, rule: queueing([]string{"clusterqueues"}, create, update), conditions: specConditions("metadata.?annotations")},
		{name: "vworkloadpriorityclass", path: pathValidatePriorityClass, rule: queueing([]string{"workloadpriorityclasses"}, create, update), conditions: []admissionregistrationv1.MatchCondition{{Name: "annotations-changed", Expression: changed("metadata.?annotations")}}},
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

// Policies are the policies, each with what puts it in force.
func Policies(
	all jobs.Kinds,
) (policies []*admissionregistrationv1.ValidatingAdmissionPolicy, bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	for _, p := range []policy{podHeld(), podKept(), podTemplates(), cronTemplates(), users(all), podGrace(), partKept(all), replicas(), groupSize()} {
		if !p.everybody &&
			!slices.ContainsFunc(
				p.conditions,
				func(c admissionregistrationv1.MatchCondition) bool { return c.Name == byTenant().Name },
			) {
			p.conditions = append(
				p.conditions,
				admissionregistrationv1.MatchCondition{Name: "by-a-tenant", Expression: "!" + mayAdmit},
			)
		}
		policies = append(policies, &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: p.name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: ptr.To(admissionregistrationv1.Fail),
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: teamNamespaces(),
					ResourceRules:     namedRules(p.rules),
				},
				MatchConditions: p.conditions,
				Variables:       p.variables,
				Validations:     p.rulings,
			},
		})
		bindings = append(bindings, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: p.name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        p.name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		})
	}
	return policies, bindings
}

func namedRules(
	rules []admissionregistrationv1.RuleWithOperations,
) []admissionregistrationv1.NamedRuleWithOperations {
	var out []admissionregistrationv1.NamedRuleWithOperations
	for _, r := range rules {
		out = append(out, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: r})
	}
	return out
}
