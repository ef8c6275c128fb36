package settings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
)

// TestFiles runs the transcripts in testdata: each reads a file and shows what
// is wrong with it, or what it comes to. The arguments are flags.
func TestFiles(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(_ *testing.T, td *datadriven.TestData) string {
			return transcript(td)
		})
	})
}

func transcript(td *datadriven.TestData) string {
	f, err := Read("f.yaml", []byte(td.Input))
	if err != nil {
		return err.Error() + "\n"
	}
	given := Given{}
	for _, a := range td.CmdArgs {
		switch a.Key {
		case "gates":
			given.FeatureGates = strings.Join(a.Vals, "")
		case "port":
			given.Set = func(c *v1beta2.Configuration) { c.Webhook.Port = new(7) }
		}
	}
	s, err := Resolve(f, given)
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, n := range s.Notices {
		fmt.Fprintf(&b, "note, line %d: %s\n", n.Line, n)
	}
	if td.Cmd == "show" {
		out, err := yaml.Marshal(s.Configuration)
		if err != nil {
			return err.Error()
		}
		b.Write(out)
	} else {
		b.WriteString("ok\n")
	}
	return b.String()
}

// again reads and resolves a file and prints what it comes to.
func again(data []byte) ([]byte, error) {
	f, err := Read("f.yaml", data)
	if err != nil {
		return nil, err
	}
	s, err := Resolve(f, Given{})
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(s.Configuration)
}

func TestWhatIsPrintedComesToItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, err := again(anyFile(t))
		if err != nil {
			t.Fatal(err)
		}
		second, err := again(first)
		if err != nil {
			t.Fatalf("what was printed is not accepted: %v\n%s", err, first)
		}
		if diff := cmp.Diff(string(first), string(second)); diff != "" {
			t.Errorf("resolved again (-first +second):\n%s", diff)
		}
	})
}

// anyFile draws a valid file with some of the fields of each section.
func anyFile(t *rapid.T) []byte {
	lines := []string{"apiVersion: config.kueue.x-k8s.io/v1beta2", "kind: Configuration"}
	for _, s := range []string{
		"namespace: kueue-system",
		"manageJobsWithoutQueueName: true",
		"managedJobsNamespaceSelector:\n  matchLabels: {mlbatch-team-namespace: \"true\"}",
		"webhook: {port: 9444, host: 127.0.0.1, certDir: /certs}",
		"metrics:\n  bindAddress: \"0\"\n  enableClusterQueueResources: true\n  localQueueMetrics: {enable: false, localQueueSelector: {matchLabels: {a: b}}}",
		"health: {healthProbeBindAddress: \":1\", readinessEndpointName: ready, livenessEndpointName: alive}",
		"leaderElection: {leaderElect: false, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 1s, resourceName: x, resourceNamespace: y}",
		"controller: {cacheSyncTimeout: 60000000000, groupKindConcurrency: {Job.batch: 3}}",
		"tls: {minVersion: VersionTLS12, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256], curvePreferences: [X25519, 23]}",
		"waitForPodsReady: {timeout: 1h, blockAdmission: true, recoveryTimeout: 0s, requeuingStrategy: {timestamp: Creation, backoffLimitCount: 0, backoffBaseSeconds: 1, backoffMaxSeconds: 2}}",
		"clientConnection: {qps: 0.5, burst: 3}",
		"integrations: {frameworks: [batch/job, pod], externalFrameworks: [Foo.v1.example.com], labelKeysToCopy: [a/b], writePodGroups: true}",
		"fairSharing: {preemptionStrategies: [LessThanInitialShare]}",
		"admissionFairSharing: {usageHalfLifeTime: 0s, usageSamplingInterval: 1s, resourceWeights: {cpu: 0.5, memory: 0}}",
		"resources:\n  excludeResourcePrefixes: [a.b/]\n  transformations:\n  - {input: a/b, strategy: Replace, multiplyBy: pods, outputs: {cpu: 100m, memory: 5Gi}}\n  - input: c",
		"objectRetentionPolicies: {workloads: {afterFinished: 0s, afterDeactivatedByKueue: 1h30m}}",
		"visibilityServer: {bindAddress: 127.0.0.1, bindPort: 8083}",
		"featureGates: {DisableWaitForPodsReady: true, VectorizedResourceRequests: false}",
	} {
		name, _, _ := strings.Cut(s, ":")
		if rapid.Bool().Draw(t, name) {
			lines = append(lines, s)
		}
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func TestGatesAreKnownOnce(t *testing.T) {
	all := gates()
	if len(all) != 80 {
		t.Errorf("there are %d gates, want Kueue's 80", len(all))
	}
	names := map[string]gate{}
	for _, g := range all {
		if _, twice := names[g.name]; twice {
			t.Errorf("%s is listed twice", g.name)
		}
		names[g.name] = g
	}
	for _, g := range all {
		switch parent, known := names[g.needs]; {
		case g.needs != "" && !known:
			t.Errorf("%s needs %s, which there is not", g.name, g.needs)
		case g.on && g.needs != "" && !parent.on:
			t.Errorf("%s is on and %s, which it needs, is off", g.name, g.needs)
		case g.offer == absent && g.on, g.offer == always && !g.on:
			t.Errorf("%s defaults to what is not offered", g.name)
		case (g.why == "") != (g.offer == choice):
			t.Errorf("%s must say why a value is not offered, and only then", g.name)
		}
	}
	for name := range retiredGates() {
		if _, known := names[name]; known {
			t.Errorf("%s is both retired and not", name)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nnamespace: a\n"))
	f.Add(
		[]byte(
			"apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nfairSharing: {enable: true}\nwaitForPodsReady: {enable: false}\n",
		),
	)
	f.Add(
		[]byte(
			`{"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "tls": {"curvePreferences": [1, "X25519"]}}`,
		),
	)
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("- 1\n---\n- 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := again(data)
		if err != nil {
			return
		}
		second, err := again(first)
		if err != nil {
			t.Fatalf("what was printed is not accepted: %v\n%s", err, first)
		}
		if string(first) != string(second) {
			t.Errorf("resolved again it differs:\n%s\n%s", first, second)
		}
	})
}
