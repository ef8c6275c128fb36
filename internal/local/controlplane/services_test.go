//go:build !noembed

package controlplane

import (
	"errors"
	"net/url"
	"testing"
)

// resolver finds services by a table.
type resolver map[string]string

func (r resolver) ResolveEndpoint(_, name string, _ int32) (*url.URL, error) {
	if at, known := r[name]; known {
		return url.Parse(at)
	}
	return nil, errors.New("no endpoints")
}

// TestExternalNames: services are found by their pods, and those that are names of others by these
// names; never by an address to which there is no way.
func TestExternalNames(t *testing.T) {
	r := externalNames{
		ServiceResolver: resolver{"with-pods": "https://10.0.0.1:443"},
		byName: resolver{
			"with-pods":    "https://10.96.0.7:443",
			"named":        "https://localhost:8082",
			"without-pods": "https://10.96.0.8:443",
		},
	}
	for name, want := range map[string]string{
		"with-pods": "https://10.0.0.1:443", "named": "https://localhost:8082", "without-pods": "", "unknown": "",
	} {
		at, err := r.ResolveEndpoint("x", name, 443)
		if want == "" && err == nil || want != "" && (err != nil || at.String() != want) {
			t.Errorf("%s is found at %v, %v, want %q", name, at, err, want)
		}
	}
}
