package tutorial

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/local/simnode"
)

func TestShares(t *testing.T) {
	fleet := func(nodes int, gpus int64, cpu, memory string) simnode.Fleet {
		f := simnode.DefaultFleet()
		f.Count, f.GPUs, f.CPU, f.Memory = nodes, gpus, resource.MustParse(cpu), resource.MustParse(memory)
		return f
	}
	tests := map[string]struct {
		why         string
		fleet       simnode.Fleet
		team, slack share
	}{
		"tutorial": {
			"exactly its quotas", fleet(3, 8, "224", "2000Gi"),
			share{CPU: "224", Memory: "2000G", GPUs: 8, Pods: 100},
			share{CPU: "224", Memory: "2000G", GPUs: 8, Pods: 100},
		},
		"larger": {
			"a third each", fleet(30, 8, "224", "2000Gi"),
			share{CPU: "2240", Memory: "20000G", GPUs: 80, Pods: 1000},
			share{CPU: "2240", Memory: "20000G", GPUs: 80, Pods: 1000},
		},
		"uneven": {
			"what does not divide belongs to no team, so it is slack", fleet(2, 4, "7", "10Gi"),
			share{CPU: "4666m", Memory: "6G", GPUs: 2, Pods: 66},
			share{CPU: "4666m", Memory: "6G", GPUs: 4, Pods: 66},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			team, slack := shares(tc.fleet)
			if diff := cmp.Diff([]share{tc.team, tc.slack}, []share{team, slack}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// TestPrioritiesOfBothKinds: what pods may name a job may be changed to, of the same values.
func TestPrioritiesOfBothKinds(t *testing.T) {
	text, err := Manifests(simnode.DefaultFleet(), "p")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"low-priority": "1", "default-priority": "5", "high-priority": "10"} {
		for _, kind := range []string{"PriorityClass", "WorkloadPriorityClass"} {
			if !strings.Contains(text, "\nkind: "+kind+"\nmetadata:\n  name: "+name+"\nvalue: "+value+"\n") {
				t.Errorf("there is no %s %s of value %s", kind, name, value)
			}
		}
	}
}
