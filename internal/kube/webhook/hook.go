package webhook

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

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

// changed is true of new objects and of updates that change one of the parts.
func changed(parts ...string) string {
	expression := []string{"request.operation == 'CREATE'"}
	for _, part := range parts {
		expression = append(expression, "object.?"+part+" != oldObject.?"+part)
	}
	return strings.Join(expression, " || ")
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

// Location says where the webhooks are served: the client configuration for a
// path.
type Location func(path string) admissionregistrationv1.WebhookClientConfig

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

// The questions about jobs.
const (
	mutate   = "mutate"
	validate = "validate"
	keep     = "keep"
)

// pathOf is where a question about the jobs of a kind is answered.
func pathOf(question string, k *jobs.Kind) string {
	return pathOfGVK(question, k.GVK())
}

func pathOfGVK(question string, gvk schema.GroupVersionKind) string {
	return "/" + question + "-" + strings.ReplaceAll(
		gvk.Group,
		".",
		"-",
	) + "-" + gvk.Version + "-" + strings.ToLower(
		gvk.Kind,
	)
}

// kubeControllers are the controllers of Kubernetes that make pods, each under the
// account that it has with --use-service-account-credentials. Without, all are the
// controller manager.
func kubeControllers() []string {
	const account = "system:serviceaccount:" + metav1.NamespaceSystem + ":"
	return []string{
		"system:kube-controller-manager",
		account + "job-controller",
		account + "replicaset-controller",
		account + "replication-controller",
		account + "statefulset-controller",
		account + "daemon-set-controller",
		account + "deployment-controller",
		account + "cronjob-controller",
	}
}

// byKubernetes is true, in CEL, of writes of those.
func byKubernetes() string {
	return "request.userInfo.username in ['" + strings.Join(kubeControllers(), "', '") + "']"
}

// foreignAccount is true, in CEL, of accounts of other namespaces than the one that is written
// to. The policies cannot ask whether that is a team's: an administrator has let them in.
const foreignAccount = "(request.userInfo.username.startsWith('system:serviceaccount:') && !request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':'))"

// entryOf is a label or an annotation, "" for none.
func entryOf(at, of, key string) string { return at + ".?" + of + "[?'" + key + "'].orValue('')" }

// policy is what our policies differ in.
type policy struct {
	name       string
	rules      []admissionregistrationv1.RuleWithOperations
	conditions []admissionregistrationv1.MatchCondition
	variables  []admissionregistrationv1.Variable
	rulings    []admissionregistrationv1.Validation
	// everybody: it is about administrators and our controllers, too.
	everybody bool
}

// timeoutSeconds is how long the API server waits for an answer,
// optionalSeconds for one that it can do without.
const (
	timeoutSeconds  = 10
	optionalSeconds = 2
)

// Names of the webhook configurations.
const (
	MutatingName   = "mlbatch-mutating-webhook"
	ValidatingName = "mlbatch-validating-webhook"
)
