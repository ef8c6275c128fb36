package mpijob_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/api/kubeflow/v2beta1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/mpijob"
)

// FuzzJobs: whatever decodes is compiled or refused, by everybody who is asked alike, and
// nobody panics or changes it.
func FuzzJobs(f *testing.F) {
	const pod = `"template": {"spec": {"containers": [{"name": "c"}]}}`
	for _, spec := range []string{
		"mpiReplicaSpecs: {Launcher: {POD}, Worker: {replicas: 2, POD}}", "mpiReplicaSpecs: {launcher: {POD}, WORKER: null}",
		"slotsPerWorker: 0, runLauncherAsWorker: true, mpiImplementation: Intel, launcherCreationPolicy: WaitForWorkersReady, mpiReplicaSpecs: {Launcher: {POD}}",
		"mainContainer: c, cleanPodPolicy: All, sshAuthMountPath: /x, mpiReplicaSpecs: {Launcher: {restartPolicy: ExitCode, POD}, Worker: {template: {}}}",
	} {
		f.Add(strings.ReplaceAll(spec, "POD", pod))
	}
	f.Fuzz(func(t *testing.T, spec string) {
		for _, version := range []string{"", "v1"} {
			judge(t, version, spec)
		}
	})
}

// TestJobs puts jobs together at random of what may be in one, in order and not.
func TestJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.Bool().Draw(t, "odd")
		part := func(what string, right []string, wrong ...string) string {
			if odd {
				right = append(right, wrong...)
			}
			return rapid.SampledFrom(right).Draw(t, what)
		}
		role := func(replicas ...string) string {
			return strings.NewReplacer(
				"REPLICAS",
				part("replicas", replicas, "replicas: 0,", "replicas: -1,", "replicas: 2147483647,"),
				"RESTART",
				part(
					"restart",
					[]string{"", "restartPolicy: Never,", "restartPolicy: OnFailure,"},
					"restartPolicy: Always,",
					"restartPolicy: ExitCode,",
					"restartPolicy: x,",
				),
				"VOLUMES",
				part(
					"volumes",
					[]string{"", ", volumes: [{name: data}], hostNetwork: true"},
					", volumes: [{name: ssh-auth}, {name: mpi-job-config}, {name: mpi-job-kubectl}]",
				),
				"CONTAINER",
				part(
					"container",
					[]string{"{name: c}", "{name: c, command: [x], resources: {limits: {nvidia.com/gpu: 1}}}"},
					"",
				),
			).Replace(part("role", []string{"{REPLICAS RESTART template: {spec: {containers: [CONTAINER]VOLUMES}}}"}, "null", "{}"))
		}
		roles := "Launcher: " + role("", "replicas: 1,")
		if rapid.Bool().Draw(t, "workers") {
			roles += ", Worker: " + role("replicas: 1,", "replicas: 3,", "replicas: 1000,")
		}
		spec := part("slots", []string{"", "slotsPerWorker: 8, "}, "slotsPerWorker: -1, ") +
			part(
				"implementation",
				[]string{"", "mpiImplementation: Intel, ", "mpiImplementation: MPICH, "},
				"mpiImplementation: x, ",
			) +
			part(
				"creation",
				[]string{"", "launcherCreationPolicy: WaitForWorkersReady, "},
				"launcherCreationPolicy: x, ",
			) +
			part("path", []string{"", "sshAuthMountPath: /home/u/.ssh, "}, "sshAuthMountPath: x, ") +
			part("main", []string{"", "mainContainer: c, "}, "mainContainer: x, ") +
			part(
				"clean",
				[]string{
					"",
					"cleanPodPolicy: All, ",
					"runPolicy: {cleanPodPolicy: Running, backoffLimit: 2, suspend: true}, ",
				},
				"runPolicy: {cleanPodPolicy: x}, ",
			) +
			part("self", []string{"", "runLauncherAsWorker: true, "}) +
			"mpiReplicaSpecs: {" + roles + part("more", []string{""}, ", launcher: {}", ", Master: {}") + "}"
		judge(t, rapid.SampledFrom([]string{"", "v1"}).Draw(t, "version"), spec)
	})
}

// judged is what both kinds of tests have.
type judged interface {
	Helper()
	Fatalf(format string, args ...any)
}

// judge asks everybody about a job.
func judge(t judged, version, spec string) {
	t.Helper()
	j := &v2beta1.MPIJob{}
	text, err := yaml.YAMLToJSON([]byte("{metadata: {name: a, namespace: b}, spec: {" + spec + "}}"))
	if err != nil || json.Unmarshal(text, j) != nil {
		return
	}
	if version != "" {
		j.Annotations = map[string]string{jobs.VersionAnnotation: version, mpijob.KubectlImage: "i"}
	}
	before, k := j.DeepCopyObject(), mpijob.Kind()
	errs := k.Admission.Validate(j)
	plan, err := k.Running.Operator.Compile(j)
	facts, readErr := k.Read(j)
	if (len(errs) == 0) != (readErr == nil) || (readErr == nil) != (err == nil) {
		t.Fatalf("the webhook says %v, the plan %v, the queue %v", errs, err, readErr)
	}
	k.Queueing.Templates(j)
	k.Admission.Keep(j, j, nil)
	k.Admission.ValidateChange(j, j)
	k.Admission.Warnings(j, lifecycle.Defaults())
	k.Running.Operator.Project(j, plan, &jobs.Progress{})
	if u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(j); err == nil {
		sets, err := k.Queueing.Wrapped.PodSets(u)
		if readErr == nil && (err != nil || len(sets) < len(facts.PodSets)) {
			t.Fatalf("an AppWrapper finds %v (%v), a queue %v", sets, err, facts.PodSets)
		}
	}
	if err == nil {
		made(t, j, plan, &facts)
	}
	if !equality.Semantic.DeepEqual(before, j) {
		t.Fatalf("it was changed")
	}
}

// made compares what is made with what is counted, and that all that pods mount is there.
func made(t judged, j *v2beta1.MPIJob, p *jobs.Plan, f *jobs.Facts) {
	t.Helper()
	k := mpijob.Kind()
	all, err := k.Running.Operator.Artifacts(j, p, &jobs.Progress{})
	if err != nil {
		t.Fatalf("what it has beside its pods: %v", err)
	}
	there := map[string]bool{}
	for _, a := range all {
		there[fmt.Sprintf("%T %s", a.Object, a.Object.GetName())] = true
	}
	if len(p.Roles) != len(f.PodSets) || p.Role("launcher") == nil {
		t.Fatalf("%d roles, %d pod sets", len(p.Roles), len(f.PodSets))
	}
	for i := range p.Roles {
		r := &p.Roles[i]
		if r.Name != string(f.PodSets[i].Name) || r.Count != f.PodSets[i].Count {
			t.Fatalf("role %+v, pod set %s of %d", r, f.PodSets[i].Name, f.PodSets[i].Count)
		}
		if r.Count == 0 {
			continue
		}
		m := podplan.Member{Role: r.Name}
		pod, err := p.Pod(j, k.GVK(), m, &podplan.RetryState{}, nil)
		if err != nil {
			t.Fatalf("a pod of %s: %v", r.Name, err)
		}
		if of := p.MakeOf(r.Name); of != nil {
			if _, err := of(m, &podplan.RetryState{}, nil); err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
		}
		for _, v := range pod.Spec.Volumes {
			if v.ConfigMap != nil && !there["*v1.ConfigMap "+v.ConfigMap.Name] ||
				v.Secret != nil && !there["*v1.Secret "+v.Secret.SecretName] {
				t.Fatalf("%s mounts %s, which there is not", r.Name, v.Name)
			}
		}
	}
}

func large(b *testing.B) *v2beta1.MPIJob {
	b.Helper()
	return decode(b, "slotsPerWorker: 8, ROLES: {Launcher: {POD}, Worker: {replicas: 999, POD}}")
}

// BenchmarkCompile is what it costs to plan a job of 1,000 pods.
func BenchmarkCompile(b *testing.B) {
	j, k := large(b), mpijob.Kind()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Running.Operator.Compile(j); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProject is what it costs to say how it stands.
func BenchmarkProject(b *testing.B) {
	j, k := large(b), mpijob.Kind()
	p := compile(b, j)
	s := &jobs.Progress{
		Counts: map[string]podplan.Tally{"launcher": {Active: 1, Ready: 1}, "worker": {Active: 999, Ready: 999}},
	}
	b.ReportAllocs()
	for b.Loop() {
		k.Running.Operator.Project(j, p, s)
	}
}

// BenchmarkArtifacts is what it costs to make the list of its hosts.
func BenchmarkArtifacts(b *testing.B) {
	j, k := large(b), mpijob.Kind()
	p := compile(b, j)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Running.Operator.Artifacts(j, p, &jobs.Progress{}); err != nil {
			b.Fatal(err)
		}
	}
}
