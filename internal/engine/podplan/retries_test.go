package podplan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
)

// TestPolicyOfRetries: what no rule of the kind is for follows the policy of retries, if that says anything of it.
func TestPolicyOfRetries(t *testing.T) {
	say := func(action core.RetryAction, of ...core.Category) []core.RetryRule {
		return []core.RetryRule{{From: "the job", Categories: of, Action: action}}
	}
	limited := func(n int32, rules []core.RetryRule) []core.RetryRule {
		rules[0].Limit = &n
		return rules
	}
	node := core.Failure{Category: core.CategoryNodeFailure}
	crash := core.Failure{Category: core.CategoryCrash, ExitCode: 139, Pod: "j-worker-0"}
	for name, c := range map[string]struct {
		why     string
		role    podplan.OnFailure
		rules   []podplan.Rule
		retry   []core.RetryRule
		none    bool // there is no policy
		fails   core.Failure
		earlier []core.Failure
		kept    podplan.Memory
		want    podplan.Memory // Attempt, Failures, Free and Outcome
		told    string
	}{
		"no policy": {
			why: "the kind says what follows", role: podplan.FailJob, none: true, fails: crash,
			want: podplan.Memory{Outcome: podplan.JobFailed},
		},
		"nothing said of it": {
			why: "the kind says what follows", role: podplan.FailJob, retry: say(core.RetryOnFailure, core.CategoryUnknown),
			fails: crash, want: podplan.Memory{Outcome: podplan.JobFailed},
		},
		"retry": {
			why: "all begin anew, since the others lose touch", role: podplan.FailJob,
			retry: say(core.RetryOnFailure, core.CategoryCrash), fails: crash, want: podplan.Memory{Attempt: 1, Failures: 1},
		},
		"retry of one alone": {
			why: "where a kind makes one anew it is one", role: podplan.Replace,
			retry: say(core.RetryOnFailure, core.CategoryCrash), fails: crash, want: podplan.Memory{Failures: 1},
		},
		"limit of the policy": {
			why: "three retries are enough", role: podplan.FailJob, retry: say(core.RetryOnFailure, core.CategoryCrash),
			fails: crash, kept: podplan.Memory{Failures: 3},
			want: podplan.Memory{Failures: 3, Outcome: podplan.JobFailed}, told: "the limit of 3 retries is reached",
		},
		"limit of the rule": {
			why: "one is enough here", role: podplan.FailJob, retry: limited(1, say(core.RetryOnFailure, core.CategoryCrash)),
			fails: crash, earlier: []core.Failure{crash}, kept: podplan.Memory{Failures: 1},
			want: podplan.Memory{Failures: 1, Outcome: podplan.JobFailed}, told: "limit of 1 of the rule",
		},
		"fail": {
			why: "what would be made anew ends the job", role: podplan.RestartJob,
			retry: say(core.FailOnFailure, core.CategoryCrash), fails: crash,
			want: podplan.Memory{Outcome: podplan.JobFailed}, told: `j-worker-0 failed; no retry mends that (rule "Crash: Fail" of the job)`,
		},
		"rule of the kind": {
			why: "what its author wrote into its failure policy goes first", role: podplan.FailJob,
			rules: []podplan.Rule{{Name: "mine", Then: podplan.RestartJob}},
			retry: say(core.FailOnFailure, core.CategoryCrash), fails: crash, want: podplan.Memory{Attempt: 1, Failures: 1},
		},
		"node": {
			why: "that spends no retry", role: podplan.FailJob, fails: node, kept: podplan.Memory{Failures: 3},
			want: podplan.Memory{Attempt: 1, Failures: 3, Free: 1},
		},
		"node again and again": {
			why: "but not for ever", role: podplan.RestartJob, fails: node, earlier: slices.Repeat([]core.Failure{node}, 12),
			want: podplan.Memory{Outcome: podplan.JobFailed}, told: "12 disruptions in a row",
		},
		"ignored": {
			why: "a member that is not needed is not", role: podplan.Ignore,
			retry: say(core.FailOnFailure, core.CategoryCrash), fails: crash,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := training(2)
			p.Roles[1].OnFailure, p.Rules = c.role, c.rules
			if !c.none {
				p.Retry, p.Earlier = &core.RetryPolicy{Limit: 3, Rules: c.retry}, core.RetryHistory{Last: c.earlier}
			}
			failed := pod("Worker", 0, podplan.Failed)
			failed.Failure = &c.fails
			kept := c.kept
			kept.Started = start
			got := p.Next(
				[]podplan.Seen{pod("Master", 0, podplan.Running), failed, pod("Worker", 1, podplan.Running)},
				&kept,
				start.Add(time.Minute),
			).Memory
			if got.Attempt != c.want.Attempt || got.Failures != c.want.Failures || got.Free != c.want.Free ||
				got.Outcome != c.want.Outcome || !strings.Contains(got.Message, c.told) {
				t.Errorf(
					"%s: attempt %d, %d failures, %d free, outcome %d: %s",
					c.why,
					got.Attempt,
					got.Failures,
					got.Free,
					got.Outcome,
					got.Message,
				)
			}
		})
	}
}

// TestRestartsAreNotForgiven: runs that failed in a pod count, whatever ended the pod at last.
func TestRestartsAreNotForgiven(t *testing.T) {
	node := core.Failure{Category: core.CategoryNodeFailure}
	for _, c := range []struct {
		why  string
		pod  podplan.Seen
		want podplan.Memory
	}{
		{"it failed by itself", podplan.Seen{Failures: 4}, podplan.Memory{Failures: 4}},
		{"its node failed", podplan.Seen{Failures: 4, Failure: &node}, podplan.Memory{Failures: 3, Free: 1}},
		{"it was evicted", podplan.Seen{Failures: 4, Disrupted: true}, podplan.Memory{Failures: 3}},
		{"it was evicted and has never failed", podplan.Seen{Failures: 1, Disrupted: true}, podplan.Memory{}},
	} {
		p := &podplan.Plan{
			Roles: []podplan.Role{{Name: "worker", Count: 2, Member: "j-worker-{index}", OnFailure: podplan.Replace}},
			Retry: &core.RetryPolicy{Limit: 10},
		}
		now := time.Unix(1000, 0)
		pod := c.pod
		pod.Member, pod.ID, pod.Life = podplan.Member{Role: "worker"}, "p", podplan.Failed
		seen := []podplan.Seen{pod}
		kept := podplan.Memory{Started: now}
		for range 3 { // it is counted once
			next := p.Next(seen, &kept, now)
			if kept = next.Memory; !next.Changed {
				break
			}
		}
		if kept.Failures != c.want.Failures || kept.Free != c.want.Free {
			t.Errorf("%s: %d failures and %d that count for nothing, want %d and %d",
				c.why, kept.Failures, kept.Free, c.want.Failures, c.want.Free)
		}
	}
}
