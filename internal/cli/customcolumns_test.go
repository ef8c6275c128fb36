package cli_test

import (
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// TestCustomColumns: columns that are named as kubectl has it, with and without braces and dots.
func TestCustomColumns(t *testing.T) {
	row := view.Job{
		Namespace: "blue",
		Name:      "train",
		GPUs:      1_000_000,
		Nodes:     []string{"a", "b"},
		Priority:  new(int32(5)),
	}
	for name, tc := range map[string]struct{ why, spec, want string }{
		"fields":   {"titles and values", "NAME:.name,GPUS:.gpus,P:.priority", "NAME=train GPUS=1000000 P=5"},
		"relaxed":  {"as kubectl takes them", "A:{.name},B:name,C:{name}", "A=train B=train C=train"},
		"a list":   {"with commas, and one of it", "N:.nodes,FIRST:.nodes[0]", "N=a,b FIRST=a"},
		"nowhere":  {"what a row does not have is empty", "X:.user,Y:.no.such", "X= Y="},
		"no title": {"refused", ":.name", "! write TITLE:.field"},
		"no path":  {"refused", "NAME", "! write TITLE:.field"},
		"nothing":  {"refused", "", "! names no columns"},
		"no sense": {"refused", "A:.name[", "! is no path"},
	} {
		t.Run(name, func(t *testing.T) {
			columns, err := cli.CustomColumns[view.Job](tc.spec)
			if says, fails := strings.CutPrefix(tc.want, "! "); fails {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v", tc.why, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range columns {
				got = append(got, c.Title+"="+c.Text(row))
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("%s: %q, want %q", tc.why, s, tc.want)
			}
		})
	}
}
