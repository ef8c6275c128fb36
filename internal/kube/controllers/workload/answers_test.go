package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

func TestAnswers(t *testing.T) {
	says := func(state kueue.CheckState, message string) []kueue.AdmissionCheckState {
		return []kueue.AdmissionCheckState{{Name: "budget", State: state, Message: message}}
	}
	cases := map[string]struct {
		why     string
		was, is []kueue.AdmissionCheckState
		want    []string
	}{
		"asked": {"nothing was said yet", nil, says("Pending", ""), nil},
		"answered": {
			"the job's user wants to know",
			says("Pending", ""),
			says("Ready", ""),
			[]string{"budget is Ready"},
		},
		"progress": {
			"so is what it waits for",
			says("Pending", ""),
			says("Pending", "2 of 3 signatures"),
			[]string{"budget is Pending: 2 of 3 signatures"},
		},
		"no news": {"one event for one change", says("Ready", "paid"), says("Ready", "paid"), nil},
		"asked anew": {
			"the eviction tells of that",
			says("Retry", "no money"),
			says("Pending", "Reset to Pending after eviction. Previously: Retry"),
			nil,
		},
		"all at once": {
			"it may answer before it is seen to be asked",
			nil,
			says("Rejected", "no money"),
			[]string{"budget is Rejected: no money"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, answers(c.was, c.is)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
