package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
)

// Whoever deletes a pod, or evicts it, may say how long it goes on, and nobody can stop it any
// more without shortening that. A tenant may give it as long as it may take when it is stopped,
// or as the pod itself asks for, and no longer. What got by is shortened (controllers/termination).

// pathValidateGrace is where deletions of pods are judged.
const pathValidateGrace = "/grace--v1-pod"

// The time that a deletion asks for, and the pod itself, in CEL.
const (
	graceAsked = "(request.operation == 'DELETE' ? request.?options.?gracePeriodSeconds.orValue(0) : object.?deleteOptions.?gracePeriodSeconds.orValue(0))"
	graceOwn   = "(request.operation == 'DELETE' ? oldObject.?spec.?terminationGracePeriodSeconds.orValue(0) : 0)"
)

// graceRules are the ways to delete pods, one by one and all of a namespace.
func graceRules() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{
		rule(corev1.GroupName, []string{"v1"}, []string{"pods"}, remove),
		rule(corev1.GroupName, []string{"v1"}, []string{"pods/eviction"}, create),
	}
}

// graceHooks are the webhooks about deletions that ask for more time than the pod does.
func graceHooks() []hook {
	var out []hook
	for i, name := range []string{"vpodgrace", "vpodevictiongrace"} {
		out = append(out, hook{
			name: name, path: pathValidateGrace, rule: graceRules()[i], namespaces: teamNamespaces(),
			conditions: []admissionregistrationv1.MatchCondition{
				{Name: "by-a-tenant", Expression: "!" + mayAdmit},
				{Name: "asks-for-time", Expression: graceAsked + " > " + graceOwn},
			},
		})
	}
	return out
}

// podGrace: no deletion asks for more than an installation allows by default, or the pod asks for.
func podGrace() policy {
	longest := strconv.Itoa(int(v1beta2.DefaultMaxTerminationTime.Seconds()))
	return policy{
		name:  PodGracePolicy,
		rules: graceRules(),
		rulings: []admissionregistrationv1.Validation{
			{
				Expression: graceAsked + " <= " + longest + " || " + graceAsked + " <= " + graceOwn,
				Message:    "gracePeriodSeconds: a pod that is deleted may go on for " + longest + " seconds, or as long as its own terminationGracePeriodSeconds: use less, or leave it out",
			},
		},
	}
}

// validateGrace refuses deletions by which a pod would outlive an eviction.
func (h *podHandler) validateGrace(_ context.Context, req admission.Request) admission.Response {
	asked, own, at, err := gracesOf(req)
	if err != nil {
		return malformed(err)
	}
	most := h.limits.Termination
	if most <= 0 || seconds(asked) <= max(most, seconds(own)) {
		return admission.Allowed("")
	}
	return answer(req, field.ErrorList{field.Invalid(at, asked, fmt.Sprintf(
		"a pod that is deleted may go on for %d seconds at most here (tenants.maxTerminationTime of the configuration): use less, or leave it out",
		int64(most.Seconds()),
	))})
}

// seconds is a time that was named in seconds, however many.
func seconds(n int64) time.Duration {
	const most = int64(1 << 31)
	return time.Duration(min(n, most)) * time.Second
}

// gracesOf are the seconds that a deletion, or an eviction, gives a pod, and the pod asks for, 0 for
// none; at is where the first stands.
func gracesOf(req admission.Request) (asked, own int64, at *field.Path, err error) {
	at = field.NewPath("gracePeriodSeconds")
	if req.Operation == admissionv1.Create {
		var e policyv1.Eviction
		err = json.Unmarshal(req.Object.Raw, &e)
		return ptr.Deref(
			ptr.Deref(e.DeleteOptions, metav1.DeleteOptions{}).GracePeriodSeconds,
			0,
		), 0, field.NewPath("deleteOptions").Child("gracePeriodSeconds"), err
	}
	var options metav1.DeleteOptions
	if err := json.Unmarshal(req.Options.Raw, &options); err != nil {
		return 0, 0, at, fmt.Errorf("read the options of the deletion: %w", err)
	}
	var p corev1.Pod
	if err := json.Unmarshal(req.OldObject.Raw, &p); err != nil {
		return 0, 0, at, fmt.Errorf("read the pod: %w", err)
	}
	return ptr.Deref(options.GracePeriodSeconds, 0), ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 0), at, nil
}
