package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// HoldName is the policy that refuses jobs which nobody would queue, while nobody does.
const HoldName = "mlbatch-import-hold"

// trialName is what the policy refuses besides, so that it can be seen to be in force.
const trialName = "mlbatch-import-trial"

// holdPolicy refuses jobs that would start at once although they name a queue, or are where all
// jobs are queued. Such as are suspended are let in: mlbatch finds them. What controllers make is
// let in, save pods that are queued by themselves: it belongs to what runs. A failing policy
// would stop all of it, and is ignored.
func holdPolicy(
	journal string,
) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	rule := func(group string, resources ...string) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups:   []string{group},
					APIVersions: []string{"*"},
					Resources:   resources,
				},
			},
		}
	}
	const (
		queued = "(object.metadata.?labels[?'" + kueue.QueueNameLabel + "'].orValue('') != '' || " +
			"(request.resource.resource != 'pods' && namespaceObject.metadata.?labels[?'" + kueue.TeamNamespaceLabel + "'].orValue('') == 'true'))"
		made = "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))"
		held = "(request.resource.resource == 'pods' ? object.spec.?schedulingGates.orValue([]).exists(g, g.name == '" + kueue.AdmissionGate + "') : " +
			"(dyn(object).spec.?suspend.orValue(false) == true || dyn(object).spec.?runPolicy.?suspend.orValue(false) == true || dyn(object).spec.?rayClusterConfig.?suspend.orValue(false) == true))"
	)
	trial := "(request.resource.resource == 'configmaps' && request.namespace == '" + journal + "' && object.metadata.name == '" + trialName + "')"
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: HoldName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
					rule(
						"",
						"pods",
						"configmaps",
					),
					rule("batch", "jobs"),
					rule("jobset.x-k8s.io", "jobsets"),
					rule("trainer.kubeflow.org", "trainjobs"),
					rule("kubeflow.org", "pytorchjobs", "tfjobs", "mpijobs", "xgboostjobs", "paddlejobs", "jaxjobs"),
					rule("ray.io", "rayjobs", "rayclusters", "rayservices"),
					rule("workload.codeflare.dev", "appwrappers"),
				},
			},
			Validations: []admissionregistrationv1.Validation{
				{
					Expression: "request.resource.resource == 'configmaps' ? !" + trial + " : (!" + queued + " || (" + made + " && request.resource.resource != 'pods') || " + held + ")",
					Message:    "the queueing system is being replaced, and this job would start without having been queued: submit it again in a minute, or with spec.suspend true",
				},
			},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: HoldName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        HoldName,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	return policy, binding
}

// holds reports whether the policy is in the cluster, whole.
func (m *Import) holds(ctx context.Context) (bool, error) {
	for _, o := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}} {
		err := m.Client.Get(ctx, types.NamespacedName{Name: HoldName}, o)
		if unserved(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for the policy %s: %w", HoldName, err)
		}
	}
	return true, nil
}

// hold puts the policy in force, and waits until it is.
func (m *Import) hold(ctx context.Context) error {
	policy, binding := holdPolicy(m.Namespace)
	for _, o := range []client.Object{policy, binding} {
		err := client.IgnoreAlreadyExists(m.Client.Create(ctx, o))
		if unserved(err) {
			return nil // a Kubernetes before 1.30 has no policies
		}
		if err != nil {
			return fmt.Errorf("make the policy %s: %w", HoldName, err)
		}
	}
	return m.await(ctx, "the policy "+HoldName+" is not in force", func(ctx context.Context) (bool, error) {
		trial := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: trialName}}
		err := m.Client.Create(ctx, trial, client.DryRunAll)
		if err != nil && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) &&
			strings.Contains(err.Error(), HoldName) {
			return true, nil
		}
		return false, err //nolint:wrapcheck // it says what it tried
	})
}

// open takes the policy away.
func (m *Import) open(ctx context.Context) error {
	policy, binding := holdPolicy(m.Namespace)
	for _, o := range slices.Backward([]client.Object{policy, binding}) {
		if err := client.IgnoreNotFound(m.Client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("remove the policy %s: %w", HoldName, err)
		}
	}
	return nil
}
