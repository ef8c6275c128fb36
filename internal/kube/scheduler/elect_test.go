package scheduler

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/leaderelection"
)

// answered is a server that answers everything.
type answered struct{ calls int }

func (a *answered) RoundTrip(*http.Request) (*http.Response, error) {
	a.calls++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// A scheduler that does not lead for certain reads and sends nothing else.
func TestSendsNothingWithoutTheLead(t *testing.T) {
	var may error
	server := &answered{}
	g := guard{server, func() error { return may }}
	for _, err := range []error{leaderelection.ErrUnsure, leaderelection.ErrLost, nil} {
		may = err
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			req, wrong := http.NewRequestWithContext(context.Background(), method, "http://x", http.NoBody)
			if wrong != nil {
				t.Fatal(wrong)
			}
			before := server.calls
			resp, got := g.RoundTrip(req)
			want := err
			if method == http.MethodGet {
				want = nil
			}
			if !errors.Is(got, want) || (server.calls > before) != (want == nil) {
				t.Errorf("%s with %v: %v, sent: %v", method, err, got, server.calls > before)
			}
			if resp != nil {
				_ = resp.Body.Close()
			}
		}
	}
}
