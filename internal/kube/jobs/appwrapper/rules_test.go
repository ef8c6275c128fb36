package appwrapper

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// Of which JobSets no pod follows one that succeeded.
func TestJobSetsEndOnce(t *testing.T) {
	group := func(completions any) any {
		return map[string]any{
			"template": map[string]any{"spec": map[string]any{"parallelism": int64(2), "completions": completions}},
		}
	}
	restarts := func(policy map[string]any) map[string]any {
		return map[string]any{"replicatedJobs": []any{group(int64(2))}, "failurePolicy": policy}
	}
	for name, tc := range map[string]struct {
		why  string
		spec map[string]any
		want bool
	}{
		"one wave":          {"all pods are made at once", map[string]any{"replicatedJobs": []any{group(int64(2)), group(nil)}}, true},
		"several waves":     {"one of its Jobs makes pods after those that succeeded", map[string]any{"replicatedJobs": []any{group(int64(2)), group(int64(3))}}, false},
		"restarts":          {"all are made again when one fails", restarts(map[string]any{"maxRestarts": int64(1)}), false},
		"no restarts":       {"the first failure ends it", restarts(map[string]any{"maxRestarts": int64(0)}), true},
		"rules of failures": {"they may restart without counting", restarts(map[string]any{"rules": []any{map[string]any{"action": "RestartJobSetAndIgnoreMaxRestarts"}}}), false},
		"unreadable":        {"nothing is believed", restarts(map[string]any{"maxRestarts": "none"}), false},
		"nothing in it":     {"there is no pod", map[string]any{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := Component{
				GVK:      schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"},
				template: map[string]any{"spec": tc.spec},
			}
			if got := c.endsOnce(); got != tc.want {
				t.Errorf("%s: %v, want %v", tc.why, got, tc.want)
			}
		})
	}
}

// Whether no pod of a Job follows one that succeeded.
func TestOneWave(t *testing.T) {
	for name, tc := range map[string]struct {
		spec map[string]any
		want bool
	}{
		"nothing said":    {map[string]any{}, true},
		"as many":         {map[string]any{"parallelism": int64(3), "completions": int64(3)}, true},
		"more":            {map[string]any{"parallelism": int64(3), "completions": int64(4)}, false},
		"one of one":      {map[string]any{"completions": int64(1)}, true},
		"one at a time":   {map[string]any{"completions": int64(2)}, false},
		"work queue":      {map[string]any{"parallelism": int64(0)}, true},
		"no number":       {map[string]any{"parallelism": "x", "completions": int64(1)}, false},
		"no number, done": {map[string]any{"parallelism": int64(3), "completions": "x"}, false},
	} {
		if got := job.OneWave(map[string]any{"spec": tc.spec}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A user who writes a manifest again changes neither whose work it is nor what was admitted.
func TestKeep(t *testing.T) {
	infos := []aw.AppWrapperPodSetInfo{{Labels: map[string]string{"a": "b"}}}
	stored := func() *aw.AppWrapper {
		w := &aw.AppWrapper{}
		w.Labels = map[string]string{aw.AppWrapperUserLabel: "alice", aw.AppWrapperUserIDLabel: "7"}
		w.Finalizers = []string{aw.AppWrapperFinalizer}
		w.Spec.Suspend = true
		w.Spec.Components = []aw.AppWrapperComponent{{PodSetInfos: infos}}
		return w
	}
	tests := map[string]struct {
		why string
		is  func(*aw.AppWrapper)
		was func(*aw.AppWrapper)
		add func(want *aw.AppWrapper)
	}{
		"nothing": {why: "as it was"},
		"without any": {
			why: "clients leave out what they do not know",
			is:  func(w *aw.AppWrapper) { *w = aw.AppWrapper{}; w.Spec.Components = make([]aw.AppWrapperComponent, 1) },
		},
		"another user": {
			why: "the user who created it did",
			is:  func(w *aw.AppWrapper) { w.Labels[aw.AppWrapperUserLabel] = "bob" },
		},
		"labels of a user": {
			why: "others are the user's own",
			is:  func(w *aw.AppWrapper) { w.Labels = map[string]string{"x": "y"} },
			add: func(w *aw.AppWrapper) { w.Labels["x"] = "y" },
		},
		"nobody's": {
			why: "from before it was noted: no user can claim it",
			is:  func(*aw.AppWrapper) {},
			was: func(w *aw.AppWrapper) { w.Labels = nil },
			add: func(w *aw.AppWrapper) { w.Labels = map[string]string{} },
		},
		"a finalizer": {
			why: "the user's own is theirs",
			is:  func(w *aw.AppWrapper) { w.Finalizers = []string{"x/y"} },
			add: func(w *aw.AppWrapper) { w.Finalizers = []string{"x/y", aw.AppWrapperFinalizer} },
		},
		"no finalizer of ours": {
			why: "it had none",
			is:  func(w *aw.AppWrapper) { w.Finalizers = nil },
			was: func(w *aw.AppWrapper) { w.Finalizers = nil },
			add: func(w *aw.AppWrapper) { w.Finalizers = nil },
		},
		"a component more": {
			why: "nothing was admitted for it",
			is:  func(w *aw.AppWrapper) { w.Spec.Components = make([]aw.AppWrapperComponent, 2) },
			add: func(w *aw.AppWrapper) { w.Spec.Components = append(w.Spec.Components, aw.AppWrapperComponent{}) },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			was, is, want := stored(), stored(), stored()
			for f, w := range map[*func(*aw.AppWrapper)]*aw.AppWrapper{&tc.is: is, &tc.was: was, &tc.add: want} {
				if *f != nil {
					(*f)(w)
				}
			}
			if d := cmp.Diff(want, Keep(was, is)); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

// How near to each other pods want to be is read as a whole.
func TestTopologyOfGroups(t *testing.T) {
	var ps PodSet
	ps.Annotations = map[string]string{
		aw.TASPodIndexLabelAnnotation:      "i",
		aw.TASSubGroupIndexLabelAnnotation: "j",
		aw.TASSubGroupCountAnnotation:      "3",
	}
	if r := topologyRequest(ps); r != nil {
		t.Errorf("they do not say: %+v", r)
	}
	ps.Template.Annotations = map[string]string{
		kueue.PodSetUnconstrainedTopologyAnnotation: "false",
		kueue.PodSetGroupNameAnnotation:             "g",
	}
	want := &kueue.PodSetTopologyRequest{
		Unconstrained: new(
			false,
		),
		PodSetGroupName:    new("g"),
		PodIndexLabel:      new("i"),
		SubGroupIndexLabel: new("j"),
		SubGroupCount:      new(int32(3)),
	}
	if d := cmp.Diff(want, topologyRequest(ps)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	ps.Annotations[aw.TASSubGroupCountAnnotation] = "2147483648"
	ps.Template.Annotations = map[string]string{kueue.PodSetPreferredTopologyAnnotation: "rack"}
	if r := topologyRequest(
		ps,
	); r == nil || *r.Preferred != "rack" || r.SubGroupCount != nil ||
		r.Unconstrained != nil {
		t.Errorf("%+v", r)
	}
}

// Annotations of a wrapped object, in the words of KAI Scheduler, are about its own pods: two that each want one rack may
// be in two.
func TestWrappedObjectsSayHowNearTheirPodsAre(t *testing.T) {
	const job = `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: NAME,
		annotations: {kai.scheduler/topology-required-placement: rack}}, spec: {replicatedJobs: [
			{name: a, template: {spec: {template: {spec: PODSPEC}}}}, {name: b, template: {spec: {template: {spec: PODSPEC}}}}]}}`
	w := wrap(t, strings.ReplaceAll(job, "NAME", "one"), strings.ReplaceAll(job, "NAME", "two"))
	facts, err := Adapter{}.Read(w)
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, ps := range facts.PodSets {
		if r := ps.TopologyRequest; r == nil || *r.Required != "rack" {
			t.Fatalf("%s asks for %+v", ps.Name, r)
		}
		groups = append(groups, *ps.TopologyRequest.PodSetGroupName)
	}
	if d := cmp.Diff([]string{"component-0", "component-0", "component-1", "component-1"}, groups); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	w = wrap(t, strings.ReplaceAll(strings.ReplaceAll(job, "NAME", "one"), ": rack", ": no rack"))
	if errs := Validate(w); len(errs) != 1 || !strings.Contains(errs[0].Field, "metadata.annotations") {
		t.Errorf("what cannot be meant is refused with %v", errs)
	}
	w = wrap(t, strings.Replace(
		strings.ReplaceAll(job, "NAME", "one"),
		"template: {spec: PODSPEC}",
		"template: {metadata: {annotations: {kueue.x-k8s.io/podset-unconstrained-topology: 'true'}}, spec: PODSPEC}",
		1,
	))
	const want = "spec.components[0].template.spec.replicatedJobs[0].template.spec.template.metadata.annotations[kueue.x-k8s.io/podset-unconstrained-topology]"
	if errs := Validate(w); len(errs) != 1 || errs[0].Field != want {
		t.Errorf("pods that contradict their object are refused with %v", errs)
	}
}

// What is no list of objects, or no object at all, is named.
func TestWrongShapes(t *testing.T) {
	for want, o := range map[string]map[string]any{
		"":                              {},
		"groups must be a list":         {"spec": map[string]any{"groups": "x"}},
		"groups[1] must be an object":   {"spec": map[string]any{"groups": []any{map[string]any{}, 7}}},
		"read a list: .spec.groups acc": {"spec": "x"},
	} {
		_, err := jobs.Objects(o, "spec", "groups")
		if (err != nil) != (want != "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for manifest, want := range map[string]bool{
		`{"apiVersion": "v1", "kind": "Pod"}`: true, `{"kind": "Pod"}`: false, `{"apiVersion": "v1"}`: false,
	} {
		w := &aw.AppWrapper{}
		w.Spec.Components = []aw.AppWrapperComponent{{}}
		w.Spec.Components[0].Template.Raw = []byte(manifest)
		_, errs := parse(w)
		if len(errs) == 0 {
			t.Fatalf("%s is complete", manifest)
		}
		if got := !strings.Contains(errs[0].Error(), "give the apiVersion and kind"); got != want {
			t.Errorf("%s: %v", manifest, errs)
		}
		if _, err := made(w, jobs.Schedulers{}); err == nil {
			t.Errorf("%s has a kind that can be created", manifest)
		}
	}
	if got := (Component{}).Observe(
		&unstructured.Unstructured{Object: map[string]any{}},
	); got.Reports || !got.Exists ||
		got.Deputies {
		t.Errorf("of a kind that is not known: %+v", got)
	}
}

// What cannot be read is told to its author, and nothing is made of it.
func TestUnreadable(t *testing.T) {
	a := Adapter{}
	if _, err := a.Read(&batchv1.Job{}); err == nil {
		t.Error("a Job is no AppWrapper")
	}
	w := &aw.AppWrapper{}
	w.Spec.Components = []aw.AppWrapperComponent{{}}
	if _, err := a.Read(w); err == nil {
		t.Error("a component without a template has no pods that could be counted")
	}
	c := Component{PodSets: make([]PodSet, 2)}
	if _, err := Inject(
		w,
		c,
		make([]aw.AppWrapperPodSetInfo, 1),
		InjectOptions{},
	); err == nil ||
		!strings.Contains(err.Error(), "has 2 pod sets, its podSetInfos are 1") {
		t.Errorf("%v", err)
	}
	if err := write(map[string]any{"metadata": map[string]any{}}, &corev1.PodTemplateSpec{}); err == nil {
		t.Error("pods without a spec get no tolerations")
	}
}

// Nodes are avoided as far as that is asked for.
func TestAvoid(t *testing.T) {
	for name, tc := range map[string]struct {
		how              jobs.Avoidance
		required, rather int
	}{
		"never":  {jobs.Avoidance{Label: "l", Required: []string{"x"}}, 1, 0},
		"rather": {jobs.Avoidance{Label: "l", Preferred: []string{"x"}}, 0, 1},
		"both":   {jobs.Avoidance{Label: "l", Required: []string{"x"}, Preferred: []string{"y"}}, 1, 1},
	} {
		n := avoid(nil, tc.how).NodeAffinity
		required := 0
		if s := n.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
			required = len(s.NodeSelectorTerms)
		}
		if required != tc.required || len(n.PreferredDuringSchedulingIgnoredDuringExecution) != tc.rather {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// What an author declares of a kind that is known must be as it is.
func TestDeclared(t *testing.T) {
	known := []aw.AppWrapperPodSet{{Path: "a"}, {Path: "b", Replicas: new(int32(3))}}
	three := new(int32(3))
	for name, tc := range map[string]struct {
		declared []aw.AppWrapperPodSet
		want     []string
	}{
		"nothing":     {nil, nil},
		"all":         {[]aw.AppWrapperPodSet{{Path: "b", Replicas: three}, {Path: "a", Replicas: new(int32(1))}}, nil},
		"fewer":       {[]aw.AppWrapperPodSet{{Path: "a"}}, []string{"podSets"}},
		"other":       {[]aw.AppWrapperPodSet{{Path: "a"}, {Path: "c"}}, []string{"podSets[1].path"}},
		"twice":       {[]aw.AppWrapperPodSet{{Path: "a"}, {Path: "a"}}, []string{"podSets[1].path"}},
		"other sizes": {[]aw.AppWrapperPodSet{{Path: "a"}, {Path: "b"}}, []string{"podSets[1].replicas"}},
	} {
		var got []string
		errs, _ := compare(tc.declared, known, field.NewPath("podSets"), false)
		for _, e := range errs {
			got = append(got, e.Field)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// What an author declares of a kind that is known here only counts for nothing where it
// is wrong: elsewhere it was believed.
func TestDeclaredElsewhere(t *testing.T) {
	set := func(podSets string) *aw.AppWrapper {
		w := &aw.AppWrapper{}
		text := `{"spec": {"components": [{"podSets": [` + podSets + `], "template": {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
			"metadata": {"name": "serve"}, "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 4,
			"leaderTemplate": {"spec": {"containers": [{"name": "l", "image": "i"}]}}, "workerTemplate": {"spec": {"containers": [{"name": "w", "image": "i"}]}}}}}}]}}`
		if err := json.Unmarshal([]byte(text), w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	const leaders = `{"path": "template.spec.leaderWorkerTemplate.leaderTemplate", "replicas": 2}`
	workers := func(n string) string {
		return `, {"path": "template.spec.leaderWorkerTemplate.workerTemplate", "replicas": ` + n + `}`
	}
	for name, tc := range map[string]struct {
		declared string
		told     []string
	}{
		"right":    {leaders + workers("6"), nil},
		"none":     {"", nil},
		"too few":  {leaders + workers("4"), []string{"spec.components[0].podSets[1].replicas: the object makes 6 such pods, and they are counted"}},
		"not all":  {leaders, []string{"spec.components[0].podSets: the object has 2 pod sets, and they are counted"}},
		"too many": {leaders + workers("9"), []string{"spec.components[0].podSets[1].replicas: the object makes 6 such pods, and they are counted"}},
	} {
		w := set(tc.declared)
		if d := cmp.Diff(tc.told, warnings(w, lifecycle.Policy{})); d != "" {
			t.Errorf("%s is told (-want +got):\n%s", name, d)
		}
		components, err := Components(w)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		counted := map[string]int32{}
		for _, ps := range components[0].PodSets {
			counted[ps.Path[len("template.spec.leaderWorkerTemplate."):]] += ps.Count
		}
		if d := cmp.Diff(map[string]int32{"leaderTemplate": 2, "workerTemplate": 6}, counted); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
