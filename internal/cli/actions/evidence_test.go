package actions

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
)

// TestEvidence: the newest of a job is printed, with nothing that a terminal would obey, and of one without any it says so.
func TestEvidence(t *testing.T) {
	kept := func(name string, minute int) *history.JobEvidence {
		return &history.JobEvidence{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name},
			JobKind:    "Job", Job: "train", Pods: 100, Message: "no step since " + name,
			Taken: metav1.NewTime(time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC)),
			Ranks: []history.EvidenceRank{
				{Rank: 0, Pod: "train-0", Node: "n", Phase: "Running", Step: new(int64(3)), Log: "one\n\x1b[2Jtwo"},
				{Rank: 1, Pod: "train-1", Node: "m", Phase: "Running", NoLog: "the node does not answer"},
			},
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(kept("old", 1), kept("new", 2)).Build()
	var out bytes.Buffer
	if err := Evidence(t.Context(), c, view.Ref{Namespace: "blue", Name: "train"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"no step since new\n", "2 of its 100 pods", "rank 0: pod train-0 on n, Running, step 3\n  | one\n", "step none told",
		"no log: the node does not answer",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("it does not say %q:\n%s", text, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("a terminal would obey %q", out.String())
	}
	err := Evidence(t.Context(), c, view.Ref{Namespace: "blue", Name: "other"}, &out)
	if err == nil || !strings.Contains(err.Error(), "nothing was kept of blue/other") {
		t.Errorf("of a job without any it says %v", err)
	}
}
