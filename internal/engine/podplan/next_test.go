package podplan_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
)

var start = time.Unix(1000, 0)

// training is a job of a master and workers, of which a failed one is made anew.
func training(workers int32) *podplan.Plan {
	return &podplan.Plan{
		Roles: []podplan.Role{
			{Name: "Master", Count: 1, Member: "j-master-{index}", OnFailure: podplan.Replace},
			{Name: "Worker", Count: workers, Rank: 1, Member: "j-worker-{index}", OnFailure: podplan.Replace},
		},
		Success: podplan.Success{{Roles: []string{"Master"}}},
	}
}

func pod(role string, index int32, life podplan.Life, change ...func(*podplan.Seen)) podplan.Seen {
	s := podplan.Seen{Member: podplan.Member{Role: role, Index: index}, Life: life}
	s.ID = fmt.Sprint(role, index)
	for _, c := range change {
		c(&s)
	}
	if life == podplan.Failed && s.Failures == 0 {
		s.Failures = 1
	}
	return s
}

func leaving(s *podplan.Seen) { s.Leaving = true }

// made is of a member that a version of its role made.
func made(version string) func(*podplan.Seen) { return func(s *podplan.Seen) { s.Version = version } }

func over(s *podplan.Seen)      { s.Over = true }
func final(s *podplan.Seen)     { s.Final = true }
func disrupted(s *podplan.Seen) { s.Disrupted = true }
func held(s *podplan.Seen)      { s.Held = true }
func because(reason, why string) func(*podplan.Seen) {
	return func(s *podplan.Seen) { s.Reason, s.Why = reason, why }
}

func failedAt(second int) func(*podplan.Seen) {
	return func(s *podplan.Seen) { s.FailedAt = start.Add(time.Duration(second)) }
}

// withRules has a rule for failures with a reason, and one for those with a message.
func withRules(late, node podplan.OnFailure) func(*podplan.Plan) {
	return func(p *podplan.Plan) {
		p.Rules = []podplan.Rule{
			{Name: "other", Roles: []string{"Master"}, Then: podplan.Ignore},
			{Name: "late", Reasons: []string{"Late", "Later"}, Then: late},
			{Name: "node", Messages: []*regexp.Regexp{regexp.MustCompile("of node [0-9]")}, Then: node},
		}
	}
}
func old(s *podplan.Seen)   { s.Attempt-- }
func young(s *podplan.Seen) { s.Attempt++ }
func of(version string) func(*podplan.Seen) {
	return func(s *podplan.Seen) { s.Version = version }
}

func crashes(n int32) func(*podplan.Seen) {
	return func(s *podplan.Seen) { s.Failures = n }
}

// TestNext goes through what may follow, one step each.
func TestNext(t *testing.T) {
	began := podplan.RetryState{Started: start}
	member := func(role string, index int32) podplan.Member { return podplan.Member{Role: role, Index: index} }
	type want struct {
		create  []podplan.Member
		delete  []int
		changed bool
		hold    []int
		release []int
		remove  bool
		memory  func(*podplan.RetryState)
		again   time.Duration
	}
	tests := map[string]struct {
		why  string
		plan func(*podplan.Plan)
		seen []podplan.Seen
		kept podplan.RetryState
		at   time.Duration
		want want
	}{
		"begins": {
			why:  "that it makes pods is noted before it makes the first, so that nobody takes it for one without",
			want: want{changed: true, memory: func(m *podplan.RetryState) { m.Started = start }},
		},
		"makes what is missing": {
			why: "each name once; what is being deleted is in the way of its successor", kept: began,
			seen: []podplan.Seen{pod("Worker", 0, podplan.Running), pod("Worker", 1, podplan.Running, leaving)},
			want: want{create: []podplan.Member{member("Master", 0), member("Worker", 2)}},
		},
		"suspended, never started": {why: "nothing to do", plan: func(p *podplan.Plan) { p.Suspended = true }},
		"suspended": {
			why:  "all pods go, the ended too, and only when none is left it is noted",
			kept: began,
			plan: func(p *podplan.Plan) { p.Suspended = true },
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Succeeded),
				pod("Worker", 0, podplan.Running, leaving),
				pod("Worker", 1, podplan.Pending),
			},
			want: want{delete: []int{0, 2}},
		},
		"suspended, objects are kept": {
			why:  "whoever keeps the object of a pod that runs no more keeps no quota",
			plan: func(p *podplan.Plan) { p.Suspended = true },
			kept: began,
			seen: []podplan.Seen{pod("Worker", 0, podplan.Failed, leaving, over)},
			want: want{changed: true, memory: func(m *podplan.RetryState) { *m = podplan.RetryState{} }},
		},
		"suspended, all gone": {
			why:  "work begins anew; failures are not forgiven",
			plan: func(p *podplan.Plan) { p.Suspended = true },
			kept: podplan.RetryState{
				Started:  start,
				Failures: 2,
				Counted:  []string{"x"},
				Done:     map[string]podplan.Indexes{"Worker": {{First: 0, Last: 0}}},
			},
			want: want{changed: true, memory: func(m *podplan.RetryState) { *m = podplan.RetryState{Failures: 2} }},
		},
		"succeeded worker": {
			why:  "it is noted, so that it is not run again when its pod is removed",
			kept: began,
			seen: []podplan.Seen{pod("Worker", 1, podplan.Succeeded)},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Done = map[string]podplan.Indexes{"Worker": {{First: 1, Last: 1}}} },
			},
		},
		"removed after it succeeded": {
			why: "done is done",
			kept: podplan.RetryState{
				Started: start,
				Done:    map[string]podplan.Indexes{"Worker": {{First: 0, Last: 1}}},
			},
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready)},
			want: want{create: []podplan.Member{member("Worker", 2)}},
		},
		"failed worker": {
			why:  "a failure is counted before its pod goes, or it would be lost if the controller were killed in between",
			kept: began,
			seen: []podplan.Seen{pod("Worker", 1, podplan.Failed, crashes(3))},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Failures, m.Counted, m.LastFailure = 3, []string{"Worker1"}, start },
			},
		},
		"failed worker, counted": {
			why:  "now it goes; its successor comes when its name is free",
			kept: podplan.RetryState{Started: start, Failures: 3, Counted: []string{"Worker1"}},
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready),
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Failed),
				pod("Worker", 2, podplan.Ready),
			},
			want: want{delete: []int{2}},
		},
		"evicted worker": {
			why:  "a node that is lost is no failure of the job: it is made anew and not counted, whatever the policy",
			kept: began,
			plan: func(p *podplan.Plan) { p.Roles[1].OnFailure = podplan.FailJob },
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready),
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Failed, disrupted),
				pod("Worker", 2, podplan.Ready),
			},
			want: want{delete: []int{2}},
		},
		"failed worker that is being deleted": {
			why:  "somebody deletes it: it is made anew like any that was deleted",
			kept: began,
			plan: func(p *podplan.Plan) { p.Roles[1].OnFailure = podplan.FailJob },
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready),
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Failed, leaving),
				pod("Worker", 2, podplan.Ready),
			},
		},
		"never again": {
			why: "the author said that a failure is the end", kept: began,
			plan: func(p *podplan.Plan) { p.Roles[1].OnFailure = podplan.FailJob },
			seen: []podplan.Seen{pod("Worker", 1, podplan.Failed)},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Reason, m.Message, m.Ended = podplan.JobFailed, podplan.MemberFailed, "j-worker-1 failed", start
			}},
		},
		"retriable": {
			why:  "a signal may be one of the moment",
			kept: began,
			plan: func(p *podplan.Plan) { p.Roles[1].OnFailure = podplan.ReplaceRetriable },
			seen: []podplan.Seen{pod("Worker", 1, podplan.Failed)},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Failures, m.Counted, m.LastFailure = 1, []string{"Worker1"}, start },
			},
		},
		"not retriable": {
			why: "a wrong argument stays wrong", kept: began,
			plan: func(p *podplan.Plan) { p.Roles[1].OnFailure = podplan.ReplaceRetriable },
			seen: []podplan.Seen{pod("Worker", 1, podplan.Failed, final)},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Reason, m.Message, m.Ended = podplan.JobFailed, podplan.MemberFailed, "j-worker-1 failed", start
			}},
		},
		"ignored": {
			why: "the others go on without it, and it stays to be looked at", kept: began,
			plan: func(p *podplan.Plan) { p.Roles[1].OnFailure = podplan.Ignore; p.Roles[1].Count = 1 },
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready), pod("Worker", 0, podplan.Failed)},
		},
		"last retry": {
			why:  "as many failures as may be tried again after are no end",
			kept: podplan.RetryState{Started: start, Failures: 1, Counted: []string{"Worker1"}},
			plan: func(p *podplan.Plan) { p.Retries = ptr.To[int32](2) },
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready),
				pod("Worker", 0, podplan.Running, crashes(1)),
				pod("Worker", 1, podplan.Failed),
				pod("Worker", 2, podplan.Ready),
			},
			want: want{delete: []int{2}},
		},
		"one retry too many": {
			why:  "crashes in pods that run count like failed pods",
			kept: podplan.RetryState{Started: start, Failures: 1},
			plan: func(p *podplan.Plan) { p.Retries = ptr.To[int32](2) },
			seen: []podplan.Seen{pod("Worker", 0, podplan.Running, crashes(2))},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Reason, m.Ended = podplan.JobFailed, podplan.RetriesExceeded, start
				m.Message = "3 failures are more than the 2 that it may be tried again after"
			}},
		},
		"a few failures": {
			why:  "the next try comes at once",
			kept: podplan.RetryState{Started: start, Failures: 3, LastFailure: start},
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready),
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Ready),
			},
			want: want{create: []podplan.Member{member("Worker", 2)}},
		},
		"many failures": {
			why:  "what crashes at once would be made anew for ever, as fast as it can",
			kept: podplan.RetryState{Started: start, Failures: 5, LastFailure: start},
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready),
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Failed, disrupted),
			},
			at:   5 * time.Second,
			want: want{delete: []int{2}, again: 15 * time.Second},
		},
		"many free failures": {
			why:  "they have no limit, and would be made anew for ever, as fast as it can",
			kept: podplan.RetryState{Started: start, Failures: 1, Free: 4, LastFailure: start},
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready),
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Ready),
			},
			at:   5 * time.Second,
			want: want{again: 15 * time.Second},
		},
		"many failures, a while ago": {
			why:  "the pause is over",
			kept: podplan.RetryState{Started: start, Failures: 900, LastFailure: start},
			at:   5 * time.Minute,
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready),
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Ready),
			},
			want: want{create: []podplan.Member{member("Worker", 2)}},
		},
		"all anew": {
			why: "one failure takes all of them along, and what was done counts no more",
			kept: podplan.RetryState{
				Started: start,
				Done:    map[string]podplan.Indexes{"Worker": {{First: 0, Last: 0}}},
			},
			plan: func(p *podplan.Plan) { p.Roles[1].OnFailure = podplan.RestartJob },
			seen: []podplan.Seen{pod("Worker", 1, podplan.Failed)},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Attempt, m.Failures, m.LastFailure, m.Done = 1, 1, start, nil
			}},
		},
		"all anew, several failed": {
			why:  "it is one failure, whoever else failed with it",
			kept: began,
			plan: func(p *podplan.Plan) {
				p.Roles[0].OnFailure, p.Roles[1].OnFailure = podplan.RestartJob, podplan.RestartJob
				p.Retries = ptr.To[int32](1)
			},
			seen: []podplan.Seen{pod("Master", 0, podplan.Failed, crashes(3)), pod("Worker", 1, podplan.Failed)},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Attempt, m.Failures, m.LastFailure = 1, 1, start },
			},
		},
		"all anew, once too often": {
			why:  "nothing begins anew, and nothing is told of it",
			plan: func(p *podplan.Plan) { p.Roles[1].OnFailure, p.Retries = podplan.RestartJob, ptr.To[int32](1) },
			kept: podplan.RetryState{
				Started:  start,
				Attempt:  1,
				Failures: 1,
				Done:     map[string]podplan.Indexes{"Worker": {{First: 2, Last: 2}}},
			},
			seen: []podplan.Seen{
				pod("Worker", 1, podplan.Failed, func(s *podplan.Seen) { s.Attempt = 1 }, because("", "out of memory")),
			},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Reason, m.Ended, m.LastFailure = podplan.JobFailed, podplan.RetriesExceeded, start, start
				m.Message = "2 failures are more than the 1 that it may be tried again after; the last: j-worker-1 failed: out of memory"
			}},
		},
		"all anew, together": {
			why:  "none begins beside one of those before",
			kept: podplan.RetryState{Started: start, Attempt: 1},
			plan: func(p *podplan.Plan) { p.Together = true },
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Running, old, old),
				pod("Worker", 1, podplan.Running, old, old, leaving),
			},
			want: want{delete: []int{0}},
		},
		"all anew, one by one": {
			why:  "each as soon as its place is free",
			kept: podplan.RetryState{Started: start, Attempt: 1},
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Running, leaving),
				pod("Worker", 1, podplan.Running, leaving),
			},
			want: want{create: []podplan.Member{member("Worker", 0), member("Worker", 2)}},
		},
		"the first rule": {
			why:  "rules come in their order, whatever else failed",
			kept: began,
			plan: withRules(podplan.RestartJob, podplan.FailJob),
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Failed, because("Broken", "")),
				pod("Worker", 1, podplan.Failed, because("Late", "")),
			},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Attempt, m.Failures, m.LastFailure, m.Rule = 1, 1, start, "late" },
			},
		},
		"a rule that ends it": {
			why:  "and it is told which",
			kept: began,
			plan: withRules(podplan.FailJob, podplan.RestartJob),
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Failed, because("Broken", "disk of node 7")),
				pod("Worker", 1, podplan.Failed, because("Late", "slow")),
			},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Reason, m.Message, m.Ended, m.Rule = podplan.JobFailed, podplan.MemberFailed, "j-worker-1 failed: slow", start, "late"
			}},
		},
		"no rule fits": {
			why:  "it is as the role says",
			kept: began,
			plan: withRules(podplan.FailJob, podplan.FailJob),
			seen: []podplan.Seen{pod("Worker", 0, podplan.Failed, because("Broken", "disk full"))},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Failures, m.Counted, m.LastFailure = 1, []string{"Worker0"}, start },
			},
		},
		"the earliest of a rule": {
			why: "the others often fail because of it", kept: began,
			plan: withRules(podplan.FailJob, podplan.FailJob),
			seen: []podplan.Seen{
				pod(
					"Worker",
					0,
					podplan.Failed,
					because("Late", "second"),
					failedAt(5),
				),
				pod("Worker", 2, podplan.Failed, because("Late", "first"), failedAt(3)),
			},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Reason, m.Message, m.Ended, m.Rule = podplan.JobFailed, podplan.MemberFailed, "j-worker-2 failed: first", start, "late"
			}},
		},
		"a free failure": {
			why:  "it is not counted, but it is noted, and the member made anew",
			kept: began,
			plan: func(p *podplan.Plan) {
				p.Rules, p.Retries = []podplan.Rule{{Name: "free", Then: podplan.Replace, Free: true}}, new(int32)
			},
			seen: []podplan.Seen{pod("Worker", 0, podplan.Failed)},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Free, m.Counted, m.LastFailure = 1, []string{"Worker0"}, start },
			},
		},
		"all anew for a free failure": {
			why:  "it is not counted, but it is noted",
			kept: began,
			plan: func(p *podplan.Plan) {
				p.Rules, p.Retries = []podplan.Rule{{Name: "free", Then: podplan.RestartJob, Free: true}}, new(int32)
			},
			seen: []podplan.Seen{pod("Worker", 0, podplan.Failed)},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Attempt, m.Free, m.Rule, m.LastFailure = 1, 1, "free", start },
			},
		},
		"held back": {
			why:  "members stay, and one that ended stays as it is",
			kept: began,
			plan: func(p *podplan.Plan) { p.Suspended = true; p.Roles[1].Holds = true },
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Running),
				pod("Worker", 1, podplan.Succeeded, over),
				pod("Worker", 2, podplan.Pending, held),
				pod("Worker", 3, podplan.Pending),
			},
			want: want{hold: []int{0}, delete: []int{3}},
		},
		"all are held back": {
			why:  "nothing runs, and what they have done stays done; what was counted is not counted again",
			plan: func(p *podplan.Plan) { p.Suspended = true; p.Roles[1].Holds = true },
			kept: podplan.RetryState{
				Started: start,
				Counted: []string{"Worker2", "x"},
				Done:    map[string]podplan.Indexes{"Worker": {{First: 1, Last: 1}}, "Master": {{First: 0, Last: 0}}},
			},
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Pending, held, over),
				pod("Worker", 1, podplan.Succeeded, over),
				pod("Worker", 2, podplan.Failed, over),
			},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				*m = podplan.RetryState{
					Counted: []string{"Worker2"},
					Done:    map[string]podplan.Indexes{"Worker": {{First: 1, Last: 1}}},
				}
			}},
		},
		"one that is held back failed": {
			why: "it lost its node, as others that were stopped for it: that is counted for no limit when the job runs again",
			plan: func(p *podplan.Plan) {
				p.Suspended = true
				p.Roles[1].Holds, p.Roles[1].OnFailure = true, podplan.RestartJob
			},
			kept: podplan.RetryState{Counted: []string{"Worker1"}},
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Failed, held, over),
				pod("Worker", 1, podplan.Failed, held, over),
				pod("Worker", 2, podplan.Pending, held, over),
			},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Counted = []string{"Worker1", "Worker0"} },
			},
		},
		"one that was held back failed, and the job runs again": {
			why: "it is made anew, and the others run on",
			plan: func(p *podplan.Plan) {
				p.Roles = p.Roles[1:]
				p.Roles[0].Holds, p.Roles[0].OnFailure, p.Retries = true, podplan.RestartJob, new(int32(0))
			},
			kept: podplan.RetryState{Started: start, Counted: []string{"Worker0"}},
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Failed, over),
				pod("Worker", 1, podplan.Ready),
				pod("Worker", 2, podplan.Pending, held),
			},
			want: want{delete: []int{0}, release: []int{2}},
		},
		"one that is held back failed, and may stay so": {
			why: "the job goes on without it, as it would have",
			plan: func(p *podplan.Plan) {
				p.Suspended = true
				p.Roles[1].Holds, p.Roles[1].OnFailure = true, podplan.Ignore
			},
			seen: []podplan.Seen{pod("Worker", 0, podplan.Failed, held, over)},
		},
		"held back, and made from what is no more": {
			why:  "its release could not change it; what ended stays, and what is of no version is as good as any",
			plan: func(p *podplan.Plan) { p.Suspended, p.Roles[1].Holds, p.Roles[1].Version = true, true, "new" },
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Pending, held, over, made("old")),
				pod("Worker", 1, podplan.Succeeded, over, made("old")),
				pod("Worker", 2, podplan.Pending, held, over),
			},
			want: want{delete: []int{0}},
		},
		"released, and made from what is no more": {
			why:  "it is made anew once it is gone",
			kept: began,
			plan: func(p *podplan.Plan) { p.Roles = p.Roles[1:]; p.Roles[0].Holds, p.Roles[0].Version = true, "new" },
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Pending, held, made("old")),
				pod("Worker", 1, podplan.Pending, held, made("new")),
				pod("Worker", 2, podplan.Ready, made("old")),
			},
			want: want{delete: []int{0}, release: []int{1}},
		},
		"one that is held still runs": {
			why: "the quota is given back when its last pod is gone", kept: began,
			plan: func(p *podplan.Plan) { p.Suspended = true; p.Roles[1].Holds = true },
			seen: []podplan.Seen{pod("Worker", 0, podplan.Running, held)},
		},
		"released": {
			why: "what is held may run again, of roles whose turn it is", kept: began,
			plan: func(p *podplan.Plan) {
				p.Roles[0].Holds, p.Roles[1].Holds = true, true
				p.Roles[1].After = []podplan.Dependency{{Role: "Master"}}
			},
			seen: []podplan.Seen{pod("Master", 0, podplan.Pending, held), pod("Worker", 0, podplan.Pending, held)},
			want: want{release: []int{0}},
		},
		"floating, one is gone": {
			why: "the lowest index that is free is taken, whoever has the others", kept: began,
			plan: func(p *podplan.Plan) { p.Roles = p.Roles[1:]; p.Roles[0].Floating = true },
			seen: []podplan.Seen{pod("Worker", 0, podplan.Ready, leaving), pod("Worker", 7, podplan.Ready)},
			want: want{create: []podplan.Member{member("Worker", 1), member("Worker", 2)}},
		},
		"floating, too many": {
			why:  "those that are not wanted go first, then the last",
			kept: began,
			plan: func(p *podplan.Plan) {
				p.Roles = p.Roles[1:]
				p.Roles[0].Floating, p.Roles[0].Count, p.Roles[0].Unwanted = true, 2, []int32{1}
			},
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Ready),
				pod("Worker", 2, podplan.Ready),
				pod("Worker", 5, podplan.Ready),
			},
			want: want{delete: []int{1, 3}},
		},
		"floating, failed at a high index": {
			why:  "it counts like any other",
			kept: began,
			plan: func(p *podplan.Plan) { p.Roles = p.Roles[1:]; p.Roles[0].Floating, p.Roles[0].Count = true, 1 },
			seen: []podplan.Seen{pod("Worker", 8, podplan.Failed)},
			want: want{
				changed: true,
				memory:  func(m *podplan.RetryState) { m.Failures, m.Counted, m.LastFailure = 1, []string{"Worker8"}, start },
			},
		},
		"forever": {
			why: "one that ends well is made anew too, and nothing is done", kept: began,
			plan: func(p *podplan.Plan) { p.Roles = p.Roles[:1]; p.Roles[0].Forever = true },
			seen: []podplan.Seen{pod("Master", 0, podplan.Succeeded)}, want: want{delete: []int{0}},
		},
		"of an earlier attempt": {
			why:  "it goes, however it fares, and its success is not counted",
			kept: began,
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Succeeded, old),
				pod("Worker", 0, podplan.Failed, old),
				pod("Worker", 1, podplan.Ready),
				pod("Worker", 2, podplan.Ready, old, leaving),
			},
			want: want{delete: []int{0, 1}},
		},
		"fewer are wanted": {
			why:  "what is beyond the count goes, and its failure is nobody's",
			kept: began,
			plan: func(p *podplan.Plan) { p.Roles[1].Count, p.Roles[1].OnFailure = 1, podplan.FailJob },
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready),
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Failed),
				pod("Elf", 0, podplan.Ready),
			},
			want: want{delete: []int{2, 3}},
		},
		"remote": {
			why: "it is no object that could be made, removed or held, and it counts", kept: began,
			plan: func(p *podplan.Plan) {
				p.Roles[0].Remote = true
				p.Roles[1].After = []podplan.Dependency{{Role: "Master"}}
			},
		},
		"remote, ready": {
			why: "others may wait for it", kept: began,
			plan: func(p *podplan.Plan) {
				p.Roles[0].Remote, p.Roles[1].Count = true, 1
				p.Roles[1].After = []podplan.Dependency{{Role: "Master"}}
			},
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready, old), pod("Master", 0, podplan.Ready)},
			want: want{create: []podplan.Member{member("Worker", 0)}},
		},
		"remote, suspended": {
			why: "it goes elsewhere, and is waited for", kept: began,
			plan: func(p *podplan.Plan) { p.Suspended, p.Roles[0].Remote = true, true },
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready)},
		},
		"remote, ended": {
			why:  "nothing of it can be removed",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobFailed},
			plan: func(p *podplan.Plan) { p.CleanUp, p.Roles[0].Remote = podplan.RemoveAll, true },
			seen: []podplan.Seen{pod("Master", 0, podplan.Failed)},
		},
		"alone": {
			why: "it begins once those of no role are gone", kept: began,
			plan: func(p *podplan.Plan) { p.Roles[0].Alone, p.Roles[1].Count = true, 0 },
			seen: []podplan.Seen{pod("Elf", 0, podplan.Ready, leaving)},
		},
		"alone at last": {
			why: "nobody is left", kept: began,
			plan: func(p *podplan.Plan) { p.Roles[0].Alone, p.Roles[1].Count = true, 0 },
			want: want{create: []podplan.Member{member("Master", 0)}},
		},
		"waits for others": {
			why:  "a launcher begins when all workers are ready",
			kept: began,
			plan: func(p *podplan.Plan) { p.Roles[0].After = []podplan.Dependency{{Role: "Worker"}} },
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Ready),
				pod("Worker", 1, podplan.Running),
				pod("Worker", 2, podplan.Ready),
			},
		},
		"waits no more": {
			why: "those that are done have been ready",
			kept: podplan.RetryState{
				Started: start,
				Done:    map[string]podplan.Indexes{"Worker": {{First: 1, Last: 1}}},
			},
			plan: func(p *podplan.Plan) { p.Roles[0].After = []podplan.Dependency{{Role: "Worker"}} },
			seen: []podplan.Seen{pod("Worker", 0, podplan.Ready), pod("Worker", 2, podplan.Ready)},
			want: want{create: []podplan.Member{member("Master", 0)}},
		},
		"waits for the end of others": {
			why: "ready is not done",
			kept: podplan.RetryState{
				Started: start,
				Done:    map[string]podplan.Indexes{"Worker": {{First: 1, Last: 1}}},
			},
			plan: func(p *podplan.Plan) { p.Roles[0].After = []podplan.Dependency{{Role: "Worker", Done: true}} },
			seen: []podplan.Seen{pod("Worker", 0, podplan.Ready), pod("Worker", 2, podplan.Ready)},
		},
		"master done": {
			why: "its end is that of the job", kept: began, seen: []podplan.Seen{pod("Master", 0, podplan.Succeeded)},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Ended, m.Done = podplan.JobSucceeded, start, map[string]podplan.Indexes{
					"Master": {{First: 0, Last: 0}},
				}
			}},
		},
		"done and failed at once": {
			why: "workers often fail because the master has ended", kept: began,
			plan: func(p *podplan.Plan) { p.Roles[1].OnFailure = podplan.FailJob },
			seen: []podplan.Seen{pod("Master", 0, podplan.Succeeded), pod("Worker", 1, podplan.Failed)},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Ended, m.Done = podplan.JobSucceeded, start, map[string]podplan.Indexes{
					"Master": {{First: 0, Last: 0}},
				}
			}},
		},
		"deadline ahead": {
			why: "somebody has to look then", kept: began, at: 4 * time.Second,
			plan: func(p *podplan.Plan) { p.Deadline = 10 * time.Second; p.Roles = p.Roles[:1] },
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready)}, want: want{again: 6 * time.Second},
		},
		"deadline": {
			why: "its time is over", kept: began, at: 10 * time.Second,
			plan: func(p *podplan.Plan) { p.Deadline = 10 * time.Second },
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Reason, m.Message, m.Ended = podplan.JobFailed, podplan.DeadlineExceeded, "it ran longer than 10s", start.Add(
					10*time.Second,
				)
			}},
		},
		"deadline of a try ahead": {
			why: "it counts from the beginning of the try", at: 14 * time.Second,
			plan: func(p *podplan.Plan) { p.Deadline, p.EachTry, p.Roles = 10*time.Second, true, p.Roles[:1] },
			kept: podplan.RetryState{Started: start, Attempt: 1, LastFailure: start.Add(8 * time.Second)},
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready, young)}, want: want{again: 4 * time.Second},
		},
		"deadline of a try": {
			why: "its time is over", at: 18 * time.Second,
			plan: func(p *podplan.Plan) { p.Deadline, p.EachTry = 10*time.Second, true },
			kept: podplan.RetryState{Started: start, Attempt: 1, LastFailure: start.Add(8 * time.Second)},
			want: want{changed: true, memory: func(m *podplan.RetryState) {
				m.Outcome, m.Reason, m.Message, m.Ended = podplan.JobFailed, podplan.DeadlineExceeded, "it ran longer than 10s", start.Add(
					18*time.Second,
				)
			}},
		},
		"deadline of a try, resumed since": {
			why:  "failures before it was suspended are of no try of now",
			at:   24 * time.Second,
			plan: func(p *podplan.Plan) { p.Deadline, p.EachTry, p.Roles = 10*time.Second, true, p.Roles[:1] },
			kept: podplan.RetryState{
				Started:     start.Add(20 * time.Second),
				Attempt:     1,
				LastFailure: start.Add(8 * time.Second),
			},
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready, young)},
			want: want{again: 6 * time.Second},
		},
		"deadline of a job whose members are made anew one by one": {
			why: "that is no other try", at: 9 * time.Second,
			plan: func(p *podplan.Plan) { p.Deadline, p.EachTry, p.Roles = 10*time.Second, true, p.Roles[:1] },
			kept: podplan.RetryState{Started: start, Failures: 1, LastFailure: start.Add(8 * time.Second)},
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready)}, want: want{again: time.Second},
		},
		"another version": {
			why:  "all are made anew, which is noted first, and is no failure",
			kept: podplan.RetryState{Started: start, Failures: 2, Counted: []string{"x"}},
			plan: func(p *podplan.Plan) { p.Version, p.Renews, p.Retries = "2", true, new(int32(2)) },
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready, of("2")), pod("Worker", 0, podplan.Failed, of("1"))},
			want: want{changed: true, memory: func(m *podplan.RetryState) { m.Attempt, m.Counted = 1, nil }},
		},
		"another version, noted": {
			why:  "those of the version before go, and with Together none is made beside them",
			kept: podplan.RetryState{Started: start, Attempt: 1},
			plan: func(p *podplan.Plan) { p.Version, p.Renews, p.Together = "2", true, true },
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Ready, of("1")),
				pod("Worker", 0, podplan.Ready, of("1"), leaving),
			},
			want: want{delete: []int{0}},
		},
		"another version, nobody asks for that": {
			why: "what runs stays", kept: began, plan: func(p *podplan.Plan) { p.Version, p.Roles = "2", p.Roles[:1] },
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready, of("1"))},
		},
		"a version that nobody knows": {
			why: "pods that an earlier release made stay", kept: began,
			plan: func(p *podplan.Plan) { p.Version, p.Renews, p.Roles = "2", true, p.Roles[:1] },
			seen: []podplan.Seen{pod("Master", 0, podplan.Ready)},
		},
		"ended": {
			why:  "nothing begins any more, and what is there stays",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobFailed},
			seen: []podplan.Seen{pod("Worker", 0, podplan.Running)},
		},
		"ended, running ones go": {
			why:  "logs of those that ended stay",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobFailed},
			plan: func(p *podplan.Plan) { p.CleanUp = podplan.RemoveRunning },
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Running),
				pod("Worker", 1, podplan.Failed),
				pod("Worker", 2, podplan.Pending, leaving),
			},
			want: want{delete: []int{0}},
		},
		"ended, suspended": {
			why:  "others are to have what it keeps",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobSucceeded},
			at:   time.Second,
			plan: func(p *podplan.Plan) { p.Suspended, p.CleanUpAfter = true, 5*time.Second },
			seen: []podplan.Seen{
				pod("Worker", 0, podplan.Running),
				pod("Worker", 1, podplan.Failed),
				pod("Worker", 2, podplan.Running, leaving),
			},
			want: want{delete: []int{0}},
		},
		"ended, all go": {
			why:  "as its author wants it",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobSucceeded},
			plan: func(p *podplan.Plan) { p.CleanUp = podplan.RemoveAll },
			seen: []podplan.Seen{pod("Worker", 0, podplan.Succeeded), pod("Worker", 1, podplan.Failed)},
			want: want{delete: []int{0, 1}},
		},
		"ended, all but the results go": {
			why:  "what a role leaves behind is what people read",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobSucceeded},
			plan: func(p *podplan.Plan) { p.CleanUp, p.Roles[0].Kept = podplan.RemoveAll, true },
			seen: []podplan.Seen{
				pod("Master", 0, podplan.Succeeded),
				pod("Worker", 0, podplan.Succeeded),
				pod("Worker", 1, podplan.Running),
			},
			want: want{delete: []int{1, 2}},
		},
		"ended, what is kept runs": {
			why:  "it would go on for nothing",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobFailed},
			plan: func(p *podplan.Plan) { p.CleanUp, p.Roles[0].Kept = podplan.RemoveAll, true },
			seen: []podplan.Seen{pod("Master", 0, podplan.Running)},
			want: want{delete: []int{0}},
		},
		"ended, running ones go later": {
			why:  "somebody may want to look at them",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobSucceeded},
			at:   time.Second,
			plan: func(p *podplan.Plan) { p.CleanUp, p.CleanUpAfter = podplan.RemoveRunning, 5*time.Second },
			seen: []podplan.Seen{pod("Worker", 0, podplan.Running)},
			want: want{again: 4 * time.Second},
		},
		"ended, later is over": {
			why:  "they had their time",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobSucceeded},
			at:   5 * time.Second,
			plan: func(p *podplan.Plan) { p.CleanUp, p.CleanUpAfter = podplan.RemoveRunning, 5*time.Second },
			seen: []podplan.Seen{pod("Worker", 0, podplan.Running)},
			want: want{delete: []int{0}},
		},
		"ended, the job goes before them": {
			why:  "what is first",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobSucceeded},
			at:   time.Second,
			plan: func(p *podplan.Plan) {
				p.CleanUp, p.CleanUpAfter, p.TTL = podplan.RemoveRunning, 5*time.Second, ptr.To(3*time.Second)
			},
			seen: []podplan.Seen{pod("Worker", 0, podplan.Running)},
			want: want{again: 2 * time.Second},
		},
		"ended, stays for a while": {
			why:  "it is deleted later",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobSucceeded},
			at:   time.Second,
			plan: func(p *podplan.Plan) { p.TTL = ptr.To(5 * time.Second) },
			want: want{again: 4 * time.Second},
		},
		"ended long ago": {
			why:  "its while is over",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobSucceeded},
			at:   5 * time.Second,
			plan: func(p *podplan.Plan) { p.TTL = ptr.To(5 * time.Second) },
			want: want{remove: true},
		},
		"ended and suspended": {
			why:  "it stays ended",
			kept: podplan.RetryState{Started: start, Ended: start, Outcome: podplan.JobSucceeded},
			plan: func(p *podplan.Plan) { p.Suspended = true },
			seen: []podplan.Seen{pod("Worker", 0, podplan.Succeeded)},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := training(3)
			if tc.plan != nil {
				tc.plan(p)
			}
			got := p.Next(tc.seen, &tc.kept, start.Add(tc.at))
			memory := tc.kept
			if tc.want.memory != nil {
				tc.want.memory(&memory)
			}
			want := podplan.Actions{
				RetryState: memory,
				Changed:    tc.want.changed,
				Create:     tc.want.create,
				Delete:     tc.want.delete,
				Hold:       tc.want.hold,
				Release:    tc.want.release,
				Remove:     tc.want.remove,
				Again:      tc.want.again,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func TestSuccess(t *testing.T) {
	done := func(role string, first, last int32) map[string]podplan.Indexes {
		return map[string]podplan.Indexes{role: {{First: first, Last: last}}}
	}
	worker := func(term podplan.Term) podplan.Success { term.Roles = []string{"Worker"}; return podplan.Success{term} }
	for name, tc := range map[string]struct {
		why     string
		success podplan.Success
		done    map[string]podplan.Indexes
		want    podplan.Outcome
	}{
		"all":               {"each of them", worker(podplan.Term{}), done("Worker", 0, 2), podplan.JobSucceeded},
		"all but one":       {"one goes on", worker(podplan.Term{}), done("Worker", 0, 1), podplan.Open},
		"the first":         {"it alone counts", worker(podplan.Term{First: true}), done("Worker", 0, 0), podplan.JobSucceeded},
		"not the first":     {"however many others", worker(podplan.Term{First: true}), done("Worker", 1, 2), podplan.Open},
		"enough":            {"any two", worker(podplan.Term{AtLeast: 2}), done("Worker", 1, 2), podplan.JobSucceeded},
		"not enough":        {"one is not two", worker(podplan.Term{AtLeast: 2}), done("Worker", 2, 2), podplan.Open},
		"another's":         {"that of another role does not count", podplan.Success{{Roles: []string{"Master"}}}, done("Worker", 0, 2), podplan.Open},
		"either":            {"one term is enough", append(worker(podplan.Term{}), podplan.Term{Roles: []string{"Master"}}), done("Worker", 0, 2), podplan.JobSucceeded},
		"never":             {"a service has no end", nil, done("Worker", 0, 2), podplan.Open},
		"all of several":    {"each of both", podplan.Success{{Roles: []string{"Worker", "Master"}}}, done("Worker", 0, 2), podplan.Open},
		"any of several":    {"one of either", podplan.Success{{Roles: []string{"Master", "Worker"}, AtLeast: 1}}, done("Worker", 1, 1), podplan.JobSucceeded},
		"a role that isn't": {"none of its members ever succeeds", podplan.Success{{Roles: []string{"Elf"}}}, done("Worker", 0, 2), podplan.Open},
		"fewer are wanted":  {"those beyond the count are not missed, and do not count", worker(podplan.Term{AtLeast: 2}), done("Worker", 3, 9), podplan.Open},
	} {
		p := training(3)
		p.Success = tc.success
		got := p.Next(nil, &podplan.RetryState{Started: start, Done: tc.done}, start)
		if got.RetryState.Outcome != tc.want {
			t.Errorf("%s (%s): outcome %d, want %d", name, tc.why, got.RetryState.Outcome, tc.want)
		}
	}
}

func TestExpand(t *testing.T) {
	r := podplan.Role{Rank: 1}
	for text, want := range map[string]string{"x": "x", "{index}": "7", "w-{index}": "w-7", "{rank}": "8", `{"i":{index}}`: `{"i":7}`, "{other}": "{other}"} {
		if got := r.Expand(text, 7); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	p := training(4)
	p.Roles[0].Count = 0
	seen := []podplan.Seen{
		pod(
			"Worker",
			0,
			podplan.Ready,
		),
		pod("Worker", 1, podplan.Running),
		pod("Worker", 2, podplan.Failed),
		pod("Worker", 3, podplan.Succeeded),
		pod("Elf", 0, podplan.Ready),
		pod("Worker", 4, podplan.Pending),
	}
	m := podplan.RetryState{Done: map[string]podplan.Indexes{"Worker": {{First: 3, Last: 3}}}}
	got := p.Count(seen, &m)
	want := map[string]podplan.Tally{
		"Master": {},
		"Worker": {Active: 3, Ready: 1, Pending: 1, Succeeded: 1, Failed: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.AllReady(got) {
		t.Error("one runs and is not ready, one has failed")
	}
	if !p.AllReady(
		p.Count(
			slices.Concat(seen[:1], []podplan.Seen{pod("Worker", 1, podplan.Ready), pod("Worker", 2, podplan.Ready)}),
			&m,
		),
	) {
		t.Error("three are ready, one is done")
	}
}

// A role that begins when another has ended does not keep the job from being ready; one
// that begins when another is ready has its members at once.
func TestAllReadyByTurns(t *testing.T) {
	p := training(1)
	p.Roles = append(
		p.Roles,
		podplan.Role{Name: "Last", Count: 1, After: []podplan.Dependency{{Role: "Worker"}}},
	)
	p.Roles[1].After = []podplan.Dependency{{Role: "Master", Done: true}}
	for name, tc := range map[string]struct {
		counts map[string]podplan.Tally
		want   bool
	}{
		"the first does not come up":    {map[string]podplan.Tally{"Master": {Active: 1}}, false},
		"the first runs":                {map[string]podplan.Tally{"Master": {Active: 1, Ready: 1}}, true},
		"the second does not come up":   {map[string]podplan.Tally{"Master": {Succeeded: 1}, "Worker": {Active: 1}}, false},
		"the last is due and not there": {map[string]podplan.Tally{"Master": {Succeeded: 1}, "Worker": {Active: 1, Ready: 1}}, false},
		"all are there":                 {map[string]podplan.Tally{"Master": {Succeeded: 1}, "Worker": {Succeeded: 1}, "Last": {Active: 1, Ready: 1}}, true},
	} {
		if got := p.AllReady(tc.counts); got != tc.want {
			t.Errorf("%s: ready is %t", name, got)
		}
	}
}

// TestArgumentsStay: a question changes nothing.
func TestArgumentsStay(t *testing.T) {
	p := training(2)
	m := podplan.RetryState{
		Started: start,
		Counted: []string{"x"},
		Done:    map[string]podplan.Indexes{"Worker": {{First: 1, Last: 1}}},
	}
	before := strings.Clone(cmp.Diff(nil, m))
	p.Next([]podplan.Seen{pod("Worker", 0, podplan.Succeeded), pod("Master", 0, podplan.Failed)}, &m, start)
	if after := cmp.Diff(nil, m); after != before {
		t.Errorf("what was kept is %s, was %s", after, before)
	}
}

// TestFree: the first rule that fits says whether a failure counts.
func TestFree(t *testing.T) {
	p := training(3)
	p.Rules = []podplan.Rule{
		{Name: "late", Roles: []string{"Worker"}, Reasons: []string{"Late"}, Then: podplan.Replace},
		{Name: "free", Roles: []string{"Worker"}, Then: podplan.Replace, Free: true},
	}
	free, late := pod("Worker", 0, podplan.Failed), pod("Worker", 0, podplan.Failed)
	late.Reason = "Late"
	unruled, nobody := pod("Master", 0, podplan.Failed), pod("", 0, podplan.Failed)
	for why, tc := range map[string]struct {
		seen podplan.Seen
		want bool
	}{"of a free rule": {free, true}, "of one before it": {late, false}, "of no rule": {unruled, false}, "of no role": {nobody, false}} {
		if got := p.Free(&tc.seen); got != tc.want {
			t.Errorf("%s: free is %v", why, got)
		}
	}
}
