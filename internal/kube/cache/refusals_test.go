package cache_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// refusedOnN says that node n refused the workload's pods so many times.
func refusedOnN(times int32) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		w.Status.Conditions = []metav1.Condition{
			{Type: kueue.WorkloadNodesRefused, Status: "True", Message: convert.RefusalsText([]convert.Refusal{
				{PodSet: "main", NodeRefusal: core.NodeRefusal{Node: "n", Why: "no volume"}, Times: times},
			})},
		}
	}
}

// TestRefusalHoldsUntilItsNodeChanges: a node that refused a job is left out while it and the pods
// on it stay what they were; a refusal that lapsed does not come back by itself, and one that is
// told again does.
func TestRefusalHoldsUntilItsNodeChanges(t *testing.T) {
	labelled := func() cache.ObjectUpdate {
		c := node()
		c.Object.(*corev1.Node).Labels = map[string]string{"disk": "here"}
		return c
	}
	beating := func() cache.ObjectUpdate {
		c := node()
		c.Object.(*corev1.Node).Status.Conditions[0].LastHeartbeatTime = metav1.Now()
		return c
	}
	own := func() cache.ObjectUpdate { return pod("own", "w", "n", corev1.PodRunning) }
	other := func() cache.ObjectUpdate { return pod("other", "", "n", corev1.PodRunning) }
	cases := map[string]struct {
		why    string
		before []cache.ObjectUpdate // after the node, and before the refusal is seen
		then   []cache.ObjectUpdate
		want   bool // the node is left out
	}{
		"nothing":     {"it is left out", nil, nil, true},
		"a heartbeat": {"the node is what it was", nil, []cache.ObjectUpdate{beating()}, true},
		"a label": {
			"the rule may have looked for it",
			nil,
			[]cache.ObjectUpdate{labelled()},
			false,
		},
		"and back": {
			"it was asked to be asked again",
			nil,
			[]cache.ObjectUpdate{labelled(), node()},
			false,
		},
		"its own pod goes": {
			"that was there because of the plan",
			[]cache.ObjectUpdate{own()},
			[]cache.ObjectUpdate{gone(own())},
			true,
		},
		"a pod of others comes": {
			"it may be what the rule wants near",
			nil,
			[]cache.ObjectUpdate{other()},
			false,
		},
		"a pod of others goes": {
			"it may have been in the way",
			[]cache.ObjectUpdate{other()},
			[]cache.ObjectUpdate{gone(other())},
			false,
		},
		"the node is made anew": {"it is another", nil, []cache.ObjectUpdate{gone(node()), node()}, false},
		"the workload is told": {
			"that changes nothing of the node",
			nil,
			[]cache.ObjectUpdate{workload(refusedOnN(1))},
			true,
		},
		"told after it had lapsed": {
			"an old answer is no new one",
			nil,
			[]cache.ObjectUpdate{labelled(), workload(refusedOnN(1))},
			false,
		},
		"refused again": {
			"this is a new answer",
			nil,
			[]cache.ObjectUpdate{labelled(), workload(refusedOnN(2))},
			true,
		},
		"it lapsed by itself": {"nothing is left out", nil, []cache.ObjectUpdate{workload()}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := cache.NewWorld(convert.Rules{})
			left := false
			for _, change := range append(append([]cache.ObjectUpdate{node()}, c.before...), append([]cache.ObjectUpdate{workload(refusedOnN(1))}, c.then...)...) {
				for _, e := range w.Translate([]cache.ObjectUpdate{change}) {
					if e, ok := e.(core.WorkloadSet); ok {
						left = !e.Workload.PodSets[0].Filter.Admits(&core.Node{Name: "n"})
					}
				}
			}
			if left != c.want {
				t.Errorf("%s: the node is left out: %t", c.why, left)
			}
		})
	}
}
