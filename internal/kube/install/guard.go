package install

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
)

// Names of the policies that bound what the controller may bind.
const (
	bindingShape = "mlbatch-controller-binding"
	bindingPlace = "mlbatch-controller-namespace"
)

// bindingGuards are policies for the bindings that the controller makes. To make
// any, it has to have the right to make them everywhere; whoever took it over could
// bind its role in a namespace of others and read the Secrets there. The policies
// leave it TeamRole, for itself, where a namespace is a team's or has a LocalQueue,
// both of which are up to administrators.
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
	create, update := admissionregistrationv1.Create, admissionregistrationv1.Update
	shape := guard(bindingShape, nil, []admissionregistrationv1.Validation{
		{
			Expression: "object.metadata.name == '" + Controller + "' && object.roleRef.kind == 'ClusterRole' && object.roleRef.name == '" + TeamRole + "'",
			Message:    "the controller may bind " + TeamRole + " only, under the name " + Controller,
		},
		{
			Expression: "object.metadata.?labels[?'" + rights.Label + "'].orValue('') == 'true'",
			Message:    "the controller labels its bindings " + rights.Label + "=true",
		},
		{
			Expression: "has(object.subjects) && object.subjects.all(s, " + strings.Join(subjects, " || ") + ")",
			Message:    "the controller may bind to itself only",
		},
		{
			Expression: "!(request.namespace in ['" + strings.Join(system, "', '") + "'])",
			Message:    "the controller may not bind in namespaces of the cluster itself",
		},
	}, create, update)
	shape.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{
		{Name: "by-the-controller", Expression: "request.userInfo.username in ['" + strings.Join(users, "', '") + "']"},
		// Taking the finalizer off changes nothing of what is bound, and works to the end.
		{Name: "binds", Expression: "request.operation == 'CREATE' || object.roleRef != oldObject.roleRef || object.?subjects != oldObject.?subjects"},
	}
	// It says yes; what counts is that there is a LocalQueue for it to look at, which
	// the API server asks for before it looks at who writes. So only bindings with the
	// label are its business.
	place := guard(bindingPlace, &admissionregistrationv1.ParamKind{APIVersion: kueue.GroupVersion.String(), Kind: "LocalQueue"},
		[]admissionregistrationv1.Validation{{Expression: "true"}}, create)
	return []client.Object{
		shape, place,
		enforce(bindingShape, nil, nil),
		enforce(bindingPlace,
			&admissionregistrationv1.ParamRef{Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction)},
			&admissionregistrationv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{rights.Label: "true"}},
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: kueue.TeamNamespaceLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
				}},
			}),
	}
}

// guard is a policy for role bindings.
func guard(
	name string, param *admissionregistrationv1.ParamKind, rules []admissionregistrationv1.Validation, on ...admissionregistrationv1.OperationType,
) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			ParamKind:     param,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: on,
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{rbacv1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"rolebindings"}},
				}}},
			},
			Validations: rules,
		},
	}
}

func enforce(policy string, param *admissionregistrationv1.ParamRef, where *admissionregistrationv1.MatchResources) client.Object {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy,
			ParamRef:          param,
			MatchResources:    where,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}
