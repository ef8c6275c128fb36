package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestProgressText: what is written for people is read again.
func TestProgressText(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 3, 10, 0, time.UTC)
	for text, p := range map[string]Progress{
		"step 1200 at 2026-03-01T12:03:10Z": {Step: 1200, At: at},
		"no step since 2026-03-01T12:03:10Z (step 1200; expected every 5m0s); slowest: rank 17, pod train-17 on node-3; evidence: e; a note; and more": {
			Step: 1200, At: at, Expected: 5 * time.Minute, Slowest: &Slowest{17, "train-17", "node-3"},
			Evidence: "e", Note: "a note; and more",
		},
		"no step since all pods run at 2026-03-01T12:03:10Z (expected within 30m0s)": {Began: at, Expected: 30 * time.Minute},
	} {
		if got := ProgressText(&p); got != text {
			t.Errorf("it is written as %q, want %q", got, text)
		}
		got, ok := ReadProgress(text)
		if diff := cmp.Diff(p, got); !ok || diff != "" {
			t.Errorf("%q is read as (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"", "step x at noon", "no step since noon (step 1; expected every 5m)"} {
		if got, ok := ReadProgress(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
