package install

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
)

// bindingGuard names the policy that bounds what the controller may bind.
const bindingGuard = "mlbatch-controller-binding"

// bindingGuards are a policy for the bindings that the controller makes. To make
// any, it has to have the right to make them everywhere; an attacker who took it over
// could give rights to another user, or take some in the namespaces of the cluster
// itself. The policy leaves it TeamRole, for itself, elsewhere.
//
// It cannot ask whether a namespace has a LocalQueue: the API server refuses what
// such a policy matches, from all users, until it knows the kind, which takes it
// seconds after each start.
func bindingGuards(o Options) []client.Object {
	users := []string{"system:serviceaccount:" + o.Namespace + ":" + Controller}
	if o.ControllerUser != "" {
		users = append(users, o.ControllerUser)
	}
	subjects := make([]string, len(users))
	for i, u := range users {
		s := rights.Subject(u)
		subjects[i] = fmt.Sprintf("(s.kind == '%s' && s.name == '%s' && s.?namespace.orValue('') == '%s')", s.Kind, s.Name, s.Namespace)
	}
	system := append(rights.SystemNamespaces(), o.Namespace)
	rules := []admissionregistrationv1.Validation{
		{
			Expression: "object.metadata.name == '" + rights.Binding + "' && object.roleRef.kind == 'ClusterRole' && object.roleRef.name == '" + TeamRole + "'",
			Message:    "the controller may bind " + TeamRole + " only, under the name " + rights.Binding,
		},
		{
			Expression: "has(object.subjects) && object.subjects.all(s, " + strings.Join(subjects, " || ") + ")",
			Message:    "the controller may bind to itself only",
		},
		{
			Expression: "!(request.namespace in ['" + strings.Join(system, "', '") + "'])",
			Message:    "the controller may not bind in namespaces of the cluster itself",
		},
	}
	conditions := []admissionregistrationv1.MatchCondition{
		{Name: "by-the-controller", Expression: "request.userInfo.username in ['" + strings.Join(users, "', '") + "']"},
		// Taking the finalizer off changes nothing of what is bound, and works to the end.
		{Name: "binds", Expression: "request.operation == 'CREATE' || object.roleRef != oldObject.roleRef || object.?subjects != oldObject.?subjects"},
	}
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: bindingGuard},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: ptr.To(admissionregistrationv1.Fail),
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{rbacv1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"rolebindings"}},
					}}},
				},
				MatchConditions: conditions,
				Validations:     rules,
			},
		},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: bindingGuard},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: bindingGuard, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
}
