package livetest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// An attacker who took one node over can say of it what they like, and nothing of others.
func TestAgentsChangeTheirOwnNodeOnly(t *testing.T) {
	x := begin(t)
	values := install.DefaultValues("v1.2.3")
	values.Agent.Enabled = true
	stages, err := install.Render(values, install.Release{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		for _, o := range s.Objects {
			about := s.Name == install.AccessStage || s.Name == install.PoliciesStage
			if about && o.GetNamespace() == "" && strings.HasPrefix(o.GetName(), install.Agent) {
				if err := x.admin.Create(t.Context(), o.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, name := range []string{"node-0", "node-1"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{"note": "b"},
		}}
		if err := x.admin.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	agent := func(extra map[string][]string) client.Client {
		cfg := rest.CopyConfig(x.config)
		cfg.QPS = -1
		cfg.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + install.DefaultNamespace + ":" + install.Agent, Extra: extra,
		}
		c, err := client.New(cfg, client.Options{Scheme: scheme.New()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	patch := func(as client.Client, node, text string) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		return as.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	own := agent(map[string][]string{"authentication.kubernetes.io/node-name": {"node-0"}})
	const tells = `{"metadata": {"annotations": {"mlbatch.dev/checks": "{}"}}}`
	x.eventually("the policy is in force", func() error { return patch(own, "node-0", tells) })
	x.eventually("other Nodes are refused", func() error {
		if err := patch(
			own,
			"node-1",
			tells,
		); err == nil ||
			!strings.Contains(err.Error(), "Node that its pod is on") {
			return &notRefusedError{err}
		}
		return nil
	})
	for what, text := range map[string]string{
		"the label":               `{"metadata": {"labels": {"autopilot.ibm.com/gpuhealth": "EVICT"}}}`,
		"takes away what it told": `{"metadata": {"annotations": {"mlbatch.dev/checks": null}}}`,
	} {
		if err := patch(own, "node-0", text); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, text := range map[string]string{
		"another label":                  `{"metadata": {"labels": {"pool": "b"}}}`,
		"a new label":                    `{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}`,
		"a label less":                   `{"metadata": {"labels": {"pool": null}}}`,
		"another annotation":             `{"metadata": {"annotations": {"note": "c"}}}`,
		"an annotation less":             `{"metadata": {"annotations": {"note": null}}}`,
		"a cordon":                       `{"spec": {"unschedulable": true}}`,
		"a taint":                        `{"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}`,
		"a finalizer":                    `{"metadata": {"finalizers": ["example.com/a"]}}`,
		"a label beside what is allowed": `{"metadata": {"labels": {"autopilot.ibm.com/gpuhealth": "PASS", "a": "b"}}}`,
	} {
		if err := patch(own, "node-0", text); err == nil {
			t.Errorf("%s: was written", what)
		}
	}
	if err := patch(agent(nil), "node-0", tells); err == nil {
		t.Error("a token of no node's pod was enough")
	}
	if err := patch(x.admin, "node-1", `{"metadata": {"labels": {"pool": "b"}}}`); err != nil {
		t.Errorf("an administrator: %v", err)
	}
}

// notRefusedError is that something was not refused, or otherwise than it should be.
type notRefusedError struct{ err error }

func (e *notRefusedError) Error() string {
	if e.err == nil {
		return "it was written"
	}
	return "it failed otherwise: " + e.err.Error()
}
