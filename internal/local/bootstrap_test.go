package local

import (
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

func TestManifestsAreWhole(t *testing.T) {
	text, err := renderTutorial(simnode.DefaultFleet(), simnode.Provisioner)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
	}
	want := []string{
		"PriorityClass /low-priority", "PriorityClass /default-priority", "PriorityClass /high-priority", "StorageClass /nfs-client-pokprod",
		"ResourceFlavor /default-flavor", "ClusterQueue /slack-cluster-queue",
		"Namespace /blue", "ResourceQuota blue/objects", "ClusterQueue /blue-cluster-queue", "LocalQueue blue/default-queue", "RoleBinding blue/alice",
		"Namespace /red", "ResourceQuota red/objects", "ClusterQueue /red-cluster-queue", "LocalQueue red/default-queue", "RoleBinding red/bob",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	for name, s := range map[string]struct {
		real *hardware
		want int
	}{"simulated": {nil, 5}, "real": {&hardware{subnet: 140}, 10}} {
		text, err := (&Cluster{real: s.real}).systemSetup()
		if err != nil {
			t.Fatal(err)
		}
		if system, err := parse(text); err != nil || len(system) != s.want {
			t.Errorf("with %s nodes the system's manifests are %d objects, %v; want %d", name, len(system), err, s.want)
		}
	}
}
