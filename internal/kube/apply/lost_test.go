package apply

import (
	"strings"
	"testing"
	"time"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// A victim that was chosen by lost work is told what it loses, and what it may do about it.
func TestVictimsAreToldWhatTheyLose(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 3, 0, 0, time.UTC)
	w, regular := aWorkload(admittedOn("n")), aWorkload(admittedOn("n"))
	regular.Annotations = map[string]string{kueue.CheckpointIntervalAnnotation: "10m0s"}
	overdue := &core.LostWork{Since: at, For: time.Hour, Saved: true}
	if got := lostWork(regular, overdue); !strings.Contains(got, "its next report of a checkpoint is overdue") {
		t.Errorf("one that saved regularly is told %q", got)
	}
	for want, l := range map[string]*core.LostWork{
		"": nil,
		"since its checkpoint at 2026-01-01T12:03:00Z)": {
			Since: at, For: 10 * time.Minute, Saved: true, Counted: 10 * time.Minute,
		},
		", of which 1h0m0s count)": {Since: at, For: 2 * time.Hour, Saved: true, Counted: time.Hour},
		"since it got its quota at 2026-01-01T12:03:00Z, and counts as one that has just saved": {
			Since: at, For: 2 * time.Hour,
		},
		", and counts as one that has just saved: the time between its checkpoints is not known)": overdue,
	} {
		if got := lostWork(w, l); !strings.Contains(got, want) || (l == nil) != (got == "") {
			t.Errorf("it is told %q, want %q", got, want)
		}
	}
}
