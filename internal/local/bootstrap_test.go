package local

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/local/simnode"
	"github.com/mlbatch/mlbatch/internal/local/tutorial"
)

func TestManifestsAreWhole(t *testing.T) {
	text, err := tutorial.Manifests(simnode.DefaultFleet(), simnode.Provisioner)
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
		"PriorityClass /low-priority",
		"PriorityClass /default-priority",
		"PriorityClass /high-priority",
		"WorkloadPriorityClass /low-priority",
		"WorkloadPriorityClass /default-priority",
		"WorkloadPriorityClass /high-priority",
		"StorageClass /nfs-client-pokprod",
		"ResourceFlavor /default-flavor",
		"ClusterQueue /slack-cluster-queue",
		"Namespace /blue",
		"ResourceQuota blue/objects",
		"ClusterQueue /blue-cluster-queue",
		"LocalQueue blue/default-queue",
		"RoleBinding blue/alice",
		"Namespace /red",
		"ResourceQuota red/objects",
		"ClusterQueue /red-cluster-queue",
		"LocalQueue red/default-queue",
		"RoleBinding red/bob",
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
			t.Errorf(
				"with %s nodes the system's manifests are %d objects, %v; want %d",
				name,
				len(system),
				err,
				s.want,
			)
		}
	}
}
