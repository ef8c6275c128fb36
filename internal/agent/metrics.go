package agent

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

// metrics are Autopilot's gauge, and ours. They are few, and written here as text: a library for them would be a
// part of the memory of every node.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request, _ *User) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, s.Agent.metrics()) // who asked may have gone
}

// label is a value as the format wants it.
func label(v string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(v)
}

func (a *Agent) metrics() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	head := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	head("autopilot_health_checks", "gauge", "What a check found of a device: 1 is bad; GB/s for pciebw.")
	cpu := label(cpuModel())
	names := slices.Sorted(maps.Keys(a.last))
	for _, name := range names {
		o, c := a.last[name], CheckOf(name)
		if o.Result == health.Skipped || c == nil {
			continue
		}
		findings := o.Findings
		for i := range findings {
			f := &findings[i]
			fmt.Fprintf(
				&b,
				"autopilot_health_checks{health=\"%s\",node=\"%s\",cpumodel=\"%s\",gpumodel=\"%s\",deviceid=\"%s\"} %v\n",
				c.Metric,
				label(a.opts.Node),
				cpu,
				label(a.models[f.Device]),
				label(f.Device),
				f.Value,
			)
		}
		if len(findings) == 0 && o.Result != health.Unknown {
			fmt.Fprintf(
				&b,
				"autopilot_health_checks{health=\"%s\",node=\"%s\",cpumodel=\"%s\",gpumodel=\"\",deviceid=\"\"} 0\n",
				c.Metric,
				label(a.opts.Node),
				cpu,
			)
		}
	}
	head(
		"mlbatch_agent_check_result",
		"gauge",
		"The result of the last run of a check: 1 for the one that it is.",
	)
	for _, name := range slices.Sorted(maps.Keys(a.memory)) {
		for _, r := range []health.Result{
			health.Passed, health.Skipped, health.Unknown, health.Warned, health.Failed, health.Fatal,
		} {
			n := 0
			if a.memory[name].Result == r {
				n = 1
			}
			fmt.Fprintf(
				&b,
				"mlbatch_agent_check_result{node=\"%s\",check=\"%s\",result=\"%s\"} %d\n",
				label(a.opts.Node),
				label(name),
				r,
				n,
			)
		}
	}
	head("mlbatch_agent_check_seconds", "gauge", "How long the last run of a check took.")
	for _, name := range names {
		fmt.Fprintf(&b, "mlbatch_agent_check_seconds{check=\"%s\"} %v\n", name, a.last[name].Seconds)
	}
	head("mlbatch_agent_check_last_run_timestamp_seconds", "gauge", "When the last run of a check ended.")
	for _, name := range names {
		fmt.Fprintf(
			&b,
			"mlbatch_agent_check_last_run_timestamp_seconds{check=\"%s\"} %d\n",
			name,
			a.last[name].At.Unix(),
		)
	}
	head("mlbatch_agent_node_writes_total", "counter", "How often the Node was written.")
	fmt.Fprintf(&b, "mlbatch_agent_node_writes_total %d\n", a.writes)
	return b.String()
}

// cpuModel is that of this node, as /proc/cpuinfo tells it.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text[:min(len(text), 8<<10)])) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
