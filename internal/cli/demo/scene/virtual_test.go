package scene

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"k8s.io/utils/clock"
)

// TestVirtualScenes: the scenes that need no cluster are played, and each statement holds.
func TestVirtualScenes(t *testing.T) {
	for _, s := range All() {
		if s.Cluster != nil || s.Shell {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			var out bytes.Buffer
			s.Open(&out)
			if err := s.Play(context.Background(), Stage{Out: &out, Clock: clock.RealClock{}}); err != nil {
				t.Errorf("%v", err)
			}
			if n := strings.Count(out.String(), "\nPASS"); n < 4 || strings.Contains(out.String(), "FAIL") {
				t.Errorf("%d statements hold", n)
			}
			t.Log("\n" + out.String())
		})
	}
}
