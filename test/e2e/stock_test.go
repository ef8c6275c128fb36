package e2e_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// The tests that run against the API server of a real cluster do: it keeps a
// record of who wrote what, which ours does not of Workloads.
func TestA17APIServerIsAsAskedFor(t *testing.T) {
	admin := user(t, "")
	name := create(t, admin, workloadManifest, "blue")
	var w kueue.Workload
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, &w); err != nil {
		t.Fatal(err)
	}
	stock := strings.Contains(os.Getenv("MLBATCH_UP_FLAGS"), "--stock-api-server")
	if recorded := len(w.ManagedFields) > 0; recorded != stock {
		t.Errorf("a record of who wrote what: %v, want %v", recorded, stock)
	}
}
