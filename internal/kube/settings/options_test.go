package settings

import (
	"slices"
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
	const kept = 5 * time.Minute
	kueues := workloadlifecycle.PodsReady{
		Timeout:         30 * time.Minute,
		RecoveryTimeout: 30 * time.Minute,
		BackoffBase:     time.Minute,
		BackoffMax:      time.Hour,
	}
	cases := map[string]struct {
		why, file string
		want      workloadlifecycle.Config
	}{
		"no file": {
			"the default is one, with a file and without: no quota is held for ever without a process",
			"",
			workloadlifecycle.Config{PodsReady: &kueues, KeepNodes: kept, MaxStopNotice: time.Minute},
		},
		"empty file": {
			"a user who brings Kueue's file gets Kueue's default",
			head,
			workloadlifecycle.Config{PodsReady: &kueues, KeepNodes: kept, MaxStopNotice: time.Minute},
		},
		"explicit": {
			"a gate",
			head + "featureGates: {DisableWaitForPodsReady: true, UnadmittedWorkloadsExplicitStatus: true}\n",
			workloadlifecycle.Config{KeepNodes: kept, MaxStopNotice: time.Minute, Explicit: true},
		},
		"gate": {
			"Kueue's way out",
			head + "featureGates: {DisableWaitForPodsReady: true}\n",
			workloadlifecycle.Config{KeepNodes: kept, MaxStopNotice: time.Minute},
		},
		"all": {
			"every field counts",
			head + `waitForPodsReady: {timeout: 1h, recoveryTimeout: 0s, requeuingStrategy: {backoffLimitCount: 3, backoffBaseSeconds: 1, backoffMaxSeconds: 2}}
objectRetentionPolicies: {workloads: {afterFinished: 0s, afterDeactivatedByKueue: 1h}}
recovery: {keepNodes: 1m, maxStopNotice: 10s}
`,
			workloadlifecycle.Config{
				KeepNodes: time.Minute, MaxStopNotice: 10 * time.Second,
				PodsReady: &workloadlifecycle.PodsReady{
					Timeout:      time.Hour,
					BackoffLimit: new(int32(3)),
					BackoffBase:  time.Second,
					BackoffMax:   2 * time.Second,
				},
				Retention: workloadlifecycle.Retention{
					AfterFinished:    new(time.Duration(0)),
					AfterDeactivated: new(time.Hour),
				},
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

// Who makes the certificates, and where they are, by what a file says.
func TestCertificates(t *testing.T) {
	const head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
	cases := map[string]struct {
		why, file   string
		dir, secret string
		host        string
	}{
		"no file": {
			"nothing has to be set up",
			"",
			"",
			"mlbatch-system/mlbatch-webhook-server-cert",
			"mlbatch-visibility.mlbatch-system.svc",
		},
		"kueue's": {
			"its names are taken",
			head + "namespace: kueue-system\ninternalCertManagement: {enable: true, webhookServiceName: a, webhookSecretName: b}\n",
			"",
			"kueue-system/b",
			"a.kueue-system.svc",
		},
		"service": {
			"its default is asked for, too",
			head + "internalCertManagement: {webhookServiceName: a}\n",
			"",
			"mlbatch-system/mlbatch-webhook-server-cert",
			"mlbatch-webhook-service.mlbatch-system.svc",
		},
		"off": {
			"as in Kueue there are files",
			head + "internalCertManagement: {enable: false}\n",
			"/tmp/k8s-webhook-server/serving-certs",
			"",
			"",
		},
		"files": {"who names files has some", head + "webhook: {certDir: /certs}\n", "/certs", "", ""},
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
			opts := s.Options(manager.Options{})
			if opts.WebhookCertDir != c.dir || (opts.Certs == nil) != (c.secret == "") {
				t.Fatalf("%s: read from %q and kept in %+v", c.why, opts.WebhookCertDir, opts.Certs)
			}
			if k := opts.Certs; k != nil && (k.Secret.String() != c.secret || !slices.Contains(k.Hosts, c.host)) {
				t.Errorf("%s: kept in %s for %v", c.why, k.Secret, k.Hosts)
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
	budget := metrics.CustomLabel{
		Name:       "budget",
		From:       metrics.SourceWorkload,
		Annotation: "example.com/budget",
		Tracked:    []string{"a", "b"},
	}
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
