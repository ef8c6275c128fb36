package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTally(t *testing.T) {
	cases := map[string]struct {
		why  string
		in   []string
		want counts
		says []string // must appear in the report
	}{
		"pass, skip and subtests": {
			why: "every test and subtest counts once",
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"skip","Package":"p","Test":"TestB"}`,
				`{"Action":"pass","Package":"p","Elapsed":1.25}`,
			},
			want: counts{passed: 2, skipped: 1},
			says: []string{"ok   p 1.2s: 2 passed, 0 failed, 1 skipped\n"},
		},
		"failing test": {
			why: "what a failing test said is the whole point",
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"got 1\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: counts{failed: 1},
			says: []string{"got 1\n", "FAIL p"},
		},
		"crash": {
			why: "a package that fails without a failing test must not look green",
			in: []string{
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"panic: boom\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: counts{passed: 1, failed: 1},
			says: []string{"panic: boom\n"},
		},
		"out of time": {
			why: "a test that never ended says that it did not, and what it said: the package only knows that it failed",
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out after 30m0s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: counts{failed: 1},
			says: []string{"TestA did not end\n", "timed out after 30m0s\n"},
		},
		"out of time after a failure": {
			why: "that another test failed, too, does not make up for one that never ended",
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: counts{failed: 2},
			says: []string{"TestB did not end\n"},
		},
		"does not build": {
			why: "compiler errors are shown and count",
			in: []string{
				`{"ImportPath":"p [p.test]","Action":"build-output","Output":"x.go:1: syntax error\n"}`,
				`{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			},
			want: counts{failed: 1},
			says: []string{"syntax error"},
		},
		"slow test": {
			why: "long runs must show that they move",
			in: []string{
				`{"Action":"pass","Package":"p","Test":"TestLong","Elapsed":12.34}`,
				`{"Action":"pass","Package":"p","Elapsed":13}`,
			},
			want: counts{passed: 1},
			says: []string{
				"TestLong 12.3s",
				"slowest tests:\n    12.3s TestLong\n",
				"slowest packages:\n    13.0s p\n",
			},
		},
		"plain text": {
			why:  "the go command itself may complain outside JSON",
			in:   []string{`go: cannot find main module`},
			want: counts{},
			says: []string{"cannot find main module"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&printer{to: &out}, "")
			if err := r.read(strings.NewReader(strings.Join(c.in, "\n"))); err != nil {
				t.Fatal(err)
			}
			r.slowest(r.out)
			got := r.counts()
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(counts{})); diff != "" {
				t.Errorf("%s\n%s", c.why, diff)
			}
			for _, s := range c.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("%s\nreport lacks %q:\n%s", c.why, s, out.String())
				}
			}
		})
	}
}

func TestNothingRunIsNotGood(t *testing.T) {
	if (counts{}).good() || (counts{passed: 1, failed: 1}).good() || !(counts{passed: 1}).good() {
		t.Error("only a run in which something passed and nothing failed is good")
	}
}
