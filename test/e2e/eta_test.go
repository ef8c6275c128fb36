package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/cli"
)

// TestStartsAreEstimated: a job that waits is told when it will start, judged by jobs like
// it that have ended, by all commands alike; others learn nothing of it.
func TestStartsAreEstimated(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice := user(t, "alice")
	var ended []string
	for i := range 3 {
		ended = append(ended, create(t, alice, gang(fmt.Sprintf("eta-run-%d", i), 1, 8, 1), "blue"))
	}
	eventually(t, "some end", inPhase(t, "Succeeded", "blue", ended...))
	create(t, alice, gang("eta-run-8", 3, 8, 6000), "blue")
	eventually(t, "all is in use", inPhase(t, "Running", "blue", "eta-run-8"))
	create(t, alice, gang("eta-run-9", 1, 8, 1), "blue")
	workload := itsWorkload(t, "blue", "eta-run-9").Name

	eventually(t, "a start is estimated", func() string {
		out, err := cluster.Run(t.Context(), "eta", "blue/eta-run-9", "--as", "alice", "-o", "json")
		if err != nil {
			return err.Error()
		}
		var list struct{ Items []cli.WaitingRow }
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		switch {
		case len(list.Items) != 1 || list.Items[0].Workload != workload:
			t.Fatalf("asked about one job: %s", out)
		case list.Items[0].Start == nil || list.Items[0].Start.Known < 3:
			return "judged by nothing: " + out
		case list.Items[0].Start.P50 != nil && list.Items[0].Start.P90 != nil && list.Items[0].Start.P90.Before(list.Items[0].Start.P50):
			t.Fatalf("9 in 10 come before the middle: %s", out)
		}
		return ""
	})
	if _, text := whyAs(
		t,
		"alice",
		"blue/eta-run-9",
	); !strings.Contains(text, "as likely as not to start") &&
		!strings.Contains(text, "does not start within") {
		t.Errorf("why says nothing of the start: %s", text)
	}
	if out, err := cluster.Run(
		t.Context(),
		"eta",
		"-n",
		"blue",
		"--as",
		"bob",
	); err == nil ||
		strings.Contains(out, "eta-run") {
		t.Errorf("bob asks when alice's jobs start, and is told: %v, %s", err, out)
	}
}
