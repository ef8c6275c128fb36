package local

import (
	"strings"
	"testing"
)

// TestBareClustersStayBare: a cluster without mlbatch may have one installed in it, so that it never
// gets one beside it, nor the other way round; and it needs nodes that run programs.
func TestBareClustersStayBare(t *testing.T) {
	made, bare := marker{
		Complete: true,
		Runtime:  Containerd,
	}, marker{
		Complete: true,
		Runtime:  Containerd,
		Bare:     true,
	}
	for name, tc := range map[string]struct {
		marker marker
		cfg    Config
		want   string // part of the error, "" if there is none
	}{
		"a new one":                   {marker{}, Config{Parts: Bare, Runtime: Containerd}, ""},
		"a new one, simulated":        {marker{}, Config{Parts: Bare, Runtime: Simulated}, "add --runtime containerd"},
		"a new one, runtime not said": {marker{}, Config{Parts: Bare}, "add --runtime containerd"},
		"resumed":                     {bare, Config{Parts: Bare}, ""},
		"with mlbatch beside it":      {bare, Config{Parts: Full}, "start it in the same way (--bare)"},
		"mlbatch taken away":          {made, Config{Parts: Bare, Runtime: Containerd}, "has its mlbatch"},
		"one as ever":                 {made, Config{Parts: Full}, ""},
	} {
		c := &Cluster{cfg: tc.cfg, marker: tc.marker}
		if err := c.settleBare(); tc.want == "" && err != nil ||
			tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
