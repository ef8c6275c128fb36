package demo

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// TestExamplesAreRead: each file ends with a job, which is in a queue.
func TestExamplesAreRead(t *testing.T) {
	for _, c := range Collections() {
		all, err := c.read()
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: %d examples, %v", c.Name, len(all), err)
		}
		names := map[string]bool{}
		for _, e := range all {
			labels := e.job.GetLabels()
			if e.job.GetKind() == "CronJob" { // its Jobs are
				labels, _, _ = unstructured.NestedStringMap(e.job.Object, "spec", "jobTemplate", "metadata", "labels")
			}
			if labels["kueue.x-k8s.io/queue-name"] != "default-queue" {
				t.Errorf("%s is in no queue: %v", e.file, labels)
			}
			if id := e.job.GetKind() + e.job.GetName(); names[id] {
				t.Errorf("two examples are %s", id)
			} else {
				names[id] = true
			}
			if p, err := progressOf(kinds.All(), e.job); err != nil || p.ended || p.failed != "" {
				t.Errorf("%s, just written, is %+v, %v", e.file, p, err)
			}
		}
	}
}

// TestProgress: a line says how far a job of any kind is.
func TestProgress(t *testing.T) {
	cases := map[string]struct {
		why, object string
		want        progress
	}{
		"waits": {
			"a Job that is suspended",
			`{apiVersion: batch/v1, kind: Job, spec: {suspend: true, parallelism: 3}}`,
			progress{pods: 3},
		},
		"runs": {
			"all of its pods are ready",
			`{apiVersion: batch/v1, kind: Job, spec: {parallelism: 2}, status: {active: 2, ready: 2}}`,
			progress{pods: 2, admitted: true, running: true},
		},
		"ended": {
			"however short it ran",
			`{apiVersion: batch/v1, kind: Job, spec: {parallelism: 1}, status: {conditions: [{type: Complete, status: "True"}]}}`,
			progress{pods: 1, admitted: true, running: true, ended: true},
		},
		"failed": {
			"and why",
			`{apiVersion: batch/v1, kind: Job, spec: {parallelism: 1}, status: {conditions: [{type: Failed, status: "True", message: too late}]}}`,
			progress{pods: 1, admitted: true, failed: "too late"},
		},
		"an older version": {
			"its kind is the same",
			`{apiVersion: kubeflow.org/v1, kind: MPIJob, spec: {runPolicy: {suspend: true}, mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: c, image: i}]}}}, Worker: {replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}}}}`,
			progress{pods: 3},
		},
		"held pod": {
			"behind its gate",
			`{apiVersion: v1, kind: Pod, spec: {schedulingGates: [{name: g}]}, status: {phase: Pending}}`,
			progress{pods: 1},
		},
		"failed pod": {
			"nobody makes it anew",
			`{apiVersion: v1, kind: Pod, status: {phase: Failed}}`,
			progress{pods: 1, admitted: true, failed: "its pod failed"},
		},
		"serves": {
			"that is what it is for",
			`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2}, status: {readyReplicas: 2}}`,
			progress{pods: 2, admitted: true, running: true, ended: true, endless: true},
		},
		"half serves": {
			"not all are ready",
			`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2}, status: {readyReplicas: 1}}`,
			progress{pods: 2, endless: true},
		},
		"by the clock": {
			"its first Job has ended",
			`{apiVersion: batch/v1, kind: CronJob, status: {lastSuccessfulTime: "2026-01-01T00:00:00Z"}}`,
			progress{pods: 1, admitted: true, running: true, ended: true},
		},
	}
	for name, tc := range cases {
		o := &unstructured.Unstructured{}
		text, err := yaml.YAMLToJSON([]byte(tc.object))
		if err == nil {
			err = o.UnmarshalJSON(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := progressOf(kinds.All(), o); err != nil || got != tc.want {
			t.Errorf("%s: %s: %+v, %v", name, tc.why, got, err)
		}
	}
}
