package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
		"nothing": {why: "nothing changes", label: queue, from: "a", to: "a", defaultQueue: true},
		"another queue": {
			why:     "it holds quota of the old one",
			label:   queue,
			from:    "a",
			to:      "b",
			starts:  true,
			running: true,
		},
		"no queue": {why: "it leaves the queues", label: queue, from: "a", starts: true, running: true},
		"no queue, default": {
			why:          "it would get the default again",
			label:        queue,
			from:         "a",
			defaultQueue: true,
			waiting:      true,
			starts:       true,
			stops:        true,
			running:      true,
		},
		"a first queue": {why: "it is to wait first", label: queue, to: "a", starts: true, running: true},
		"another class": {why: "its priority may change at any time", label: class, from: "a", to: "b"},
		"no class": {
			why:     "its old priority would stay",
			label:   class,
			from:    "a",
			waiting: true,
			starts:  true,
			stops:   true,
			running: true,
		},
		"a first class": {why: "while it waits", label: class, to: "a", starts: true, running: true},
		"another time limit": {
			why:     "it is part of the admission, before and after",
			label:   limit,
			from:    "1",
			to:      "2",
			starts:  true,
			stops:   true,
			running: true,
		},
		"the same time limit": {why: "nothing changes", label: limit, from: "1", to: "1"},
		"another Workload": {
			why:     "it runs by the old one",
			label:   workload,
			from:    "a",
			to:      "b",
			starts:  true,
			running: true,
		},
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
				if d := cmp.Diff(
					want,
					fields(validateLabelChanges(job(tc.from, c.was), job(tc.to, c.is), tc.defaultQueue)),
				); d != "" {
					t.Errorf("%s, %s (-want +got):\n%s", tc.why, c.when, d)
				}
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
		"given": {
			"it did not name one then, or now",
			text{queue: "default"},
			nil,
			"default",
			text{queue: "default"},
		},
		"named":            {"it named another, which is removed", text{queue: "q"}, nil, "default", nil},
		"nothing is given": {"there is no default queue", text{queue: "default"}, nil, "", nil},
		"names one now": {
			"the author's word counts",
			text{queue: "default"},
			text{queue: "q"},
			"default",
			text{queue: "q"},
		},
		"names none now": {
			"an empty name is a word too",
			text{queue: "default"},
			text{queue: ""},
			"default",
			text{queue: ""},
		},
		"class": {
			"the default class",
			text{class: "default"},
			text{"a": "b"},
			"default",
			text{class: "default", "a": "b"},
		},
		"another class": {"it was named, and is removed", text{class: "high"}, nil, "default", nil},
		"had none":      {"it gets none by being written again", nil, nil, "default", nil},
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
	since := changedSince(
		&metav1.ObjectMeta{
			ManagedFields: []metav1.ManagedFieldsEntry{entry("a", update, "{x}"), entry("b", update, "{y}")},
		},
	)
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
