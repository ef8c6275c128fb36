package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

func TestHealthFilter(t *testing.T) {
	for name, c := range map[string]struct {
		why   string
		label string
		gpus  int64
		takes bool
		score int64
	}{
		"healthy":              {"nothing is wrong with it", "PASS", 1, true, fwk.MaxScore},
		"never checked":        {"no check says anything against it", "", 1, true, fwk.MaxScore},
		"suspect":              {"it is used when no better node fits", "WARN", 1, true, 0},
		"suspect, without GPU": {"its GPUs are nothing to this pod", "WARN", 0, true, fwk.MaxScore},
		"bad":                  {"pods would fail there", "EVICT", 1, false, fwk.MaxScore},
		"older check":          {"ERR means the same", "ERR", 1, false, fwk.MaxScore},
		"under test":           {"the test would be disturbed", "TESTING", 1, false, fwk.MaxScore},
		"bad, without GPU":     {"its GPUs are nothing to this pod", "EVICT", 0, true, fwk.MaxScore},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if c.label != "" {
				node.Labels = map[string]string{nodehealth.HealthLabel: c.label}
			}
			info := framework.NewNodeInfo()
			info.SetNode(node)
			p := pod("blue", "p", int(c.gpus))
			if got := (healthPlugin{}).Filter(t.Context(), nil, p, info).IsSuccess(); got != c.takes {
				t.Errorf("the node takes it: %v, want %v, because %s", got, c.takes, c.why)
			}
			if got, _ := (healthPlugin{}).Score(t.Context(), nil, p, info); c.takes && got != c.score {
				t.Errorf("score %d, want %d, because %s", got, c.score, c.why)
			}
		})
	}
}
