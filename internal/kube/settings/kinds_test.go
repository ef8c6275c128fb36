package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
)

// TestModesOfKinds: what a file says of kinds of jobs, in all three ways in which it can.
func TestModesOfKinds(t *testing.T) {
	const aw, torch, jobs, ray = "workload.codeflare.dev/appwrapper", "kubeflow.org/pytorchjob", "batch/job", "ray.io/rayjob"
	without := func(names ...string) []string {
		return slices.DeleteFunc(known(), func(n string) bool { return slices.Contains(names, n) })
	}
	for name, tc := range map[string]struct {
		why, file       string
		queued, runs    []string // nil: all
		external, wrong string
	}{
		"nothing":            {why: "all that there are", file: "{}"},
		"some":               {why: "and AppWrappers, which nothing else would start", file: "{frameworks: [batch/job]}", queued: []string{jobs, aw}},
		"those of all kinds": {why: "naming all is naming none", file: "{frameworks: [" + strings.Join(without(aw), ", ") + "]}"},
		"unknown":            {why: "a name of Kueue's that mlbatch does not queue queues nothing", file: "{frameworks: [kubeflow.org/mxjob]}", queued: []string{"kubeflow.org/mxjob", aw}},
		"queued":             {why: "another operator runs them", file: "{modes: {kubeflow.org/pytorchjob: Queue}}", runs: without(torch)},
		"one besides":        {why: "a mode adds to the list", file: "{frameworks: [batch/job], modes: {kubeflow.org/pytorchjob: Queue}}", queued: []string{jobs, torch, aw}, runs: []string{jobs, aw}},
		"run besides":        {why: "likewise", file: "{frameworks: [batch/job], modes: {ray.io/rayjob: Run}}", queued: []string{jobs, ray, aw}},
		"ignored":            {why: "a mode takes from all", file: "{modes: {kubeflow.org/pytorchjob: Ignore}}", queued: without(torch)},
		"ignored of some":    {why: "it wins over the list", file: "{frameworks: [batch/job, kubeflow.org/pytorchjob], modes: {kubeflow.org/pytorchjob: Ignore}}", queued: []string{jobs, aw}},
		"external":           {why: "a controller of another has its own queueing of them", file: "{externalFrameworks: [PyTorchJob.v1.kubeflow.org]}", queued: without(torch), external: "PyTorchJob"},
		"external, in any version": {
			why: "it is the kind that counts", file: "{externalFrameworks: [PyTorchJob.v2.kubeflow.org]}", queued: without(torch), external: "PyTorchJob",
		},
		"external and listed": {
			why: "MLBatch's file lists AppWrappers so, and Kueue takes the list", file: "{frameworks: [kubeflow.org/pytorchjob], externalFrameworks: [PyTorchJob.v1.kubeflow.org, AppWrapper.v1beta2.workload.codeflare.dev]}",
			queued: []string{torch, aw}, external: "PyTorchJob",
		},
		"external and run": {
			why: "a mode is said of mlbatch", file: "{modes: {kubeflow.org/pytorchjob: Run}, externalFrameworks: [PyTorchJob.v1.kubeflow.org]}", external: "PyTorchJob",
		},
		"AppWrappers ignored": {why: "they would wait for ever", file: "{modes: {workload.codeflare.dev/appwrapper: Ignore}}", wrong: "nothing else than mlbatch starts them"},
		"Jobs left":           {why: "Kubernetes runs them anyway", file: "{modes: {batch/job: Queue}}", wrong: "use Run, which queues them, or Ignore"},
		"a bad mode":          {why: "modes have names", file: "{modes: {batch/job: Off}}", wrong: `supported values: "Run", "Queue", "Ignore"`},
		"a bad kind":          {why: "kinds have names", file: "{modes: {pytorchjob: Queue}}", wrong: `"kubeflow.org/pytorchjob"`},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Read(
				"f.yaml",
				[]byte("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nintegrations: "+tc.file),
			)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Resolve(f, Given{})
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("%s: %v", tc.why, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			o := s.Options(manager.Options{})
			slices.Sort(tc.queued)
			if diff := cmp.Diff(tc.queued, o.Frameworks); diff != "" {
				t.Errorf("%s: queued (-want +got):\n%s", tc.why, diff)
			}
			queued := o.Frameworks
			if queued == nil {
				queued = known()
			}
			runs := slices.DeleteFunc(
				slices.Clone(queued),
				func(n string) bool { return slices.Contains(o.Elsewhere, n) },
			)
			want := tc.runs
			if want == nil {
				want = queued
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, runs); diff != "" {
				t.Errorf("%s: run (-want +got):\n%s", tc.why, diff)
			}
			if external := len(o.External) > 0 && o.External[0].Kind == tc.external; external != (tc.external != "") {
				t.Errorf("%s: of others are %v", tc.why, o.External)
			}
		})
	}
}

// TestModesTyped: people type the kind as they know it.
func TestModesTyped(t *testing.T) {
	got, err := Modes(map[string]string{"PyTorchJob": "queue", "rayclusters": "Ignore", "batch/job": "RUN"})
	want := map[string]v1beta2.KindMode{
		"kubeflow.org/pytorchjob": v1beta2.QueueKind,
		"ray.io/raycluster":       v1beta2.IgnoreKind,
		"batch/job":               v1beta2.RunKind,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for typed, cure := range map[[2]string]string{
		{"pytorch", "queue"}:      "--kinds pytorch: there is no such kind: use one of batch/job, ",
		{"pytorchjob", "off"}:     "--kinds pytorchjob=off: must be run, queue or ignore",
		{"kubeflow.org", "queue"}: "there is no such kind",
		{"s", "queue"}:            "there is no such kind",
	} {
		if _, err := Modes(
			map[string]string{typed[0]: typed[1]},
		); err == nil ||
			!strings.Contains(err.Error(), cure) {
			t.Errorf("%v: %v", typed, err)
		}
	}
}
