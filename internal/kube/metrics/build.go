package metrics

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// newBuildInfo is a gauge that is always 1 and says in its labels what runs. It
// is the only one without a role.
func newBuildInfo() prometheus.Collector {
	version, commit, date := "unknown", "unknown", "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		version = b.Main.Version
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.time":
				date = s.Value
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "build_info", Help: "1, with what was built, when and for what.",
		ConstLabels: prometheus.Labels{
			"git_version": version,
			"git_commit":  commit,
			"build_date":  date,
			"go_version":  runtime.Version(),
			"compiler":    runtime.Compiler,
			"platform":    runtime.GOOS + "/" + runtime.GOARCH,
		},
	})
	g.Set(1)
	return g
}
