package jobset_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
)

// at is a time of a story.
func at(seconds int64) time.Time { return time.Unix(1_000_000+seconds, 0).UTC() }

// shown are conditions as people read them.
func shown(js *api.JobSet) string {
	var out []string
	for _, c := range js.Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s:%s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(out, " ")
}

func projected(t testing.TB, js *api.JobSet, p *jobs.Plan, s *jobs.Progress) *api.JobSet {
	t.Helper()
	before := js.DeepCopy()
	out, _ := jobset.Kind().Running.Operator.Project(js, p, s).(*api.JobSet)
	if diff := cmp.Diff(before, js); diff != "" {
		t.Errorf("the user's object was changed:\n%s", diff)
	}
	if again, _ := jobset.Kind().Running.Operator.Project(out, p, s).(*api.JobSet); !cmp.Equal(out, again) {
		t.Errorf("the same look gives another status:\n%s", cmp.Diff(out, again))
	}
	return out
}

// tallies are counts of leader and workers.
func tallies(leader, workers podplan.Tally) map[string]podplan.Tally {
	return map[string]podplan.Tally{"leader": leader, "workers": workers}
}

// TestStory tells the conditions of a JobSet from its creation to its end, in the words that
// scripts wait for.
func TestStory(t *testing.T) {
	begun := podplan.RetryState{Started: at(20)}
	anew := podplan.RetryState{Started: at(20), Attempt: 1, Failures: 1, Rule: "host"}
	ready := podplan.Tally{Active: 1, Ready: 1}
	js := decode(
		t,
		"startupPolicy: {startupPolicyOrder: InOrder}, failurePolicy: {maxRestarts: 3, rules: [{name: host, action: RestartJobSet}]}, "+pair,
	)
	for _, chapter := range []struct {
		name    string
		suspend bool
		s       jobs.Progress
		want    string
	}{
		{"held by its queue", true, jobs.Progress{Suspended: true, Now: at(0)}, "Suspended=True:SuspendedJobs"},
		{"admitted", false, jobs.Progress{RetryState: begun, Counts: tallies(podplan.Tally{Active: 1}, podplan.Tally{}), Now: at(20)}, "Suspended=False:ResumeJobs StartupPolicyInProgress=True:InOrderStartupPolicyInProgress"},
		{"all run", false, jobs.Progress{RetryState: begun, Counts: tallies(ready, podplan.Tally{Active: 2, Ready: 2}), Ready: true, Now: at(30)}, "Suspended=False:ResumeJobs StartupPolicyInProgress=False:InOrderStartupPolicyInProgress StartupPolicyCompleted=True:InOrderStartupPolicyCompleted"},
		{"one is not ready for a moment", false, jobs.Progress{RetryState: begun, Counts: tallies(ready, podplan.Tally{Active: 2, Ready: 1}), Now: at(31)}, "Suspended=False:ResumeJobs StartupPolicyInProgress=False:InOrderStartupPolicyInProgress StartupPolicyCompleted=True:InOrderStartupPolicyCompleted"},
		{"a Job failed", false, jobs.Progress{RetryState: anew, Counts: tallies(podplan.Tally{}, podplan.Tally{}), Now: at(40)}, "Suspended=False:ResumeJobs StartupPolicyInProgress=True:InOrderStartupPolicyInProgress StartupPolicyCompleted=False:InOrderStartupPolicyCompleted RestartingJobSet=True:FailurePolicy_host"},
		{"they begin anew", false, jobs.Progress{RetryState: anew, Counts: tallies(ready, podplan.Tally{Active: 2}), Now: at(41)}, "Suspended=False:ResumeJobs StartupPolicyInProgress=True:InOrderStartupPolicyInProgress StartupPolicyCompleted=False:InOrderStartupPolicyCompleted RestartingJobSet=True:FailurePolicy_host"},
		{"all run again", false, jobs.Progress{RetryState: anew, Counts: tallies(ready, podplan.Tally{Active: 2, Ready: 2}), Ready: true, Now: at(50)}, "Suspended=False:ResumeJobs StartupPolicyInProgress=False:InOrderStartupPolicyInProgress StartupPolicyCompleted=True:InOrderStartupPolicyCompleted RestartingJobSet=False:JobsReady"},
		{"is being evicted", true, jobs.Progress{RetryState: anew, Counts: tallies(ready, podplan.Tally{Active: 2, Ready: 2}), Now: at(51)}, "Suspended=False:ResumeJobs StartupPolicyInProgress=False:InOrderStartupPolicyInProgress StartupPolicyCompleted=True:InOrderStartupPolicyCompleted RestartingJobSet=False:JobsReady"},
		{"evicted", true, jobs.Progress{RetryState: podplan.RetryState{Attempt: 1, Failures: 1}, Suspended: true, Counts: tallies(podplan.Tally{Held: 1}, podplan.Tally{Held: 2}), Now: at(52)}, "Suspended=True:SuspendedJobs StartupPolicyInProgress=False:InOrderStartupPolicyInProgress StartupPolicyCompleted=True:InOrderStartupPolicyCompleted RestartingJobSet=False:JobsReady"},
		{"comes back", false, jobs.Progress{RetryState: anew, Counts: tallies(ready, podplan.Tally{Active: 2, Ready: 2}), Ready: true, Now: at(60)}, "Suspended=False:ResumeJobs StartupPolicyInProgress=False:InOrderStartupPolicyInProgress StartupPolicyCompleted=True:InOrderStartupPolicyCompleted RestartingJobSet=False:JobsReady"},
		{"succeeds", false, jobs.Progress{RetryState: podplan.RetryState{Started: at(20), Attempt: 1, Failures: 1, Outcome: podplan.JobSucceeded, Ended: at(70)}, Counts: tallies(podplan.Tally{Succeeded: 1}, podplan.Tally{Succeeded: 2}), Now: at(70)}, "Suspended=False:ResumeJobs StartupPolicyInProgress=False:InOrderStartupPolicyInProgress StartupPolicyCompleted=True:InOrderStartupPolicyCompleted RestartingJobSet=False:JobsReady Completed=True:AllJobsCompleted"},
	} {
		js.Spec.Suspend = new(chapter.suspend)
		p := compiled(t, js)
		js = projected(t, js, p, &chapter.s)
		if got := shown(js); got != chapter.want {
			t.Fatalf("%s:\ngot  %s\nwant %s", chapter.name, got, chapter.want)
		}
		if js.Status.Restarts != chapter.s.Attempt || js.Status.RestartsCountTowardsMax != chapter.s.Failures {
			t.Errorf(
				"%s: %d restarts, %d of them count",
				chapter.name,
				js.Status.Restarts,
				js.Status.RestartsCountTowardsMax,
			)
		}
		if chapter.name == "evicted" {
			if got := js.Status.ReplicatedJobsStatus[1]; !cmp.Equal(
				got,
				api.ReplicatedJobStatus{Name: "workers", Suspended: 2},
			) {
				t.Errorf("of the workers it says %+v", got)
			}
		}
	}
	if js.Status.TerminalState != "Completed" ||
		!cmp.Equal(js.Status.ReplicatedJobsStatus[1], api.ReplicatedJobStatus{Name: "workers", Succeeded: 2}) {
		t.Errorf("%+v", js.Status)
	}
	if c := apimeta.FindStatusCondition(
		js.Status.Conditions,
		"Completed",
	); !c.LastTransitionTime.Time.Equal(
		at(70),
	) {
		t.Errorf("it ended at %v", c.LastTransitionTime)
	}
}

// TestJobsWithoutPodsAreNotActive: clients take the active Jobs for those of which pods are there.
func TestJobsWithoutPodsAreNotActive(t *testing.T) {
	js := decode(t, pair)
	js = projected(
		t,
		js,
		compiled(t, js),
		&jobs.Progress{
			RetryState: podplan.RetryState{Started: at(1)},
			Counts:     tallies(podplan.Tally{Active: 1, Pending: 1}, podplan.Tally{Active: 2, Ready: 1, Pending: 1}),
			Now:        at(2),
		},
	)
	want := []api.ReplicatedJobStatus{{Name: "leader"}, {Name: "workers", Active: 1, Ready: 1}}
	if diff := cmp.Diff(want, js.Status.ReplicatedJobsStatus); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFailures: the word for a failure says who decided.
func TestFailures(t *testing.T) {
	for want, m := range map[string]podplan.RetryState{
		"FailedJobs":                    {Reason: podplan.MemberFailed},
		"FailJobSetFailurePolicyAction": {Reason: podplan.MemberFailed, Rule: "host"},
		"ReachedMaxRestarts":            {Reason: podplan.RetriesExceeded, Rule: "host"},
	} {
		m.Started, m.Ended, m.Outcome, m.Message = at(
			1,
		), at(
			2,
		), podplan.JobFailed, "js-workers-0 failed: Job has reached the specified backoff limit"
		js := decode(t, "failurePolicy: {maxRestarts: 3}, "+pair)
		p := compiled(t, js)
		js.Status.Conditions = []metav1.Condition{
			{Type: "RestartingJobSet", Status: metav1.ConditionTrue, Reason: "DefaultFailurePolicy"},
		}
		js = projected(t, js, p, &jobs.Progress{RetryState: m, Now: at(2)})
		if got := shown(
			js,
		); got != "RestartingJobSet=False:JobSetFailed Failed=True:"+want ||
			js.Status.TerminalState != "Failed" {
			t.Errorf("got %s, want %s", got, want)
		}
		if c := apimeta.FindStatusCondition(
			js.Status.Conditions,
			"Failed",
		); !strings.Contains(
			c.Message,
			"js-workers-0",
		) {
			t.Errorf("it does not say who failed: %s", c.Message)
		}
		f, err := jobset.Kind().Read(js)
		if err != nil || f.Finished == nil || f.Finished.Success {
			t.Errorf("the queue is told %+v, %v", f.Finished, err)
		}
		// What has ended stays so, whatever is seen.
		if again := projected(t, js, p, &jobs.Progress{RetryState: m, Now: at(9)}); shown(again) != shown(js) {
			t.Errorf("then it says %s", shown(again))
		}
	}
}

// TestRestartWithoutARule: the policy's own answer has a word of its own.
func TestRestartWithoutARule(t *testing.T) {
	js := decode(t, "failurePolicy: {maxRestarts: 3}, "+pair)
	js = projected(
		t,
		js,
		compiled(t, js),
		&jobs.Progress{RetryState: podplan.RetryState{Started: at(1), Attempt: 1, Failures: 1}, Now: at(2)},
	)
	if got := shown(js); got != "RestartingJobSet=True:DefaultFailurePolicy" {
		t.Errorf("it says %s", got)
	}
	js.Spec.Suspend = new(true)
	js = projected(
		t,
		js,
		compiled(t, js),
		&jobs.Progress{RetryState: podplan.RetryState{Attempt: 1, Failures: 1}, Suspended: true, Now: at(3)},
	)
	if got := shown(js); got != "RestartingJobSet=False:JobSetSuspended Suspended=True:SuspendedJobs" {
		t.Errorf("it says %s", got)
	}
}

// TestStartupIsToldOfWhatRuns: neither before a JobSet has begun nor once it has ended.
func TestStartupIsToldOfWhatRuns(t *testing.T) {
	const inOrder = "startupPolicy: {startupPolicyOrder: InOrder}, "
	for want, m := range map[string]podplan.RetryState{
		"":                       {},
		"Failed=True:FailedJobs": {Started: at(1), Ended: at(2), Outcome: podplan.JobFailed, Reason: podplan.MemberFailed},
		"StartupPolicyInProgress=True:InOrderStartupPolicyInProgress": {Started: at(1)},
	} {
		js := decode(t, inOrder+pair)
		if got := shown(projected(t, js, compiled(t, js), &jobs.Progress{RetryState: m, Now: at(3)})); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

// TestSeen: how far a JobSet is that is a member of another job.
func TestSeen(t *testing.T) {
	c := jobset.Child()
	js := func(suspend bool, s api.JobSetStatus) *api.JobSet {
		out := decode(t, pair)
		out.Spec.Suspend, out.Status = &suspend, s
		return out
	}
	begun := func(leader, workers int32) []api.ReplicatedJobStatus {
		return []api.ReplicatedJobStatus{{Name: "leader", Ready: leader}, {Name: "workers", Ready: workers}}
	}
	last := []metav1.Condition{
		{
			Type:    api.JobSetSuspended,
			Status:  metav1.ConditionTrue,
			Reason:  api.SuspendedReason,
			Message: "It is suspended, and its last pods end.",
		},
	}
	condition := func(t, reason string) []metav1.Condition {
		return []metav1.Condition{
			{
				Type:               t,
				Status:             metav1.ConditionTrue,
				Reason:             reason,
				Message:            "m",
				LastTransitionTime: metav1.Time{Time: at(5)},
			},
		}
	}
	for name, tc := range map[string]struct {
		js   *api.JobSet
		want podplan.Seen
	}{
		"new":        {js(false, api.JobSetStatus{}), podplan.Seen{}},
		"begins":     {js(false, api.JobSetStatus{ReplicatedJobsStatus: begun(0, 0)}), podplan.Seen{}},
		"runs":       {js(false, api.JobSetStatus{ReplicatedJobsStatus: []api.ReplicatedJobStatus{{Name: "leader", Active: 1}}}), podplan.Seen{Life: podplan.Running}},
		"ready":      {js(false, api.JobSetStatus{ReplicatedJobsStatus: begun(1, 2)}), podplan.Seen{Life: podplan.Ready}},
		"not all":    {js(false, api.JobSetStatus{ReplicatedJobsStatus: begun(1, 1)}), podplan.Seen{}},
		"complete":   {js(false, api.JobSetStatus{Conditions: condition("Completed", "")}), podplan.Seen{Life: podplan.Succeeded, Over: true}},
		"failed":     {js(false, api.JobSetStatus{Conditions: condition("Failed", "FailedJobs")}), podplan.Seen{Life: podplan.Failed, Over: true, Reason: "FailedJobs", Why: "m", FailedAt: at(5)}},
		"being held": {js(true, api.JobSetStatus{ReplicatedJobsStatus: begun(0, 0)}), podplan.Seen{Held: true}},
		"last pods":  {js(true, api.JobSetStatus{ReplicatedJobsStatus: begun(0, 0), Conditions: last}), podplan.Seen{Held: true}},
		"held":       {js(true, api.JobSetStatus{ReplicatedJobsStatus: begun(0, 0), Conditions: condition("Suspended", "SuspendedJobs")}), podplan.Seen{Held: true, Over: true}},
	} {
		if diff := cmp.Diff(tc.want, c.See(tc.js)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	wanted := decode(t, "replicatedJobs: [{name: workers, replicas: 2, TWO}, {name: leader, JOB}]")
	wanted.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"}
	is := js(true, api.JobSetStatus{})
	is.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.NodeSelector = map[string]string{"old": "1"}
	out, _ := c.Release(is, wanted).(*api.JobSet)
	if *out.Spec.Suspend || out.Spec.ReplicatedJobs[1].Template.Spec.Template.Spec.NodeSelector["a"] != "b" ||
		out.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.NodeSelector != nil {
		t.Errorf("it is released as %+v", out.Spec)
	}
	if errs := jobset.Kind().Admission.ValidateChange(is, out); len(errs) > 0 {
		t.Errorf("it may not be released so: %v", errs)
	}
	if held, _ := c.Hold(out).(*api.JobSet); !*held.Spec.Suspend || *out.Spec.Suspend {
		t.Error("it is not held")
	}
}

// TestRestartsOfSingleJobsAreToldRoleByRole: by index, those that count apart from those that a rule
// counts for no limit, once each; what begins all Jobs anew is no restart of one, nor is a failure
// that nothing follows.
func TestRestartsOfSingleJobsAreToldRoleByRole(t *testing.T) {
	js := decode(
		t,
		"failurePolicy: {maxRestarts: 3, rules: [{name: free, action: RestartJobAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy]}, {name: host, action: RestartJob, onJobFailureReasons: [BackoffLimitExceeded]}]}, "+pair,
	)
	p := compiled(t, js)
	failed := func(name, uid, reason string) jobs.Object {
		j := &batchv1.Job{}
		j.Name, j.UID = name, types.UID(uid)
		j.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason},
		}
		return j
	}
	first, free, last := failed(
		"js-workers-1",
		"a",
		batchv1.JobReasonBackoffLimitExceeded,
	), failed(
		"js-workers-0",
		"b",
		batchv1.JobReasonPodFailurePolicy,
	), failed(
		"js-leader-0",
		"c",
		batchv1.JobReasonBackoffLimitExceeded,
	)
	for _, chapter := range []struct {
		name     string
		m        podplan.RetryState
		children []jobs.Object
		want     string
	}{
		{"all run", podplan.RetryState{}, nil, "0 of the JobSet, leader [] [], workers [] []"},
		{"one failed", podplan.RetryState{Failures: 1, Counted: []string{"a"}}, []jobs.Object{first}, "0 of the JobSet, leader [] [], workers [0 1] [0 1]"},
		{"it is still there", podplan.RetryState{Failures: 1, Counted: []string{"a"}}, []jobs.Object{first}, "0 of the JobSet, leader [] [], workers [0 1] [0 1]"},
		{"another did, by a free rule", podplan.RetryState{Failures: 1, Free: 1, Counted: []string{"a", "b"}}, []jobs.Object{first, free}, "0 of the JobSet, leader [] [], workers [1 1] [0 1]"},
		{"another that is not counted yet", podplan.RetryState{Failures: 1, Free: 1, Counted: []string{"b"}}, []jobs.Object{free, last}, "0 of the JobSet, leader [] [], workers [1 1] [0 1]"},
		{"all begin anew", podplan.RetryState{Attempt: 1, Failures: 2, Free: 1}, []jobs.Object{last}, "1 of the JobSet, leader [] [], workers [1 1] [0 1]"},
		{"too many failed", podplan.RetryState{Attempt: 1, Failures: 3, Free: 1, Counted: []string{"c"}, Outcome: podplan.JobFailed, Reason: podplan.RetriesExceeded, Ended: at(9)}, []jobs.Object{last}, "1 of the JobSet, leader [] [], workers [1 1] [0 1]"},
	} {
		chapter.m.Started = at(1)
		js = projected(t, js, p, &jobs.Progress{RetryState: chapter.m, Children: chapter.children, Now: at(2)})
		s := js.Status
		got := fmt.Sprintf("%d of the JobSet", s.RestartsCountTowardsMax)
		for _, r := range s.ReplicatedJobsStatus {
			got += fmt.Sprintf(", %s %v %v", r.Name, r.JobRestarts, r.JobRestartsCountTowardsMax)
		}
		if got != chapter.want {
			t.Errorf("%s: %s, want %s", chapter.name, got, chapter.want)
		}
	}
	// A list of more than the definition takes would keep the status from being written at all.
	js = decode(
		t,
		"failurePolicy: {maxRestarts: 3, rules: [{action: RestartJob}]}, replicatedJobs: [{name: workers, replicas: 1025, JOB}]",
	)
	js = projected(
		t,
		js,
		compiled(t, js),
		&jobs.Progress{
			RetryState: podplan.RetryState{Started: at(1), Failures: 1, Counted: []string{"a"}},
			Children:   []jobs.Object{first},
			Now:        at(2),
		},
	)
	if s := js.Status; s.ReplicatedJobsStatus[0].JobRestarts != nil || s.RestartsCountTowardsMax != 1 {
		t.Errorf("of a role of 1025 it tells %+v", s)
	}
}

// TestSuspendedOnceItsJobsAre: not while one of them may go on, and before their last pods are gone.
func TestSuspendedOnceItsJobsAre(t *testing.T) {
	js := decode(t, "suspend: true, "+pair)
	p := compiled(t, js)
	stopping := podplan.RetryState{Started: at(1)}
	if got := shown(
		projected(
			t,
			js,
			p,
			&jobs.Progress{
				RetryState: stopping,
				Counts:     tallies(podplan.Tally{Held: 1}, podplan.Tally{Held: 1, Active: 1}),
				Now:        at(2),
			},
		),
	); got != "" {
		t.Errorf("while a Job is not suspended it says %q", got)
	}
	js = projected(
		t,
		js,
		p,
		&jobs.Progress{
			RetryState: stopping,
			Counts:     tallies(podplan.Tally{Held: 1}, podplan.Tally{Held: 1, Succeeded: 1}),
			Now:        at(3),
		},
	)
	if got := shown(js); got != "Suspended=True:SuspendedJobs" {
		t.Errorf("it says %q", got)
	}
	if f, err := jobset.Kind().Read(js); err != nil || !f.Active {
		t.Errorf("pods may be left, and the queue is told %+v, %v", f, err)
	}
}
