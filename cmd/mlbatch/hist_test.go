package main

import (
	"bytes"
	"testing"

	"github.com/mlbatch/mlbatch/internal/view"
)

// What hist prints is sorted before it is limited, in every form.
func TestHistIsSortedAndLimited(t *testing.T) {
	past := func() []view.PastJob {
		return []view.PastJob{
			{Namespace: "blue", Name: "b", GPUs: 1},
			{Namespace: "blue", Name: "c", GPUs: 3},
			{Namespace: "blue", Name: "a", GPUs: 2},
		}
	}
	for name, tc := range map[string]struct {
		h         histFlags
		q         query
		want, say string
	}{
		"names":               {histFlags{}, query{output: "name"}, "blue/b\nblue/c\nblue/a\n", ""},
		"names sorted":        {histFlags{}, query{output: "name", sortBy: "-gpus"}, "blue/c\nblue/a\nblue/b\n", ""},
		"the first of sorted": {histFlags{limit: 1}, query{output: "name", sortBy: "-gpus"}, "blue/c\n", ""},
		"a table says so":     {histFlags{limit: 2}, query{output: "custom-columns=N:.name", sortBy: "name"}, "N\na\nb\n", "1 more, without --limit 2.\n"},
		"sums":                {histFlags{by: []string{"namespace"}, limit: 1}, query{output: "custom-columns=N:.name"}, "N\nblue\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			tc.q.errs = &errs
			if err := tc.h.list(past()).print(&out, &tc.q); err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.want || errs.String() != tc.say {
				t.Errorf("printed %q and said %q, want %q and %q", out.String(), errs.String(), tc.want, tc.say)
			}
		})
	}
	if err := new(
		histFlags,
	).list(
		past(),
	).print(
		new(bytes.Buffer),
		&query{output: "name", sortBy: "nothing"},
	); err == nil {
		t.Error("a column that is not there is taken")
	}
}
