package main

import (
	"bytes"
	"testing"

	"github.com/mlbatch/mlbatch/internal/view"
)

// What hist prints is sorted before it is limited, in every form.
func TestHistIsSortedAndLimited(t *testing.T) {
	rows := func() []view.PastJob {
		return []view.PastJob{{Namespace: "blue", Name: "b", GPUs: 1}, {Namespace: "blue", Name: "c", GPUs: 3}, {Namespace: "blue", Name: "a", GPUs: 2}}
	}
	for name, tc := range map[string]struct {
		h         histFlags
		want, say string
	}{
		"names":               {histFlags{output: "name"}, "blue/b\nblue/c\nblue/a\n", ""},
		"names sorted":        {histFlags{output: "name", sortBy: "-gpus"}, "blue/c\nblue/a\nblue/b\n", ""},
		"the first of sorted": {histFlags{output: "name", sortBy: "-gpus", limit: 1}, "blue/c\n", ""},
		"a table says so":     {histFlags{output: "custom-columns=N:.name", sortBy: "name", limit: 2}, "N\na\nb\n", "1 more, without --limit 2.\n"},
		"sums":                {histFlags{output: "custom-columns=N:.name", by: []string{"namespace"}, limit: 1}, "N\nblue\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if err := tc.h.print(&out, &errs, rows()); err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.want || errs.String() != tc.say {
				t.Errorf("printed %q and said %q, want %q and %q", out.String(), errs.String(), tc.want, tc.say)
			}
		})
	}
	h := histFlags{output: "name", sortBy: "nothing"}
	if err := h.print(new(bytes.Buffer), new(bytes.Buffer), rows()); err == nil {
		t.Error("a column that is not there is taken")
	}
}
