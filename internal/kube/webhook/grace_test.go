package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// deletion is one of a pod, or its eviction, that gives it so many seconds; negative says nothing of
// them. The pod itself asks for own.
type deletion struct {
	by        string
	eviction  bool
	asks, own int64
}

func (d deletion) options() string {
	if d.asks < 0 {
		return "{}"
	}
	return fmt.Sprintf("{gracePeriodSeconds: %d}", d.asks)
}

func (d deletion) evicts() string {
	return "{apiVersion: policy/v1, kind: Eviction, metadata: {name: p, namespace: blue}, deleteOptions: " + d.options() + "}"
}

func (d deletion) pod() string {
	return fmt.Sprintf(
		"{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: blue}, spec: {terminationGracePeriodSeconds: %d, containers: [{name: c, image: x}]}}",
		d.own,
	)
}

// write is the deletion as admission sees it.
func (d deletion) write(t *testing.T) *admission.VersionedAttributes {
	t.Helper()
	if d.eviction {
		a := written(t, "eviction", d.by, "", d.evicts(), "")
		a.Attributes = admission.NewAttributesRecord(
			a.VersionedObject.Object(),
			nil,
			a.VersionedKind,
			"blue",
			"p",
			schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			"eviction",
			admission.Create,
			&metav1.CreateOptions{},
			false,
			&user.DefaultInfo{Name: d.by},
		)
		return a
	}
	old := &unstructured.Unstructured{}
	decode(t, json.RawMessage(jsonOf(t, d.pod())), &old.Object)
	options := &metav1.DeleteOptions{}
	if d.asks >= 0 {
		options.GracePeriodSeconds = &d.asks
	}
	a := &admission.VersionedAttributes{
		VersionedOldObject: admission.NewLazyObject(old),
		VersionedKind:      old.GroupVersionKind(),
	}
	a.Attributes = admission.NewAttributesRecord(
		nil,
		old,
		a.VersionedKind,
		"blue",
		"p",
		schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		"",
		admission.Delete,
		options,
		false,
		&user.DefaultInfo{Name: d.by},
	)
	return a
}

// ask asks the webhook.
func (d deletion) ask(t *testing.T, handlers map[string]http.Handler) reply {
	t.Helper()
	req := &admissionv1.AdmissionRequest{
		UID:       "u",
		Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Namespace: "blue",
		Name:      "p",
		Operation: admissionv1.Delete,
		UserInfo: authenticationv1.UserInfo{
			Username: d.by,
		},
		Options:   runtime.RawExtension{Raw: jsonOf(t, d.options())},
		OldObject: runtime.RawExtension{Raw: jsonOf(t, d.pod())},
	}
	if d.eviction {
		req.Operation, req.SubResource, req.Object, req.OldObject = admissionv1.Create, "eviction", runtime.RawExtension{
			Raw: jsonOf(t, d.evicts()),
		}, runtime.RawExtension{}
	}
	review := admissionv1.AdmissionReview{Request: req}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	post(t, handlers["/grace--v1-pod"], &review)
	r := reply{Allowed: review.Response.Allowed}
	if review.Response.Result != nil {
		r.Message = review.Response.Result.Message
	}
	return r
}

// A tenant's deletion of a pod keeps it no longer than its eviction would: by the webhook, with what
// the installation allows, and by the policy, with the default.
func TestTenantsDeletionsGiveNoLongerThanEvictionsDo(t *testing.T) {
	_, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1/", nil),
		jobs.SchedulerNames(),
	)
	hooks := map[bool]*admissionregistrationv1.ValidatingWebhook{}
	for i := range validating.Webhooks {
		switch validating.Webhooks[i].Name {
		case "vpodgrace.mlbatch.dev":
			hooks[false] = &validating.Webhooks[i]
		case "vpodevictiongrace.mlbatch.dev":
			hooks[true] = &validating.Webhooks[i]
		}
	}
	policy := podGracePolicy(t)
	handlers := serveWith(
		t,
		webhook.Options{Limits: jobs.Limits{Termination: 10 * time.Minute}},
		nil,
		nil,
		world()...)
	for name, c := range map[string]struct {
		deletion
		asked           bool // the webhook is called
		webhook, policy string
	}{
		"ADay":               {deletion: deletion{by: "alice", asks: 100_000, own: 30}, asked: true, webhook: "gracePeriodSeconds", policy: "gracePeriodSeconds"},
		"ADayByEviction":     {deletion: deletion{by: "alice", eviction: true, asks: 100_000}, asked: true, webhook: "deleteOptions.gracePeriodSeconds", policy: "gracePeriodSeconds"},
		"ForEver":            {deletion: deletion{by: "alice", asks: 1<<63 - 1, own: 30}, asked: true, webhook: "600 seconds", policy: "900 seconds"},
		"AsLongAsTheDefault": {deletion: deletion{by: "alice", asks: 900, own: 30}, asked: true, webhook: "600 seconds"},
		"Longer":             {deletion: deletion{by: "alice", asks: 60, own: 30}, asked: true},
		"AsItWouldBe":        {deletion: deletion{by: "alice", asks: -1, own: 30}},
		"Shorter":            {deletion: deletion{by: "alice", asks: 5, own: 30}},
		"AtOnce":             {deletion: deletion{by: "alice", asks: 0, own: 30}},
		"AsThePodAsks":       {deletion: deletion{by: "alice", asks: 3600, own: 3600}},
		"EvictionAsItIs":     {deletion: deletion{by: "alice", eviction: true, asks: -1}},
		"EvictionInAMinute":  {deletion: deletion{by: "alice", eviction: true, asks: 60}, asked: true},
		"ByAnAdministrator":  {deletion: deletion{by: "controller", asks: 100_000, own: 30}, webhook: "600 seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := called(t, hooks[c.eviction], c.write(t)); got != c.asked {
				t.Errorf("the webhook is called: %v", got)
			}
			if r := c.ask(t, handlers); r.Allowed != (c.webhook == "") || !strings.Contains(r.Message, c.webhook) {
				t.Errorf("the webhook says %q", r.Message)
			}
			if got := policy(c.write(t)); c.policy == "" && got != "" || !strings.Contains(got, c.policy) {
				t.Errorf("the policy says %q", got)
			}
		})
	}
}

// podGracePolicy judges by the policy.
func podGracePolicy(t *testing.T) func(*admission.VersionedAttributes) string {
	t.Helper()
	policies, _ := webhook.Policies(kinds.All())
	for _, p := range policies {
		if p.Name != webhook.PodGracePolicy {
			continue
		}
		v := judge(t, p)
		return func(write *admission.VersionedAttributes) string {
			out := ""
			result := v.Validate(
				t.Context(),
				write.GetResource(),
				write,
				nil,
				nil,
				celconfig.RuntimeCELCostBudget,
				authorizer.AuthorizerFunc(mayAdmit),
			)
			for _, d := range result.Decisions {
				if d.Evaluation == validating.EvalError {
					t.Errorf("it cannot be evaluated: %s", d.Message)
				}
				if d.Action == validating.ActionDeny {
					out += d.Message
				}
			}
			return out
		}
	}
	t.Fatal("there is no such policy")
	return nil
}
