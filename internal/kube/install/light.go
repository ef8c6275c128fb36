package install

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// lightName names the policy that keeps writes to Workloads light.
const lightName = "light-workloads.mlbatch.dev"

// light lets the API server keep no record of which client wrote which field of
// a Workload. The record costs a tenth of every later write, and nobody reads
// it: Workloads are made by controllers, or by users in one piece. Who applies
// one from the server's side (kubectl apply --server-side) gets the record, as
// that cannot work without it.
func light() []client.Object {
	return []client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: lightName},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				FailurePolicy:      ptr.To(admissionregistrationv1.Ignore),
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
							Rule: admissionregistrationv1.Rule{
								APIGroups: []string{kueue.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"workloads"},
							},
						},
					}},
				},
				MatchConditions: []admissionregistrationv1.MatchCondition{{
					Name:       "not-applied",
					Expression: "has(object.metadata.managedFields) && !object.metadata.managedFields.exists(m, m.operation == 'Apply')",
				}},
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: `[JSONPatch{op: "remove", path: "/metadata/managedFields"}]`},
				}},
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: lightName},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: lightName},
		},
	}
}

// putLight installs the policy where the API server knows such policies
// (Kubernetes 1.36); others do without.
func putLight(ctx context.Context, c client.Client) error {
	for _, o := range light() {
		if err := put(ctx, c, o); err != nil && !apimeta.IsNoMatchError(err) {
			return fmt.Errorf("install %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}
