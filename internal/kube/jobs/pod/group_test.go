package pod_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// aPod is one of a group of three, which is held, made so many seconds after the first.
func aPod(name string, after int, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         "blue",
			Name:              name,
			CreationTimestamp: metav1.NewTime(begin.Add(time.Duration(after) * time.Second)),
			Labels: map[string]string{
				kueue.ManagedLabel:      "true",
				kueue.PodGroupNameLabel: "g",
				kueue.QueueNameLabel:    "q",
			},
			Annotations: map[string]string{kueue.PodGroupTotalCountAnnotation: "3", kueue.RoleHashAnnotation: "role"},
			Finalizers:  []string{kueue.PodFinalizer},
		},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: kueue.AdmissionGate}},
			Containers:      []corev1.Container{{Name: "c", Image: "i", Resources: requests("1")}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func requests(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}
}

func runs(p *corev1.Pod) {
	p.Spec.SchedulingGates, p.Spec.NodeName, p.Status.Phase = nil, "n", corev1.PodRunning
}

func started(p *corev1.Pod) { p.Spec.SchedulingGates = nil }

func ended(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { runs(p); p.Status.Phase = phase }
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(begin)) }

func stopped(p *corev1.Pod) {
	p.Status.Conditions = append(
		p.Status.Conditions,
		corev1.PodCondition{Type: pod.TerminationTarget, Status: corev1.ConditionTrue},
	)
}

func note(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

func alone(p *corev1.Pod) { delete(p.Labels, kueue.PodGroupNameLabel) }

const (
	good = corev1.PodSucceeded
	bad  = corev1.PodFailed
)

var (
	early   = note(kueue.PodGroupFastAdmissionAnnotation, "true")
	serving = note(kueue.PodGroupServingAnnotation, "true")
	final   = note(kueue.RetriableInGroupAnnotation, "false")
)

// What the pods of a group come to.
func TestUnits(t *testing.T) {
	type result struct {
		Missing int32
		Extra   []string
		Wrong   bool
		Ready   bool
		Outcome *bool
	}
	ok, broken := new(true), new(false)
	for name, tc := range map[string]struct {
		why      string
		pods     []*corev1.Pod
		replicas *int32
		want     result
	}{
		"two of three":     {"the third is awaited", []*corev1.Pod{aPod("a", 0), aPod("b", 1)}, nil, result{Missing: 1}},
		"all":              {"nothing is", []*corev1.Pod{aPod("a", 0), aPod("b", 1), aPod("c", 2)}, nil, result{}},
		"early":            {"the first is enough", []*corev1.Pod{aPod("a", 0, early)}, nil, result{}},
		"a deleted one":    {"it is not coming back", []*corev1.Pod{aPod("a", 0), aPod("b", 1), aPod("c", 2, deleted)}, nil, result{Missing: 1}},
		"a failed one":     {"another one may come", []*corev1.Pod{aPod("a", 0, runs), aPod("b", 1, runs), aPod("c", 2, ended(bad))}, nil, result{Missing: 1}},
		"a succeeded one":  {"it is done", []*corev1.Pod{aPod("a", 0, runs), aPod("b", 1, runs), aPod("c", 2, ended(good))}, nil, result{}},
		"one more":         {"the newest goes", []*corev1.Pod{aPod("a", 0), aPod("d", 3), aPod("b", 1), aPod("c", 2)}, nil, result{Extra: []string{"d"}}},
		"one more runs":    {"a held one goes first", []*corev1.Pod{aPod("a", 0), aPod("b", 1, runs), aPod("c", 2, runs), aPod("d", 3, runs)}, nil, result{Extra: []string{"a"}}},
		"one too many now": {"those that succeeded have had their turn", []*corev1.Pod{aPod("a", 0, ended(good)), aPod("b", 1, ended(good)), aPod("c", 2, runs), aPod("d", 3)}, nil, result{Extra: []string{"d"}}},
		"all succeeded": {
			"it has ended",
			[]*corev1.Pod{aPod("a", 0, ended(good)), aPod("b", 1, ended(good)), aPod("c", 2, ended(good))},
			nil,
			result{Ready: true, Outcome: ok},
		},
		"all succeeded and were deleted": {
			"the finalizer kept them for this",
			[]*corev1.Pod{aPod("a", 0, ended(good)), aPod("b", 1, ended(good), deleted), aPod("c", 2, ended(good))},
			nil,
			result{Ready: true, Outcome: ok},
		},
		"one failed for good, others run": {"they go on", []*corev1.Pod{aPod("a", 0, ended(bad), final), aPod("b", 1, runs), aPod("c", 2, runs)}, nil, result{Missing: 1}},
		"one failed for good, all ended": {
			"there is nothing to come",
			[]*corev1.Pod{aPod("a", 0, ended(bad), final), aPod("b", 1, ended(good)), aPod("c", 2, ended(good))},
			nil,
			result{Missing: 1, Outcome: broken},
		},
		"all failed": {"they may be replaced", []*corev1.Pod{aPod("a", 0, ended(bad)), aPod("b", 1, ended(bad)), aPod("c", 2, ended(bad))}, nil, result{Missing: 3}},
		"serving": {
			"it never ends, and an end is no success",
			[]*corev1.Pod{aPod("a", 0, ended(good), serving), aPod("b", 1, ended(good)), aPod("c", 2, ended(good))},
			nil,
			result{Missing: 3},
		},
		"stopped": {
			"how it ends when it is told to says nothing",
			[]*corev1.Pod{aPod("a", 0, ended(good), stopped), aPod("b", 1, ended(good)), aPod("c", 2, ended(good))},
			nil,
			result{Missing: 1},
		},
		"stopped, final": {
			"it did not fail",
			[]*corev1.Pod{aPod("a", 0, ended(bad), final, stopped), aPod("b", 1, ended(good)), aPod("c", 2, ended(good))},
			nil,
			result{Missing: 1},
		},
		"alone, stopped":       {"it has not ended by itself", []*corev1.Pod{aPod("a", 0, alone, ended(good), stopped)}, nil, result{Missing: 1}},
		"other totals":         {"which is right is not known", []*corev1.Pod{aPod("a", 0), aPod("b", 1, note(kueue.PodGroupTotalCountAnnotation, "2"))}, nil, result{Missing: 1, Wrong: true}},
		"no total":             {"nobody says how many", []*corev1.Pod{aPod("a", 0, note(kueue.PodGroupTotalCountAnnotation, ""))}, nil, result{Wrong: true, Ready: true}},
		"other queues":         {"it can wait in one", []*corev1.Pod{aPod("a", 0), aPod("b", 1, func(p *corev1.Pod) { p.Labels[kueue.QueueNameLabel] = "other" })}, nil, result{Missing: 1, Wrong: true}},
		"of a StatefulSet":     {"it says how many", []*corev1.Pod{aPod("a", 0, early, serving)}, new(int32(2)), result{}},
		"too many of such":     {"its controller deletes the right one", []*corev1.Pod{aPod("a", 0, early), aPod("b", 1), aPod("c", 2)}, new(int32(2)), result{}},
		"alone":                {"it is all there is", []*corev1.Pod{aPod("a", 0, alone)}, nil, result{}},
		"alone, succeeded":     {"that is its end", []*corev1.Pod{aPod("a", 0, alone, ended(good))}, nil, result{Ready: true, Outcome: ok}},
		"alone, failed":        {"and that", []*corev1.Pod{aPod("a", 0, alone, ended(bad))}, nil, result{Missing: 1, Outcome: broken}},
		"nothing":              {"nothing is missing of nothing", nil, nil, result{Missing: 1}},
		"deleted before ready": {"a group that goes lacks nothing that matters", []*corev1.Pod{aPod("a", 0, deleted, note(kueue.PodGroupTotalCountAnnotation, "1"))}, nil, result{Missing: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			u := pod.NewUnit(tc.pods, tc.replicas)
			got := result{Missing: u.Missing(), Wrong: u.Wrong != "", Ready: u.Ready()}
			for _, p := range u.Extra() {
				got.Extra = append(got.Extra, p.Name)
			}
			if o := u.Outcome(); o != nil {
				got.Outcome = &o.Success
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

// A finalizer goes when nothing has to be remembered of its pod, and not before.
func TestAccounted(t *testing.T) {
	for name, tc := range map[string]struct {
		why    string
		pods   []*corev1.Pod
		stands pod.UnitState
		want   []string
	}{
		"runs":                       {"it has quota", []*corev1.Pod{aPod("a", 0, runs)}, pod.Over, nil},
		"deleted, still runs":        {"its node has not said that it ended", []*corev1.Pod{aPod("a", 0, runs, deleted)}, pod.Losing, nil},
		"deleted while held":         {"it never had anything", []*corev1.Pod{aPod("a", 0, deleted), aPod("b", 1)}, pod.Queued, []string{"a"}},
		"deleted before a node":      {"it never will", []*corev1.Pod{aPod("a", 0, started, deleted), aPod("b", 1)}, pod.Queued, []string{"a"}},
		"succeeded":                  {"it counts until the group has ended", []*corev1.Pod{aPod("a", 0, ended(good)), aPod("b", 1, runs)}, pod.Queued, nil},
		"succeeded and deleted":      {"it counts all the same", []*corev1.Pod{aPod("a", 0, ended(good), deleted), aPod("b", 1, runs)}, pod.Queued, nil},
		"serving, ended":             {"another one takes its name", []*corev1.Pod{aPod("a", 0, ended(good), serving, deleted), aPod("b", 1, runs)}, pod.Queued, []string{"a"}},
		"stopped, ended well":        {"it did not succeed", []*corev1.Pod{aPod("a", 0, ended(good), stopped, deleted, final), aPod("b", 1)}, pod.Losing, []string{"a"}},
		"all deleted":                {"the group was given up", []*corev1.Pod{aPod("a", 0, ended(good), deleted), aPod("b", 1, ended(bad), deleted)}, pod.Queued, []string{"a", "b"}},
		"failed":                     {"another one counts in its stead", []*corev1.Pod{aPod("a", 0, ended(bad)), aPod("b", 1, runs)}, pod.Queued, []string{"a"}},
		"failed for good":            {"no other one will", []*corev1.Pod{aPod("a", 0, ended(bad), final), aPod("b", 1, runs)}, pod.Queued, nil},
		"the group has ended":        {"all is written down", []*corev1.Pod{aPod("a", 0, ended(good)), aPod("b", 1, ended(bad))}, pod.Over, []string{"a", "b"}},
		"alone":                      {"its end is written first", []*corev1.Pod{aPod("a", 0, alone, ended(good))}, pod.Queued, nil},
		"alone and stopped":          {"it is not coming back", []*corev1.Pod{aPod("a", 0, alone, ended(bad), deleted)}, pod.Losing, []string{"a"}},
		"alone, Workload is gone":    {"there is nowhere to write it", []*corev1.Pod{aPod("a", 0, alone, ended(good))}, pod.Unqueued, []string{"a"}},
		"never queued":               {"there is nobody to count for", []*corev1.Pod{aPod("a", 0, ended(good))}, pod.Unqueued, []string{"a"}},
		"about to be queued again":   {"it still counts", []*corev1.Pod{aPod("a", 0, ended(good)), aPod("b", 1)}, pod.Unqueued, nil},
		"without finalizer":          {"there is nothing to take off", []*corev1.Pod{aPod("a", 0, ended(good), func(p *corev1.Pod) { p.Finalizers = nil })}, pod.Over, nil},
		"stopped, others are held":   {"a new one may come", []*corev1.Pod{aPod("a", 0, ended(bad), deleted), aPod("b", 1)}, pod.Losing, []string{"a"}},
		"succeeded before a stopped": {"it has done its part", []*corev1.Pod{aPod("a", 0, ended(good)), aPod("b", 1, ended(bad), deleted), aPod("c", 2)}, pod.Losing, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := pod.NewUnit(tc.pods, nil)
			var got []string
			for _, p := range u.Accounted(tc.stands) {
				got = append(got, p.Name)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

// A group has a pod set for each role, in the order in which they came.
func TestPodSets(t *testing.T) {
	other := note(kueue.RoleHashAnnotation, "other")
	for name, tc := range map[string]struct {
		why      string
		pods     []*corev1.Pod
		replicas *int32
		want     map[string]int32
	}{
		"one role":             {"they are alike", []*corev1.Pod{aPod("a", 0), aPod("b", 1), aPod("c", 2)}, nil, map[string]int32{"role": 3}},
		"two roles":            {"a leader and workers", []*corev1.Pod{aPod("a", 0, other), aPod("b", 1), aPod("c", 2)}, nil, map[string]int32{"other": 1, "role": 2}},
		"early":                {"those to come are taken for its like", []*corev1.Pod{aPod("a", 0, early)}, nil, map[string]int32{"role": 3}},
		"early, two roles":     {"what is there is known", []*corev1.Pod{aPod("a", 0, early), aPod("b", 1, other)}, nil, map[string]int32{"role": 2, "other": 1}},
		"one succeeded":        {"it was one of them", []*corev1.Pod{aPod("a", 0, ended(good)), aPod("b", 1), aPod("c", 2)}, nil, map[string]int32{"role": 3}},
		"one failed":           {"another one counts", []*corev1.Pod{aPod("a", 0, ended(bad)), aPod("b", 1), aPod("c", 2), aPod("d", 3)}, nil, map[string]int32{"role": 3}},
		"alone":                {"as every single job", []*corev1.Pod{aPod("a", 0, alone)}, nil, map[string]int32{"main": 1}},
		"of a StatefulSet":     {"all of them, at the first", []*corev1.Pod{aPod("a", 0, early)}, new(int32(5)), map[string]int32{"role": 5}},
		"of a scaled-down one": {"what is there needs quota", []*corev1.Pod{aPod("a", 0, early), aPod("b", 1)}, new(int32(1)), map[string]int32{"role": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			u := pod.NewUnit(tc.pods, tc.replicas)
			got := map[string]int32{}
			for _, ps := range u.PodSets() {
				got[string(ps.Name)] = ps.Count
				if len(ps.Template.Spec.SchedulingGates) > 0 || ps.Template.Labels[kueue.ManagedLabel] != "" {
					t.Error("the pod set says how its pod was held")
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

// What is done gives its quota back.
func TestReclaimable(t *testing.T) {
	three := []kueue.PodSet{{Name: "role", Count: 3}}
	for name, tc := range map[string]struct {
		why      string
		pods     []*corev1.Pod
		replicas *int32
		detached int32
		want     int32
	}{
		"one succeeded":      {"it needs nothing any more", []*corev1.Pod{aPod("a", 0, ended(good)), aPod("b", 1, runs), aPod("c", 2, runs)}, nil, 0, 1},
		"one failed":         {"another one will need it", []*corev1.Pod{aPod("a", 0, ended(bad)), aPod("b", 1, runs), aPod("c", 2, runs)}, nil, 0, 0},
		"scaled down":        {"its controller makes fewer", []*corev1.Pod{aPod("a", 0, runs), aPod("b", 1, runs)}, new(int32(2)), 0, 1},
		"scaled down, runs":  {"the pod is not gone yet", []*corev1.Pod{aPod("a", 0, runs), aPod("b", 1, runs), aPod("c", 2, runs, deleted)}, new(int32(2)), 0, 0},
		"as many":            {"one may just be replaced", []*corev1.Pod{aPod("a", 0, runs), aPod("b", 1, runs)}, new(int32(3)), 0, 0},
		"as many, one apart": {"it has quota of its own", []*corev1.Pod{aPod("a", 0, runs), aPod("b", 1, runs)}, new(int32(3)), 1, 1},
		"to none":            {"all of it", nil, new(int32(0)), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			u := pod.NewUnit(tc.pods, tc.replicas)
			got := int32(0)
			for _, r := range u.Reclaimable(three, tc.detached) {
				got += r.Count
			}
			if got != tc.want {
				t.Errorf("%s: %d are given back, want %d", tc.why, got, tc.want)
			}
		})
	}
}

// An admission adds to a pod, and contradicts nothing that its author wrote.
func TestStart(t *testing.T) {
	info := jobs.PodSetInfo{
		Labels: map[string]string{
			kueue.PodSetLabel: "role",
		},
		Annotations:  map[string]string{kueue.WorkloadAnnotation: "g"},
		NodeSelector: map[string]string{"zone": "a"},
		Tolerations:  []corev1.Toleration{{Key: "gpu"}},
	}
	was := aPod("a", 0, func(p *corev1.Pod) {
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/mine"})
	})
	got, err := pod.Start(was, info)
	if err != nil {
		t.Fatal(err)
	}
	if podmeta.Gated(got) || len(got.Spec.SchedulingGates) != 1 || got.Spec.NodeSelector["zone"] != "a" ||
		len(got.Spec.Tolerations) != 1 ||
		got.Annotations[kueue.WorkloadAnnotation] != "g" ||
		got.Labels[kueue.PodSetLabel] != "role" ||
		!podmeta.Gated(was) {
		t.Errorf("started: %+v", got)
	}
	was.Spec.NodeSelector = map[string]string{"zone": "b"}
	if _, err := pod.Start(was, info); err == nil {
		t.Error("a pod that asks for another zone was started")
	}
}

// Pods are of one role if they ask for the same.
func TestRoleHash(t *testing.T) {
	hash := func(change func(*corev1.PodSpec)) string {
		spec := aPod("a", 0).Spec.DeepCopy()
		change(spec)
		return podmeta.Role(&corev1.Pod{Spec: *spec})
	}
	same := hash(func(*corev1.PodSpec) {})
	if got := hash(
		func(s *corev1.PodSpec) { s.Containers[0].Image, s.Containers[0].Command = "other", []string{"x"} },
	); got != same {
		t.Error("an image makes another role")
	}
	for name, change := range map[string]func(*corev1.PodSpec){
		"requests":     func(s *corev1.PodSpec) { s.Containers[0].Resources = requests("2") },
		"nodeSelector": func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b"} },
		"tolerations":  func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "a"}} },
		"overhead":     func(s *corev1.PodSpec) { s.Overhead = requests("1").Requests },
		"priority":     func(s *corev1.PodSpec) { s.PriorityClassName = "high" },
		"init":         func(s *corev1.PodSpec) { s.InitContainers = s.Containers },
	} {
		if hash(change) == same {
			t.Errorf("%s make no other role", name)
		}
	}
}

// What a new pod says of its group is refused if it makes no sense.
func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		counted bool
		want    []string
	}{
		"right":                  {func(*corev1.Pod) {}, false, nil},
		"alone":                  {func(p *corev1.Pod) { alone(p); p.Annotations = nil }, false, nil},
		"total of no group":      {alone, false, []string{"metadata.annotations[kueue.x-k8s.io/pod-group-total-count]"}},
		"no total":               {func(p *corev1.Pod) { p.Annotations = nil }, false, []string{"metadata.annotations[kueue.x-k8s.io/pod-group-total-count]"}},
		"no total, counted":      {func(p *corev1.Pod) { p.Annotations = nil }, true, nil},
		"a total of nothing":     {note(kueue.PodGroupTotalCountAnnotation, "0"), false, []string{"metadata.annotations[kueue.x-k8s.io/pod-group-total-count]"}},
		"no name":                {func(p *corev1.Pod) { p.Labels[kueue.PodGroupNameLabel] = "A_B" }, false, []string{"metadata.labels[kueue.x-k8s.io/pod-group-name]"}},
		"neither true nor false": {note(kueue.RetriableInGroupAnnotation, "no"), false, []string{"metadata.annotations[kueue.x-k8s.io/retriable-in-group]"}},
	} {
		p := aPod("a", 0)
		tc.change(p)
		var got []string
		for _, e := range podmeta.Validate(p, tc.counted) {
			got = append(got, e.Field)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// What holds a pod, and tells whose it is, is not its author's to change.
func TestValidateChange(t *testing.T) {
	for name, tc := range map[string]struct {
		was, change func(*corev1.Pod)
		refused     bool
	}{
		"the gate":              {func(*corev1.Pod) {}, started, true},
		"the finalizer":         {func(*corev1.Pod) {}, func(p *corev1.Pod) { p.Finalizers = nil }, true},
		"the group":             {func(*corev1.Pod) {}, alone, true},
		"the part of the group": {func(*corev1.Pod) {}, func(p *corev1.Pod) { p.Labels[podmeta.SubGroupLabel] = "x" }, true},
		"the role":              {func(*corev1.Pod) {}, note(kueue.RoleHashAnnotation, "x"), true},
		"the Workload":          {runs, note(kueue.WorkloadAnnotation, "x"), true},
		"the mark":              {runs, func(p *corev1.Pod) { delete(p.Labels, kueue.ManagedLabel) }, true},
		"the queue, held":       {func(*corev1.Pod) {}, func(p *corev1.Pod) { p.Labels[kueue.QueueNameLabel] = "x" }, false},
		"the queue, started":    {started, func(p *corev1.Pod) { p.Labels[kueue.QueueNameLabel] = "x" }, true},
		"something else":        {runs, func(p *corev1.Pod) { p.Labels["app"] = "x" }, false},
		"that it is not final":  {runs, final, false},
	} {
		was := aPod("a", 0)
		tc.was(was)
		is := was.DeepCopy()
		tc.change(is)
		if got := len(podmeta.ValidateChange(was, is)) > 0; got != tc.refused {
			t.Errorf("%s: refused %v, want %v", name, got, tc.refused)
		}
	}
}
