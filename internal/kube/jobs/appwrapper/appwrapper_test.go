package appwrapper

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

const podSpec = `{containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}`

func raw(t *testing.T, manifest string) runtime.RawExtension {
	t.Helper()
	j, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(manifest, "PODSPEC", podSpec)))
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: j}
}

// wrap makes an AppWrapper named "job" of manifests, in which PODSPEC stands
// for a pod's spec with GPUs.
func wrap(t *testing.T, manifests ...string) *aw.AppWrapper {
	t.Helper()
	w := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "job", UID: "uid"}}
	w.Spec.Suspend = true
	for _, m := range manifests {
		w.Spec.Components = append(w.Spec.Components, aw.AppWrapperComponent{Template: raw(t, m)})
	}
	return w
}

const (
	batchJob = `{apiVersion: batch/v1, kind: Job, metadata: {generateName: short-}, spec: {parallelism: 2, completions: 6, template: {spec: PODSPEC}}}`
	service  = `{apiVersion: v1, kind: Service, metadata: {name: front}, spec: {ports: [{port: 80}]}}`
)

func TestPodSets(t *testing.T) {
	cases := map[string]struct {
		why      string
		manifest string
		declared []aw.AppWrapperPodSet
		want     map[string]int32
	}{
		"Pod": {
			"one pod",
			`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: PODSPEC}`,
			nil,
			map[string]int32{"template": 1},
		},
		"Deployment": {
			"replicas",
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 3, template: {spec: PODSPEC}}}`,
			nil,
			map[string]int32{"template.spec.template": 3},
		},
		"StatefulSet, default": {
			"one if replicas is left out",
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {template: {spec: PODSPEC}}}`,
			nil,
			map[string]int32{"template.spec.template": 1},
		},
		"Job, waves": {
			"what runs at the same time counts",
			batchJob,
			nil,
			map[string]int32{"template.spec.template": 2},
		},
		"Job, few completions": {
			"a Job never runs more pods than it needs",
			`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 9, completions: 4, template: {spec: PODSPEC}}}`,
			nil,
			map[string]int32{"template.spec.template": 4},
		},
		"Job, no completions": {
			"a work queue",
			`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 3, template: {spec: PODSPEC}}}`,
			nil,
			map[string]int32{"template.spec.template": 3},
		},
		"Job, declared": {
			"a declaration that says the same is fine",
			batchJob,
			[]aw.AppWrapperPodSet{{Path: "template.spec.template", Replicas: new(int32(2))}},
			map[string]int32{"template.spec.template": 2},
		},
		"JobSet": {
			"replicas times what each Job runs",
			`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s}, spec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: PODSPEC}}}}, {name: b, replicas: 2, template: {spec: {parallelism: 3, completions: 3, template: {spec: PODSPEC}}}}]}}`,
			nil,
			map[string]int32{
				"template.spec.replicatedJobs[0].template.spec.template": 1,
				"template.spec.replicatedJobs[1].template.spec.template": 6,
			},
		},
		"PyTorchJob": {
			"master and workers",
			`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: p}, spec: {pytorchReplicaSpecs: {Master: {template: {spec: PODSPEC}}, Worker: {replicas: 7, template: {spec: PODSPEC}}}}}`,
			nil,
			map[string]int32{
				"template.spec.pytorchReplicaSpecs.Master.template": 1,
				"template.spec.pytorchReplicaSpecs.Worker.template": 7,
			},
		},
		"PyTorchJob, master alone": {
			"the generator leaves workers out for one pod",
			`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: p}, spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: {spec: PODSPEC}}}}}`,
			nil,
			map[string]int32{"template.spec.pytorchReplicaSpecs.Master.template": 1},
		},
		"RayCluster": {
			"head and groups",
			`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {template: {spec: PODSPEC}}, workerGroupSpecs: [{replicas: 7, template: {spec: PODSPEC}}]}}`,
			nil,
			map[string]int32{
				"template.spec.headGroupSpec.template":       1,
				"template.spec.workerGroupSpecs[0].template": 7,
			},
		},
		"RayJob": {
			"the cluster it makes",
			`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {rayClusterSpec: {headGroupSpec: {template: {spec: PODSPEC}}}}}`,
			nil,
			map[string]int32{
				"template.spec.rayClusterSpec.headGroupSpec.template": 1,
				"template.spec.submitterPodTemplate":                  1,
			},
		},
		"LeaderWorkerSet": {
			"leaders and workers of all groups",
			`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {replicas: 3, leaderWorkerTemplate: {size: 4, leaderTemplate: {spec: PODSPEC}, workerTemplate: {spec: PODSPEC}}}}`,
			nil,
			map[string]int32{
				"template.spec.leaderWorkerTemplate.leaderTemplate": 3,
				"template.spec.leaderWorkerTemplate.workerTemplate": 9,
			},
		},
		"LeaderWorkerSet, alike": {
			"one template for both",
			`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {leaderWorkerTemplate: {size: 4, workerTemplate: {spec: PODSPEC}}}}`,
			nil,
			map[string]int32{"template.spec.leaderWorkerTemplate.workerTemplate": 4},
		},
		"unknown, declared": {
			"any kind can be wrapped",
			`{apiVersion: example.com/v1, kind: Group, metadata: {name: l}, spec: {groups: [{pods: {spec: PODSPEC}}]}}`,
			[]aw.AppWrapperPodSet{{Path: "template.spec.groups[0].pods", Replicas: new(int32(4))}},
			map[string]int32{"template.spec.groups[0].pods": 4},
		},
		"unknown, no pods": {"not everything runs pods", service, nil, map[string]int32{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := wrap(t, c.manifest)
			w.Spec.Components[0].DeclaredPodSets = c.declared
			components, err := Components(w)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int32{}
			for _, ps := range components[0].PodSets {
				got[ps.Path] = ps.Count
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", c.why, diff)
			}
			status := components[0].Status()
			w.Status.ComponentStatus = []aw.AppWrapperComponentStatus{status}
			recorded, _ := Recorded(w)
			for i, ps := range recorded[0].PodSets {
				if ps.Name != components[0].PodSets[i].Name || ps.Count != components[0].PodSets[i].Count {
					t.Errorf(
						"the record says %s of %d pods, the spec %s of %d",
						ps.Name,
						ps.Count,
						components[0].PodSets[i].Name,
						components[0].PodSets[i].Count,
					)
				}
			}
		})
	}
}

func TestValidate(t *testing.T) {
	pod := `{apiVersion: v1, kind: Pod, metadata: {name: NAME}, spec: PODSPEC}`
	many := func(t *testing.T) *aw.AppWrapper {
		t.Helper()
		var all []string
		for n := range strings.SplitSeq("abcdefghi", "") {
			all = append(all, strings.ReplaceAll(pod, "NAME", n))
		}
		return wrap(t, all...)
	}
	declare := func(t *testing.T, manifest string, sets ...aw.AppWrapperPodSet) *aw.AppWrapper {
		t.Helper()
		w := wrap(t, manifest)
		w.Spec.Components[0].DeclaredPodSets = sets
		return w
	}
	cases := map[string]struct {
		why     string
		wrapper *aw.AppWrapper
		field   string // "" if it is fine
		cure    string
	}{
		"tutorial":       {"must be accepted", wrap(t, batchJob), "", ""},
		"service beside": {"must be accepted", wrap(t, service, batchJob), "", ""},
		"no pods": {
			"there is nothing to queue for",
			wrap(t, service),
			"spec.components",
			"at least one component must run pods",
		},
		"no components": {
			"there is nothing at all",
			wrap(t),
			"spec.components",
			"at least one component must run pods",
		},
		"nested": {
			"quota would be counted twice or never",
			wrap(
				t,
				`{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: x}, spec: {components: []}}`,
			),
			"spec.components[0].template.kind",
			"list its components here",
		},
		"other namespace": {
			"its author may have no rights there",
			wrap(t, strings.ReplaceAll(batchJob, "generateName: short-", "name: j, namespace: red")),
			"spec.components[0].template.metadata.namespace",
			`set it to "blue"`,
		},
		"own namespace": {
			"saying so is fine",
			wrap(t, strings.ReplaceAll(batchJob, "generateName: short-", "name: j, namespace: blue")),
			"",
			"",
		},
		"no name": {
			"the API server would refuse it later",
			wrap(t, strings.ReplaceAll(batchJob, "generateName: short-", "labels: {}")),
			"spec.components[0].template.metadata.name",
			"a generateName",
		},
		"no kind": {
			"nothing can be created",
			wrap(t, `{metadata: {name: x}}`),
			"spec.components[0].template",
			"apiVersion and kind",
		},
		"not an object": {
			"nothing can be created",
			wrap(t, `[1]`),
			"spec.components[0].template",
			"must be the object",
		},
		"misspelt field": {
			"a limit that is not read would be no limit",
			wrap(t, strings.ReplaceAll(batchJob, "PODSPEC", `{containers: [{name: c, resource: {}}]}`)),
			"spec.components[0].template.spec.template",
			`unknown field "containers[0].resource"`,
		},
		"no containers": {
			"not a pod",
			wrap(t, strings.ReplaceAll(batchJob, "PODSPEC", `{}`)),
			"spec.components[0].template.spec.template",
			"containers",
		},
		"negative parallelism": {
			"counts of pods are counts",
			wrap(t, strings.ReplaceAll(batchJob, "parallelism: 2", "parallelism: -2")),
			"spec.components[0].template",
			"parallelism must be a whole number",
		},
		"bad path": {
			"the path leads nowhere",
			declare(
				t,
				`{apiVersion: x/v1, kind: X, metadata: {name: x}, spec: {}}`,
				aw.AppWrapperPodSet{Path: "template.spec.pods"},
			),
			"spec.components[0].podSets[0].path",
			`has no field "pods"`,
		},
		"malformed path": {
			"the grammar is told",
			declare(
				t,
				`{apiVersion: x/v1, kind: X, metadata: {name: x}, spec: {}}`,
				aw.AppWrapperPodSet{Path: "spec..pods"},
			),
			"spec.components[0].podSets[0].path",
			"for example template.spec.template",
		},
		"declared wrongly": {
			"quota would be counted for other pods than those that run",
			declare(t, batchJob, aw.AppWrapperPodSet{Path: "template.spec.template", Replicas: new(int32(1))}),
			"spec.components[0].podSets[0].replicas",
			"leave podSets out",
		},
		"declared twice": {
			"one of them is wrong",
			declare(
				t,
				batchJob,
				aw.AppWrapperPodSet{Path: "template.spec.template", Replicas: new(int32(2))},
				aw.AppWrapperPodSet{Path: "template.spec.template", Replicas: new(int32(2))},
			),
			"spec.components[0].podSets",
			"1 pod sets",
		},
		"undeclared pods": {
			"pods of an unknown kind would run outside every quota",
			wrap(t, `{apiVersion: x/v1, kind: X, metadata: {name: x}, spec: {groups: [{pods: {spec: PODSPEC}}]}}`),
			"spec.components[0].podSets",
			"{path: template.spec.groups[0].pods, replicas: 1}",
		},
		"nine pod sets": {"a Workload has eight at most", many(t), "spec.components", "at most 8"},
		"same object twice": {
			"the second would be taken for the first",
			wrap(t, strings.ReplaceAll(pod, "NAME", "x"), strings.ReplaceAll(pod, "NAME", "x")),
			"spec.components[1].template.metadata.name",
			"Duplicate",
		},
		"label of another": {
			"its pods would be counted as another's",
			wrap(
				t,
				`{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {workload.codeflare.dev/appwrapper: other}}, spec: PODSPEC}`,
			),
			"spec.components[0].template",
			"remove it from the template",
		},
		"Job in a domain and anywhere": {
			"which counts?",
			wrap(t, strings.NewReplacer(
				"completions: 6,",
				"completions: 6, scheduling: {schedulingConstraints: {topology: [{key: rack}]}},",
				"template: {spec",
				"template: {metadata: {annotations: {kueue.x-k8s.io/podset-unconstrained-topology: 'true'}}, spec",
			).Replace(batchJob)),
			"spec.components[0].template.spec.scheduling.schedulingConstraints.topology[0].key",
			"leave one of them out",
		},
		"two with generateNames": {"they get different names", wrap(t, batchJob, batchJob), "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			errs := Validate(c.wrapper)
			if c.field == "" {
				if len(errs) > 0 {
					t.Errorf("%s: %v", c.why, errs)
				}
				return
			}
			for _, e := range errs {
				if e.Field == c.field && strings.Contains(e.Error(), c.cure) {
					return
				}
			}
			t.Errorf("%s: no error at %s saying %q: %v", c.why, c.field, c.cure, errs)
		})
	}
}

func TestValidateLongName(t *testing.T) {
	w := wrap(t, batchJob)
	w.Name = strings.Repeat("a", 64)
	if errs := Validate(w); len(errs) == 0 || errs[0].Field != "metadata.name" {
		t.Errorf("a name that is no label value would fail at creation: %v", errs)
	}
}

func TestValidateUpdate(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*aw.AppWrapper)
		field  string
	}{
		"suspend": {"is how it is started", func(w *aw.AppWrapper) { w.Spec.Suspend = false }, ""},
		"infos": {
			"are written by the admission",
			func(w *aw.AppWrapper) { w.Spec.Components[0].PodSetInfos = []aw.AppWrapperPodSetInfo{{}} },
			"",
		},
		"annotations": {
			"tolerance of faults can be changed at any time",
			func(w *aw.AppWrapper) { w.Annotations = map[string]string{"a": "b"} },
			"",
		},
		"queue": {
			"may change",
			func(w *aw.AppWrapper) { w.Labels = map[string]string{kueue.QueueNameLabel: "x"} },
			"",
		},
		"order": {
			"clients write fields in any order",
			func(w *aw.AppWrapper) { w.Spec.Components[0].Template = reordered(t, w.Spec.Components[0].Template) },
			"",
		},
		"template": {
			"quota was counted for the old one",
			func(w *aw.AppWrapper) { w.Spec.Components[0].Template = raw(t, service) },
			"spec.components[0].template",
		},
		"pod sets": {"quota was counted for the old ones", func(w *aw.AppWrapper) {
			w.Spec.Components[0].DeclaredPodSets = []aw.AppWrapperPodSet{{Path: "template"}}
		}, "spec.components[0].podSets"},
		"number": {
			"quota was counted for the old ones",
			func(w *aw.AppWrapper) { w.Spec.Components = nil },
			"spec.components",
		},
		"managedBy": {
			"two controllers would work on it",
			func(w *aw.AppWrapper) { w.Spec.ManagedBy = new("x") },
			"spec.managedBy",
		},
		"user": {
			"says whose work it is",
			func(w *aw.AppWrapper) { w.Labels = map[string]string{aw.AppWrapperUserLabel: "bob"} },
			"metadata.labels[workload.codeflare.dev/user]",
		},
		"user's number": {
			"says whose work it is",
			func(w *aw.AppWrapper) { w.Labels = map[string]string{aw.AppWrapperUserIDLabel: "7"} },
			"metadata.labels[workload.codeflare.dev/userid]",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := wrap(t, batchJob)
			after := before.DeepCopy()
			c.change(after)
			errs := ValidateUpdate(before, after)
			switch {
			case c.field == "" && len(errs) > 0:
				t.Errorf("%s: %v", c.why, errs)
			case c.field != "" && (len(errs) != 1 || errs[0].Field != c.field):
				t.Errorf("%s: want an error at %s, got %v", c.why, c.field, errs)
			}
		})
	}
}

func reordered(t *testing.T, r runtime.RawExtension) runtime.RawExtension {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(r.Raw, &m); err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: out}
}

func TestNames(t *testing.T) {
	if a, b := generatedName(
		"short-",
		"u",
		0,
	), generatedName(
		"short-",
		"u",
		0,
	); a != b ||
		len(a) != len("short-")+5 {
		t.Errorf("the name must be the same every time: %q, %q", a, b)
	}
	if generatedName("x-", "u", 0) == generatedName("x-", "u", 1) ||
		generatedName("x-", "u", 0) == generatedName("x-", "v", 0) {
		t.Error("components and AppWrappers must get different names")
	}
	if n := len(generatedName(strings.Repeat("x", 80), "u", 0)); n != 63 {
		t.Errorf("a long prefix gives %d characters", n)
	}
	for wrapper, want := range map[string]string{
		"job": "job-7", "a.b": "a-b-7", strings.Repeat("x", 70): strings.Repeat("x", 61) + "-7",
		strings.Repeat("x", 60) + "-y": strings.Repeat("x", 60) + "-7",
	} {
		if got := PodSetName(wrapper, 7); got != want {
			t.Errorf("pod set of %s: got %s, want %s", wrapper, got, want)
		}
	}
}

func TestStartAndStop(t *testing.T) {
	w := wrap(t, service, batchJob, `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: PODSPEC}`)
	facts, err := Adapter{}.Read(w)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ps := range facts.PodSets {
		names = append(names, string(ps.Name))
	}
	if diff := cmp.Diff([]string{"job-0", "job-1"}, names); diff != "" || !facts.Suspended || facts.Active {
		t.Errorf("facts %+v %s", facts, diff)
	}
	infos := []jobs.PodSetInfo{
		{Name: "job-1", Count: 1, NodeSelector: map[string]string{"pool": "b"}},
		{
			Name:         "job-0",
			Count:        2,
			NodeSelector: map[string]string{"pool": "a"},
			Tolerations:  []corev1.Toleration{{Key: "k"}},
		},
	}
	o, err := Adapter{}.Start(w, infos)
	if err != nil {
		t.Fatal(err)
	}
	started := o.(*aw.AppWrapper)
	if started.Spec.Suspend || !w.Spec.Suspend || len(started.Finalizers) != 1 {
		t.Errorf(
			"suspend %v, finalizers %v; the argument's suspend %v",
			started.Spec.Suspend,
			started.Finalizers,
			w.Spec.Suspend,
		)
	}
	// Each component gets its own, whatever the order: by position, the second
	// component once got the first one's.
	if got := started.Spec.Components[1].PodSetInfos[0].NodeSelector["pool"] + started.Spec.Components[2].PodSetInfos[0].NodeSelector["pool"]; got != "ab" {
		t.Errorf("assigned %q", got)
	}
	again, err := Adapter{}.Start(started, nil)
	if err != nil || !equality.Semantic.DeepEqual(again, jobs.Object(started)) {
		t.Errorf("starting twice changes something: %v", err)
	}
	stopped, err := Adapter{}.Stop(started, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := w.DeepCopy()
	want.Finalizers = started.Finalizers
	if diff := cmp.Diff(want, stopped); diff != "" {
		t.Errorf("stopping does not undo starting (-want +got)\n%s", diff)
	}
	stoppedAgain, err := Adapter{}.Stop(stopped, nil)
	if err != nil || !equality.Semantic.DeepEqual(stopped, stoppedAgain) {
		t.Errorf("stopping twice changes something: %v", err)
	}
}

func TestStartThatContradicts(t *testing.T) {
	pinned := strings.ReplaceAll(batchJob, "PODSPEC", `{nodeSelector: {pool: a}, containers: [{name: c}]}`)
	cases := map[string]struct {
		why   string
		infos []jobs.PodSetInfo
	}{
		"selector": {
			"the user pinned the pods elsewhere",
			[]jobs.PodSetInfo{{Name: "job-0", Count: 2, NodeSelector: map[string]string{"pool": "b"}}},
		},
		"count":   {"quota is for another number of pods", []jobs.PodSetInfo{{Name: "job-0", Count: 1}}},
		"name":    {"the admission is for other pods", []jobs.PodSetInfo{{Name: "job-1", Count: 2}}},
		"nothing": {"there is no admission", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := (Adapter{}).Start(wrap(t, pinned), c.infos); err == nil {
				t.Errorf("%s, and it starts", c.why)
			}
		})
	}
}

func TestReadStatus(t *testing.T) {
	condition := func(kind string, s metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: s}
	}
	held, released := condition(
		aw.QuotaReserved,
		metav1.ConditionTrue,
	), condition(
		aw.QuotaReserved,
		metav1.ConditionFalse,
	)
	cases := map[string]struct {
		why      string
		suspend  bool
		phase    aw.AppWrapperPhase
		quota    *metav1.Condition
		active   bool
		finished string
	}{
		"waits":              {"nothing runs", true, aw.AppWrapperSuspended, nil, false, ""},
		"about to start":     {"it may start at any moment", false, aw.AppWrapperSuspended, nil, true, ""},
		"runs":               {"pods exist", false, aw.AppWrapperRunning, &held, true, ""},
		"suspending":         {"pods still exist", true, aw.AppWrapperSuspending, &held, true, ""},
		"suspended":          {"pods are gone", true, aw.AppWrapperSuspended, &released, false, ""},
		"resetting":          {"the quota is kept", false, aw.AppWrapperResetting, &held, true, ""},
		"succeeded":          {"it is over", false, aw.AppWrapperSucceeded, &released, false, "good"},
		"succeeded, holding": {"pods outlive the job", false, aw.AppWrapperSucceeded, &held, true, ""},
		"failed, debugged":   {"pods are kept for debugging", false, aw.AppWrapperFailed, &held, true, ""},
		"failed":             {"it is over", false, aw.AppWrapperFailed, &released, false, "bad"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := wrap(t, batchJob)
			w.Spec.Suspend, w.Status.Phase = c.suspend, c.phase
			if c.quota != nil {
				w.Status.Conditions = []metav1.Condition{*c.quota}
			}
			facts, err := Adapter{}.Read(w)
			if err != nil {
				t.Fatal(err)
			}
			finished := ""
			if facts.Finished != nil {
				finished = map[bool]string{true: "good", false: "bad"}[facts.Finished.Success]
			}
			if facts.Active != c.active || finished != c.finished {
				t.Errorf("%s: active %v, finished %q", c.why, facts.Active, finished)
			}
		})
	}
}

// TestWorkloadIsStable checks that pod sets that went through the API server
// equal those read again, so that Workloads are not rewritten for nothing.
func TestWorkloadIsStable(t *testing.T) {
	w := wrap(
		t,
		strings.ReplaceAll(
			batchJob,
			"PODSPEC",
			`{containers: [{name: c, resources: {requests: {cpu: 2000m, memory: 1024Mi}}, ports: [{containerPort: 1}], env: []}], nodeSelector: {}}`,
		),
	)
	facts, err := Adapter{}.Read(w)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(facts.PodSets)
	if err != nil {
		t.Fatal(err)
	}
	var back []kueue.PodSet
	if err := json.Unmarshal(stored, &back); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(facts.PodSets, back) {
		t.Errorf("%s", cmp.Diff(facts.PodSets, back))
	}
}

func TestInject(t *testing.T) {
	w := wrap(t, strings.ReplaceAll(batchJob, "PODSPEC", `{
		schedulingGates: [{name: g}], tolerations: [{key: mine, operator: Exists}],
		affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			{matchExpressions: [{key: zone, operator: In, values: [a]}]}, {matchExpressions: [{key: zone, operator: In, values: [b]}]}, {}]}}},
		containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}`))
	components, err := Components(w)
	if err != nil {
		t.Fatal(err)
	}
	info := aw.AppWrapperPodSetInfo{
		Annotations: map[string]string{
			kueue.WorkloadAnnotation: "appwrapper-job-1",
		},
		Labels: map[string]string{kueue.PodSetLabel: "job-0"},
		NodeSelector: map[string]string{
			"pool": "gpu",
		},
		Tolerations:     []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists"}},
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "g"}, {Name: "h"}},
	}
	object, err := Inject(
		w,
		components[0],
		[]aw.AppWrapperPodSetInfo{info},
		InjectOptions{Schedulers: jobs.Schedulers{Given: "s"}, Avoid: jobs.AvoidBadGPUs()},
	)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(object.Object, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	notIn := `{"key":"autopilot.ibm.com/gpuhealth","operator":"NotIn","values":["ERR","TESTING","EVICT"]}`
	want := strings.NewReplacer(
		"NOTIN",
		notIn,
		"NAME",
		generatedName("short-", "uid", 0),
	).Replace(
		`{"apiVersion":"batch/v1","kind":"Job",
		"metadata":{"name":"NAME","namespace":"blue","labels":{"workload.codeflare.dev/appwrapper":"job"},
			"ownerReferences":[{"apiVersion":"workload.codeflare.dev/v1beta2","kind":"AppWrapper","name":"job","uid":"uid","controller":true,"blockOwnerDeletion":true}]},
		"spec":{"parallelism":2,"completions":6,"template":{
			"metadata":{"annotations":{"kueue.x-k8s.io/workload":"appwrapper-job-1"},"labels":{"kueue.x-k8s.io/podset":"job-0","workload.codeflare.dev/appwrapper":"job"}},
			"spec":{"schedulerName":"s","schedulingGates":[{"name":"g"},{"name":"h"}],"nodeSelector":{"pool":"gpu"},
				"tolerations":[{"key":"mine","operator":"Exists"},{"key":"nvidia.com/gpu","operator":"Exists"}],
				"affinity":{"nodeAffinity":{
					"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
						{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]},NOTIN]},
						{"matchExpressions":[{"key":"zone","operator":"In","values":["b"]},NOTIN]},{}]},
					"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":50,"preference":{"matchExpressions":[{"key":"autopilot.ibm.com/gpuhealth","operator":"NotIn","values":["WARN"]}]}}]}},
				"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":1}}}]}}}}`,
	)
	var g, x any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &x); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x, g); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	again, err := Components(w)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(again[0].template, components[0].template); diff != "" {
		t.Errorf("Inject changed its argument\n%s", diff)
	}
}

func TestInjectWithoutGPUs(t *testing.T) {
	w := wrap(
		t,
		strings.ReplaceAll(
			batchJob,
			"PODSPEC",
			`{schedulerName: sakkara, containers: [{name: c, resources: {requests: {nvidia.com/gpu: 0, cpu: 1}}}]}`,
		),
	)
	components, err := Components(w)
	if err != nil {
		t.Fatal(err)
	}
	object, err := Inject(
		w,
		components[0],
		nil,
		InjectOptions{
			Schedulers: jobs.Schedulers{Given: "s", Ours: jobs.SchedulerNames()},
			Avoid:      jobs.AvoidBadGPUs(),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := unstructured.NestedMap(object.Object, "spec", "template", "spec", "affinity"); ok {
		t.Error("pods that ask for no GPU may use nodes with bad ones")
	}
	if s, _, _ := unstructured.NestedString(
		object.Object,
		"spec",
		"template",
		"spec",
		"schedulerName",
	); s != "sakkara" {
		t.Errorf("a name that our scheduler answers to became %q", s)
	}
}

func TestInjectDrops(t *testing.T) {
	cases := map[string]struct{ why, manifest string }{
		"Job": {
			"made for a queue of its own, it would stay suspended for ever",
			strings.ReplaceAll(batchJob, "parallelism: 2", "suspend: true, ttlSecondsAfterFinished: 0"),
		},
		"PyTorchJob": {
			"the same in another place",
			`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: p}, spec: {runPolicy: {suspend: true, ttlSecondsAfterFinished: 0}, pytorchReplicaSpecs: {Master: {template: {spec: PODSPEC}}}}}`,
		},
		"RayJob": {
			"the same in Ray",
			`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {suspend: true, rayClusterSpec: {headGroupSpec: {template: {spec: PODSPEC}}}}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := wrap(t, c.manifest)
			components, err := Components(w)
			if err != nil {
				t.Fatal(err)
			}
			object, err := Inject(w, components[0], nil, InjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(object.Object)
			if err != nil {
				t.Fatal(err)
			}
			if s := string(text); strings.Contains(s, `"suspend"`) || strings.Contains(s, "ttlSeconds") {
				t.Errorf("%s: %s", c.why, s)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	jobSet := `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s}, spec: {replicatedJobs: [
		{name: leader, template: {spec: {template: {spec: PODSPEC}}}},
		{name: workers, dependsOn: [{name: leader, status: Ready}], template: {spec: {template: {spec: PODSPEC}}}}]}, status: STATUS}`
	job := strings.ReplaceAll(batchJob, "generateName: short-", "name: j")
	job = strings.TrimSuffix(job, "}") + ", status: STATUS}"
	ray := `{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {rayClusterSpec: {headGroupSpec: {template: {spec: PODSPEC}}}}, status: STATUS}`
	cases := map[string]struct {
		why, manifest, status string
		outcome               lifecycle.Outcome
		heldBack              bool
	}{
		"job runs": {"no condition", job, `{active: 2}`, lifecycle.Undecided, false},
		"job about to complete": {
			"its pods may still run",
			job,
			`{conditions: [{type: SuccessCriteriaMet, status: "True"}]}`,
			lifecycle.Undecided,
			false,
		},
		"job complete": {
			"all completions",
			job,
			`{conditions: [{type: Complete, status: "True"}]}`,
			lifecycle.Completed,
			false,
		},
		"job failed": {
			"its back-off limit",
			job,
			`{conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded}]}`,
			lifecycle.Broken,
			false,
		},
		"job failed by policy": {
			"podFailurePolicy",
			job,
			`{conditions: [{type: Failed, status: "True", reason: PodFailurePolicy}]}`,
			lifecycle.NonRetryable,
			false,
		},
		"job was suspended": {
			"a condition that is false says nothing",
			job,
			`{conditions: [{type: Failed, status: "False"}]}`,
			lifecycle.Undecided,
			false,
		},
		"job set starts": {"workers wait for their leader", jobSet, `{}`, lifecycle.Undecided, true},
		"job set, leader ready": {
			"workers start now",
			jobSet,
			`{replicatedJobsStatus: [{name: leader, ready: 1}]}`,
			lifecycle.Undecided,
			false,
		},
		"job set, in order": {
			"the same by the other way to say it",
			strings.ReplaceAll(
				strings.ReplaceAll(jobSet, "dependsOn: [{name: leader, status: Ready}], ", ""),
				"{replicatedJobs",
				"{startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs",
			),
			`{}`,
			lifecycle.Undecided,
			true,
		},
		"job set complete": {
			"by its success policy",
			jobSet,
			`{replicatedJobsStatus: [{name: leader, ready: 1}], conditions: [{type: Completed, status: "True"}]}`,
			lifecycle.Completed,
			false,
		},
		"ray job done": {
			"its cluster may be gone",
			ray,
			`{jobStatus: SUCCEEDED, jobDeploymentStatus: Complete}`,
			lifecycle.Completed,
			false,
		},
		"ray job failed, retries": {
			"KubeRay tries again by itself",
			ray,
			`{jobStatus: FAILED, jobDeploymentStatus: Retrying}`,
			lifecycle.Undecided,
			true,
		},
		"ray job failed": {
			"KubeRay gave up",
			ray,
			`{jobStatus: FAILED, jobDeploymentStatus: Failed}`,
			lifecycle.Broken,
			false,
		},
		"ray job stopped": {
			"a user stopped it",
			ray,
			`{jobStatus: STOPPED, jobDeploymentStatus: Complete}`,
			lifecycle.Broken,
			false,
		},
		"status is not what it was": {
			"an operator of another version",
			job,
			`{conditions: 3}`,
			lifecycle.Undecided,
			false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := wrap(t, strings.ReplaceAll(c.manifest, "STATUS", c.status))
			components, err := Components(w)
			if err != nil {
				t.Fatal(err)
			}
			got := components[0].Observe(&unstructured.Unstructured{Object: components[0].template})
			last := got.PodSets[len(got.PodSets)-1]
			if got.Outcome != c.outcome || last.HeldBack != c.heldBack || !got.Reports {
				t.Errorf("%s: %+v", c.why, got)
			}
		})
	}
}

func TestKindsAndPriorities(t *testing.T) {
	w := wrap(
		t,
		service,
		strings.ReplaceAll(batchJob, "PODSPEC", `{priorityClassName: high-priority, containers: [{name: c}]}`),
	)
	refs, err := made(w, jobs.Schedulers{})
	if err != nil {
		t.Fatal(err)
	}
	if len(refs) != 2 || refs[0].GVK.Kind != "Service" || refs[1].GVK.Group != "batch" ||
		refs[1].Path.String() != "spec.components[1].template" {
		t.Errorf("%+v", refs)
	}
	pods := refs[1].Pods
	if len(refs[0].Pods) != 0 || len(pods) != 1 || pods[0].Template.Spec.PriorityClassName != "high-priority" ||
		pods[0].Path != "spec.components[1].template.spec.template" {
		t.Errorf("%+v", pods)
	}
}

func TestTopologyRequest(t *testing.T) {
	for why, manifest := range map[string]string{
		"its pods say it": strings.ReplaceAll(
			batchJob,
			"template: {spec",
			`template: {metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: rack}}, spec`,
		),
		"the Job says it": strings.ReplaceAll(
			batchJob,
			"completions: 6,",
			"completions: 6, scheduling: {schedulingConstraints: {topology: [{key: rack}]}},",
		),
	} {
		facts, err := Adapter{}.Read(wrap(t, manifest))
		if err != nil {
			t.Fatal(err)
		}
		r := facts.PodSets[0].TopologyRequest
		if r == nil || r.Required == nil || *r.Required != "rack" || r.PodIndexLabel == nil ||
			*r.PodIndexLabel != "batch.kubernetes.io/job-completion-index" {
			t.Errorf("%s: %+v", why, r)
		}
	}
}

func FuzzLookup(f *testing.F) {
	for _, path := range []string{"template", "template.spec.template", "template.groups[1].a", "template[9999]", "template.", "[0]"} {
		f.Add(path)
	}
	template := map[string]any{
		"spec":   map[string]any{"template": map[string]any{}},
		"groups": []any{1, map[string]any{"a": map[string]any{}}},
	}
	f.Fuzz(func(t *testing.T, path string) {
		if o, err := lookup(template, path); (o == nil) == (err == nil) {
			t.Errorf("lookup(%q) = %v, %v", path, o, err)
		}
	})
}
