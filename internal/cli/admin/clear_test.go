package admin_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Who clears a node is told that it is not used before its test, where it is so.
func TestClearedNodesThatAwaitATest(t *testing.T) {
	for name, c := range map[string]struct {
		health nodehealth.Health
		want   bool
	}{
		"it waits":                        {nodehealth.Health{Untested: noon()}, true},
		"nothing is remembered":           {nodehealth.Health{}, false},
		"what is remembered is not fatal": {nodehealth.Health{Parts: []nodehealth.Part{{State: nodehealth.Back}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := convert.HealthText(c.health)
			if err != nil {
				t.Fatal(err)
			}
			api := cluster(node("a"), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "mlbatch-system", Name: convert.HealthMemory},
				Data:       map[string]string{"a": text},
			})
			nodes, err := admin.FindNodes(t.Context(), api, []string{"a"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := nodes[0].Clear(t.Context(), api, "ann", "", false, noon()); err != nil {
				t.Fatal(err)
			}
			if got := nodes[0].AwaitsTest(t.Context(), api); got != c.want {
				t.Errorf("it waits: %t, want %t", got, c.want)
			}
		})
	}
}

// Whoever clears a node says when, who and why, and takes off a label of mlbatch's; what others set stays, and is told.
func TestClear(t *testing.T) {
	marked := func(mark string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{convert.LabelledAnnotation: mark} }
	}
	for name, tc := range map[string]struct {
		why   string
		node  []func(*corev1.Node)
		after string
		left  string
		mark  bool
	}{
		"nothing to take off":    {why: "what was found counts no more, whether a label says it or not", after: "open"},
		"our label":              {why: "it was for what was found", node: []func(*corev1.Node){labelled("EVICT"), marked(`{"set":"EVICT"}`)}, after: "open"},
		"our label over another": {why: "what was there before is put back", node: []func(*corev1.Node){labelled("ERR"), marked(`{"set":"ERR","was":"PASS"}`)}, after: "open PASS"},
		"a label of others":      {why: "it is theirs to lift", node: []func(*corev1.Node){labelled("EVICT")}, after: "open EVICT", left: "=EVICT"},
		"taken over since":       {why: "who wrote over ours has taken it over", node: []func(*corev1.Node){labelled("EVICT"), marked(`{"set":"ERR"}`)}, after: "open EVICT", left: "=EVICT", mark: true},
		"a cordon":               {why: "it is no finding", node: []func(*corev1.Node){closed}, after: "cordoned", left: "cordoned"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(node("a", tc.node...))
			nodes, err := admin.FindNodes(t.Context(), c, []string{"a"})
			if err != nil {
				t.Fatal(err)
			}
			left, err := nodes[0].Clear(t.Context(), c, "ann", "GPU replaced", false, noon())
			if err != nil || (left == "") != (tc.left == "") || !strings.Contains(left, tc.left) {
				t.Errorf("left %q, %v; want %q: %s", left, err, tc.left, tc.why)
			}
			var n corev1.Node
			if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &n); err != nil {
				t.Fatal(err)
			}
			if got := state(&n); got != tc.after {
				t.Errorf("it is %s, want %s: %s", got, tc.after, tc.why)
			}
			if _, marked := n.Annotations[convert.LabelledAnnotation]; marked != tc.mark {
				t.Errorf("marked as ours: %v, want %v", marked, tc.mark)
			}
			if at := convert.ClearedOf(&n).At; !at.Equal(noon().Truncate(time.Second)) {
				t.Errorf("cleared at %s: %s", at, n.Annotations[convert.ClearedAnnotation])
			}
		})
	}
}
