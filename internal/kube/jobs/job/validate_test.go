package job

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
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
		"scaled while it waits": {
			"it was not admitted yet",
			shape{pods: 3, fewest: "1"},
			shape{pods: 4, fewest: "1"},
			nil,
		},
		"scaled as it stops": {
			"it is restored then",
			shape{pods: 2, fewest: "1", runs: true},
			shape{pods: 4, fewest: "1"},
			nil,
		},
		"scaled as it starts": {
			"the admission says with how many",
			shape{pods: 4, fewest: "1"},
			shape{pods: 2, fewest: "1", runs: true},
			nil,
		},
		"scaled while it runs": {
			"the admission set it",
			shape{pods: 2, fewest: "1", runs: true},
			shape{pods: 3, fewest: "1", runs: true},
			size,
		},
		"one is the default": {
			"nothing changes",
			shape{fewest: "1", runs: true},
			shape{pods: 1, fewest: "1", runs: true},
			nil,
		},
		"all or nothing": {
			"other rules say what may be scaled",
			shape{pods: 2, runs: true},
			shape{pods: 3, runs: true},
			nil,
		},
		"another minimum": {
			"below the number of pods",
			shape{pods: 4, fewest: "1"},
			shape{pods: 4, fewest: "3"},
			nil,
		},
		"a minimum of all": {
			"that is no choice",
			shape{pods: 4, fewest: "1"},
			shape{pods: 4, fewest: "4"},
			at(fewest),
		},
		"a minimum of nothing": {
			"a Job without pods does nothing",
			shape{pods: 4},
			shape{pods: 4, fewest: "0"},
			at(fewest),
		},
		"a minimum of one of one": {"one is the default", shape{}, shape{fewest: "1"}, at(fewest)},
		"a wrong minimum that stays": {
			"it was let in once",
			shape{pods: 4, fewest: "x"},
			shape{pods: 4, fewest: "x"},
			nil,
		},
		"completions follow": {
			"while it waits",
			shape{pods: 4, completions: 4},
			shape{pods: 4, completions: 4, same: "true"},
			nil,
		},
		"completions of one": {
			"one pod is the default",
			shape{completions: 1},
			shape{completions: 1, same: "true"},
			nil,
		},
		"completions do not": {
			"there are more",
			shape{pods: 4, completions: 5},
			shape{pods: 4, completions: 5, same: "true"},
			at(same),
		},
		"completions, not indexed": {
			"it is not known which is left out",
			shape{pods: 4},
			shape{pods: 4, same: "true"},
			at(same),
		},
		"completions do not follow": {"that is how Jobs are", shape{pods: 4}, shape{pods: 4, same: "false"}, nil},
		"completions follow, running": {
			"how it was admitted stays",
			shape{pods: 4, completions: 4, runs: true},
			shape{pods: 4, completions: 4, same: "true", runs: true},
			at(same),
		},
		"completions follow, as it stops": {
			"it is admitted again",
			shape{pods: 4, completions: 4, runs: true},
			shape{pods: 4, completions: 4, same: "true"},
			nil,
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
