package settings

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/kube/manager"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// How long jobs may hold what they do not use, by what a file says.
func TestLifecycle(t *testing.T) {
	const head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
	kueues := workloadlifecycle.PodsReady{Timeout: 30 * time.Minute, RecoveryTimeout: 30 * time.Minute, BackoffBase: time.Minute, BackoffMax: time.Hour}
	cases := map[string]struct {
		why, file string
		want      workloadlifecycle.Config
	}{
		"no file":    {"AppWrappers have graces of their own, and MLBatch sets Kueue up so", "", workloadlifecycle.Config{}},
		"empty file": {"a user who brings Kueue's file gets Kueue's default", head, workloadlifecycle.Config{PodsReady: &kueues}},
		"explicit":   {"a gate", head + "featureGates: {DisableWaitForPodsReady: true, UnadmittedWorkloadsExplicitStatus: true}\n", workloadlifecycle.Config{Explicit: true}},
		"gate":       {"Kueue's way out", head + "featureGates: {DisableWaitForPodsReady: true}\n", workloadlifecycle.Config{}},
		"all": {
			"every field counts", head + `waitForPodsReady: {timeout: 1h, recoveryTimeout: 0s, requeuingStrategy: {backoffLimitCount: 3, backoffBaseSeconds: 1, backoffMaxSeconds: 2}}
objectRetentionPolicies: {workloads: {afterFinished: 0s, afterDeactivatedByKueue: 1h}}
`,
			workloadlifecycle.Config{
				PodsReady: &workloadlifecycle.PodsReady{Timeout: time.Hour, BackoffLimit: new(int32(3)), BackoffBase: time.Second, BackoffMax: 2 * time.Second},
				Retention: workloadlifecycle.Retention{AfterFinished: new(time.Duration(0)), AfterDeactivated: new(time.Hour)},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := Empty()
			if c.file != "" {
				var err error
				if f, err = Read("f.yaml", []byte(c.file)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Resolve(f, Given{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, s.Options(manager.Options{}).Lifecycle); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

func TestMetricLabels(t *testing.T) {
	const file = `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metrics:
  customLabels:
  - name: team
  - name: budget
    sourceAnnotationKey: example.com/budget
    sourceKind: Workload
    trackedValues: [a, b]
`
	team := metrics.CustomLabel{Name: "team", From: metrics.SourceClusterQueue, Label: "team"}
	budget := metrics.CustomLabel{Name: "budget", From: metrics.SourceWorkload, Annotation: "example.com/budget", Tracked: []string{"a", "b"}}
	for gate, want := range map[string][]metrics.CustomLabel{"": nil, "CustomMetricLabels=true": {team, budget}} {
		f, err := Read("f.yaml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Resolve(f, Given{FeatureGates: gate})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.Options(manager.Options{}).MetricLabels); diff != "" {
			t.Errorf("gates %q (-want +got):\n%s", gate, diff)
		}
	}
}
