package webhook_test

import (
	"strings"
	"testing"
)

// Manifests that were made for Kueue run, and their authors are told what they do not get.
func TestUnheeded(t *testing.T) {
	const elastic = `kueue.x-k8s.io/elastic-job: "true"`
	placed := func(annotation string) string {
		return strings.Replace(
			job(queueLabel, "", ""),
			"template: {",
			"template: {metadata: {annotations: {kueue.x-k8s.io/"+annotation+"}}, ",
			1,
		)
	}
	for name, tc := range map[string]struct {
		why  string
		ask  ask
		want string // "" is no warning
	}{
		"elastic":         {"it is admitted for one size", ask{path: validateJob, new: job(queueLabel, elastic, "")}, "elastic-job] has no effect"},
		"not elastic":     {"it says so", ask{path: validateJob, new: job(queueLabel, strings.Replace(elastic, "true", "false", 1), "")}, ""},
		"told already":    {"once is enough", ask{path: validateJob, old: job(queueLabel, elastic, ""), new: job(queueLabel, elastic, "")}, ""},
		"elastic wrapper": {"the rules are those of all jobs", ask{path: validateWrapper, user: "admin", new: strings.Replace(wrapper("blue", queueLabel, "true", podComponent), "labels:", "annotations: {"+elastic+"}, labels:", 1)}, "elastic-job] has no effect"},
		"rack":            {"the author relies on it", ask{path: validateJob, new: placed("podset-required-topology: rack")}, "podset-required-topology of pods has no effect"},
		"slices":          {"the author relies on it", ask{path: validateJob, new: placed("podset-slice-required-topology: rack")}, "podset-slice-required-topology of pods"},
		"rack if it can":  {"it is not relied on", ask{path: validateJob, new: placed("podset-preferred-topology: rack")}, ""},
		"rack told":       {"once is enough", ask{path: validateJob, old: placed("podset-required-topology: rack"), new: placed("podset-required-topology: rack")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil, world()...), tc.ask)
			all := strings.Join(r.Warnings, "\n")
			if !r.Allowed || (tc.want == "") != (all == "") || !strings.Contains(all, tc.want) {
				t.Errorf("%s: allowed is %v (%s), warnings %q; want %q", tc.why, r.Allowed, r.Message, all, tc.want)
			}
		})
	}
}
