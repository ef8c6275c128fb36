package trainjob_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
)

const plain = "template: {spec: {replicatedJobs: [NODE]}}"

// TestWords: sources and managers have the form that they are written in. What was so before stays,
// and what was written before is run.
func TestWords(t *testing.T) {
	k := trainjob.Kind()
	const both = "template: {spec: {replicatedJobs: [INITIALIZERS, NODE]}}"
	for _, part := range []string{"dataset", "model"} {
		for uri, fine := range map[string]bool{
			"hf://org/name": true, "s3://bucket/a b": true, "/mnt/data": true, "x": false, "hf:/x": false, "://x": false, "1a://x": false, "hf://": false, "": false, "../x": false,
		} {
			j := job(t, "suspend: true, initializer: {"+part+": {storageUri: '"+uri+"'}}", both)
			errs := k.Admission.Validate(j)
			if fine != (len(errs) == 0) ||
				!fine &&
					(errs[0].Field != "spec.initializer."+part+".storageUri" || !strings.Contains(errs[0].Error(), "SCHEME://PATH")) {
				t.Errorf("%s %s: %v", part, uri, errs)
			}
			if _, err := k.Read(j); err != nil {
				t.Errorf("%s %s: one that is there cannot be queued: %v", part, uri, err)
			}
			if fine != (len(k.Admission.ValidateChange(job(t, "suspend: true", both), j)) == 0) {
				t.Errorf("%s %s: it may become so: %t", part, uri, !fine)
			}
			also := job(
				t,
				"suspend: true, trainer: {numNodes: 3}, initializer: {"+part+": {storageUri: '"+uri+"'}}",
				both,
			)
			if errs := k.Admission.ValidateChange(
				job(t, "suspend: true, initializer: {"+part+": {storageUri: '"+uri+"'}}", both),
				also,
			); len(
				errs,
			) > 0 {
				t.Errorf("%s %s: what was so may not stay so: %v", part, uri, errs)
			}
		}
	}
	for manager, fine := range map[string]bool{"kueue.x-k8s.io/manager": true, "example.com/me": true, "me": false, "/me": false, "a.b/": false, "a b/c": false} {
		errs := k.Admission.Validate(job(t, "runtimePatches: [{manager: "+manager+"}]", plain))
		if fine != (len(errs) == 0) ||
			!fine &&
				(errs[0].Field != "spec.runtimePatches[0].manager" || !strings.Contains(errs[0].Error(), "DOMAIN/NAME")) {
			t.Errorf("%s: %v", manager, errs)
		}
	}
}

// TestRefused: errors name the field and the cure, and everybody refuses alike.
func TestRefused(t *testing.T) {
	cases := map[string]struct {
		why, spec, runtime string
		field, cure        string
	}{
		"NoName": {
			"nothing says how it is run",
			"runtimeRef: {name: ''}",
			"",
			"spec.runtimeRef.name",
			"name a TrainingRuntime",
		},
		"Group": {
			"it is another's",
			"runtimeRef: {name: r, apiGroup: batch}",
			"",
			"spec.runtimeRef.apiGroup",
			"trainer.kubeflow.org",
		},
		"Kind": {
			"it is none",
			"runtimeRef: {name: r, kind: JobSet}",
			"",
			"spec.runtimeRef.kind",
			"ClusterTrainingRuntime",
		},
		"Manager": {"nobody knows it", "managedBy: me", "", "spec.managedBy", "kueue.x-k8s.io/multikueue"},
		"Deadline": {
			"it would be over",
			"activeDeadlineSeconds: 0",
			"",
			"spec.activeDeadlineSeconds",
			"from 1",
		},
		"NoNodes": {"nothing would run", "trainer: {numNodes: 0}", "", "spec.trainer.numNodes", "from 1"},
		"ManyNodes": {
			"no cluster has so many",
			"trainer: {numNodes: 2000000}",
			"",
			"spec.trainer.numNodes",
			"1000000",
		},
		"Processes": {
			"nothing would run",
			"trainer: {numProcPerNode: 0}",
			"",
			"spec.trainer.numProcPerNode",
			"from 1",
		},
		"ProcessWord": {
			"torchrun knows no such word",
			"trainer: {numProcPerNode: many}",
			"",
			"spec.trainer.numProcPerNode",
			"auto, cpu or gpu",
		},
		"Patches": {
			"two of the same",
			"runtimePatches: [{manager: a.b/c}, {manager: a.b/c}]",
			"",
			"spec.runtimePatches[1].manager",
			"Duplicate",
		},
		"NoManager": {"whose is it", "runtimePatches: [{}]", "", "spec.runtimePatches[0].manager", "say who"},
		"Torchtune": {
			"nobody chooses its recipe",
			"trainer: {command: [tune, run], args: [dtype=bf16]}",
			"torch-distributed",
			"spec.trainer.command",
			"args: [full_finetune_distributed, --config, llama3_2/1B_full]",
		},
		"TorchtuneOf": {
			"of a runtime that is made for it",
			"trainer: {args: [dtype=bf16]}",
			"mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: i, command: [tune, run, output_dir=/w]}]}}}}}]}}",
			"spec.runtimeRef",
			"--config",
		},
		"Flux": {"it is not run", "", "mlPolicy: {flux: {}}, " + plain, "spec.runtimeRef", "use another"},
		"MPIWord": {
			"slots are a number",
			"trainer: {numProcPerNode: auto}",
			"mpi-distributed",
			"spec.trainer.numProcPerNode",
			"needs a number",
		},
		"MPIAlone": {
			"who would be the others",
			"trainer: {numNodes: 2}",
			"mlPolicy: {mpi: {runLauncherAsNode: true}}, " + plain,
			"spec.trainer.numNodes",
			"use 1",
		},
		"Few": {
			"fewer than the runtime needs",
			"trainer: {numNodes: 1}",
			"mlPolicy: {torch: {elasticPolicy: {minNodes: 2, maxNodes: 3}}}, " + plain,
			"spec.trainer.numNodes",
			"2 to 3",
		},
		"Many": {
			"more than it can",
			"trainer: {numNodes: 4}",
			"mlPolicy: {torch: {elasticPolicy: {minNodes: 2, maxNodes: 3}}}, " + plain,
			"spec.trainer.numNodes",
			"2 to 3",
		},
		"TorchEnv": {
			"the runtime sets it",
			"trainer: {env: [{name: A}, {name: PET_NNODES, value: '3'}]}",
			"torch-distributed",
			"spec.trainer.env[1].name",
			"PET_NNODES is set by the ClusterTrainingRuntime torch-distributed: remove it",
		},
		"JAXEnv": {
			"likewise",
			"trainer: {env: [{name: JAX_PROCESS_ID, value: '3'}]}",
			"jax-distributed",
			"spec.trainer.env[0].name",
			"remove it",
		},
		"XGBoostEnv": {
			"likewise",
			"trainer: {env: [{name: DMLC_TASK_ID, value: '3'}]}",
			"xgboost-distributed",
			"spec.trainer.env[0].name",
			"remove it",
		},
		"NoDataset": {
			"nothing would fetch it",
			"initializer: {dataset: {storageUri: 's3://x'}}",
			plain,
			"spec.initializer.dataset",
			"trainjob-ancestor-step: dataset-initializer",
		},
		"NoModel": {
			"likewise",
			"initializer: {model: {storageUri: 's3://x'}}",
			plain,
			"spec.initializer.model",
			"remove this field",
		},
		"NoTrainer": {
			"nothing trains",
			"trainer: {image: x}",
			"template: {spec: {replicatedJobs: [{name: work, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}]}}",
			"spec.trainer",
			"trainjob-ancestor-step: trainer",
		},
		"NoContainer": {
			"which is it",
			"trainer: {image: x}",
			"template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: a}, {name: b}]}}}}}]}}",
			"spec.trainer",
			"no container node in the replicated job node",
		},
		"Target": {
			"it is misspelt",
			"podTemplateOverrides: [{targetJobs: [{name: node}, {name: nod}]}]",
			plain,
			"spec.podTemplateOverrides[0].targetJobs[1].name",
			"use one of node",
		},
		"OldTarget": {
			"in the first generation",
			"podSpecOverrides: [{targetJobs: [{name: nod}]}]",
			plain,
			"spec.podSpecOverrides[0].targetJobs[0].name",
			"use one of node",
		},
		"NewTarget": {
			"in the third",
			"runtimePatches: [{manager: a.b/me, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: nod}]}}}}]",
			plain,
			"spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].name",
			"use one of node",
		},
		"Container": {
			"it is misspelt",
			"podTemplateOverrides: [{targetJobs: [{name: node}], spec: {containers: [{name: nod}]}}]",
			plain,
			"spec.podTemplateOverrides[0].spec.containers[0].name",
			"no such container in the replicated job node",
		},
		"Anywhere": {
			"no job has it",
			"podTemplateOverrides: [{spec: {initContainers: [{name: node}]}}]",
			plain,
			"spec.podTemplateOverrides[0].spec.initContainers[0].name",
			"no such container",
		},
		"OldContainer": {
			"in the first generation",
			"podSpecOverrides: [{targetJobs: [{name: node}], containers: [{name: nod}]}]",
			plain,
			"spec.podSpecOverrides[0].containers[0].name",
			"no such container",
		},
		"NodeEnv": {
			"there is another place for it",
			"podTemplateOverrides: [{targetJobs: [{name: node}], spec: {containers: [{name: node, env: [{name: A}]}]}}]",
			plain,
			"spec.podTemplateOverrides[0].spec.containers[0].env",
			"spec.trainer.env",
		},
		"DatasetEnv": {
			"likewise",
			"podTemplateOverrides: [{spec: {containers: [{name: dataset-initializer, env: [{name: A}]}]}}]",
			"template: {spec: {replicatedJobs: [INITIALIZERS, NODE]}}",
			"spec.podTemplateOverrides[0].spec.containers[0].env",
			"spec.initializer.dataset.env",
		},
		"Empty": {"nothing would run", "", "template: {}", "spec.runtimeRef", "no JobSet can be made"},
		"Order": {
			"what is wrong with the runtime's JobSet is told",
			"",
			"template: {spec: {replicatedJobs: [{name: node, dependsOn: [{name: other, status: Ready}], template: {spec: {template: {spec: {containers: [{name: c}]}}}}}]}}",
			"spec.runtimeRef",
			"dependsOn",
		},
		"NodeName": {
			"it goes around the scheduler",
			"",
			"template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {nodeName: n1, containers: [{name: c}]}}}}}]}}",
			"spec.runtimeRef",
			"nodeSelector",
		},
		"Finalizers": {
			"pods would stay",
			"",
			"template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {metadata: {finalizers: [a.b/c]}, spec: {containers: [{name: c}]}}}}}]}}",
			"spec.runtimeRef",
			"finalizers",
		},
		"NoIndexes": {
			"pods would not know who they are",
			"",
			"mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [{name: node, template: {spec: {completionMode: NonIndexed, template: {spec: {containers: [{name: c}]}}}}}]}}",
			"spec.runtimeRef",
			"Indexed",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := job(t, tc.spec, tc.runtime)
			found := false
			errs := trainjob.Kind().Admission.Validate(o)
			for _, e := range errs {
				found = found || e.Field == tc.field && strings.Contains(e.Error(), tc.cure)
			}
			if !found {
				t.Errorf("%s: got %v, want %s: %s", tc.why, errs, tc.field, tc.cure)
			}
			if _, err := trainjob.Kind().Running.Operator.Compile(
				o,
			); err == nil ||
				errors.Is(err, jobs.ErrIncomplete) {
				t.Errorf("%s: it compiled: %v", tc.why, err)
			}
			if _, err := trainjob.Kind().Read(o); err == nil || errors.Is(err, jobs.ErrIncomplete) {
				t.Errorf("%s: it could be queued: %v", tc.why, err)
			}
		})
	}
	for name, field := range map[string]string{strings.Repeat("a", 60): "metadata.name", "1a": "metadata.name", "a.b": "metadata.name"} {
		o := job(t, "", plain)
		o.Name = name
		if errs := trainjob.Kind().Admission.Validate(o); len(errs) == 0 || errs[0].Field != field {
			t.Errorf("the name %s: %v", name, errs)
		}
	}
	for why, args := range map[string]string{
		"its author has chosen":   "command: [tune, run, full_finetune_distributed], args: [--config, llama3_2/1B_full]",
		"in one word":             "command: [tune, run], args: [full_finetune_distributed, --config=own.yaml]",
		"it trains nothing":       "command: [tune, ls]",
		"that is another program": "command: [python], args: [tune, run]",
	} {
		if errs := trainjob.Kind().Admission.Validate(
			job(t, "trainer: {"+args+"}", "torch-distributed"),
		); len(
			errs,
		) > 0 {
			t.Errorf("torchtune, %s: %v", why, errs)
		}
	}
	for _, name := range []string{"", strings.Repeat("a", 45)} {
		o := job(t, "", plain)
		o.Name, o.GenerateName = name, map[bool]string{true: "train-"}[name == ""]
		if errs := trainjob.Kind().Admission.Validate(o); len(errs) > 0 {
			t.Errorf("the name %q: %v", name, errs)
		}
	}
}

// TestWithoutRuntime: nothing is known of a job whose runtime was not recorded, and that is no
// mistake of its author's.
func TestWithoutRuntime(t *testing.T) {
	o := job(t, "trainer: {numNodes: 2}", "")
	k := trainjob.Kind()
	if errs := k.Admission.Validate(o); len(errs) > 0 {
		t.Error(errs)
	}
	if _, err := k.Read(o); !errors.Is(err, jobs.ErrIncomplete) {
		t.Errorf("queued: %v", err)
	}
	if _, err := k.Running.Operator.Compile(o); !errors.Is(err, jobs.ErrIncomplete) {
		t.Errorf("compiled: %v", err)
	}
	if len(k.Queueing.Templates(o)) > 0 || !k.Queueing.Basis.Missing(o) {
		t.Error("it waits for its runtime")
	}
	if ref := k.Queueing.Basis.Of(
		o,
	); ref.Kind != "ClusterTrainingRuntime" || ref.Name != "r" || ref.At.String() != "spec.runtimeRef.name" ||
		k.Queueing.Basis.Kind(ref) == nil {
		t.Errorf("it names %+v", ref)
	}
	if ref := k.Queueing.Basis.Of(
		job(t, "runtimeRef: {name: x, kind: TrainingRuntime}", ""),
	); k.Queueing.Basis.Kind(ref) == nil ||
		!k.Queueing.Basis.Kind(ref).Namespaced {
		t.Errorf("it names %+v", ref)
	}
	o.Status.Conditions = []metav1.Condition{{Type: "Failed", Status: metav1.ConditionTrue}}
	if k.Queueing.Basis.Missing(o) {
		t.Error("a job that ended waits for nothing")
	}
	ended := job(t, "", plain)
	if k.Queueing.Basis.Missing(ended) {
		t.Error("a runtime is recorded once")
	}
}

// TestStoredRuntimes: what is stored of a runtime is what was recorded, and nothing else counts for it.
func TestStoredRuntimes(t *testing.T) {
	b := trainjob.Kind().Queueing.Basis
	before := job(t, "runtimeRef: {name: torch-distributed}, trainer: {numNodes: 2}", "torch-distributed")
	stored, ok := b.Stored(before).(*api.TrainJob)
	if !ok || stored.Status.Runtime != nil || b.Missing(stored) {
		t.Fatalf("it is stored as %+v", stored)
	}
	if diff := cmp.Diff(set(t, before, nil), set(t, stored, nil)); diff != "" {
		t.Errorf("it runs as another JobSet (-recorded +stored):\n%s", diff)
	}
	for name, change := range map[string]func(*api.TrainJob){
		"a copy that names another":         func(j *api.TrainJob) { j.Spec.RuntimeRef.Name = "other" },
		"one of its own namespace":          func(j *api.TrainJob) { j.Spec.RuntimeRef.Kind = new(api.TrainingRuntimeKind) },
		"what is no runtime":                func(j *api.TrainJob) { j.Annotations[b.Annotation] = "[]" },
		"nothing, under another definition": func(j *api.TrainJob) { delete(j.Annotations, b.Annotation) },
	} {
		o := stored.DeepCopy()
		change(o)
		if !b.Missing(o) {
			t.Errorf("%s: it is taken for its runtime", name)
		}
	}
}

// TestRecorded: a runtime is recorded as it is, with our scheduler where it names no other, and
// what becomes of it later does not matter.
func TestRecorded(t *testing.T) {
	k := trainjob.Kind()
	r := shipped(t)["torch-distributed"]
	r.UID, r.Generation = "x", 3
	o, ok := k.Queueing.Basis.With(job(t, "runtimeRef: {name: torch-distributed}", ""), r, jobs.Schedulers{Given: "ours"}).(*api.TrainJob)
	if !ok {
		t.Fatal("another kind")
	}
	if got := o.Status.Runtime; got.Name != "torch-distributed" || got.Kind != "ClusterTrainingRuntime" ||
		got.UID != "x" ||
		got.Generation != 3 {
		t.Errorf("%+v", got)
	}
	r.Spec.Template.Spec.ReplicatedJobs[0].Name = "changed"
	if s := set(
		t,
		o,
		nil,
	); s.Spec.ReplicatedJobs[0].Name != "node" ||
		s.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.SchedulerName != "ours" {
		t.Errorf("%v", shown(s))
	}
	if k.Queueing.Basis.With(o, &corev1.Pod{}, jobs.Schedulers{}) != jobs.Object(o) {
		t.Error("a Pod is no runtime")
	}
	if got := k.Queueing.Basis.Kinds[0].Templates(
		r,
	); len(got) != 1 ||
		got[0].Path != "spec.template.spec.replicatedJobs[0].template.spec.template" {
		t.Errorf("its pods are at %v", got)
	}
	if k.Queueing.Basis.Kinds[0].Templates(&corev1.Pod{}) != nil {
		t.Error("a Pod has no templates")
	}
}

// TestChanges: what may change, and when.
func TestChanges(t *testing.T) {
	selector := func(v string) string {
		return "trainer: {numNodes: 2}, podTemplateOverrides: [{targetJobs: [{name: node}], spec: {nodeSelector: {a: " + v + "}}}]"
	}
	running := func(o *api.TrainJob) {
		o.Status.JobsStatus = []api.JobStatus{{Name: "node", Active: 1}}
	}
	held := func(o *api.TrainJob) { o.Status.JobsStatus = []api.JobStatus{{Name: "node", Suspended: 1}} }
	cases := map[string]struct {
		why, was, is string
		state        func(*api.TrainJob)
		field        string
	}{
		"Same": {"nothing", selector("x"), selector("x"), running, ""},
		"Runtime": {
			"it was recorded",
			"runtimeRef: {name: r}",
			"runtimeRef: {name: s}",
			nil,
			"spec.runtimeRef",
		},
		"RuntimeKind": {
			"likewise",
			"runtimeRef: {name: r}",
			"runtimeRef: {name: r, kind: TrainingRuntime}",
			nil,
			"spec.runtimeRef",
		},
		"RuntimeWords": {
			"the default, said",
			"runtimeRef: {name: r}",
			"runtimeRef: {name: r, kind: ClusterTrainingRuntime, apiGroup: trainer.kubeflow.org}",
			nil,
			"",
		},
		"Manager": {
			"two controllers would each think that it is theirs",
			"",
			"managedBy: kueue.x-k8s.io/multikueue",
			nil,
			"spec.managedBy",
		},
		"Deadline": {
			"upstream forbids it",
			"activeDeadlineSeconds: 3",
			"activeDeadlineSeconds: 4",
			nil,
			"spec.activeDeadlineSeconds",
		},
		"Waiting": {
			"a job that waits may ask for other pods",
			"suspend: true, trainer: {numNodes: 2}",
			"suspend: true, trainer: {numNodes: 3}",
			nil,
			"",
		},
		"Running": {
			"one that runs is stopped and queued anew with another size",
			"trainer: {numNodes: 2}",
			"trainer: {numNodes: 3}",
			running,
			"",
		},
		"RunningUnsaid": {
			"also with the size of its runtime",
			"trainer: {numNodes: 2}",
			"trainer: {}",
			running,
			"",
		},
		"RunningElse": {
			"but cannot be anything else",
			"trainer: {numNodes: 2}",
			"trainer: {numNodes: 3, image: x}",
			running,
			"spec",
		},
		"Placed": {"nor go elsewhere", selector("x"), selector("z"), running, "spec"},
		"Held": {
			"one that is held may go elsewhere",
			"suspend: true, " + selector("x"),
			"suspend: true, " + selector("z"),
			held,
			"",
		},
		"Resumed": {
			"also while it is resumed",
			"suspend: true, " + selector("x"),
			"suspend: false, " + selector("z"),
			held,
			"",
		},
		"Stopped": {
			"and while it is stopped",
			"suspend: false, " + selector("x"),
			"suspend: true, " + selector("z"),
			held,
			"",
		},
		"HeldElse": {
			"and be something else: its JobSet is made anew",
			"suspend: true, trainer: {numNodes: 2}",
			"suspend: true, trainer: {numNodes: 3, image: x}",
			held,
			"",
		},
		"Wrong": {
			"a change is looked at like a new job",
			"suspend: true",
			"suspend: true, trainer: {numNodes: 0}",
			nil,
			"spec.trainer.numNodes",
		},
		"WrongForIt": {
			"with the runtime that it has",
			"suspend: true",
			"suspend: true, initializer: {dataset: {}}",
			nil,
			"spec.initializer.dataset",
		},
		"StillWrong": {
			"what was wrong before may still be labelled",
			"trainer: {numNodes: 0}",
			"trainer: {numNodes: 0}",
			nil,
			"",
		},
		"SuspendedOnly": {"stopping is no other change", "suspend: false", "suspend: true", running, ""},
	}
	for name, tc := range cases {
		was, is := job(t, tc.was, plain), job(t, tc.is, "")
		if tc.state != nil {
			tc.state(was)
		}
		errs := trainjob.Kind().Admission.ValidateChange(was, is)
		if (tc.field == "") != (len(errs) == 0) || len(errs) > 0 && errs[0].Field != tc.field {
			t.Errorf("%s: %s: %v", name, tc.why, errs)
		}
	}
}

// TestStanding: what a status says of pods that may be there.
func TestStanding(t *testing.T) {
	condition := func(kind string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Message: "m"}}
	}
	resumed := []metav1.Condition{{Type: "Suspended", Status: metav1.ConditionFalse}}
	cases := map[string]struct {
		why            string
		suspend        bool
		runtime        string
		status         api.TrainJobStatus
		active, ready  bool
		reclaimable    int32
		maker          core.MakerState
		ended, success bool
	}{
		"New":   {why: "nothing was made yet"},
		"Held":  {why: "and nothing will be", suspend: true, maker: core.MakerState{Stopped: true}},
		"Begun": {why: "pods may be there", status: api.TrainJobStatus{Conditions: resumed}, active: true},
		"Stopping": {
			why:     "they are not gone before that is noted",
			suspend: true,
			status:  api.TrainJobStatus{Conditions: resumed},
			active:  true,
		},
		"Stopped": {
			why:     "and here it is noted",
			suspend: true,
			status:  api.TrainJobStatus{Conditions: condition("Suspended")},
			maker:   core.MakerState{Stopped: true},
		},
		"Foreign": {
			why:    "another controller says no more than that",
			status: api.TrainJobStatus{JobsStatus: []api.JobStatus{{Name: "node", Active: 1, Ready: 1}}},
			active: true,
			ready:  true,
		},
		"Starting": {
			why:    "of a Job not all pods are ready",
			status: api.TrainJobStatus{JobsStatus: []api.JobStatus{{Name: "node", Active: 1}}},
			active: true,
		},
		"Some": {
			why:     "pods that succeeded come back no more",
			runtime: "template: {spec: {replicatedJobs: [INITIALIZERS, NODE]}}",
			status: api.TrainJobStatus{
				JobsStatus: []api.JobStatus{{Name: "dataset-initializer", Succeeded: 1}},
			},
			active:      true,
			reclaimable: 1,
		},
		"Again": {
			why:     "but where all may begin anew they do",
			runtime: "template: {spec: {failurePolicy: {maxRestarts: 1}, replicatedJobs: [INITIALIZERS, NODE]}}",
			status: api.TrainJobStatus{
				JobsStatus: []api.JobStatus{{Name: "dataset-initializer", Succeeded: 1}},
			},
			active: true,
		},
		"Complete": {
			why:     "",
			status:  api.TrainJobStatus{Conditions: condition("Complete")},
			ended:   true,
			success: true,
			maker:   core.MakerState{Ended: true},
		},
		"Failed": {
			why:    "",
			status: api.TrainJobStatus{Conditions: condition("Failed")},
			ended:  true,
			maker:  core.MakerState{Ended: true},
		},
	}
	for name, tc := range cases {
		runtime := tc.runtime
		if runtime == "" {
			runtime = plain
		}
		o := job(t, fmt.Sprintf("suspend: %v", tc.suspend), runtime)
		recorded := o.Status.Runtime
		o.Status = tc.status
		o.Status.Runtime = recorded
		f, err := trainjob.Kind().Read(o)
		if err != nil {
			t.Fatal(err)
		}
		n := int32(0)
		for _, r := range f.Reclaimable {
			n += r.Count
		}
		if f.Active != tc.active || f.Ready != tc.ready || n != tc.reclaimable || (f.Finished != nil) != tc.ended ||
			tc.ended && (f.Finished.Success != tc.success || f.Finished.Message != "m") {
			t.Errorf(
				"%s: %s: active %v, ready %v, reclaimable %d, finished %v",
				name,
				tc.why,
				f.Active,
				f.Ready,
				n,
				f.Finished,
			)
		}
		if got := trainjob.Kind().Maker(o); got != tc.maker {
			t.Errorf("%s: %s: maker %+v, want %+v", name, tc.why, got, tc.maker)
		}
	}
}

// TestStartAndStop: nothing but the one field changes, and what the admission gives is in the
// JobSet.
func TestStartAndStop(t *testing.T) {
	k := trainjob.Kind()
	o := job(
		t,
		"suspend: true, trainer: {numNodes: 2}",
		"template: {spec: {replicatedJobs: [INITIALIZERS, {name: node, template: {spec: {template: {metadata: {labels: {color: blue}}, spec: {containers: [{name: c}]}}}}}]}}",
	)
	before := o.DeepCopy()
	infos := []jobs.PodSetInfo{
		{Name: "dataset-initializer"},
		{Name: "model-initializer"},
		{
			Name:         "node",
			Labels:       map[string]string{"a": "b"},
			NodeSelector: map[string]string{"c": "d"},
			Tolerations:  []corev1.Toleration{{Key: "k"}},
		},
	}
	started, err := k.Start(o, infos)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, o); diff != "" {
		t.Errorf("it is a new value that is started:\n%s", diff)
	}
	if k.Queueing.Suspended(started) || !k.Queueing.Suspended(o) {
		t.Error("started is not suspended")
	}
	if again, err := k.Start(started, nil); err != nil || again != started {
		t.Errorf("a started job is started: %v", err)
	}
	stopped, err := k.Stop(started, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, stopped); diff != "" {
		t.Errorf("-before +stopped:\n%s", diff)
	}
	if again, err := k.Stop(stopped, nil); err != nil || again != stopped {
		t.Errorf("a stopped job is stopped: %v", err)
	}
	if _, err := k.Start(o, infos[1:]); err == nil {
		t.Error("an admission of other pod sets")
	}
	typed, _ := started.(*api.TrainJob)
	s := set(t, typed, jobs.Admitted{"node": infos[2]})
	if got := strings.Join(
		shown(s),
		"\n",
	); !strings.Contains(got, "node selector c=d") || !strings.Contains(got, "node tolerates k") || !strings.Contains(got, "node label a=b") ||
		strings.Contains(got, "initializer selector") {
		t.Errorf("what the admission gives is in the JobSet:\n%s", got)
	}
	if s.Spec.Suspend == nil || *s.Spec.Suspend || s.Name != "tj" {
		t.Errorf("it is made to run: %+v", s.Spec.Suspend)
	}
	infos[2].Labels = map[string]string{"color": "red"}
	if _, err := k.Start(
		o,
		infos,
	); err == nil ||
		!strings.Contains(err.Error(), `label color: the pod template says "blue"`) {
		t.Errorf("what cannot be injected is told before it has to be: %v", err)
	}
	plan, _ := k.Running.Operator.Compile(o)
	if _, err := plan.Make[0](
		podplan.Member{},
		&podplan.RetryState{},
		jobs.Admitted{"node": infos[2]},
	); err == nil {
		t.Error("it was made without what its admission gives")
	}
}

// TestKeep: a manifest that is applied again leaves the admission alone.
func TestKeep(t *testing.T) {
	kept, ok := trainjob.Kind().Admission.Keep(job(t, "suspend: false", plain), job(t, "suspend: true, trainer: {numNodes: 3}", ""), nil).(*api.TrainJob)
	if !ok || *kept.Spec.Suspend || *kept.Spec.Trainer.NumNodes != 3 {
		t.Errorf("kept %+v", kept.Spec)
	}
}

// TestPlan: one JobSet, which is held while the job is suspended, and goes at the deadline.
func TestPlan(t *testing.T) {
	p, err := trainjob.Kind().Running.Operator.Compile(job(t, "suspend: true, activeDeadlineSeconds: 60", plain))
	if err != nil {
		t.Fatal(err)
	}
	want := podplan.Plan{
		Suspended: true,
		Deadline:  time.Minute,
		CleanUp:   podplan.RemoveRunning,
		Success:   podplan.Success{{Roles: []string{"jobset"}}},
		Roles: []podplan.Role{
			{Name: "jobset", Count: 1, Member: "tj", Holds: true, Version: p.Roles[0].Version},
		},
	}
	for spec, same := range map[string]bool{
		"suspend: false": true, "podTemplateOverrides: [{spec: {nodeSelector: {a: b}}}]": true, "trainer: {image: x}": false, "trainer: {numNodes: 7}": false,
	} {
		other, err := trainjob.Kind().Running.Operator.Compile(job(t, spec, plain))
		if err != nil {
			t.Fatal(err)
		}
		if (other.Roles[0].Version == p.Roles[0].Version) != same {
			t.Errorf("%s: the JobSet that is held has to be made anew: %v, want %v", spec, same, !same)
		}
	}
	if diff := cmp.Diff(want, p.Plan); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	longest, err := trainjob.Kind().Running.Operator.Compile(
		job(t, "activeDeadlineSeconds: 9223372036854775807", plain),
	)
	if err != nil || longest.Deadline <= 0 {
		t.Errorf("%s, %v", longest.Deadline, err)
	}
	if endless, err := trainjob.Kind().Running.Operator.Compile(
		job(t, "", plain),
	); err != nil ||
		endless.Deadline != 0 {
		t.Errorf("it may run for %s, %v", endless.Deadline, err)
	}
	s := set(
		t,
		job(
			t,
			"",
			"template: {spec: {suspend: true, ttlSecondsAfterFinished: 0, managedBy: x, replicatedJobs: [NODE]}}",
		),
		nil,
	)
	if s.Spec.TTLSecondsAfterFinished != nil || s.Spec.ManagedBy != nil || *s.Spec.Suspend {
		t.Errorf("who runs it and when it goes is not the runtime's to say: %+v", s.Spec)
	}
}

// TestArtifacts: MPI has keys and a list of nodes, and nothing else has anything.
func TestArtifacts(t *testing.T) {
	k := trainjob.Kind()
	of := func(spec, runtime string) []jobs.Artifact {
		all, err := k.Running.Operator.Artifacts(job(t, spec, runtime), nil, &jobs.Progress{})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	hosts := func(spec, runtime string) string {
		all := of(spec, runtime)
		if len(all) != 2 || all[0].Fill == nil || all[0].Object.GetName() != "tj-mpi-ssh-auth" ||
			all[1].Object.GetName() != "tj-mpi-hostfile" {
			t.Fatalf("%+v", all)
		}
		files, _ := all[1].Object.(*corev1.ConfigMap)
		return files.Data["hostfile"]
	}
	if all := of("", "torch-distributed"); len(all) > 0 {
		t.Errorf("torch has %v", all)
	}
	if all := of("", ""); len(all) > 0 {
		t.Errorf("without a runtime there is %v", all)
	}
	for _, tc := range []struct{ why, spec, runtime, want string }{
		{"nodes and the launcher, which is one, in the runtime's order", "trainer: {numNodes: 3, numProcPerNode: 8}", "mpi-distributed", "tj-node-0-0.tj slots=8\ntj-node-0-1.tj slots=8\ntj-launcher-0-0.tj slots=8\n"},
		{"nodes alone", "trainer: {numNodes: 2}", "mlPolicy: {mpi: {}}, template: {spec: {replicatedJobs: [MPIJOBS]}}", "tj-node-0-0.tj slots=1\ntj-node-0-1.tj slots=1\n"},
		{"a slot for each GPU", "trainer: {numNodes: 1, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}", "mlPolicy: {mpi: {}}, template: {spec: {replicatedJobs: [MPIJOBS]}}", "tj-node-0-0.tj slots=4\n"},
		{"as Intel and MPICH read it", "trainer: {numNodes: 1, numProcPerNode: 2}", "mlPolicy: {mpi: {mpiImplementation: Intel}}, template: {spec: {network: {subdomain: net}, replicatedJobs: [MPIJOBS]}}", "tj-node-0-0.net:2\n"},
	} {
		if got := hosts(tc.spec, tc.runtime); got != tc.want {
			t.Errorf("%s: got\n%swant\n%s", tc.why, got, tc.want)
		}
	}
}

// TestInitializersRun: those that a runtime has and does not use unless a job asks for them.
func TestInitializersRun(t *testing.T) {
	const idle = `template: {spec: {replicatedJobs: [
  {name: data, replicas: 0, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}, spec: {template: {spec: {containers: [{name: dataset-initializer, image: i}]}}}}},
  {name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}]}}`
	for spec, want := range map[string]int32{"": 0, "initializer: {dataset: {storageUri: x}}": 1} {
		f, err := trainjob.Kind().Read(job(t, spec, idle))
		if err != nil || f.PodSets[0].Count != want {
			t.Errorf("with %q: %+v, %v", spec, f.PodSets, err)
		}
	}
}

// TestSecurityIsOverridden: each setting by itself.
func TestSecurityIsOverridden(t *testing.T) {
	const container = "capabilities: {add: [%[1]s]}, runAsUser: %[2]d, runAsGroup: %[2]d, runAsNonRoot: %[3]t, readOnlyRootFilesystem: %[3]t, allowPrivilegeEscalation: %[3]t, privileged: %[3]t, " +
		"procMount: %[1]s, seLinuxOptions: {level: %[1]s}, windowsOptions: {runAsUserName: %[1]s}, seccompProfile: {type: %[1]s}, appArmorProfile: {type: %[1]s}"
	const pod = "runAsUser: %[2]d, runAsGroup: %[2]d, runAsNonRoot: %[3]t, fsGroup: %[2]d, supplementalGroups: [%[2]d], sysctls: [{name: s, value: %[1]s}], fsGroupChangePolicy: %[1]s, " +
		"supplementalGroupsPolicy: %[1]s, seLinuxChangePolicy: %[1]s, seLinuxOptions: {level: %[1]s}, windowsOptions: {runAsUserName: %[1]s}, seccompProfile: {type: %[1]s}, appArmorProfile: {type: %[1]s}"
	spec := func(word string, n int, yes bool) string {
		return fmt.Sprintf(
			"securityContext: {"+pod+"}, containers: [{name: node, securityContext: {"+container+"}}]",
			word,
			n,
			yes,
		)
	}
	runtime := func(spec string) string {
		return "template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {" + spec + "}}}}}]}}"
	}
	read := func(overrides, runtime string) corev1.PodSpec {
		f, err := trainjob.Kind().Read(job(t, overrides, runtime))
		if err != nil {
			t.Fatal(err)
		}
		return f.PodSets[0].Template.Spec
	}
	got := read("podTemplateOverrides: [{spec: {"+spec("new", 2, true)+"}}]", runtime(spec("old", 1, false)))
	want := read("", runtime(spec("new", 2, true)))
	if diff := cmp.Diff(want.SecurityContext, got.SecurityContext); diff != "" {
		t.Errorf("of the pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Containers[0].SecurityContext, got.Containers[0].SecurityContext); diff != "" {
		t.Errorf("of the container (-want +got):\n%s", diff)
	}
	kept := read(
		"podTemplateOverrides: [{spec: {securityContext: {}, containers: [{name: node, securityContext: {}}]}}]",
		runtime(spec("new", 2, true)),
	)
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("what is not said stays (-want +got):\n%s", diff)
	}
}

// TestStatus: conditions and counts follow from the JobSet.
func TestStatus(t *testing.T) {
	now := time.Unix(100, 0)
	made := func(conditions ...metav1.Condition) *jobset.JobSet {
		return &jobset.JobSet{
			Status: jobset.JobSetStatus{
				Conditions: conditions,
				ReplicatedJobsStatus: []jobset.ReplicatedJobStatus{
					{Name: "node", Ready: 1, Succeeded: 2, Failed: 3, Active: 4, Suspended: 5},
				},
			},
		}
	}
	counts := []api.JobStatus{{Name: "node", Ready: 1, Succeeded: 2, Failed: 3, Active: 4, Suspended: 5}}
	is := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{
			Type:               kind,
			Status:             metav1.ConditionTrue,
			Reason:             reason,
			Message:            message,
			LastTransitionTime: metav1.NewTime(now),
		}
	}
	resumed := is("Suspended", "Resumed", "the TrainJob was resumed")
	resumed.Status = metav1.ConditionFalse
	cases := map[string]struct {
		why, spec string
		was       api.TrainJobStatus
		progress  jobs.Progress
		child     *jobset.JobSet
		want      []metav1.Condition
		counts    []api.JobStatus
	}{
		"New":     {why: "nothing to say"},
		"Running": {why: "counts are the JobSet's", child: made(), counts: counts},
		"Suspended": {
			why:      "once nothing runs",
			spec:     "suspend: true",
			progress: jobs.Progress{Suspended: true},
			child:    made(),
			want:     []metav1.Condition{is("Suspended", "Suspended", "the TrainJob is suspended")},
			counts:   counts,
		},
		"StillSuspended": {
			why:      "what is said already stays where it is",
			spec:     "suspend: true",
			progress: jobs.Progress{Suspended: true},
			was: api.TrainJobStatus{
				Conditions: []metav1.Condition{
					is("Suspended", "Suspended", "the TrainJob is suspended"),
					is("Theirs", "Theirs", ""),
				},
			},
			want: []metav1.Condition{
				is("Suspended", "Suspended", "the TrainJob is suspended"),
				is("Theirs", "Theirs", ""),
			},
		},
		"Stopping": {why: "not before", spec: "suspend: true", child: made(), counts: counts},
		"Resumed": {
			why: "one that was suspended",
			was: api.TrainJobStatus{
				Conditions: []metav1.Condition{is("Suspended", "Suspended", "the TrainJob is suspended")},
			},
			child:  made(),
			want:   []metav1.Condition{resumed},
			counts: counts,
		},
		"Complete": {
			why:      "in the words of the JobSet, and last",
			progress: jobs.Progress{RetryState: podplan.RetryState{Outcome: podplan.JobSucceeded}},
			was:      api.TrainJobStatus{Conditions: []metav1.Condition{resumed}},
			child: made(
				is("Completed", "AllJobsCompleted", "jobset completed successfully"),
			),
			want:   []metav1.Condition{resumed, is("Complete", "AllJobsCompleted", "jobset completed successfully")},
			counts: counts,
		},
		"CompleteAlone": {
			why:      "or in ours if it is gone",
			progress: jobs.Progress{RetryState: podplan.RetryState{Outcome: podplan.JobSucceeded}},
			want:     []metav1.Condition{is("Complete", "AllJobsCompleted", "the training is complete")},
		},
		"Failed": {
			why: "likewise",
			progress: jobs.Progress{
				RetryState: podplan.RetryState{
					Outcome: podplan.JobFailed,
					Reason:  podplan.MemberFailed,
					Message: "tj failed",
				},
			},
			child: made(
				is("Failed", "ReachedMaxRestarts", "too often"),
			),
			want:   []metav1.Condition{is("Failed", "ReachedMaxRestarts", "too often")},
			counts: counts,
		},
		"FailedAlone": {
			why: "",
			progress: jobs.Progress{
				RetryState: podplan.RetryState{
					Outcome: podplan.JobFailed,
					Reason:  podplan.MemberFailed,
					Message: "tj failed",
				},
			},
			want: []metav1.Condition{is("Failed", "FailedJobs", "tj failed")},
		},
		"Late": {
			why: "the JobSet was removed, and nothing of it runs",
			progress: jobs.Progress{
				RetryState: podplan.RetryState{
					Outcome: podplan.JobFailed,
					Reason:  podplan.DeadlineExceeded,
					Message: "it ran longer than 1m",
				},
			},
			was: api.TrainJobStatus{
				JobsStatus: counts,
			},
			want:   []metav1.Condition{is("Failed", "DeadlineExceeded", "it ran longer than 1m")},
			counts: []api.JobStatus{{Name: "node", Succeeded: 2, Failed: 3, Suspended: 5}},
		},
		"Ended": {
			why:      "what a finished job says stays",
			progress: jobs.Progress{RetryState: podplan.RetryState{Outcome: podplan.JobFailed, Message: "else"}},
			was: api.TrainJobStatus{
				Conditions: []metav1.Condition{is("Complete", "AllJobsCompleted", "m")},
			},
			child:  made(),
			want:   []metav1.Condition{is("Complete", "AllJobsCompleted", "m")},
			counts: counts,
		},
	}
	for name, tc := range cases {
		o := job(t, tc.spec, plain)
		tc.was.Runtime = o.Status.Runtime
		o.Status = *tc.was.DeepCopy()
		tc.progress.Now = now
		if tc.child != nil {
			tc.progress.Children = []jobs.Object{tc.child}
		}
		before := o.DeepCopy()
		got, _ := trainjob.Kind().Running.Operator.Project(o, nil, &tc.progress).(*api.TrainJob)
		if diff := cmp.Diff(before, o); diff != "" {
			t.Fatalf("%s: it was changed:\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.want, got.Status.Conditions); diff != "" {
			t.Errorf("%s: %s: conditions (-want +got):\n%s", name, tc.why, diff)
		}
		if diff := cmp.Diff(tc.counts, got.Status.JobsStatus); diff != "" {
			t.Errorf("%s: %s: counts (-want +got):\n%s", name, tc.why, diff)
		}
		if got.Status.Runtime == nil {
			t.Errorf("%s: the runtime was lost", name)
		}
		again, _ := trainjob.Kind().Running.Operator.Project(got, nil, &tc.progress).(*api.TrainJob)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("%s: it says something else when it is asked again:\n%s", name, diff)
		}
	}
}

// TestTemplates: the webhook sees the pods that come of a job.
func TestTemplates(t *testing.T) {
	all := trainjob.Kind().Queueing.Templates(
		job(
			t,
			"podTemplateOverrides: [{spec: {terminationGracePeriodSeconds: 7}}]",
			"template: {spec: {replicatedJobs: [INITIALIZERS, NODE]}}",
		),
	)
	if len(all) != 3 || all[2].Path != "spec.runtimeRef(r).node" ||
		*all[2].Template.Spec.TerminationGracePeriodSeconds != 7 {
		t.Errorf("%+v", all)
	}
}

// TestStrangers: objects of other kinds are refused and never a panic.
func TestStrangers(t *testing.T) {
	k, pod := trainjob.Kind(), &corev1.Pod{}
	if _, err := k.Read(pod); err == nil {
		t.Error("read a pod")
	}
	if _, err := k.Start(pod, nil); err == nil {
		t.Error("started a pod")
	}
	if _, err := k.Stop(pod, nil); err == nil {
		t.Error("stopped a pod")
	}
	if _, err := k.Running.Operator.Compile(pod); err == nil {
		t.Error("compiled a pod")
	}
	if k.Ours(pod) || k.Maker(pod) != (core.MakerState{}) ||
		k.Running.Operator.Project(pod, nil, &jobs.Progress{}) != jobs.Object(pod) ||
		k.Queueing.Basis.With(pod, pod, jobs.Schedulers{}) != jobs.Object(pod) {
		t.Error("a pod is ours")
	}
	for manager, want := range map[string]bool{"trainer.kubeflow.org/trainjob-controller": true, "kueue.x-k8s.io/multikueue": false} {
		if got := k.Ours(job(t, "managedBy: "+manager, "")); got != want {
			t.Errorf("%s: ours is %v", manager, got)
		}
	}
	if !k.Ours(job(t, "", "")) {
		t.Error("a job that names no manager is ours")
	}
}
