package v1alpha1

import (
	"strings"
	"testing"
)

func TestReadTakesReportsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		text, fails string
		checks      int
	}{
		"one that says what is wrong": {
			text:   `{"at":"2026-03-01T12:00:00Z","checks":[{"name":"xid","result":"Fatal","at":"2026-03-01T12:00:00Z","devices":["3"],"message":"XID 79"}]}`,
			checks: 1,
		},
		"no JSON":                    {text: `PASS`, fails: "mlbatch.dev/checks"},
		"a result that nobody knows": {text: `{"checks":[{"name":"xid","result":"Fine"}]}`, fails: "checks[0].result"},
		"more than fits":             {text: `{"agent":"` + strings.Repeat("x", MaxReportBytes) + `"}`, fails: "bytes"},
		"more checks than there are": {text: `{"checks":[` + strings.Repeat(`{"name":"a","result":"Passed"},`, MaxChecks) + `{"name":"a","result":"Passed"}]}`, fails: "33 checks"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Read(map[string]string{ChecksAnnotation: c.text})
			switch {
			case c.fails == "" && err != nil, c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("error is %v, want one with %q", err, c.fails)
			case len(r.Checks) != c.checks:
				t.Errorf("%d checks, want %d", len(r.Checks), c.checks)
			}
		})
	}
	if r, err := Read(nil); err != nil || r.Checks != nil {
		t.Errorf("no annotation is read as %v, %v", r, err)
	}
}
