package appwrapper

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

func TestParsePolicy(t *testing.T) {
	day := 24 * time.Hour
	cases := map[string]struct {
		why      string
		name     string
		value    string
		want     func(*lifecycle.Policy)
		warnings []string
	}{
		"duration": {
			"Go's syntax",
			"warmupGracePeriodDuration",
			"1h30m",
			func(p *lifecycle.Policy) { p.WarmupGrace = 90 * time.Minute },
			nil,
		},
		"days": {
			"generators of AppWrappers write days",
			"retryPausePeriodDuration",
			"1d",
			func(p *lifecycle.Policy) { p.RetryPause, p.PauseSaid = day, true },
			nil,
		},
		"zero": {
			"no grace is a grace",
			"failureGracePeriodDuration",
			"0s",
			func(p *lifecycle.Policy) { p.FailureGrace = 0 },
			nil,
		},
		"malformed": {
			"a typing error must neither stop a job nor pass unseen",
			"admissionGracePeriodDuration",
			"soon",
			nil,
			[]string{
				`annotation workload.codeflare.dev.appwrapper/admissionGracePeriodDuration: "soon" is not a duration such as 90s or 1h30m; 1m0s is used`,
			},
		},
		"negative": {
			"time does not run backwards",
			"forcefulDeletionGracePeriodDuration",
			"-1m",
			func(p *lifecycle.Policy) { p.DeletionGrace = 0 },
			[]string{
				`annotation workload.codeflare.dev.appwrapper/forcefulDeletionGracePeriodDuration: "-1m" is negative; 0s is used`,
			},
		},
		"too long": {
			"the administrator's maximum holds",
			"deletionOnFailureGracePeriodDuration",
			"48h",
			func(p *lifecycle.Policy) { p.FailedGrace = day },
			[]string{
				`annotation workload.codeflare.dev.appwrapper/deletionOnFailureGracePeriodDuration: "48h" is longer than the maximum; 24h0m0s is used`,
			},
		},
		"ttl": {
			"less than the default is the user's to choose",
			"successTTLDuration",
			"1h",
			func(p *lifecycle.Policy) { p.SuccessTTL = time.Hour },
			nil,
		},
		"ttl too long": {
			"more than the default is the administrator's",
			"successTTLDuration",
			"30d",
			nil,
			[]string{
				`annotation workload.codeflare.dev.appwrapper/successTTLDuration: "30d" is not between 0s and the default; 168h0m0s is used`,
			},
		},
		"ttl zero": {
			"deleting at once would leave nothing to read",
			"successTTLDuration",
			"0s",
			nil,
			[]string{
				`annotation workload.codeflare.dev.appwrapper/successTTLDuration: "0s" is not between 0s and the default; 168h0m0s is used`,
			},
		},
		"retries": {"a number", "retryLimit", "0", func(p *lifecycle.Policy) { p.RetryLimit = 0 }, nil},
		"negative retries": {
			"would fail at the first failure without saying why",
			"retryLimit",
			"-1",
			nil,
			[]string{
				`annotation workload.codeflare.dev.appwrapper/retryLimit: "-1" is not a whole number from 0; 3 is used`,
			},
		},
		"codes": {
			"sorted, once each",
			"terminalExitCodes",
			"42, 3,10,3",
			func(p *lifecycle.Policy) { p.TerminalExitCodes = []int32{3, 10, 42} },
			nil,
		},
		"bad codes": {
			"what is readable is used",
			"retryableExitCodes",
			"1,x,2",
			func(p *lifecycle.Policy) { p.RetryableExitCodes = []int32{1, 2} },
			[]string{
				`annotation workload.codeflare.dev.appwrapper/retryableExitCodes: "1,x,2" has items that are not exit codes and are skipped: "x"`,
			},
		},
		"misspelt": {
			"a parameter that does nothing must say so",
			"delectionOnFailureGracePeriodDuration",
			"1m",
			nil,
			[]string{
				`annotation workload.codeflare.dev.appwrapper/delectionOnFailureGracePeriodDuration: "1m" is ignored: there is no such parameter`,
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := lifecycle.Defaults()
			if c.want != nil {
				c.want(&want)
			}
			got, warnings := ParsePolicy(
				lifecycle.Defaults(),
				map[string]string{AnnotationPrefix + c.name: c.value, "other/annotation": "x"},
			)
			var texts []string
			for _, w := range warnings {
				texts = append(texts, w.String())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: policy (-want +got)\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.warnings, texts); diff != "" {
				t.Errorf("%s: warnings (-want +got)\n%s", c.why, diff)
			}
		})
	}
}

func TestPolicyStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		annotations := map[string]string{}
		for name := range parameters(lifecycle.Defaults()) {
			annotations[AnnotationPrefix+name] = rapid.OneOf(
				rapid.StringMatching(`-?[0-9]{1,6}(s|m|h|d|)`),
				rapid.String(),
			).Draw(
				t,
				name,
			)
		}
		p, _ := ParsePolicy(lifecycle.Defaults(), annotations)
		for _, d := range []time.Duration{p.AdmissionGrace, p.WarmupGrace, p.FailureGrace, p.RetryPause, p.DeletionGrace, p.FailedGrace} {
			if d < 0 || d > p.GraceMaximum {
				t.Fatalf("grace %s is out of bounds: %+v", d, p)
			}
		}
		if p.RetryLimit < 0 || p.SuccessTTL <= 0 || p.SuccessTTL > lifecycle.Defaults().SuccessTTL {
			t.Fatalf("out of bounds: %+v", p)
		}
	})
}
