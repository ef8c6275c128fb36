package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
)

func TestPhaseOf(t *testing.T) {
	cases := map[string]struct {
		why  string
		live int32
		st   podgroup.PodGroupStatus
		want podgroup.PodGroupPhase
	}{
		"too few":       {"two of three pods exist", 2, podgroup.PodGroupStatus{}, podgroup.PodGroupPending},
		"all exist":     {"none has a node", 3, podgroup.PodGroupStatus{}, podgroup.PodGroupPreScheduling},
		"being placed":  {"one has a node", 3, podgroup.PodGroupStatus{Scheduled: 1}, podgroup.PodGroupScheduling},
		"placed":        {"none runs yet", 3, podgroup.PodGroupStatus{Scheduled: 3}, podgroup.PodGroupScheduled},
		"running":       {"all run", 3, podgroup.PodGroupStatus{Scheduled: 3, Running: 3}, podgroup.PodGroupRunning},
		"ending":        {"some are done, the others run", 1, podgroup.PodGroupStatus{Scheduled: 3, Running: 1, Succeeded: 2}, podgroup.PodGroupRunning},
		"one failed":    {"the gang is not whole any more", 2, podgroup.PodGroupStatus{Scheduled: 3, Running: 2, Failed: 1}, podgroup.PodGroupFailed},
		"done":          {"enough succeeded, whatever else failed", 0, podgroup.PodGroupStatus{Scheduled: 4, Succeeded: 3, Failed: 1}, podgroup.PodGroupFinished},
		"failed, retry": {"a failed pod's replacement has no node yet", 1, podgroup.PodGroupStatus{Scheduled: 1, Failed: 1}, podgroup.PodGroupScheduling},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, phaseOf(3, c.live, c.st)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
