package trainjob_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	jobsetkind "github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
)

var words = strings.NewReplacer("NODE", node, "INITIALIZERS", initializers, "MPIJOBS", mpi)

// FuzzTrainJobs: whatever decodes is compiled or refused, by everybody who is asked alike, and
// nobody panics or changes it.
func FuzzTrainJobs(f *testing.F) {
	for _, spec := range []string{"trainer: {numNodes: 3, env: [{name: A}]}", "suspend: true, initializer: {dataset: {storageUri: x}}, podTemplateOverrides: [{spec: {containers: [{name: node}]}}]", "runtimePatches: [{}, {manager: a, trainingRuntimeSpec: {}}]"} {
		for _, runtime := range []string{"mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [NODE]}}", "mlPolicy: {mpi: {}}, template: {spec: {replicatedJobs: [MPIJOBS]}}", "mlPolicy: {jax: {}, xgboost: {}}, template: {spec: {replicatedJobs: [INITIALIZERS, {name: node}]}}"} {
			f.Add(spec, words.Replace(runtime))
		}
	}
	f.Fuzz(func(t *testing.T, spec, runtime string) { judge(t, spec, runtime) })
}

// TestTrainJobs puts jobs and runtimes together at random of what may be in one.
func TestTrainJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.Bool().Draw(t, "odd") // half of all are put together of what is right by itself
		part := func(what string, right []string, wrong ...string) string {
			if odd {
				right = append(right, wrong...)
			}
			return rapid.SampledFrom(right).Draw(t, what)
		}
		runtime := part(
			"policy",
			[]string{
				"",
				"mlPolicy: {numNodes: 2}, ",
				"mlPolicy: {numNodes: 3, torch: {}}, ",
				"mlPolicy: {torch: {elasticPolicy: {minNodes: 1, maxNodes: 4, maxRestarts: 2}}}, ",
				"mlPolicy: {jax: {}}, ",
				"mlPolicy: {xgboost: {}}, ",
			},
			"mlPolicy: {flux: {}}, ",
			"mlPolicy: {numNodes: -1}, ",
			"mlPolicy: {torch: {elasticPolicy: {minNodes: 9, maxNodes: 2}}}, ",
			"mlPolicy: {mpi: {runLauncherAsNode: true}}, ",
		) +
			"template: {spec: {" + part(
			"further",
			[]string{"", "failurePolicy: {maxRestarts: 2}, ", "network: {subdomain: net}, "},
			"coordinator: {replicatedJob: other}, ",
			"startupPolicy: {startupPolicyOrder: InOrder}, ",
		) +
			"replicatedJobs: [" + part(
			"jobs",
			[]string{"NODE", "INITIALIZERS, NODE"},
			"MPIJOBS",
			"{name: node}",
			"NODE, NODE",
			"",
			"{name: node, replicas: -3, template: {spec: {parallelism: -1, template: {spec: {nodeName: n, containers: [{name: a}, {name: b}]}}}}}",
		) + "]}}"
		if rapid.Bool().Draw(t, "mpi") {
			runtime = "mlPolicy: {mpi: {" + part(
				"mpi policy",
				[]string{"", "runLauncherAsNode: true", "mpiImplementation: Intel, numProcPerNode: 4"},
				"numProcPerNode: -1",
				"mpiImplementation: Other",
			) + "}}, template: {spec: {replicatedJobs: [MPIJOBS]}}"
		}
		spec := part(
			"trainer",
			[]string{
				"",
				"trainer: {}, ",
				"trainer: {numNodes: 2, image: i, command: [a], env: [{name: A, value: b}]}, ",
				"trainer: {numProcPerNode: 4, resourcesPerNode: {limits: {cpu: 4, nvidia.com/gpu: 2}}}, ",
			},
			"trainer: {numNodes: -2}, ",
			"trainer: {numProcPerNode: auto}, ",
			"trainer: {numProcPerNode: x}, ",
			"trainer: {env: [{name: PET_NNODES}, {name: JAX_PROCESS_ID}]}, ",
		) +
			part(
				"initializer",
				[]string{"", "initializer: {}, "},
				"initializer: {dataset: {storageUri: x, secretRef: {name: s}}, model: {}}, ",
			) +
			part(
				"overrides",
				[]string{
					"",
					"podSpecOverrides: [{targetJobs: [{name: node}], serviceAccountName: a}], ",
					"podTemplateOverrides: [{metadata: {labels: {a: b}}, spec: {nodeSelector: {c: d}}}], ",
					"runtimePatches: [{manager: m}], ",
				},
				"podSpecOverrides: [{targetJobs: [{name: other}]}], ",
				"podTemplateOverrides: [{spec: {containers: [{name: node, env: [{name: A}]}, {name: x}]}}], ",
				"runtimePatches: [{}, {}], ",
			) +
			part(
				"rest",
				[]string{"suspend: true", "suspend: false", "activeDeadlineSeconds: 5", "labels: {a: b}"},
				"activeDeadlineSeconds: -5",
				"managedBy: me",
			)
		judge(t, spec, words.Replace(runtime))
	})
}

// judged is what both kinds of tests have.
type judged interface {
	Helper()
	Fatalf(format string, args ...any)
}

// judge asks everybody about a job.
func judge(t judged, spec, runtime string) {
	t.Helper()
	k := trainjob.Kind()
	o, r := &api.TrainJob{}, &api.TrainingRuntime{}
	if !decode(
		"{metadata: {name: a, namespace: b}, spec: {runtimeRef: {name: r, kind: TrainingRuntime}, "+spec+"}}",
		o,
	) ||
		!decode("{metadata: {name: r, namespace: b}, spec: {"+runtime+"}}", r) {
		return
	}
	based, _ := k.Queueing.Basis.With(o, r, jobs.Schedulers{Given: "ours"}).(*api.TrainJob)
	before := based.DeepCopy()
	errs := slices.DeleteFunc(
		slices.Clone(k.Admission.Validate(based)),
		func(e *field.Error) bool { // these are refused when they are written alone
			return strings.HasSuffix(e.Field, ".storageUri") ||
				strings.HasSuffix(e.Field, ".manager") && strings.Contains(e.Detail, "DOMAIN")
		},
	)
	plan, err := k.Running.Operator.Compile(based)
	facts, readErr := k.Read(based)
	if (len(errs) == 0) != (readErr == nil) || (readErr == nil) != (err == nil) ||
		errors.Is(err, jobs.ErrIncomplete) {
		t.Fatalf("the webhook says %v, the plan %v, the queue %v", errs, err, readErr)
	}
	k.Queueing.Templates(based)
	k.Admission.Keep(based, based, nil)
	k.Admission.ValidateChange(o, based)
	k.Admission.ValidateChange(based, o)
	k.Running.Operator.Project(based, plan, &jobs.Progress{})
	files, artifactErr := k.Running.Operator.Artifacts(based, plan, &jobs.Progress{})
	if (artifactErr == nil) != (err == nil) {
		t.Fatalf("the plan says %v, its artifacts %v", err, artifactErr)
	}
	if len(files) > 0 {
		for _, f := range files {
			if f.Fill == nil && f.Object.GetName() == "" {
				t.Fatalf("a file without a name: %+v", f)
			}
		}
	}
	if !equality.Semantic.DeepEqual(before, based) {
		t.Fatalf("it was changed")
	}
	if err == nil {
		agree(t, plan, &facts)
	}
}

func decode(text string, into any) bool {
	data, err := yaml.YAMLToJSON([]byte(text))
	return err == nil && json.Unmarshal(data, into) == nil
}

// agree compares what is made with what is counted, and has the JobSet judged as one.
func agree(t judged, p *jobs.Plan, f *jobs.Facts) {
	t.Helper()
	o, err := p.Make[0](podplan.Member{}, &podplan.RetryState{}, nil)
	if err != nil {
		t.Fatalf("it was planned and cannot be made: %v", err)
	}
	s, _ := o.(*jobset.JobSet)
	got, err := jobsetkind.Kind().Read(s)
	if err != nil || len(got.PodSets) != len(f.PodSets) {
		t.Fatalf("the TrainJob has pods %v, its JobSet %v: %v", f.PodSets, got.PodSets, err)
	}
	for i := range got.PodSets {
		if got.PodSets[i].Name != f.PodSets[i].Name || got.PodSets[i].Count != f.PodSets[i].Count {
			t.Fatalf("the TrainJob has pods %v, its JobSet %v", f.PodSets, got.PodSets)
		}
	}
}

// Compile and Project of a job with 1,000 pods, as this program records its runtime and as earlier ones did.
func BenchmarkCompile(b *testing.B) {
	k := trainjob.Kind()
	before := job(
		b,
		"runtimeRef: {name: torch-distributed}, trainer: {numNodes: 1000, image: i, command: [torchrun, train.py], resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}",
		"torch-distributed",
	)
	for where, o := range map[string]jobs.Object{"annotation": k.Queueing.Basis.Stored(before), "status": before} {
		b.Run(where, func(b *testing.B) {
			for b.Loop() {
				if _, err := k.Running.Operator.Compile(o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkProject(b *testing.B) {
	o := job(b, "trainer: {numNodes: 1000}", "torch-distributed")
	plan, err := trainjob.Kind().Running.Operator.Compile(o)
	if err != nil {
		b.Fatal(err)
	}
	s := &jobs.Progress{
		Ready: true,
		Children: []jobs.Object{
			&jobset.JobSet{
				Status: jobset.JobSetStatus{
					ReplicatedJobsStatus: []jobset.ReplicatedJobStatus{{Name: "node", Ready: 1, Active: 1}},
				},
			},
		},
	}
	for b.Loop() {
		trainjob.Kind().Running.Operator.Project(o, plan, s)
	}
}
