package webhook

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// Policies beside the webhooks: what protects teams from each other, and can be said in CEL,
// the API server sees to by itself. Without an answer of ours a webhook refuses; but when
// nobody can submit for hours, somebody takes its configuration away, or lets it fail open, and
// then pods that nothing holds would run. They are judged after the webhooks have written
// what they write, so that nothing changes while those answer (decision record 28).
//
// They are about members of teams, in the namespaces of teams: whoever may decide on admission
// may do as they like.

// Names of the policies.
const (
	PodHeldPolicy      = "mlbatch-pod-held"
	PodKeptPolicy      = "mlbatch-pod-kept"
	PodTemplatePolicy  = "mlbatch-pod-template"
	CronTemplatePolicy = "mlbatch-cronjob-template"
	ReplicasPolicy     = "mlbatch-replicas"
	GroupSizePolicy    = "mlbatch-group-size"
	UserPolicy         = "mlbatch-user"
	PodGracePolicy     = "mlbatch-pod-grace"
	PartPolicy         = "mlbatch-part-kept"
)

// unseen is the end of what is said where only a webhook that was not asked explains it.
const unseen = ": mlbatch's webhooks were not asked (" + MutatingName + ", " + ValidatingName + "), or the namespace is one that managedJobsNamespaceSelector leaves out; ask an administrator"

// Parts of objects in CEL, each with object or oldObject, and the way to the metadata, before
// it.
const (
	gateOf      = ".spec.?schedulingGates.orValue([]).exists(g, g.name == '" + kueue.AdmissionGate + "')"
	placeOf     = ".spec.?schedulingGates.orValue([]).exists(g, g.name == '" + kueue.TopologyGate + "')"
	finalizerOf = ".metadata.?finalizers.orValue([]).exists(f, f == '" + kueue.PodFinalizer + "')"
	managedOf   = ".metadata.?labels[?'" + kueue.ManagedLabel + "'].orValue('') == 'true'"
)

// injected are the entries that only an admission writes, as those of some metadata.
func injected(at string) []string {
	labels, annotations := podmeta.Injected()
	var out []string
	for _, key := range labels {
		out = append(out, entryOf(at, "labels", key))
	}
	for _, key := range annotations {
		out = append(out, entryOf(at, "annotations", key))
	}
	return out
}

// podHeld: a new pod waits, and says so truly.
func podHeld() policy {
	var clean []string
	for _, entry := range injected("object.metadata") {
		clean = append(clean, entry+" == ''")
	}
	counted := entryOf("object.metadata", "annotations", kueue.WorkloadAnnotation) + " != ''"
	conditions := podConditions()[1:] // not those of a queued job, nor mirrors of what a kubelet runs
	conditions = append(conditions, admissionregistrationv1.MatchCondition{
		Name:       "not-of-an-operator",
		Expression: "!(" + counted + " && " + foreignAccount + " && !(" + byKubernetes() + "))",
	})
	return policy{
		name: PodHeldPolicy,
		rules: []admissionregistrationv1.RuleWithOperations{
			rule(corev1.GroupName, []string{"v1"}, []string{"pods"}, create),
		},
		conditions: conditions,
		rulings: []admissionregistrationv1.Validation{
			{
				Expression: "object.spec.?nodeName.orValue('') == ''",
				Message:    "spec.nodeName: the scheduler chooses the node of a queued pod: remove it",
			},
			{
				Expression: "object" + gateOf + " && object" + managedOf,
				Message:    "the pod is not held until it is admitted" + unseen,
			},
			{
				Expression: strings.Join(clean, " && "),
				Message:    "the pod says that it was admitted, which only an admission may write" + unseen,
			},
		},
	}
}

// podKept: of a pod stays what it is held and counted by (see podmeta.ValidateChange and the
// functions beside it, which say so with the field).
func podKept() policy {
	labels, annotations := podmeta.KeptEntries()
	same := func(of string, keys ...string) string {
		var all []string
		for _, key := range keys {
			all = append(all, entryOf("object.metadata", of, key)+" == "+entryOf("oldObject.metadata", of, key))
		}
		return strings.Join(all, " && ")
	}
	gone, was := injected("object.metadata"), injected("oldObject.metadata")
	var stays []string
	for i := range gone {
		stays = append(stays, gone[i]+" == "+was[i])
	}
	const owner = ".metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false))"
	return policy{
		name: PodKeptPolicy,
		rules: []admissionregistrationv1.RuleWithOperations{
			rule(corev1.GroupName, []string{"v1"}, []string{"pods"}, update),
		},
		conditions: []admissionregistrationv1.MatchCondition{
			{Name: "of-what-is-kept", Expression: podmeta.Guarded()},
		},
		variables: []admissionregistrationv1.Variable{
			{Name: "gated", Expression: "oldObject" + gateOf},
			{Name: "kept", Expression: "oldObject" + finalizerOf},
			{Name: "managed", Expression: "oldObject" + managedOf + " && (variables.gated || variables.kept)"},
			{
				Name:       "counted",
				Expression: entryOf("oldObject.metadata", "annotations", kueue.WorkloadAnnotation) + " != ''",
			},
			{Name: "trusted", Expression: byKubernetes() + " || " + foreignAccount},
		},
		rulings: []admissionregistrationv1.Validation{
			{
				Expression: "!variables.managed || !variables.gated || object" + gateOf,
				Message:    "spec.schedulingGates: the gate " + kueue.AdmissionGate + " goes when the pod is admitted: leave it",
			},
			{
				Expression: "!oldObject" + placeOf + " || object" + placeOf,
				Message:    "spec.schedulingGates: the gate " + kueue.TopologyGate + " goes when the pod has its node: leave it",
			},
			{
				Expression: "!variables.managed || !variables.kept || object" + finalizerOf,
				Message:    "metadata.finalizers: the finalizer " + kueue.PodFinalizer + " goes when the pod was counted: leave it",
			},
			{
				Expression: strings.Join(stays, " && "),
				Message:    "metadata.labels, metadata.annotations: those that an admission wrote cannot be changed: leave them as they are",
			},
			{
				Expression: "!variables.managed || (" + same(
					"labels",
					labels...) + " && " + same(
					"annotations",
					annotations...) + ")",
				Message: "metadata.labels, metadata.annotations: those by which a queued pod is counted cannot be changed: create the pod anew",
			},
			{
				Expression: "!variables.managed || variables.gated || " + same("labels", kueue.QueueNameLabel),
				Message:    "metadata.labels: the queue of a pod that was admitted cannot be changed: create the pod anew",
			},
			{
				Expression: "variables.managed || !variables.counted || variables.trusted || (object" + owner + " == oldObject" + owner +
					" && oldObject.metadata.?labels.orValue({}).all(k, object.metadata.?labels[?k].orValue('') == oldObject.metadata.labels[k]))",
				Message: "metadata.ownerReferences, metadata.labels: the controller of the job knows the pod by them: leave them as they are",
			},
		},
	}
}

// podTemplates: no template says that its pods were admitted. Those of Jobs may, as long as
// the Job is suspended: its admission writes them anew. What makes pods of other jobs is not
// asked, since our controllers make those.
func podTemplates() policy {
	var apps []string
	for _, k := range serving.All() {
		if !k.Jobs {
			apps = append(apps, k.Resource)
		}
	}
	return templates(
		PodTemplatePolicy,
		"spec.template",
		"object.kind == 'Job' && object.spec.?suspend.orValue(false)",
		rule(
			"batch",
			[]string{"v1"},
			[]string{"jobs"},
			create,
			update,
		),
		rule("apps", []string{"v1"}, apps, create, update),
	)
}

// cronTemplates: the same of what Jobs are made of.
func cronTemplates() policy {
	return templates(
		CronTemplatePolicy,
		"spec.jobTemplate.spec.template",
		"object.spec.jobTemplate.spec.?suspend.orValue(false)",
		rule("batch", []string{"v1"}, []string{"cronjobs"}, create, update),
	)
}

func templates(name, at, unless string, rules ...admissionregistrationv1.RuleWithOperations) policy {
	before := injected("oldObject." + at + ".?metadata")
	var clean []string
	for i, entry := range injected("object." + at + ".?metadata") {
		clean = append(clean, "("+entry+" == '' || request.operation == 'UPDATE' && "+entry+" == "+before[i]+")")
	}
	labels, annotations := podmeta.Injected()
	return policy{
		name:  name,
		rules: rules,
		conditions: []admissionregistrationv1.MatchCondition{
			{Name: "by-a-user", Expression: "!(" + byKubernetes() + ")"},
		},
		rulings: []admissionregistrationv1.Validation{
			{
				Expression: unless + " || (" + strings.Join(clean, " && ") + ")",
				Message: at + ": it says that its pods were admitted, which only an admission may write: remove the labels and annotations " + strings.Join(
					append(labels, annotations...),
					", ",
				),
			},
		},
	}
}

// users: an object names as its user who wrote it, or nobody, and goes on naming whom it
// named (see jobs.UserEntries).
func users(all jobs.Kinds) policy {
	var rules []admissionregistrationv1.RuleWithOperations
	for i := range all {
		rules = append(
			rules,
			rule(all[i].GVK().Group, []string{"*"}, []string{all[i].Naming.Resource}, create, update),
		)
	}
	for _, k := range serving.Grouped() {
		rules = append(rules, rule(k.GVK.Group, []string{"*"}, []string{k.Resource}, create, update))
	}
	rules = append(rules, rule(corev1.GroupName, []string{"v1"}, []string{"pods"}, create, update))
	for _, k := range serving.All() {
		rules = append(rules, rule(k.GVK.Group, []string{k.GVK.Version}, []string{k.Resource}, create, update))
	}
	const is, was = "object.metadata", "oldObject.metadata"
	return policy{
		name:  UserPolicy,
		rules: rules,
		conditions: []admissionregistrationv1.MatchCondition{
			{Name: "by-a-user", Expression: "!(" + byKubernetes() + " || " + foreignAccount + ")"},
		},
		variables: []admissionregistrationv1.Variable{
			{Name: "label", Expression: entryOf(is, "labels", jobs.UserLabel)},
			{Name: "annotation", Expression: entryOf(is, "annotations", jobs.UserLabel)},
			{Name: "who", Expression: "request.userInfo.username"},
			// A name that a label can hold is in the label alone.
			{Name: "fits", Expression: "variables.who.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')"},
			// Of others the annotation is believed if the label is made of the same name. Where CEL
			// cannot make it, which is for names with characters that hardly any has, it is not compared.
			{Name: "plain", Expression: "variables.who.matches('^[A-Za-z0-9][-A-Za-z0-9_.:@/]{0,61}[A-Za-z0-9]$')"},
			{Name: "made", Expression: "variables.who.replace(':', '_').replace('@', '_').replace('/', '_')"},
			{
				Name:       "theirs",
				Expression: "variables.fits ? variables.label == variables.who && variables.annotation == '' : variables.annotation == variables.who && (!variables.plain || variables.label == variables.made)",
			},
		},
		rulings: []admissionregistrationv1.Validation{
			{
				Expression: "variables.theirs || (request.operation == 'CREATE' ? variables.label == '' && variables.annotation == '' : " +
					"variables.label == " + entryOf(
					was,
					"labels",
					jobs.UserLabel,
				) + " && variables.annotation == " + entryOf(
					was,
					"annotations",
					jobs.UserLabel,
				) + ")",
				Message: "metadata.labels, metadata.annotations: " + jobs.UserLabel + " names who submitted the object, and nobody else: remove it",
			},
		},
	}
}

// mostReplicas is how many pods a StatefulSet may be asked for. Kubernetes' own controller
// makes a list of all that there have to be before it makes the first one: of two billion it takes
// 17 GB, in the process that all of the cluster depends on, again and again.
const mostReplicas = "100000"

// replicas bounds StatefulSets, whoever makes them: those in AppWrappers, and of the workers of
// a group, our controllers make. Scaling is asked about here only, since no webhook is.
func replicas() policy {
	rules := []admissionregistrationv1.RuleWithOperations{
		rule("apps", []string{"v1"}, []string{"statefulsets", "statefulsets/scale"}, create, update),
	}
	for _, k := range serving.Grouped() {
		rules = append(
			rules,
			rule(k.GVK.Group, []string{"*"}, []string{k.Resource, k.Resource + "/scale"}, create, update),
		)
	}
	return policy{
		name: ReplicasPolicy, everybody: true, rules: rules,
		rulings: []admissionregistrationv1.Validation{{
			Expression: "object.spec.?replicas.orValue(1) <= " + mostReplicas,
			Message:    "spec.replicas: at most " + mostReplicas + ": use several",
		}},
	}
}

// groupSize bounds the groups of objects that consist of groups, each of which is a StatefulSet.
func groupSize() policy {
	p := policy{name: GroupSizePolicy, everybody: true}
	for _, k := range serving.Grouped() {
		path := k.Admission.GroupSize
		parent, size := strings.Join(path[:len(path)-1], "."), path[len(path)-1]
		p.rules = append(p.rules, rule(k.GVK.Group, []string{"*"}, []string{k.Resource}, create, update))
		p.rulings = append(p.rulings, admissionregistrationv1.Validation{
			Expression: "object." + parent + ".?" + size + ".orValue(1) <= " + mostReplicas,
			Message:    strings.Join(path, ".") + ": at most " + mostReplicas + ": use several groups",
		})
	}
	return p
}
