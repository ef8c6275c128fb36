package rayjob_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayjob"
)

// says is what a dashboard answers.
func says(status api.JobStatus) jobs.Answer {
	return jobs.Answer{
		Status: http.StatusOK,
		At:     at(100),
		Body: fmt.Appendf(
			nil,
			`{"status": %q, "message": "it is so", "start_time": 1000011000, "end_time": 1000020000}`,
			status,
		),
	}
}

func unknown() jobs.Answer { return jobs.Answer{Status: http.StatusNotFound, At: at(100)} }

// begun is a job whose cluster is ready.
func begun(answers jobs.Answers, more map[string]podplan.Tally) *jobs.Progress {
	s := &jobs.Progress{
		RetryState: podplan.RetryState{Started: at(10)},
		Now:        at(100),
		Answers:    answers,
		Counts:     map[string]podplan.Tally{"cluster": {Active: 1, Ready: 1}},
	}
	maps.Copy(s.Counts, more)
	return s
}

func asked(t testing.TB, j *api.RayJob, s *jobs.Progress) []string {
	t.Helper()
	k := rayjob.Kind()
	var out []string
	for _, c := range k.Running.Operator.Calls(j, compile(t, j), s) {
		if !strings.HasPrefix(c.Pod, "a-") || !strings.HasSuffix(c.Pod, "-head") {
			t.Errorf("pod %s is asked", c.Pod)
		}
		out = append(out, fmt.Sprintf("%s %d %s", c.Method, c.Port, c.Path))
	}
	return out
}

// answer gives the answer to the question how the job stands.
func answer(t testing.TB, j *api.RayJob, a jobs.Answer) jobs.Answers {
	t.Helper()
	k := rayjob.Kind()
	for _, c := range k.Running.Operator.Calls(j, compile(t, j), begun(nil, nil)) {
		if c.Method == http.MethodGet {
			return jobs.Answers{c.Key(): a}
		}
	}
	t.Fatal("nothing is asked")
	return nil
}

// TestSubmitted: in HTTPMode a request submits the job, once the cluster is ready and as long as
// Ray does not know it.
func TestSubmitted(t *testing.T) {
	j := decode(
		t,
		"submissionMode: HTTPMode, jobId: mine, metadata: {a: b}, entrypointNumCpus: 2, entrypointResources: '{\"disk\": 1}', runtimeEnvYAML: 'pip: [x]', "+some,
	)
	get, post := "GET 8265 /api/jobs/mine", "POST 8265 /api/jobs/"
	nobody := &jobs.Progress{RetryState: podplan.RetryState{Started: at(1)}}
	known := answer(t, j, unknown())
	for why, tc := range map[string]struct {
		s    *jobs.Progress
		want []string
	}{
		"it is not ready":    {nobody, nil},
		"it is to be asked":  {begun(nil, nil), []string{get}},
		"it is not known":    {begun(known, nil), []string{get, post}},
		"it runs":            {begun(answer(t, j, says(api.JobRunning)), nil), []string{get}},
		"nobody answers":     {begun(answer(t, j, jobs.Answer{Failure: "x"}), nil), []string{get}},
		"it is over":         {&jobs.Progress{RetryState: podplan.RetryState{Started: at(1), Outcome: podplan.JobSucceeded}, Answers: known}, nil},
		"it has not started": {&jobs.Progress{Answers: known}, nil},
	} {
		if diff := cmp.Diff(tc.want, asked(t, j, tc.s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	k := rayjob.Kind()
	c := k.Running.Operator.Calls(j, compile(t, j), begun(known, nil))[1]
	var body, want map[string]any
	if err := json.Unmarshal(c.Body, &body); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(
		[]byte(
			`{"entrypoint": "python a.py", "submission_id": "mine", "runtime_env": {"pip": ["x"]}, "metadata": {"a": "b"}, "entrypoint_num_cpus": 2, "entrypoint_resources": {"disk": 1}}`,
		),
		&want,
	)
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	port := decode(
		t,
		strings.Replace(
			"submissionMode: HTTPMode, "+some,
			"headGroupSpec: {",
			"headGroupSpec: {rayStartParams: {dashboard-port: '9000'}, ",
			1,
		),
	)
	if got := asked(t, port, begun(nil, nil)); len(got) != 1 || !strings.HasPrefix(got[0], "GET 9000 ") {
		t.Errorf("%v", got)
	}
}

// TestHeard: how Ray's job is follows from what the dashboard says.
func TestHeard(t *testing.T) {
	k := rayjob.Kind()
	for why, tc := range map[string]struct {
		answer jobs.Answer
		life   podplan.Life
		reason string
	}{
		"waits":   {says(api.JobPending), podplan.Pending, ""},
		"runs":    {says(api.JobRunning), podplan.Ready, ""},
		"is done": {says(api.JobSucceeded), podplan.Succeeded, ""},
		"failed":  {says(api.JobFailed), podplan.Failed, "FAILED"},
		"stopped": {says(api.JobStopped), podplan.Failed, "STOPPED"},
	} {
		for _, mode := range []string{"HTTPMode", "SidecarMode", "InteractiveMode, jobId: mine"} {
			j := decode(t, "submissionMode: "+mode+", "+some)
			s := begun(answer(t, j, tc.answer), nil)
			s.Attempt = 0
			seen, _ := k.Running.Operator.Observe(j, compile(t, j), nil, s)
			if len(seen) != 1 || seen[0].Role != "job" || seen[0].Life != tc.life || seen[0].Reason != tc.reason {
				t.Errorf("%s, it %s: %+v", mode, why, seen)
			}
			if failures := map[bool]int32{true: 1}[tc.life == podplan.Failed]; len(seen) == 1 &&
				seen[0].Failures != failures {
				t.Errorf("%s, it %s: %d failures, want %d", mode, why, seen[0].Failures, failures)
			}
		}
	}
	j := decode(t, "submissionMode: HTTPMode, "+some)
	for why, a := range map[string]jobs.Answer{"unknown": unknown(), "nobody": {Failure: "x"}, "nonsense": {Status: http.StatusOK, Body: []byte("<html>")}} {
		if seen, _ := k.Running.Operator.Observe(
			j,
			compile(t, j),
			nil,
			begun(answer(t, j, a), nil),
		); len(
			seen,
		) > 0 {
			t.Errorf("%s: %+v", why, seen)
		}
	}
	refused := answer(t, j, unknown())
	submit := k.Running.Operator.Calls(j, compile(t, j), begun(refused, nil))[1]
	refused[submit.Key()] = jobs.Answer{Status: http.StatusBadRequest, Body: []byte("no such package")}
	seen, _ := k.Running.Operator.Observe(j, compile(t, j), nil, begun(refused, nil))
	if len(seen) != 1 || seen[0].Life != podplan.Failed || seen[0].Reason != api.SubmissionFailed ||
		!strings.Contains(seen[0].Why, "no such package") {
		t.Errorf("%+v", seen)
	}
	refused[submit.Key()] = jobs.Answer{Status: http.StatusBadRequest, Body: []byte(strings.Repeat("x", 600))}
	if seen, _ := k.Running.Operator.Observe(
		j,
		compile(t, j),
		nil,
		begun(refused, nil),
	); len(seen) != 1 ||
		!strings.HasSuffix(seen[0].Why, ": "+strings.Repeat("x", 512)) {
		t.Errorf("an answer without end is cut: %+v", seen)
	}
	refused[submit.Key()] = jobs.Answer{Status: http.StatusInternalServerError}
	if seen, _ := k.Running.Operator.Observe(j, compile(t, j), nil, begun(refused, nil)); len(seen) > 0 {
		t.Errorf("it is tried again: %+v", seen)
	}
}

// TestHeardBeside: a job that a Job submits is over when both are, as Ray says; where Ray says
// nothing the Job's end counts.
func TestHeardBeside(t *testing.T) {
	k := rayjob.Kind()
	j := decode(t, some)
	late := says(api.JobFailed)
	late.Body = []byte(strings.Replace(string(late.Body), "1000020000", "1000090000", 1))
	early := unknown()
	early.At = at(20)
	for why, tc := range map[string]struct {
		is     podplan.Life
		answer *jobs.Answer
		want   podplan.Life
	}{
		"both are done":                    {podplan.Succeeded, new(says(api.JobSucceeded)), podplan.Succeeded},
		"Ray says that it failed":          {podplan.Succeeded, new(says(api.JobFailed)), podplan.Failed},
		"its submitter failed, it did not": {podplan.Failed, new(says(api.JobSucceeded)), podplan.Succeeded},
		"its submitter ended, it did not":  {podplan.Failed, new(says(api.JobRunning)), podplan.Ready},
		"its submitter shows output":       {podplan.Ready, &late, podplan.Ready},
		"its submitter hangs":              {podplan.Ready, new(says(api.JobSucceeded)), podplan.Ready},
		"Ray does not know it":             {podplan.Succeeded, new(unknown()), podplan.Succeeded},
		"Ray is to be asked":               {podplan.Failed, nil, podplan.Ready},
		"Ray was asked before":             {podplan.Succeeded, &early, podplan.Ready},
		"nobody answers":                   {podplan.Failed, &jobs.Answer{Failure: "x", At: at(100)}, podplan.Failed},
	} {
		s := begun(nil, nil)
		if tc.answer != nil {
			s.Answers = answer(t, j, *tc.answer)
		}
		b := &batchv1.Job{}
		b.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(50))},
		}
		s.Children = []jobs.Object{b}
		seen := []podplan.Seen{{Member: podplan.Member{Role: "submitter"}, Life: tc.is}}
		seen, again := k.Running.Operator.Observe(j, compile(t, j), seen, s)
		if len(seen) != 1 || seen[0].Life != tc.want {
			t.Errorf("%s: %+v", why, seen)
		}
		if waits := tc.want == podplan.Ready && tc.answer != nil &&
			!strings.Contains(string(tc.answer.Body), "RUNNING"); waits != (again > 0) &&
			tc.answer != nil {
			t.Errorf("%s: it is looked at again after %s", why, again)
		}
	}
	hung := begun(answer(t, j, says(api.JobSucceeded)), nil)
	hung.Now = at(20).Add(5 * time.Minute)
	if seen, _ := k.Running.Operator.Observe(
		j,
		compile(t, j),
		[]podplan.Seen{{Member: podplan.Member{Role: "submitter"}, Life: podplan.Ready}},
		hung,
	); seen[0].Life != podplan.Succeeded {
		t.Errorf("%+v", seen)
	}
	token := decode(t, "entrypoint: x, rayClusterSpec: {authOptions: {mode: token}, headGroupSpec: {POD}}")
	for _, c := range k.Running.Operator.Calls(token, compile(t, token), begun(nil, nil)) {
		if c.Token != "RAY_AUTH_TOKEN" {
			t.Errorf("it is asked without its token: %+v", c)
		}
	}
	used := decode(t, "entrypoint: x, submissionMode: HTTPMode, clusterSelector: {ray.io/cluster: a-b}")
	for _, c := range k.Running.Operator.Calls(used, compile(t, used), begun(nil, nil)) {
		if c.Token != "" {
			t.Errorf("%s is shown to the head of a cluster that was there", c.Token)
		}
	}
}

// TestSubmitterStays: when a job is over its cluster goes as it says, and the Job that submitted it
// stays with the log of the run, until the RayJob goes. Nobody looks at it again for that.
func TestSubmitterStays(t *testing.T) {
	k := rayjob.Kind()
	const rule = "deletionStrategy: {deletionRules: [{policy: DeleteCluster, condition: {jobStatus: STATUS}}]}, "
	for status, ended := range map[api.JobStatus]struct {
		life    podplan.Life
		outcome podplan.Outcome
	}{api.JobSucceeded: {podplan.Succeeded, podplan.JobSucceeded}, api.JobFailed: {podplan.Failed, podplan.JobFailed}} {
		for _, goes := range []string{"shutdownAfterJobFinishes: true, ", strings.Replace(rule, "STATUS", string(status), 1)} {
			j := decode(t, goes+some)
			j.Status.JobStatus, j.Status.JobDeploymentStatus = status, api.DeploymentComplete
			s := begun(nil, nil)
			s.Outcome, s.Ended, s.Now = ended.outcome, at(30), at(40)
			seen := []podplan.Seen{
				{Member: podplan.Member{Role: "cluster"}, Life: podplan.Ready, Attempt: s.Attempt},
				{Member: podplan.Member{Role: "submitter"}, Life: ended.life, Over: true, Attempt: s.Attempt},
			}
			p := compile(t, j)
			heard, again := k.Running.Operator.Observe(j, p, seen, s)
			step := p.Next(heard, &s.RetryState, s.Now)
			if again != 0 || step.Again != 0 || len(step.Delete) != 1 || step.Delete[0] != 0 {
				t.Errorf(
					"%s%s: %v are deleted, it is looked at again after %v and %v",
					goes,
					status,
					step.Delete,
					again,
					step.Again,
				)
			}
		}
	}
}

// TestStopped: a job is stopped before it is suspended or after its end, where its cluster goes
// on without it.
func TestStopped(t *testing.T) {
	k := rayjob.Kind()
	const used = "submissionMode: HTTPMode, entrypoint: x, jobId: mine, clusterSelector: {ray.io/cluster: a-b}"
	j := decode(t, used)
	runs, over := answer(t, j, says(api.JobRunning)), answer(t, j, says(api.JobStopped))
	j.Spec.Suspend = true
	get, stop := "GET 8265 /api/jobs/mine", "POST 8265 /api/jobs/mine/stop"
	for why, tc := range map[string]struct {
		answers jobs.Answers
		want    []string
		left    bool
	}{
		"it is to be asked": {nil, []string{get}, true},
		"it runs":           {runs, []string{get, stop}, true},
		"it is stopped":     {over, nil, false},
	} {
		s := begun(tc.answers, nil)
		if got := asked(t, j, s); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v", why, got)
		}
		p := compile(t, j)
		seen, _ := k.Running.Operator.Observe(j, p, nil, s)
		if next := p.Next(seen, &s.RetryState, s.Now); next.Changed == tc.left || len(next.Delete) > 0 {
			t.Errorf("%s: %+v", why, next)
		}
	}
	j.Spec.Suspend = false
	late := begun(runs, nil)
	late.Outcome = podplan.JobFailed
	if got := asked(t, j, late); !slices.Contains(got, stop) {
		t.Errorf("its time is over: %v", got)
	}
	own := decode(t, "submissionMode: HTTPMode, "+some)
	running := answer(t, own, says(api.JobRunning))
	own.Spec.Suspend = true
	if got := asked(t, own, begun(running, nil)); len(got) > 0 {
		t.Errorf("it goes with its cluster: %v", got)
	}
}

// TestPostDeleteCalls: a job that is deleted is stopped where its cluster goes on without it, and only
// if it ran.
func TestPostDeleteCalls(t *testing.T) {
	k := rayjob.Kind()
	used := decode(
		t,
		"submissionMode: HTTPMode, entrypoint: x, jobId: mine, clusterSelector: {ray.io/cluster: a-b}",
	)
	done, waits := begun(nil, nil), begun(nil, nil)
	done.Outcome, waits.Started = podplan.JobSucceeded, time.Time{}
	for why, tc := range map[string]struct {
		job      *api.RayJob
		progress *jobs.Progress
		stops    bool
	}{
		"it runs":                  {used, begun(nil, nil), true},
		"it is over":               {used, done, false},
		"it never ran":             {used, waits, false},
		"it goes with its cluster": {decode(t, "submissionMode: HTTPMode, "+some), begun(nil, nil), false},
	} {
		calls := k.Running.Operator.PostDeleteCalls(tc.job, tc.progress)
		if stops := len(calls) == 1 && calls[0].Method == jobs.Post &&
			calls[0].Path == "/api/jobs/mine/stop"; stops != tc.stops ||
			len(calls) > 1 {
			t.Errorf("%s: %v", why, calls)
		}
	}
}

// TestModes: who submits a job, and what is counted for that.
func TestModes(t *testing.T) {
	k := rayjob.Kind()
	for mode, want := range map[string]string{"K8sJobMode": "head small submitter ", "HTTPMode": "head small ", "InteractiveMode": "head small ", "SidecarMode": "head small "} {
		j := decode(t, "submissionMode: "+mode+", "+some)
		f, err := k.Read(j)
		if err != nil {
			t.Fatal(err)
		}
		sets := ""
		infos := make([]jobs.PodSetInfo, 0, len(f.PodSets))
		for _, p := range f.PodSets {
			sets += string(p.Name) + " "
			infos = append(infos, jobs.PodSetInfo{Name: string(p.Name), NodeSelector: map[string]string{"pool": "x"}})
		}
		j.Spec.Suspend = true
		if _, err := k.Start(j, infos); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if _, err := k.Start(j, infos[1:]); err == nil {
			t.Errorf("%s: it starts with less", mode)
		}
		c, _ := member(t, j, "cluster", nil).(*api.RayCluster)
		head := &c.Spec.HeadGroupSpec.Template.Spec
		beside := len(head.Containers) == 2
		if counted := len(
			f.PodSets[0].Template.Spec.Containers,
		) == 2; sets != want || beside != (mode == "SidecarMode") ||
			counted != beside {
			t.Errorf("%s: pod sets %s, beside the head %v", mode, sets, beside)
		}
		if beside &&
			(head.RestartPolicy != corev1.RestartPolicyNever || !strings.Contains(head.Containers[1].Args[0], "ray job submit") || len(j.Spec.RayClusterSpec.HeadGroupSpec.Template.Spec.Containers) != 1) {
			t.Errorf("%+v", head)
		}
	}
	j := decode(t, "submissionMode: InteractiveMode, "+some)
	if got := asked(t, j, begun(nil, nil)); len(got) > 0 {
		t.Errorf("nobody knows what it is called: %v", got)
	}
	waits, _ := k.Running.Operator.Project(j, compile(t, j), begun(nil, nil)).(*api.RayJob)
	if s := waits.Status; s.JobDeploymentStatus != api.DeploymentWaiting {
		t.Errorf("%+v", s)
	}
	if f, err := k.Read(waits); err != nil || !f.Ready {
		t.Errorf("its cluster is there, and its user takes an hour to submit: ready is %t, %v", f.Ready, err)
	}
	j.Annotations = map[string]string{"ray.io/ray-job-submission-id": "raysubmit_1"}
	if got := asked(t, j, begun(nil, nil)); !slices.Equal(got, []string{"GET 8265 /api/jobs/raysubmit_1"}) {
		t.Errorf("%v", got)
	}
}

// TestToldByRay: the status has what the dashboard says.
func TestToldByRay(t *testing.T) {
	k := rayjob.Kind()
	j := decode(t, "submissionMode: HTTPMode, preRunningDeadlineSeconds: 60, activeDeadlineSeconds: 600, "+some)
	if d := compile(t, j).Deadline; d != time.Minute {
		t.Errorf("it may take %s until it runs", d)
	}
	runs := map[string]podplan.Tally{"job": {Active: 1}}
	out, _ := k.Running.Operator.Project(j, compile(t, j), begun(answer(t, j, says(api.JobRunning)), runs)).(*api.RayJob)
	if s := out.Status; s.JobStatus != api.JobRunning || s.JobDeploymentStatus != api.DeploymentRunning ||
		s.Message != "it is so" ||
		!s.RayJobInfo.StartTime.Time.Equal(time.UnixMilli(1000011000)) {
		t.Errorf("%+v", s)
	}
	if d := compile(t, out).Deadline; d != 10*time.Minute {
		t.Errorf("it runs, and may run for %s", d)
	}
	quiet, _ := k.Running.Operator.Project(out, compile(t, out), begun(nil, nil)).(*api.RayJob)
	if s := quiet.Status; s.JobDeploymentStatus != api.DeploymentRunning || s.JobStatus != api.JobRunning {
		t.Errorf("nobody answers, and it is %+v", s)
	}
	for rule, want := range map[string]string{"": "Failed/FAILED/AppFailed", "STOPPED": "Complete/STOPPED/", "SubmissionFailed": "Failed//SubmissionFailed"} {
		s := begun(nil, nil)
		s.Outcome, s.Rule, s.Message, s.Ended = podplan.JobFailed, rule, "m", at(50)
		f, _ := k.Running.Operator.Project(j, compile(t, j), s).(*api.RayJob)
		if got := fmt.Sprintf(
			"%s/%s/%s",
			f.Status.JobDeploymentStatus,
			f.Status.JobStatus,
			f.Status.Reason,
		); got != want {
			t.Errorf("%q: %s", rule, got)
		}
	}
	late := begun(nil, nil)
	late.Outcome, late.Reason, late.Ended = podplan.JobFailed, podplan.DeadlineExceeded, at(70)
	f, _ := k.Running.Operator.Project(j, compile(t, j), late).(*api.RayJob)
	if s := f.Status; s.Reason != "PreRunningDeadlineExceeded" || !strings.Contains(s.Message, "1m0s") {
		t.Errorf("%+v", s)
	}
	again := begun(nil, nil)
	again.Attempt, again.LastFailure = 1, at(40)
	next, _ := k.Running.Operator.Project(out, compile(t, out), again).(*api.RayJob)
	if d := compile(
		t,
		next,
	).Deadline; next.Status.JobDeploymentStatus != api.DeploymentRetrying ||
		d != time.Minute {
		t.Errorf("another try is %s, and may take %s until it runs", next.Status.JobDeploymentStatus, d)
	}
	late.Attempt, late.LastFailure = 1, at(40)
	if f, _ := k.Running.Operator.Project(next, compile(t, next), late).(*api.RayJob); f.Status.Reason != "PreRunningDeadlineExceeded" {
		t.Errorf("%+v", f.Status)
	}
}
