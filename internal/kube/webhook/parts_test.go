package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
	"github.com/mlbatch/mlbatch/test/toy"
)

// What an AppWrapper made keeps the pods that the AppWrapper was admitted with.
func TestPartsKeepTheirPods(t *testing.T) {
	const owned = ", ownerReferences: [{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, name: w, uid: u, controller: true}]"
	trainer := func(owner string, workers int, image, more string) string {
		return fmt.Sprintf(
			`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a, namespace: blue%s}, spec: {%spytorchReplicaSpecs: {Worker: {replicas: %d, template: {spec: {containers: [{name: pytorch, image: %s}]}}}}}}`,
			owner,
			more,
			workers,
			image,
		)
	}
	job := func(owner string, pods int) string {
		return fmt.Sprintf(
			`{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: blue%s}, spec: {parallelism: %d, completions: 100, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`,
			owner,
			pods,
		)
	}
	const trainers, batch = "/validate-kubeflow-org-v1-pytorchjob", "/validate-batch-v1-job"
	cases := map[string]struct {
		why, path, was, is string
		refused            bool
	}{
		"more": {
			"they would be counted by nobody",
			trainers,
			trainer(owned, 2, "i", ""),
			trainer(owned, 3, "i", ""),
			true,
		},
		"other": {
			"nor would others",
			trainers,
			trainer(owned, 2, "i", ""),
			trainer(owned, 2, "j", ""),
			true,
		},
		"unread": {
			"what cannot be counted is no less",
			trainers,
			trainer(owned, 2, "i", ""),
			trainer(owned, -2, "i", ""),
			true,
		},
		"let go": {
			"it is not a way out either",
			trainers,
			trainer(owned, 2, "i", ""),
			trainer("", 3, "i", ""),
			true,
		},
		"policy": {
			"how long it is kept is not about pods",
			trainers,
			trainer(owned, 2, "i", ""),
			trainer(owned, 2, "i", "runPolicy: {ttlSecondsAfterFinished: 9}, "),
			false,
		},
		"its own": {
			"it is queued by itself, with the pods that it has",
			trainers,
			trainer("", 2, "i", ""),
			trainer("", 3, "i", ""),
			false,
		},
		"another's": {
			"which is not queued as a whole",
			trainers,
			trainer(strings.Replace(owned, "kind: AppWrapper", "kind: Experiment", 1), 2, "i", ""),
			trainer(owned, 3, "i", ""),
			false,
		},
		"a Job":           {"of every kind", batch, job(owned, 2), job(owned, 3), true},
		"a Job of no one": {"as before", batch, job("", 2), job("", 3), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil, world()...), ask{user: "alice", path: tc.path, old: tc.was, new: tc.is})
			if r.Allowed == tc.refused || tc.refused && !strings.Contains(r.Message, "it is a part of AppWrapper w") {
				t.Errorf("%s: allowed is %v: %s", tc.why, r.Allowed, r.Message)
			}
		})
	}
}

// A Job that says that it is one of those that a job is made of would run with what was given to
// that job, whatever it asks for: only controllers are believed.
func TestNobodyAdoptsHimself(t *testing.T) {
	const owned = ", ownerReferences: [{apiVersion: toys.example.com/v1, kind: Toy, name: w, uid: u, controller: true}]"
	job := func(owner, more string) string {
		return fmt.Sprintf(
			`{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: blue%s}, spec: {parallelism: 9, completions: 9, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}%s}`,
			owner,
			more,
		)
	}
	const controller = "system:serviceaccount:toys-system:toy-operator"
	cases := map[string]struct {
		why, user, was, is string
		refused            bool
	}{
		"new":   {"it would be released with the others", "alice", "", job(owned, ""), true},
		"later": {"nor does it become one", "alice", job("", ""), job(owned, ""), true},
		"still": {
			"who may label it may go on doing so",
			"alice",
			job(owned, ""),
			job(owned+", labels: {a: b}", ""),
			false,
		},
		"a team's robot": {
			"its account is in a namespace of tenants",
			"system:serviceaccount:blue:robot",
			"",
			job(owned, ""),
			true,
		},
		"an operator": {"where another controller runs such jobs", controller, "", job(owned, ""), false},
		"of pods alone": {
			"a kind without such members has no Jobs",
			"alice",
			"",
			job(strings.NewReplacer("toys.example.com/v1", "kubeflow.org/v1", "Toy", "PyTorchJob").Replace(owned), ""),
			false,
		},
		"owned, not led": {
			"an owner that does not control it says nothing",
			"alice",
			"",
			job(strings.Replace(owned, "controller: true", "controller: false", 1), ""),
			false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			handlers := serveWith(t, webhook.Options{Kinds: append(kinds.All(), toy.Kind())}, nil, nil, world()...)
			a := ask{user: tc.user, path: "/validate-batch-v1-job", new: tc.is}
			if tc.was != "" {
				a.old = tc.was
			}
			r := send(t, handlers, a)
			if r.Allowed == tc.refused ||
				tc.refused && !strings.Contains(r.Message, "only the controller of Toy w makes what belongs to it") {
				t.Errorf("%s: allowed is %v: %s", tc.why, r.Allowed, r.Message)
			}
		})
	}
}
