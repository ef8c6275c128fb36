package convert

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAvoidedNodesAreReadAsWritten: and what nobody wrote says nothing.
func TestAvoidedNodesAreReadAsWritten(t *testing.T) {
	at := time.Date(2026, 11, 30, 0, 10, 0, 0, time.UTC)
	all := []AvoidedNode{{"node-1", at}, {"node-3", at.Add(time.Minute)}}
	if diff := cmp.Diff(all, ReadAvoided(AvoidedText(all))); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
	for _, text := range []string{"", "node-1", "node-1 since yesterday", " since 2026-11-30T00:10:00Z", ", ,"} {
		if got := ReadAvoided(text); got != nil {
			t.Errorf("%q says %v", text, got)
		}
	}
}
