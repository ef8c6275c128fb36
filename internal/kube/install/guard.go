package install

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// bindingGuard names the policy that bounds what the controller may bind, whereGuard the one
// that bounds where, and execGuard the one that keeps it from running commands in pods.
const (
	bindingGuard  = "mlbatch-controller-binding"
	podGroupGuard = "mlbatch-controller-podgroup"
	whereGuard    = "mlbatch-controller-where"
	execGuard     = "mlbatch-controller-exec"
)

// deepTestGuard names the policy that leaves deep tests to the controller.
const deepTestGuard = "mlbatch-deep-test"

// controllerUsers are the names that the controller has.
func controllerUsers(o Options) []string {
	users := []string{"system:serviceaccount:" + o.Namespace + ":" + Controller}
	if o.ControllerUser != "" {
		users = append(users, o.ControllerUser)
	}
	return users
}

// deepTestGuards are a policy by which the controller alone says of a Job that it is a deep test: what comes of that is
// believed of a node.
func deepTestGuards(o Options) []client.Object {
	was := func(kind string) string {
		mark := ".metadata.?" + kind + "[?'" + convert.DeepTestLabel + "'].orValue('')"
		return "object" + mark + " == (request.operation == 'CREATE' ? '' : oldObject" + mark + ")"
	}
	return guard(deepTestGuard, written(batchv1.GroupName, "jobs"), []admissionregistrationv1.MatchCondition{
		{
			Name:       "not-by-the-controller",
			Expression: "!(request.userInfo.username in ['" + strings.Join(controllerUsers(o), "', '") + "'])",
		},
	}, []admissionregistrationv1.Validation{{
		Expression: was("labels") + " && " + was("annotations"),
		Message: "deep tests of nodes are made by mlbatch's controller only: leave out label and annotation " +
			convert.DeepTestLabel,
	}})
}

// bindingGuards are a policy for the bindings that the controller makes. To make
// any, it has to have the right to make them everywhere; an attacker who took it over
// could give rights to another user, or take some in the namespaces of the cluster
// itself. The policy leaves it TeamRole, for itself, elsewhere.
//
// Beside that it may bind the Role that it made for a job to ServiceAccounts of the job's
// namespace (roleGuards says what is in one). What launchers of MPIJobs need, to run commands
// in pods, it has only to pass it on: execGuards keep it from doing so itself.
// In which other namespaces whereGuards say.
func bindingGuards(o Options) []client.Object {
	users := controllerUsers(o)
	subjects := make([]string, len(users))
	for i, u := range users {
		s := rights.Subject(u)
		subjects[i] = fmt.Sprintf(
			"(s.kind == '%s' && s.name == '%s' && s.?namespace.orValue('') == '%s')",
			s.Kind,
			s.Name,
			s.Namespace,
		)
	}
	system := append(rights.SystemNamespaces(), o.Namespace)
	// A job's name is that of its Role.
	const ofJob = "(object.metadata.name != '" + rights.Binding + "' && object.roleRef.kind == 'Role' && object.roleRef.name == object.metadata.name)"
	rules := []admissionregistrationv1.Validation{
		{
			Expression: "(object.metadata.name == '" + rights.Binding + "' && object.roleRef.kind == 'ClusterRole' && object.roleRef.name == '" + TeamRole + "') || " + ofJob,
			Message:    "the controller may bind " + TeamRole + " only, under the name " + rights.Binding + ", and the Role of a job, under the name of both",
		},
		{
			Expression: "has(object.subjects) && (!" + ofJob + " && object.subjects.all(s, " + strings.Join(
				subjects,
				" || ",
			) + ") || " + ofJob +
				" && object.subjects.all(s, s.kind == 'ServiceAccount' && s.?namespace.orValue('') == request.namespace))",
			Message: "the controller may bind to itself only, and the Role of a job to ServiceAccounts beside it",
		},
		{
			Expression: "!(request.namespace in ['" + strings.Join(system, "', '") + "'])",
			Message:    "the controller may not bind in namespaces of the cluster itself",
		},
	}
	conditions := []admissionregistrationv1.MatchCondition{
		{
			Name:       "by-the-controller",
			Expression: "request.userInfo.username in ['" + strings.Join(users, "', '") + "']",
		},
		// Taking the finalizer off changes nothing of what is bound, and works to the end.
		{
			Name:       "binds",
			Expression: "request.operation == 'CREATE' || object.roleRef != oldObject.roleRef || object.?subjects != oldObject.?subjects",
		},
	}
	binds := guard(bindingGuard, written(rbacv1.GroupName, "rolebindings"), conditions, rules)
	binds = append(binds, whereGuards(conditions[:1])...)
	binds = append(binds, roleGuards(conditions[:1], rules[2:])...)
	binds = append(binds, podGroupGuards(conditions[:1])...)
	return append(binds, execGuards(conditions[:1])...)
}

// podGroupGuards are a policy that leaves the controller the PodGroups of Kubernetes that it writes for Workloads, and
// none that somebody else wrote: those say how pods of users start.
func podGroupGuards(conditions []admissionregistrationv1.MatchCondition) []client.Object {
	about := written(podmeta.NativeGroup, "podgroups")
	about.Operations = append(about.Operations, admissionregistrationv1.Delete)
	const ours = ".metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.kind == 'Workload' && o.apiVersion.startsWith('kueue.x-k8s.io/'))"
	return guard(podGroupGuard, about, conditions, []admissionregistrationv1.Validation{
		{
			Expression: "(request.operation == 'DELETE' || object" + ours + ") && (request.operation == 'CREATE' || oldObject" + ours + ")",
			Message:    "the controller may write and delete PodGroups of Workloads only",
		},
	})
}

// whereGuards are a policy that lets the controller bind TeamRole where jobs run, as package
// rights does, and nowhere else: the namespaces of teams are left out, and others have to have
// a LocalQueue. Neither is the controller's to make.
//
// The LocalQueues are parameters of the policy. Where there are none, and until the API server
// knows their kind, which takes it seconds after each start, what the policy is about is refused
// before it is asked who it is by. That is one name, in namespaces in which nobody needs it; the
// controller asks again.
func whereGuards(conditions []admissionregistrationv1.MatchCondition) []client.Object {
	about := written(rbacv1.GroupName, "rolebindings")
	about.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	out := guard(whereGuard, about, conditions, []admissionregistrationv1.Validation{{
		Expression: "params.metadata.namespace == request.namespace",
		Message:    "the controller has rights in the namespaces of teams and in those with a LocalQueue only",
	}})
	policy, _ := out[0].(*admissionregistrationv1.ValidatingAdmissionPolicy)
	policy.Spec.ParamKind = &admissionregistrationv1.ParamKind{
		APIVersion: kueue.GroupVersion.String(),
		Kind:       "LocalQueue",
	}
	policy.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{rights.Binding}
	// In the policy and not in its binding: while the API server does not know the parameters' kind, all
	// that the policy is about is refused, whatever its bindings leave out.
	policy.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: kueue.TeamNamespaceLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
		},
	}
	binding, _ := out[1].(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	binding.Spec.ParamRef = &admissionregistrationv1.ParamRef{
		Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction),
	}
	return out
}

// tenantGuards are the policies that hold what the webhooks hold of teams, without them.
func tenantGuards(all jobs.Kinds) []client.Object {
	var out []client.Object
	policies, bindings := webhook.Policies(all)
	for i := range policies {
		out = append(out, policies[i], bindings[i])
	}
	return out
}

// execGuards are a policy that lets the controller run nothing in pods.
func execGuards(conditions []admissionregistrationv1.MatchCondition) []client.Object {
	about := written("", "pods/exec")
	about.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Connect}
	return guard(execGuard, about, conditions, []admissionregistrationv1.Validation{
		{
			Expression: "false",
			Message:    "the controller may let accounts of jobs run commands in pods, and not do so itself",
		},
	})
}

// written is that something of a resource is created or changed.
func written(group, resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{
			admissionregistrationv1.Create,
			admissionregistrationv1.Update,
		},
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{group},
			APIVersions: []string{"*"},
			Resources:   []string{resource},
		},
	}
}

// roleGuard names the policy that bounds what is in Roles that the controller makes.
const roleGuard = "mlbatch-controller-role"

// roleGuards are a policy for the Roles that the controller makes for jobs: what they let do
// is look at the pods beside them, change the cluster whose name they have, and run commands
// in the workers of the launcher whose name they have.
func roleGuards(
	conditions []admissionregistrationv1.MatchCondition,
	where []admissionregistrationv1.Validation,
) []client.Object {
	const (
		pods    = "r.?apiGroups.orValue([]) == [''] && r.?resources.orValue([]) == ['pods'] && r.verbs.all(v, v in ['get', 'list', 'watch'])"
		cluster = "r.?apiGroups.orValue([]) == ['ray.io'] && r.?resources.orValue([]) == ['rayclusters'] && r.?resourceNames.orValue([]) == [object.metadata.name] && r.verbs.all(v, v in ['get', 'patch'])"
		exec    = "r.?apiGroups.orValue([]) == [''] && r.?resources.orValue([]) == ['pods/exec'] && r.verbs == ['create'] && size(r.?resourceNames.orValue([])) > 0 && " +
			"object.metadata.name.endsWith('-launcher') && r.resourceNames.all(n, n.startsWith(object.metadata.name.substring(0, size(object.metadata.name) - 8) + 'worker-'))"
	)
	return guard(
		roleGuard,
		written(rbacv1.GroupName, "roles"),
		conditions,
		append([]admissionregistrationv1.Validation{
			{
				Expression: "!has(object.rules) || object.rules == null || object.rules.all(r, (" + pods + ") || (" + cluster + ") || (" + exec + "))",
				Message:    "the controller may make Roles to look at pods, to change the Ray cluster of their name and to run commands in the workers of the launcher of their name only",
			},
		}, where...),
	)
}

// guard is a policy for what somebody does, and that it is in force.
func guard(
	name string,
	about admissionregistrationv1.RuleWithOperations,
	conditions []admissionregistrationv1.MatchCondition,
	rules []admissionregistrationv1.Validation,
) []client.Object {
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: ptr.To(admissionregistrationv1.Fail),
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: about}},
				},
				MatchConditions: conditions,
				Validations:     rules,
			},
		},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
}
