package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What moves goes on, whatever it takes, up to ten times the patience; what does not is given up,
// and so is what goes to and fro.
func TestGoesOnWhileSomethingMoves(t *testing.T) {
	for name, tc := range map[string]struct {
		look  func(n int) string // what the n-th look finds, 30 s apart
		after time.Duration
		says  string
	}{
		"nothing moves":   {func(int) string { return "0 of 2 pods" }, time.Minute, "after 1m0s, and nothing moves"},
		"to and fro":      {func(n int) string { return strings.Repeat("x", n%2) + "." }, 90 * time.Second, "nothing moves"},
		"moves, and ends": {func(n int) string { return strings.Repeat("x", 9-min(n, 9)) }, 0, ""},
		"moves for ever":  {func(n int) string { return strings.Repeat("x", n+1) }, 10 * time.Minute, "all the time that there is"},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := &Cluster{Pause: 30 * time.Second, Patience: time.Minute, Say: func(string, ...any) {}}
			ctx, cancel := x.bound(t.Context())
			defer cancel()
			begun, looks := time.Now(), -1
			err := x.await(ctx, []condition{{name: "it", look: func(context.Context) (string, error) {
				looks++
				return tc.look(looks), nil
			}}})
			var unready *NotReadyError
			switch {
			case tc.says == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case tc.says != "" && (!errors.As(err, &unready) || !strings.Contains(unready.Why, tc.says)):
				t.Errorf("%s: %v, want %q", name, err, tc.says)
			case tc.says != "" && time.Since(begun).Round(time.Second) != tc.after:
				t.Errorf("%s: given up after %s, want %s", name, time.Since(begun), tc.after)
			}
		})
	}
}
