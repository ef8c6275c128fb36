package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

func TestProfilesAreValid(t *testing.T) {
	got, err := profiles([]string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range got {
		names = append(names, p.SchedulerName)
		for _, pc := range p.PluginConfig {
			if args, ok := pc.Args.(*config.NodeResourcesFitArgs); ok {
				if err := validation.ValidateNodeResourcesFitArgs(nil, args); err != nil {
					t.Error(err)
				}
				want := []config.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}}
				if diff := cmp.Diff(want, args.ScoringStrategy.RequestedToCapacityRatio.Shape); diff != "" {
					t.Errorf("GPUs are not packed (-want +got):\n%s", diff)
				}
			}
			if args, ok := pc.Args.(*config.PodTopologySpreadArgs); ok {
				if err := validation.ValidatePodTopologySpreadArgs(nil, args); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("scheduler names (-want +got):\n%s", diff)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"no names":   {HealthPort: 1},
		"empty name": {SchedulerNames: []string{"a", ""}, HealthPort: 1},
		"bad port":   {SchedulerNames: []string{"a"}},
	} {
		if o.Validate() == nil {
			t.Errorf("%s: want an error that names the flag", name)
		}
	}
}
