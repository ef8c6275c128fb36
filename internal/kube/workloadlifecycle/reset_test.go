package workloadlifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// How often a check asked for another try, and how long it asks to wait, outlast
// an eviction: its controller counts on.
func TestResetChecks(t *testing.T) {
	check := func(state kueue.CheckState, retries, after *int32) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: "a", State: state, RetryCount: retries, RequeueAfterSeconds: after}
	}
	for name, tc := range map[string]struct {
		why       string
		is, wants kueue.AdmissionCheckState
	}{
		"retry":       {"one more", check(kueue.CheckStateRetry, new(int32(3)), new(int32(60))), check(kueue.CheckStatePending, new(int32(4)), new(int32(60)))},
		"first retry": {"the first", check(kueue.CheckStateRetry, nil, nil), check(kueue.CheckStatePending, new(int32(1)), nil)},
		"ready":       {"it asked for none", check(kueue.CheckStateReady, new(int32(3)), new(int32(60))), check(kueue.CheckStatePending, new(int32(3)), new(int32(60)))},
		"rejected":    {"it asked for none", check(kueue.CheckStateRejected, new(int32(2)), nil), check(kueue.CheckStatePending, new(int32(2)), nil)},
		"pending":     {"it stays as it is", check(kueue.CheckStatePending, new(int32(2)), new(int32(5))), check(kueue.CheckStatePending, new(int32(2)), new(int32(5)))},
	} {
		is := tc.is
		is.PodSetUpdates = []kueue.PodSetUpdate{{Name: "main"}}
		want := tc.wants
		if is.State == kueue.CheckStatePending {
			want.PodSetUpdates = is.PodSetUpdates
		} else {
			want.LastTransitionTime, want.Message = metav1.NewTime(
				now,
			), "Reset to Pending after eviction. Previously: "+string(
				is.State,
			)
		}
		if diff := cmp.Diff(
			[]kueue.AdmissionCheckState{want},
			resetChecks([]kueue.AdmissionCheckState{is}, now),
		); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, diff)
		}
	}
}
