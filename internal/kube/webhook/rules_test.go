package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// fields are the places of errors, in their order.
func fields(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Field)
	}
	return out
}

// What may change of how a job is queued depends on whether it runs: before, now, or
// both.
func TestLabelChanges(t *testing.T) {
	const queue, class, limit, workload = kueue.QueueNameLabel, kueue.PriorityClassLabel, kueue.MaxExecTimeSecondsLabel, kueue.PrebuiltWorkloadLabel
	tests := map[string]struct {
		why           string
		label         string
		from, to      string
		defaultQueue  bool
		waiting       bool // refused while it waits
		starts, stops bool // refused in the write that starts or stops it
		running       bool // refused while it runs
	}{
		"nothing":              {why: "nothing changes", label: queue, from: "a", to: "a", defaultQueue: true},
		"another queue":        {why: "it holds quota of the old one", label: queue, from: "a", to: "b", starts: true, running: true},
		"no queue":             {why: "it leaves the queues", label: queue, from: "a", starts: true, running: true},
		"no queue, default":    {why: "it would get the default again", label: queue, from: "a", defaultQueue: true, waiting: true, starts: true, stops: true, running: true},
		"a first queue":        {why: "it is to wait first", label: queue, to: "a", starts: true, running: true},
		"another class":        {why: "its priority may change at any time", label: class, from: "a", to: "b"},
		"no class":             {why: "its old priority would stay", label: class, from: "a", waiting: true, starts: true, stops: true, running: true},
		"a first class":        {why: "while it waits", label: class, to: "a", starts: true, running: true},
		"another time limit":   {why: "it is part of the admission, before and after", label: limit, from: "1", to: "2", starts: true, stops: true, running: true},
		"the same time limit":  {why: "nothing changes", label: limit, from: "1", to: "1"},
		"another Workload":     {why: "it runs by the old one", label: workload, from: "a", to: "b", starts: true, running: true},
		"a Workload, the same": {why: "nothing changes", label: workload, from: "a", to: "a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := func(value string, suspended bool) queued {
				o := &metav1.ObjectMeta{Labels: map[string]string{}}
				if value != "" {
					o.Labels[tc.label] = value
				}
				return queued{Object: o, suspended: suspended}
			}
			for _, c := range []struct {
				when    string
				was, is bool
				refused bool
			}{
				{"while it waits", true, true, tc.waiting},
				{"as it starts", true, false, tc.starts},
				{"as it stops", false, true, tc.stops},
				{"while it runs", false, false, tc.running},
			} {
				var want []string
				if c.refused {
					want = []string{"metadata.labels[" + tc.label + "]"}
				}
				if d := cmp.Diff(want, fields(validateLabelChanges(job(tc.from, c.was), job(tc.to, c.is), tc.defaultQueue))); d != "" {
					t.Errorf("%s, %s (-want +got):\n%s", tc.why, c.when, d)
				}
			}
		})
	}
}

// How many pods a Job may start with is its author's choice until it runs.
func TestParallelismChanges(t *testing.T) {
	const fewest, same = kueue.JobMinParallelismAnnotation, kueue.JobCompletionsEqualParallelismAnnotation
	type shape struct {
		pods        int32 // 0 for none given
		fewest      string
		same        string
		runs        bool
		completions int32
	}
	a := func(s shape) *batchv1.Job {
		j := &batchv1.Job{}
		j.Annotations = map[string]string{}
		if s.fewest != "" {
			j.Annotations[fewest] = s.fewest
		}
		if s.same != "" {
			j.Annotations[same] = s.same
		}
		if s.pods > 0 {
			j.Spec.Parallelism = &s.pods
		}
		if s.completions > 0 {
			j.Spec.Completions, j.Spec.CompletionMode = &s.completions, new(batchv1.IndexedCompletion)
		}
		j.Spec.Suspend = new(!s.runs)
		return j
	}
	at := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, "metadata.annotations["+n+"]")
		}
		return out
	}
	size := []string{"spec.parallelism"}
	tests := map[string]struct {
		why     string
		was, is shape
		want    []string
	}{
		"scaled while it waits":       {"it was not admitted yet", shape{pods: 3, fewest: "1"}, shape{pods: 4, fewest: "1"}, nil},
		"scaled as it stops":          {"it is restored then", shape{pods: 2, fewest: "1", runs: true}, shape{pods: 4, fewest: "1"}, nil},
		"scaled as it starts":         {"the admission says with how many", shape{pods: 4, fewest: "1"}, shape{pods: 2, fewest: "1", runs: true}, nil},
		"scaled while it runs":        {"the admission set it", shape{pods: 2, fewest: "1", runs: true}, shape{pods: 3, fewest: "1", runs: true}, size},
		"one is the default":          {"nothing changes", shape{fewest: "1", runs: true}, shape{pods: 1, fewest: "1", runs: true}, nil},
		"all or nothing":              {"other rules say what may be scaled", shape{pods: 2, runs: true}, shape{pods: 3, runs: true}, nil},
		"another minimum":             {"below the number of pods", shape{pods: 4, fewest: "1"}, shape{pods: 4, fewest: "3"}, nil},
		"a minimum of all":            {"that is no choice", shape{pods: 4, fewest: "1"}, shape{pods: 4, fewest: "4"}, at(fewest)},
		"a minimum of nothing":        {"a Job without pods does nothing", shape{pods: 4}, shape{pods: 4, fewest: "0"}, at(fewest)},
		"a minimum of one of one":     {"one is the default", shape{}, shape{fewest: "1"}, at(fewest)},
		"a wrong minimum that stays":  {"it was let in once", shape{pods: 4, fewest: "x"}, shape{pods: 4, fewest: "x"}, nil},
		"completions follow":          {"while it waits", shape{pods: 4, completions: 4}, shape{pods: 4, completions: 4, same: "true"}, nil},
		"completions of one":          {"one pod is the default", shape{completions: 1}, shape{completions: 1, same: "true"}, nil},
		"completions do not":          {"there are more", shape{pods: 4, completions: 5}, shape{pods: 4, completions: 5, same: "true"}, at(same)},
		"completions, not indexed":    {"nobody knows which is left out", shape{pods: 4}, shape{pods: 4, same: "true"}, at(same)},
		"completions do not follow":   {"that is how Jobs are", shape{pods: 4}, shape{pods: 4, same: "false"}, nil},
		"completions follow, running": {"how it was admitted stays", shape{pods: 4, completions: 4, runs: true}, shape{pods: 4, completions: 4, same: "true", runs: true}, at(same)},
		"completions follow, as it stops": {
			"it is admitted again", shape{pods: 4, completions: 4, runs: true}, shape{pods: 4, completions: 4, same: "true"}, nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, fields(validateParallelismChange(a(tc.was), a(tc.is)))); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

// What a job was given because it named none stays when it names none again; what it
// named itself goes.
func TestKeepQueueing(t *testing.T) {
	const queue, class, at = kueue.QueueNameLabel, kueue.PriorityClassLabel, kueue.SubmittedAtAnnotation
	type text = map[string]string
	tests := map[string]struct {
		why     string
		was, is text
		given   string
		want    text
	}{
		"given":            {"it did not name one then, or now", text{queue: "default"}, nil, "default", text{queue: "default"}},
		"named":            {"it named another, which is removed", text{queue: "q"}, nil, "default", nil},
		"nothing is given": {"there is no default queue", text{queue: "default"}, nil, "", nil},
		"names one now":    {"the author's word counts", text{queue: "default"}, text{queue: "q"}, "default", text{queue: "q"}},
		"names none now":   {"an empty name is a word too", text{queue: "default"}, text{queue: ""}, "default", text{queue: ""}},
		"class":            {"the default class", text{class: "default"}, text{"a": "b"}, "default", text{class: "default", "a": "b"}},
		"another class":    {"it was named, and is removed", text{class: "high"}, nil, "default", nil},
		"had none":         {"it gets none by being written again", nil, nil, "default", nil},
	}
	for name, tc := range tests {
		was := &metav1.ObjectMeta{Labels: tc.was, Annotations: text{at: "then"}}
		is := &metav1.ObjectMeta{Labels: tc.is}
		keepQueueing(was, is, tc.given)
		if d := cmp.Diff(tc.want, is.Labels); d != "" || is.Annotations[at] != "then" {
			t.Errorf("%s: %s; submitted %q (-want +got):\n%s", name, tc.why, is.Annotations[at], d)
		}
	}
	is := &metav1.ObjectMeta{}
	keepQueueing(&metav1.ObjectMeta{}, is, "")
	if is.Annotations != nil || is.Labels != nil {
		t.Errorf("a job that was given nothing has %v %v", is.Annotations, is.Labels)
	}
}

// Only entries that are new count as written since: by whom, how, and what.
func TestChangedSince(t *testing.T) {
	entry := func(by string, how metav1.ManagedFieldsOperationType, what string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: by, Operation: how, FieldsV1: metav1.NewFieldsV1(what)}
	}
	const update, apply = metav1.ManagedFieldsOperationUpdate, metav1.ManagedFieldsOperationApply
	since := changedSince(&metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry("a", update, "{x}"), entry("b", update, "{y}")}})
	for name, tc := range map[string]struct {
		e    metav1.ManagedFieldsEntry
		want bool
	}{
		"the same": {entry("a", update, "{x}"), false}, "another's": {entry("c", update, "{x}"), true},
		"applied": {entry("a", apply, "{x}"), true}, "other fields": {entry("a", update, "{y}"), true},
	} {
		if got := since(tc.e); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
