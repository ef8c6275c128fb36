package appwrapper

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	trainer "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
)

const (
	trainJob = `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: t}, spec: {runtimeRef: {name: RUNTIME}, MORE}}`
	podsPath = "template.status.jobSet.spec.replicatedJobs[%d].template.spec.template"

	nodes    = `{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {tolerations: [{key: runtime}], containers: [{name: node, image: i}]}}}}}`
	torch    = `{mlPolicy: {numNodes: 2, torch: {}}, template: {spec: {replicatedJobs: [` + nodes + `]}}}`
	elastic  = `{mlPolicy: {torch: {elasticPolicy: {minNodes: 1, maxNodes: 4}}}, template: {spec: {replicatedJobs: [` + nodes + `]}}}`
	launched = `{mlPolicy: {numNodes: 2, mpi: {}}, template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node, image: i}]}}}}},
 {name: launcher, dependsOn: [{name: node, status: Ready}], template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}]}}}`
)

func train(name, more string) string {
	return strings.NewReplacer("RUNTIME", name, "MORE", more).Replace(trainJob)
}

func aRuntime(t *testing.T, name, spec string) *trainer.ClusterTrainingRuntime {
	t.Helper()
	out := &trainer.ClusterTrainingRuntime{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "r"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &out.Spec); err != nil {
		t.Fatal(err)
	}
	return out
}

// recordAll records runtimes by name, and how often that was.
func recordAll(t *testing.T, w *aw.AppWrapper, runtimes map[string]string) (*aw.AppWrapper, int) {
	t.Helper()
	b, n := basis(), 0
	for b.Missing(w) {
		ref := b.Of(w)
		next, is := b.With(w, aRuntime(t, ref.Name, runtimes[ref.Name]), jobs.Schedulers{Given: "ours"}).(*aw.AppWrapper)
		if n++; !is || n > 9 {
			t.Fatalf("it does not end: %v", ref)
		}
		w = next
	}
	return w, n
}

func counts(t *testing.T, w *aw.AppWrapper) map[string]int32 {
	t.Helper()
	components, err := Components(w)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int32{}
	for i, c := range components {
		for _, ps := range c.PodSets {
			out[fmt.Sprintf("%d %s", i, ps.Path)] = ps.Count
		}
	}
	return out
}

// TestRuntimesAreCounted: the pods of a TrainJob are those of the runtime that was recorded,
// and a runtime that is another by then makes no difference.
func TestRuntimesAreCounted(t *testing.T) {
	at := func(component, role int) string { return fmt.Sprintf("%d "+podsPath, component, role) }
	for name, c := range map[string]struct {
		why      string
		wraps    []string
		runtimes map[string]string
		records  int
		want     map[string]int32
	}{
		"nodes of the runtime": {"nothing else is said", []string{train("r", "")}, map[string]string{"r": torch}, 1, map[string]int32{at(0, 0): 2}},
		"nodes of the job":     {"they win", []string{train("r", "trainer: {numNodes: 7}")}, map[string]string{"r": torch}, 1, map[string]int32{at(0, 0): 7}},
		"elastic":              {"there may be as many", []string{train("r", "")}, map[string]string{"r": elastic}, 1, map[string]int32{at(0, 0): 4}},
		"launcher":             {"it is a pod, too", []string{train("r", "trainer: {numNodes: 3}")}, map[string]string{"r": launched}, 1, map[string]int32{at(0, 0): 3, at(0, 1): 1}},
		"two runtimes":         {"each has its own", []string{train("r", ""), service, strings.Replace(train("s", ""), "name: t}", "name: u}", 1)}, map[string]string{"r": torch, "s": launched}, 2, map[string]int32{at(0, 0): 2, at(2, 0): 2, at(2, 1): 1}},
		"status of its author": {
			"it is nobody's to say but the controller's",
			[]string{strings.Replace(train("r", ""), "kind: TrainJob", "kind: TrainJob, status: {runtime: {name: mine, spec: {template: {spec: {}}}}, jobSet: {spec: {}}}", 1)},
			map[string]string{"r": torch},
			1,
			map[string]int32{at(0, 0): 2},
		},
		"overrides with containers": {"they are no pods", []string{train("r", "podTemplateOverrides: [{spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}]}}]")}, map[string]string{"r": torch}, 1, map[string]int32{at(0, 0): 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := wrap(t, c.wraps...)
			if _, err := Components(w); !errors.Is(err, jobs.ErrIncomplete) {
				t.Errorf("before it is recorded: %v", err)
			}
			if errs := Validate(w); len(errs) > 0 {
				t.Errorf("before it is recorded, nothing is wrong with it: %v", errs)
			}
			w, n := recordAll(t, w, c.runtimes)
			if n != c.records {
				t.Errorf("%d were recorded, not %d", n, c.records)
			}
			if errs := Validate(w); len(errs) > 0 {
				t.Fatal(errs)
			}
			if d := cmp.Diff(c.want, counts(t, w)); d != "" {
				t.Errorf("%s (-want +got)\n%s", c.why, d)
			}
			// The attack: they are other ones now.
			later, _ := recordAll(
				t,
				w,
				map[string]string{"r": strings.Replace(torch, "numNodes: 2", "numNodes: 99", 1), "s": torch},
			)
			if d := cmp.Diff(c.want, counts(t, later)); d != "" {
				t.Errorf("a changed runtime changed it (-want +got)\n%s", d)
			}
		})
	}
}

// TestTrainJobsAreRefused with their runtimes, in the words of TrainJobs that stand alone.
func TestTrainJobsAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ why, manifest, runtime, want string }{
		"no name":       {"it says nothing", `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: t}, spec: {}}`, torch, "spec.runtimeRef.name"},
		"other kind":    {"there is none", train("r, kind: JobSet", ""), torch, "spec.runtimeRef.kind"},
		"elastic":       {"the runtime forbids it", train("r", "trainer: {numNodes: 9}"), elastic, "trains with 1 to 4 nodes"},
		"long name":     {"the names of its pods", strings.Replace(train("r", ""), "name: t}", "name: "+strings.Repeat("x", 63)+"}", 1), torch, "name"},
		"not a job":     {"its fields are others", train("r", "trainer: 7"), torch, "spec.trainer of type"},
		"nodeName":      {"a runtime goes around the scheduler", train("r", ""), strings.Replace(torch, "containers:", "nodeName: n, containers:", 1), "around the scheduler"},
		"our name":      {"it would be changed after us", train("r", "runtimePatches: [{manager: mlbatch.dev/appwrapper}]"), torch, "Duplicate"},
		"another's pod": {"labels of ours", train("r", "podTemplateOverrides: [{metadata: {labels: {workload.codeflare.dev/appwrapper: theirs}}}]"), torch, "workload.codeflare.dev/appwrapper"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := recordAll(t, wrap(t, c.manifest), map[string]string{"r": c.runtime})
			if errs := Validate(w); !strings.Contains(errs.ToAggregate().Error(), c.want) {
				t.Errorf("%s: %v", c.why, errs)
			}
		})
	}
}

// TestTrainJobIsInjected: what an admission gives pods is in the TrainJob that is created, made
// after all that its author changes; and its pods are what was counted.
func TestTrainJobIsInjected(t *testing.T) {
	for name, more := range map[string]string{
		"plain":     "",
		"overrides": "podTemplateOverrides: [{metadata: {labels: {a: b}}, spec: {tolerations: [{key: own}], nodeSelector: {disk: ssd}}}]",
		"patches":   "runtimePatches: [{manager: example.com/me, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {tolerations: [{key: own}]}}}}}]}}}}]",
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := recordAll(
				t,
				wrap(t, train("r", strings.TrimSuffix("suspend: true, "+more, ", "))),
				map[string]string{"r": torch},
			)
			components, err := Components(w)
			if err != nil {
				t.Fatal(err)
			}
			object, err := Inject(w, components[0], []aw.AppWrapperPodSetInfo{{
				Labels: map[string]string{"given": "label"}, Annotations: map[string]string{"given": "annotation"},
				NodeSelector: map[string]string{"pool": "a"}, Tolerations: []corev1.Toleration{{Key: "spot"}},
				SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/gate"}},
			}}, InjectOptions{Schedulers: jobs.Schedulers{Given: "ours"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, has := object.Object["status"]; has {
				t.Error("it has a status of its own")
			}
			if _, is, _ := unstructured.NestedBool(object.Object, "spec", "suspend"); is {
				t.Error("it is left suspended")
			}
			created := &trainer.TrainJob{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, created); err != nil {
				t.Fatal(err)
			}
			w.Status.ComponentStatus[0].PodSets = nil
			based, is, err := Inherit(w, trainjob.Kind().GVK(), created)
			if !is || err != nil {
				t.Fatalf("it inherits nothing: %v", err)
			}
			f, err := trainjob.Kind().Read(based)
			if err != nil {
				t.Fatal(err)
			}
			pods := f.PodSets[0].Template
			wantTolerations := map[string]string{"plain": "runtime", "overrides": "own", "patches": "own"}[name]
			if f.PodSets[0].Count != 2 || pods.Labels["given"] != "label" ||
				pods.Labels[aw.AppWrapperLabel] != "job" ||
				pods.Annotations["given"] != "annotation" ||
				pods.Spec.NodeSelector["pool"] != "a" ||
				pods.Spec.SchedulerName != "ours" ||
				len(pods.Spec.SchedulingGates) != 1 ||
				len(pods.Spec.Tolerations) != 2 ||
				pods.Spec.Tolerations[0].Key != wantTolerations ||
				pods.Spec.Tolerations[1].Key != "spot" {
				t.Errorf("its pods: %d of %v %v", f.PodSets[0].Count, pods.ObjectMeta, pods.Spec)
			}
		})
	}
}

// TestInherit: only the component of an AppWrapper has what was recorded there.
func TestInherit(t *testing.T) {
	w, _ := recordAll(t, wrap(t, train("r", "")), map[string]string{"r": torch})
	for name, c := range map[string]struct {
		why   string
		part  string
		owner metav1.OwnerReference
		want  bool
	}{
		"component":      {"it was made of it", "t", metav1.OwnerReference{Name: "job", UID: "uid"}, true},
		"other name":     {"it is none of its components", "x", metav1.OwnerReference{Name: "job", UID: "uid"}, false},
		"other wrapper":  {"one of this name was deleted", "t", metav1.OwnerReference{Name: "job", UID: "old"}, false},
		"other owner":    {"a kind that is none of ours", "t", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "AppWrapper", Name: "job", UID: "uid"}, false},
		"stands by self": {"nobody's", "t", metav1.OwnerReference{}, false},
	} {
		part := &trainer.TrainJob{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: c.part}}
		if c.owner.Name != "" {
			if c.owner.Kind == "" {
				c.owner.APIVersion, c.owner.Kind = aw.GroupVersion.String(), aw.AppWrapperKind
			}
			c.owner.Controller = new(true)
			part.OwnerReferences = []metav1.OwnerReference{c.owner}
		}
		if (WrapperOf(trainjob.Kind().GVK(), part) != "") != (c.owner.APIVersion == aw.GroupVersion.String()) {
			t.Errorf("%s: %s: %q", name, c.why, WrapperOf(trainjob.Kind().GVK(), part))
		}
		got, is, err := Inherit(w, trainjob.Kind().GVK(), part)
		if err != nil || is != c.want {
			t.Errorf("%s: %s: %v, %v", name, c.why, is, err)
			continue
		}
		if tj, _ := got.(*trainer.TrainJob); (tj.Status.Runtime != nil) != c.want {
			t.Errorf("%s: %s: %v", name, c.why, tj.Status.Runtime)
		}
	}
}
