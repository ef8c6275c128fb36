package cache_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// What is remembered of a node and the node come in any order, and one changes without the other: the engine is told
// when the node is another one for it, and only then.
func TestNodesWithWhatIsRemembered(t *testing.T) {
	const (
		failed  = `{"parts":[{"state":"Failed","since":"2026-03-01T12:00:00Z","level":"Failed"}]}`
		suspect = `{"parts":[{"state":"Suspect","since":"2026-03-01T12:00:00Z","level":"Warned"}]}`
		lemon   = `{"lemon":2,"faults":["Down 2026-03-01T12:00:00Z 3"]}`
		other   = `{"uid":"other","parts":[{"state":"Failed","since":"2026-03-01T12:00:00Z","level":"Failed"}]}`
	)
	memory := func(text string) cache.ObjectUpdate {
		c := cache.ObjectUpdate{
			Ref: cache.Ref{Kind: cache.NodeHealth, Namespace: "mlbatch-system", Name: convert.HealthMemory},
		}
		if text != "gone" {
			c.Object = &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: c.Name},
				Data:       map[string]string{"n": text},
			}
		}
		return c
	}
	type step struct {
		what cache.ObjectUpdate
		want core.NodeState // "" if nothing is told
	}
	for name, steps := range map[string][]step{
		"the node first": {
			{node(), core.NodeReady},
			{memory(failed), core.NodeClosed},
			{memory(failed), ""},
			{memory(suspect), core.NodeWarned},
			{memory("gone"), core.NodeReady},
		},
		"the memory first":          {{memory(failed), ""}, {node(), core.NodeClosed}},
		"a lemon":                   {{node(), core.NodeReady}, {memory(lemon), "2 faults"}, {memory(lemon), ""}, {memory("gone"), core.NodeReady}},
		"a lemon, the memory first": {{memory(lemon), ""}, {node(), "2 faults"}},
		"of a node before it":       {{node(), core.NodeReady}, {memory(other), ""}},
		"a fact that is worse":      {{memory(failed), ""}, {lostNode(), core.NodeLost}, {node(), core.NodeClosed}},
		"what nobody can read":      {{node(), core.NodeReady}, {memory("torn"), ""}},
		"it is deleted in between":  {{node(), core.NodeReady}, {cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Node, Name: "n"}}, ""}, {memory(failed), ""}, {node(), core.NodeClosed}},
	} {
		t.Run(name, func(t *testing.T) {
			w := cache.NewWorld(convert.Rules{})
			for i, s := range steps {
				got := core.NodeState("")
				for _, e := range w.Translate([]cache.ObjectUpdate{s.what}) {
					if set, is := e.(core.NodeSet); is {
						if got = set.Node.State; set.Node.Faults > 0 {
							got = core.NodeState(fmt.Sprint(set.Node.Faults, " faults"))
						}
					}
				}
				if got != s.want {
					t.Errorf("step %d: the engine is told %q, want %q", i, got, s.want)
				}
			}
		})
	}
}
