package nodehealth

import (
	"slices"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What a value of the health label means is the same for whoever asks: for one value (a node's
// label) and for all (an affinity that pods are given).
func TestMarksMeanOneThing(t *testing.T) {
	for _, tc := range []struct {
		why, value string
		want       core.NodeState
	}{
		{"older checks", "ERR", core.NodeClosed},
		{"a check runs", "TESTING", core.NodeClosed},
		{"pods have to leave", "EVICT", core.NodeEvicted},
		{"suspect", "WARN", core.NodeWarned},
		{"written by hand", " evict ", core.NodeEvicted},
		{"good", "PASS", core.NodeReady},
		{"never checked", "", core.NodeReady},
		{"of a check that is not known", "BROKEN", core.NodeReady},
	} {
		if got := MarkedState(map[string]string{HealthLabel: tc.value}); got != tc.want {
			t.Errorf("%s (%q): %v, not %v", tc.why, tc.value, got, tc.want)
		}
	}
	if got := MarkedState(nil); got != core.NodeReady {
		t.Errorf("without labels: %v", got)
	}
	for name, tc := range map[string]struct {
		asked func(core.NodeState) bool
		want  []string
	}{
		"take no work": {func(s core.NodeState) bool { return !s.TakesWork() }, []string{"ERR", "TESTING", "EVICT"}},
		"suspect":      {func(s core.NodeState) bool { return s == core.NodeWarned }, []string{"WARN"}},
		"have to go":   {func(s core.NodeState) bool { return s == core.NodeEvicted }, []string{"EVICT"}},
		"good":         {func(s core.NodeState) bool { return s == core.NodeReady }, nil},
	} {
		if got := Marks(tc.asked); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, not %v", name, got, tc.want)
		}
	}
}
