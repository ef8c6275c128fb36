package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/replay"
)

// What the controller recorded, killed and restarted in between, is decided again
// to the byte; and the recording says why a job waited.
func TestReplayReproducesTheCluster(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, bob := user(t, "alice"), user(t, "bob")
	create(t, alice, gang("first", 2, 8, 600), "blue")
	eventually(t, "alice borrows", inPhase(t, "Running", "blue", "first"))
	create(t, bob, gang("mine", 1, 8, 600), "red")
	create(t, bob, gang("more", 1, 8, 600), "red")
	eventually(t, "bob takes back what is his", inPhase(t, "Running", "red", "mine"))
	create(t, bob, gang("late", 3, 8, 600), "red")
	late := ""
	eventually(t, "the last job waits and says so", func() string {
		var all kueue.WorkloadList
		if err := user(t, "").List(t.Context(), &all, client.InNamespace("red")); err != nil {
			return err.Error()
		}
		for _, w := range all.Items {
			for _, c := range w.Status.Conditions {
				if len(w.OwnerReferences) == 1 && w.OwnerReferences[0].Name == "late" &&
					c.Type == kueue.WorkloadQuotaReserved &&
					c.Status == "False" {
					late = w.Name
				}
			}
		}
		if late == "" {
			return "it does not"
		}
		return ""
	})
	killController(t)

	// The recorder may be a moment behind what is seen in the API.
	eventually(t, "the recording has it", func() string {
		out, err := cluster.Run(
			t.Context(),
			"replay",
			filepath.Join(cluster.Dir, "flights"),
			"--why",
			"red/"+late,
			"-o",
			"json",
		)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var r replay.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		switch {
		case r.Runs < 2 || r.Decisions < 4:
			return fmt.Sprintf("%d runs, %d decisions", r.Runs, r.Decisions)
		case r.Why == nil || r.Why.Reason == nil || r.Why.Queue != "red-cluster-queue":
			return fmt.Sprintf("the replay knows of %s: %+v", late, r.Why)
		}
		t.Logf(
			"%d cycles and %d decisions of %d runs reproduced; %s: %s",
			r.Cycles,
			r.Decisions,
			r.Runs,
			late,
			r.Why.Sentence,
		)
		return ""
	})
}
