package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/view/why"
)

// whyNot types "mlbatch why-not" as a user.
func whyNot(t *testing.T, as, job, other string) (why.Comparison, string) {
	t.Helper()
	out, err := cluster.Run(t.Context(), "why-not", job, other, "--as", as, "-o", "json")
	if err != nil {
		t.Fatalf("why-not %s %s as %s: %v", job, other, as, err)
	}
	var r why.Comparison
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r, out
}

// TestWhyNotIsAReceipt: of a job of another team, known by its UID only, it is told by which
// rule it stays and that the other would start without it; and so it does.
func TestWhyNotIsAReceipt(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, bob := user(t, "alice"), user(t, "bob")
	create(t, bob, gang("bob-secret", 1, 8, 6000), "red")
	eventually(t, "bob runs within his quota", inPhase(t, "Running", "red", "bob-secret"))
	create(t, alice, gang("alice-all", 3, 8, 6000), "blue")
	uid := string(itsWorkload(t, "red", "bob-secret").UID)

	eventually(t, "alice is told why bob's job stays", func() string {
		r, text := whyNot(t, "alice", "blue/alice-all", uid)
		if r.Answer == nil || r.Answer.Contest == nil {
			return "no controller answered: " + text
		}
		c := r.Answer.Contest
		switch {
		case strings.Contains(text, "bob-secret"):
			t.Fatalf("alice learns the name of bob's job: %s", text)
		case c.Other.Stage != "Running" || c.Spared != "WithinNominal" || c.OtherGone == nil:
			return text
		case r.Verdict != why.InTheWay || !c.OtherGone.Starts || len(c.Quotas) == 0:
			return text
		}
		return ""
	})
	if out, err := cluster.Run(
		t.Context(),
		"why-not",
		"blue/alice-all",
		"red/bob-secret",
		"--as",
		"alice",
	); err == nil ||
		!strings.Contains(err.Error(), "by the UID") {
		t.Errorf("alice names a job of bob's: %v: %s", err, out)
	}

	if err := bob.Delete(
		t.Context(),
		wrapper(t, "red", "bob-secret"),
		client.PropagationPolicy("Background"),
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without it hers runs", inPhase(t, "Running", "blue", "alice-all"))

	create(t, alice, gang("alice-next", 1, 8, 6000), "blue")
	eventually(t, "in one queue time decides", func() string {
		r, text := whyNot(t, "alice", "blue/alice-next", "blue/alice-all")
		if r.Answer == nil || r.Answer.Contest == nil {
			return "no controller answered: " + text
		}
		if c := r.Answer.Contest; c.Order != "QueueTime" || !c.OtherFirst ||
			c.Field != "spec.preemption.withinClusterQueue" ||
			r.Verdict != why.InTheWay {
			return text
		}
		return ""
	})
	if r, text := whyNot(t, "alice", "blue/alice-all", "blue/alice-next"); r.Verdict != why.NotWaiting {
		t.Errorf("asked the wrong way round: %s", text)
	}

	// Bob takes back what is his: alice is told for whom as far as she may know, and by which rule.
	create(t, bob, gang("bob-secret-again", 1, 8, 6000), "red")
	eventually(t, "bob runs again", inPhase(t, "Running", "red", "bob-secret-again"))
	eventually(t, "alice is told by which rule her job was stopped", func() string {
		e, text := whyAs(t, "alice", "blue/alice-all")
		switch {
		case strings.Contains(text, "bob-secret"):
			t.Fatalf("alice learns the name of bob's job: %s", text)
		case e.Eviction == nil || e.Eviction.Cause != "InCohortReclamation" || !strings.Contains(e.Eviction.Rule, "spec.preemption.reclaimWithinCohort"):
			return text
		case !strings.Contains(e.Eviction.Message, "red-cluster-queue"):
			return text
		}
		return ""
	})
	eventually(t, "it is counted", func() string {
		out, err := cluster.Run(t.Context(), "show", "blue/alice-all", "--as", "alice", "-o", "json")
		var shown why.Details
		if err == nil {
			err = json.Unmarshal([]byte(out), &shown)
		}
		if err != nil || shown.Evictions != 1 || shown.Lost == nil {
			return out
		}
		return ""
	})
}
