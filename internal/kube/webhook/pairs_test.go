package webhook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// samples are one job of each kind, as the examples have it, by the path at which it is judged.
// They are suspended.
func samples(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("../../../examples/kinds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			var o map[string]any
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				t.Fatal(err)
			}
			var m metav1.PartialObjectMetadata
			decode(t, o, &m)
			gvk := m.GroupVersionKind()
			k := kinds.All().Find(gvk)
			if k == nil {
				continue
			}
			if err := unstructured.SetNestedField(o, true, k.Queueing.SuspendPath...); err != nil {
				t.Fatal(err)
			}
			out["/validate-"+strings.ReplaceAll(gvk.Group, ".", "-")+"-"+gvk.Version+"-"+strings.ToLower(gvk.Kind)] = o
		}
	}
	if len(out) != len(kinds.All()) {
		t.Fatalf("there are samples of %d of %d kinds", len(out), len(kinds.All()))
	}
	return out
}

// A job may take a Workload that was made beforehand for nobody, and no other one: of all kinds, whoever
// has it, by the label and by the annotation, when it is created and when it is changed.
func TestJobsTakeNoWorkloadsOfOthers(t *testing.T) {
	made := func(name string, change func(*v1beta2.Workload)) *v1beta2.Workload {
		w := &v1beta2.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}
		if change != nil {
			change(w)
		}
		return w
	}
	pod := func(name, workload string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   "blue",
				Name:        name,
				Annotations: map[string]string{v1beta2.WorkloadAnnotation: workload},
			},
			Spec:   corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	owner := func(kind string) func(*v1beta2.Workload) {
		return func(w *v1beta2.Workload) {
			w.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "v1", Kind: kind, Name: "o", UID: "u", Controller: new(true)},
			}
		}
	}
	workloads := []client.Object{
		made("free", nil),
		made("reserved", func(w *v1beta2.Workload) { w.Status.Admission = &v1beta2.Admission{ClusterQueue: "q"} }),
		made("of-a-group", func(w *v1beta2.Workload) {
			w.Annotations = map[string]string{v1beta2.IsGroupWorkloadAnnotation: "true"}
		}),
		made("of-a-pod", owner("Pod")),
		made("of-a-job", owner("Job")),
		made("left", func(w *v1beta2.Workload) {
			w.Labels, w.Status.Admission = map[string]string{
				v1beta2.JobUIDLabel: "gone",
			}, &v1beta2.Admission{
				ClusterQueue: "q",
			}
		}),
		made("with-pods", nil), pod("runs", "with-pods", corev1.PodRunning),
		made("with-done-pods", nil), pod("done", "with-done-pods", corev1.PodSucceeded),
	}
	handlers := serveWith(t, webhook.Options{}, workloads, nil, world()...)
	cells := map[string]string{ // what is said of it; "" takes it
		"free":           "",
		"reserved":       "",
		"not-there":      "",
		"with-done-pods": "",
		"of-a-group":     "is that of a group of pods",
		"of-a-pod":       "belongs to Pod o",
		"of-a-job":       "belongs to Job o",
		"left":           "was made for another job",
		"with-pods":      "has pods",
	}
	for path, sample := range samples(t) {
		t.Run(strings.TrimPrefix(path, "/validate-"), func(t *testing.T) {
			for workload, says := range cells {
				for _, part := range []string{"labels", "annotations"} {
					names := func(name string) string {
						o := encode(t, sample)
						meta, _ := o["metadata"].(map[string]any)
						meta["namespace"], meta["name"] = "blue", "o"
						labels := map[string]any{"kueue.x-k8s.io/queue-name": "default-queue"}
						meta["labels"] = labels
						if name == "" {
							return string(text(t, o))
						}
						if part == "labels" {
							labels[v1beta2.PrebuiltWorkloadLabel] = name
						} else {
							meta[part] = map[string]any{v1beta2.PrebuiltWorkloadLabel: name}
						}
						return string(text(t, o))
					}
					for what, a := range map[string]ask{
						"created": {path: path, new: names(workload)},
						"changed": {path: path, old: names(""), new: names(workload)},
						"left":    {path: path, old: names(workload), new: names(workload)},
					} {
						field := "metadata." + part + "[" + v1beta2.PrebuiltWorkloadLabel + "]"
						r := send(t, handlers, a)
						refused := strings.Contains(r.Message, field)
						if want := says != "" &&
							what != "left"; refused != want ||
							want && (r.Allowed || !strings.Contains(r.Message, says)) {
							t.Errorf("%s in its %s, %s: it says %q, want %q", workload, part, what, r.Message, says)
						}
					}
				}
			}
		})
	}
}

// templatesIn are the pod templates in an object, wherever they are.
func templatesIn(value any) (out []map[string]any) {
	switch x := value.(type) {
	case []any:
		for _, part := range x {
			out = append(out, templatesIn(part)...)
		}
	case map[string]any:
		if spec, is := x["spec"].(map[string]any); is && spec["containers"] != nil {
			return []map[string]any{x}
		}
		for _, part := range x {
			out = append(out, templatesIn(part)...)
		}
	}
	return out
}

// Pods of a job of any kind that name a group of their own, in whatever way, start as the job is admitted
// all the same, which is said; a group that Kubernetes would hold them for is refused with the field.
func TestJobsWithGroupsOfTheirOwn(t *testing.T) {
	handlers := serveWith(t, webhook.Options{}, nil, nil, world()...)
	cells := map[string]struct {
		field, key, says string
	}{
		"scheduler plugins": {
			"labels",
			"scheduling.x-k8s.io/pod-group",
			"label scheduling.x-k8s.io/pod-group of pods has no effect",
		},
		"older scheduler plugins": {
			"labels",
			"pod-group.scheduling.sigs.k8s.io",
			"label pod-group.scheduling.sigs.k8s.io of pods has no effect",
		},
		"kueue": {
			"labels",
			"kueue.x-k8s.io/pod-group-name",
			"label kueue.x-k8s.io/pod-group-name of pods has no effect",
		},
		"volcano": {
			"annotations",
			"scheduling.k8s.io/group-name",
			"annotation scheduling.k8s.io/group-name of pods has no effect",
		},
		"volcano, newer": {
			"annotations",
			"scheduling.volcano.sh/group-name",
			"annotation scheduling.volcano.sh/group-name of pods has no effect",
		},
		"none":    {},
		"sakkara": {"labels", "sakkara.group.name", ""},
		"kubernetes": {
			"spec",
			"schedulingGroup",
			"spec.schedulingGroup: Forbidden: its pods would wait for that group, and the pods of a queued job start together as it is admitted: remove it",
		},
	}
	for path, sample := range samples(t) {
		if strings.HasSuffix(path, "-trainjob") {
			continue // its pods are those of a runtime, and judged as these are
		}
		for name, cell := range cells {
			t.Run(strings.TrimPrefix(path, "/validate-")+"/"+name, func(t *testing.T) {
				o := encode(t, sample)
				meta, _ := o["metadata"].(map[string]any)
				meta["namespace"], meta["name"], meta["labels"] = "blue", "o", map[string]any{
					"kueue.x-k8s.io/queue-name": "default-queue",
				}
				inside := templatesIn(o)
				if len(inside) == 0 {
					t.Fatal("it has no templates")
				}
				for _, template := range inside {
					var value any = "mine"
					at := "metadata"
					if cell.field == "spec" {
						spec, _ := template["spec"].(map[string]any)
						spec[cell.key] = map[string]any{"podGroupName": "mine"}
						continue
					}
					if cell.field == "" {
						continue
					}
					inner, is := template[at].(map[string]any)
					if !is {
						inner = map[string]any{}
						template[at] = inner
					}
					notes, is := inner[cell.field].(map[string]any)
					if !is {
						notes = map[string]any{}
						inner[cell.field] = notes
					}
					notes[cell.key] = value
				}
				r := send(t, handlers, ask{path: path, new: string(text(t, o))})
				warned := strings.Join(r.Warnings, "\n")
				switch {
				case cell.field == "spec":
					if r.Allowed || !strings.Contains(r.Message, cell.says) {
						t.Errorf("allowed is %v: %s", r.Allowed, r.Message)
					}
				case !r.Allowed:
					t.Errorf("it is refused: %s", r.Message)
				case cell.says == "" && strings.Contains(warned, "in no other group"),
					!strings.Contains(warned, cell.says):
					t.Errorf("it warns %q, want %q", warned, cell.says)
				}
			})
		}
	}
}
