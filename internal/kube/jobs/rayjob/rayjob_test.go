package rayjob_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayjob"
)

const (
	pod     = "template: {spec: {containers: [{name: ray, image: i, resources: {limits: {cpu: 2, memory: 4Gi}}}]}}"
	cluster = "rayClusterSpec: {headGroupSpec: {POD}, workerGroupSpecs: [{groupName: small, replicas: 2, POD}]}"
	some    = "entrypoint: python a.py, " + cluster
)

// decode reads a job whose spec may name POD, a template.
func decode(t testing.TB, spec string) *api.RayJob {
	t.Helper()
	j := &api.RayJob{}
	text := "{metadata: {name: a, namespace: b, uid: u}, spec: {" + strings.ReplaceAll(spec, "POD", pod) + "}}"
	if err := yaml.UnmarshalStrict([]byte(text), j); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return j
}

func compile(t testing.TB, j *api.RayJob) *jobs.Plan {
	t.Helper()
	k := rayjob.Kind()
	p, err := k.Running.Operator.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// member makes one of a role.
func member(t testing.TB, j *api.RayJob, role string, admitted jobs.Admitted) jobs.Object {
	t.Helper()
	o, err := compile(
		t,
		j,
	).Child(j, rayjob.Kind().GVK(), podplan.Member{Role: role}, &podplan.RetryState{}, admitted)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func submitter(t testing.TB, j *api.RayJob) *batchv1.Job {
	t.Helper()
	out, is := member(t, j, "submitter", nil).(*batchv1.Job)
	if !is {
		t.Fatal("it is no Job")
	}
	return out
}

// TestPlan: a cluster, then the Job that submits to it. What fails begins anew as a whole.
func TestPlan(t *testing.T) {
	p := compile(t, decode(t, some))
	name := p.Roles[0].Member
	if !strings.HasPrefix(name, "a-") || len(name) != 7 {
		t.Errorf("its cluster is called %s", name)
	}
	want := podplan.Plan{
		Together: true,
		EachTry:  true,
		Retries:  new(int32(0)),
		Success:  podplan.Success{{Roles: []string{"submitter"}}},
		Rules: []podplan.Rule{
			{Name: "STOPPED", Reasons: []string{"STOPPED"}, Then: podplan.FailJob},
			{Name: "SubmissionFailed", Reasons: []string{"SubmissionFailed"}, Then: podplan.RestartJob},
		},
		Roles: []podplan.Role{
			{Name: "cluster", Count: 1, Member: name, OnFailure: podplan.RestartJob, Forever: true},
			{
				Name:      "submitter",
				Count:     1,
				Member:    "a",
				OnFailure: podplan.RestartJob,
				After:     []podplan.Dependency{{Role: "cluster"}},
			},
		},
	}
	if diff := cmp.Diff(want, p.Plan); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	j := decode(t, "suspend: true, backoffLimit: 3, activeDeadlineSeconds: 60, "+some)
	j.Status.Failed = new(int32(1))
	again := compile(t, j)
	if !again.Suspended || *again.Retries != 3 || again.Deadline != time.Minute {
		t.Errorf("%+v", again.Plan)
	}
	if again.Roles[0].Member == name {
		t.Error("each try has a cluster of its own")
	}
	used := compile(
		t,
		decode(
			t,
			"entrypoint: x, clusterSelector: {ray.io/cluster: other}, submitterPodTemplate: {spec: {containers: [{name: c, image: i}]}}",
		),
	)
	if len(used.Roles) != 2 || len(used.Roles[0].After) > 0 || used.Roles[1].Count != 0 {
		t.Errorf("a cluster that exists is not made: %+v", used.Roles)
	}
}

// TestCluster: it is as the job says, with what the job was admitted with.
func TestCluster(t *testing.T) {
	j := decode(t, some)
	j.Annotations = map[string]string{"ray.io/overwrite-container-cmd": "true", "note": "x"}
	j.Spec.RayClusterSpec.Suspend = new(true)
	c, _ := member(t, j, "cluster", jobs.Admitted{
		"head": {NodeSelector: map[string]string{"a": "b"}}, "small": {Labels: map[string]string{"c": "d"}}, "submitter": {},
	}).(*api.RayCluster)
	if c.Namespace != "b" || c.Labels["ray.io/originated-from-cr-name"] != "a" ||
		c.Labels["ray.io/originated-from-crd"] != "RayJob" ||
		c.Spec.Suspend != nil {
		t.Errorf("%+v", c)
	}
	if c.Spec.HeadGroupSpec.Template.Spec.NodeSelector["a"] != "b" ||
		c.Spec.WorkerGroupSpecs[0].Template.Labels["c"] != "d" {
		t.Errorf("%+v", c.Spec)
	}
	if c.Annotations["ray.io/overwrite-container-cmd"] != "true" || c.Annotations["note"] != "" {
		t.Errorf("%v", c.Annotations)
	}
	if len(j.Spec.RayClusterSpec.HeadGroupSpec.Template.Spec.NodeSelector) > 0 {
		t.Error("the user's object was changed")
	}
}

// TestSubmitter: what the pod that submits the job runs, asks for and is told.
func TestSubmitter(t *testing.T) {
	j := decode(t, some)
	s := submitter(t, j)
	if s.Name != "a" || *s.Spec.BackoffLimit != 2 ||
		s.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", s.Spec)
	}
	c := s.Spec.Template.Spec.Containers[0]
	if c.Image != "i" || c.Resources.Requests.Cpu().String() != "500m" ||
		c.Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("%+v", c)
	}
	at := compile(t, j).Roles[0].Member + "-head-svc.b.svc.cluster.local:8265"
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	id := env["RAY_JOB_SUBMISSION_ID"]
	if env["RAY_DASHBOARD_ADDRESS"] != at || env["PYTHONUNBUFFERED"] != "1" || !strings.HasPrefix(id, "a-") {
		t.Errorf("%v", env)
	}
	for _, part := range []string{
		"if ! ray job status --address http://" + at + " '" + id + "' > /dev/null 2>&1; then ray job submit --address http://" + at + " --no-wait --submission-id '" + id + "' -- python a.py; fi",
		"ray job logs --address http://" + at + " --follow '" + id + "'",
	} {
		if !strings.Contains(c.Args[0], part) {
			t.Errorf("%s\nis not in %s", part, c.Args[0])
		}
	}
	all := submitter(
		t,
		decode(
			t,
			"jobId: \"it's\", runtimeEnvYAML: \"env_vars: {A: b}\", metadata: {k: v}, entrypointNumCpus: 0.5, entrypointNumGpus: 1, entrypointResources: '{\"disk\": 1}', submitterConfig: {backoffLimit: 5}, "+some,
		),
	)
	for _, part := range []string{
		`--submission-id 'it'\''s'`, `--runtime-env-json '{"env_vars":{"A":"b"}}'`, `--metadata-json '{"k":"v"}'`, "--entrypoint-num-cpus 0.5", "--entrypoint-num-gpus 1", `--entrypoint-resources '{"disk": 1}'`,
	} {
		if !strings.Contains(all.Spec.Template.Spec.Containers[0].Args[0], part) {
			t.Errorf("%s\nis not in %s", part, all.Spec.Template.Spec.Containers[0].Args[0])
		}
	}
	if *all.Spec.BackoffLimit != 5 {
		t.Errorf("it is tried %d times again", *all.Spec.BackoffLimit)
	}
	own := submitter(
		t,
		decode(
			t,
			"submitterPodTemplate: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: k, command: [x], env: [{name: PYTHONUNBUFFERED, value: '0'}]}]}}, "+some,
		),
	).Spec.Template.Spec
	if own.RestartPolicy != corev1.RestartPolicyOnFailure || own.Containers[0].Command[0] != "x" ||
		own.Containers[0].Env[0].Value != "0" ||
		len(own.Containers[0].Args) > 0 {
		t.Errorf("what its author wrote stays: %+v", own)
	}
	given, _ := member(t, j, "submitter", jobs.Admitted{"submitter": {NodeSelector: map[string]string{"a": "b"}}}).(*batchv1.Job)
	if given.Spec.Template.Spec.NodeSelector["a"] != "b" {
		t.Errorf("%+v", given.Spec.Template.Spec)
	}
}

// TestFacts: quota is asked for all that runs at the same time.
func TestFacts(t *testing.T) {
	k := rayjob.Kind()
	f, err := k.Read(decode(t, "suspend: true, "+some))
	if err != nil {
		t.Fatal(err)
	}
	var sets []string
	for _, s := range f.PodSets {
		sets = append(sets, fmt.Sprintf("%s=%d", s.Name, s.Count))
	}
	if got := strings.Join(
		sets,
		" ",
	); got != "head=1 small=2 submitter=1" || !f.Suspended || f.Active || f.Finished != nil ||
		!slices.Equal(f.Later, []string{"submitter"}) {
		t.Errorf("%s %+v", got, f)
	}
	for status, success := range map[string]bool{
		"{jobDeploymentStatus: Complete, jobStatus: SUCCEEDED}": true, "{jobDeploymentStatus: Complete, jobStatus: FAILED}": false, "{jobDeploymentStatus: Complete, jobStatus: STOPPED}": false, "{jobDeploymentStatus: Failed, reason: AppFailed}": false,
	} {
		j := decode(t, some)
		if err := yaml.Unmarshal([]byte(status), &j.Status); err != nil {
			t.Fatal(err)
		}
		f, err := k.Read(j)
		if err != nil || f.Finished == nil || f.Finished.Success != success || f.Active || !k.Maker(j).Ended {
			t.Errorf("%s: %+v, %v", status, f.Finished, err)
		}
	}
}

// TestSuspension: starting clears the field and nothing else, and what the admission gives
// must fit into the pods.
func TestSuspension(t *testing.T) {
	k := rayjob.Kind()
	j := decode(t, "suspend: true, "+some)
	infos := []jobs.PodSetInfo{
		{Name: "head"},
		{Name: "small"},
		{Name: "submitter", NodeSelector: map[string]string{"a": "b"}},
	}
	started, err := k.Start(j, infos)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(jobs.Object(decode(t, some)), started); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if stopped, err := k.Stop(started, nil); err != nil || !equality.Semantic.DeepEqual(stopped, j) {
		t.Errorf("%v, %v", stopped, err)
	}
	for _, wrong := range [][]jobs.PodSetInfo{infos[:1], infos[:2], append(slices.Clone(infos), infos[0])} {
		if _, err := k.Start(j, wrong); err == nil {
			t.Errorf("%d pod sets", len(wrong))
		}
	}
	other := decode(
		t,
		"suspend: true, submitterPodTemplate: {spec: {nodeSelector: {a: z}, containers: [{name: c, image: i}]}}, "+some,
	)
	if _, err := k.Start(other, infos); err == nil || !strings.Contains(err.Error(), "nodeSelector a") {
		t.Errorf("%v", err)
	}
	user := decode(
		t,
		"suspend: true, submitterPodTemplate: {spec: {schedulerName: x, containers: [{name: c}]}}, "+some,
	)
	was := decode(t, "submitterPodTemplate: {spec: {containers: [{name: c}]}}, "+some)
	if kept, _ := k.Admission.Keep(was, user, nil).(*api.RayJob); kept.Spec.Suspend ||
		kept.Spec.SubmitterPodTemplate.Spec.SchedulerName != "" {
		t.Errorf("%+v", kept.Spec)
	}
	if k.Ours(decode(t, "managedBy: kueue.x-k8s.io/multikueue, "+some)) {
		t.Error("a job says who runs it")
	}
}

// TestCleanUp: what goes after which end, and when.
func TestCleanUp(t *testing.T) {
	const ended = api.DeploymentComplete
	type left struct {
		cleanUp podplan.CleanUp
		after   time.Duration
		ttl     *time.Duration
	}
	rule := func(policy, condition string) string {
		return "deletionStrategy: {deletionRules: [{policy: " + policy + ", condition: {" + condition + "}}]}, "
	}
	for name, tc := range map[string]struct {
		why, spec string
		status    api.JobStatus
		want      left
	}{
		"Nothing":       {"the cluster stays", "", api.JobSucceeded, left{}},
		"Shutdown":      {"", "shutdownAfterJobFinishes: true, ", "", left{cleanUp: podplan.RemoveRunning}},
		"ShutdownLater": {"", "shutdownAfterJobFinishes: true, ttlSecondsAfterFinished: 5, ", "", left{cleanUp: podplan.RemoveRunning, after: 5 * time.Second}},
		"Rule":          {"", rule("DeleteCluster", "jobStatus: SUCCEEDED, ttlSeconds: 7"), api.JobSucceeded, left{cleanUp: podplan.RemoveRunning, after: 7 * time.Second}},
		"OtherEnd":      {"it is about failures", rule("DeleteCluster", "jobStatus: FAILED"), api.JobSucceeded, left{}},
		"Failed":        {"", rule("DeleteCluster", "jobStatus: FAILED"), api.JobFailed, left{cleanUp: podplan.RemoveRunning}},
		"Deployment":    {"", rule("DeleteSelf", "jobDeploymentStatus: Complete, ttlSeconds: 3"), api.JobSucceeded, left{ttl: new(3 * time.Second)}},
		"None":          {"", rule("DeleteNone", "jobStatus: SUCCEEDED"), api.JobSucceeded, left{}},
		"Older":         {"", "deletionStrategy: {onSuccess: {policy: DeleteCluster}, onFailure: {policy: DeleteSelf}}, ", api.JobSucceeded, left{cleanUp: podplan.RemoveRunning}},
		"OlderFailed":   {"", "deletionStrategy: {onSuccess: {policy: DeleteCluster}, onFailure: {policy: DeleteSelf}}, ", api.JobFailed, left{ttl: new(time.Duration(0))}},
	} {
		j := decode(t, tc.spec+some)
		if tc.status != "" {
			j.Status.JobDeploymentStatus, j.Status.JobStatus = ended, tc.status
		}
		p := compile(t, j)
		if diff := cmp.Diff(
			tc.want,
			left{p.CleanUp, p.CleanUpAfter, p.TTL},
			cmp.AllowUnexported(left{}),
		); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, diff)
		}
	}
}

// TestWorkersGo: with DeleteWorkers all but the head goes so long after the end, and is given back;
// of a job that runs, or that ends otherwise, nothing does.
func TestWorkersGo(t *testing.T) {
	k := rayjob.Kind()
	const rule = "deletionStrategy: {deletionRules: [{policy: DeleteWorkers, condition: {jobStatus: SUCCEEDED, ttlSeconds: 30}}, {policy: DeleteWorkers, condition: {jobStatus: SUCCEEDED, ttlSeconds: 5}}, {policy: DeleteSelf, condition: {jobStatus: SUCCEEDED, ttlSeconds: 60}}]}, "
	for name, tc := range map[string]struct {
		why     string
		outcome podplan.Outcome
		now     int64
		again   time.Duration
		want    string // what is given back
	}{
		"Runs":     {"it may need them", podplan.Open, 12, 0, ""},
		"NotYet":   {"the first of both rules is about later", podplan.JobSucceeded, 12, 3 * time.Second, "submitter=1"},
		"Now":      {"it is time", podplan.JobSucceeded, 15, 0, "small=2 submitter=1"},
		"Late":     {"nobody looked in time", podplan.JobSucceeded, 500, 0, "small=2 submitter=1"},
		"OtherEnd": {"it is about those that end well", podplan.JobFailed, 500, 0, "submitter=1"},
	} {
		j := decode(t, rule+some)
		s := &jobs.Progress{RetryState: podplan.RetryState{Started: at(1), Outcome: tc.outcome}, Now: at(tc.now)}
		if tc.outcome != podplan.Open {
			s.Ended = at(10)
		}
		for range 2 { // what ended is known from the status
			j, _ = k.Running.Operator.Project(j, compile(t, j), s).(*api.RayJob)
		}
		if _, again := k.Running.Operator.Observe(j, compile(t, j), nil, s); again != tc.again {
			t.Errorf("%s: %s: it is looked at again after %s", name, tc.why, again)
		}
		f, err := k.Read(j)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range f.Reclaimable {
			got = append(got, fmt.Sprintf("%s=%d", r.Name, r.Count))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %s: %v is given back", name, tc.why, got)
		}
		c, _ := member(t, j, "cluster", nil).(*api.RayCluster)
		if p, gone := compile(
			t,
			j,
		), ptr.Deref(
			c.Spec.WorkerGroupSpecs[0].Suspend,
			false,
		); gone != strings.Contains(tc.want, "small") || p.Trims != (tc.outcome == podplan.JobSucceeded) ||
			p.CleanUp != podplan.Keep {
			t.Errorf("%s: %s: its workers are gone: %t, %+v", name, tc.why, gone, p.Plan)
		}
	}
}

// TestClusterThatExists: the pod that submits a job to a cluster that its author names has the image of
// that cluster's head, as soon as there is one. It is not asked for where the author says the pod.
func TestClusterThatExists(t *testing.T) {
	k := rayjob.Kind()
	const used = "entrypoint: x, clusterSelector: {ray.io/cluster: c}"
	c := &api.RayCluster{}
	if err := yaml.UnmarshalStrict(
		[]byte(
			"{metadata: {name: c}, spec: {headGroupSpec: {template: {spec: {imagePullSecrets: [{name: s}], containers: [{name: ray, image: rayproject/ray:2}]}}}}}",
		),
		c,
	); err != nil {
		t.Fatal(err)
	}
	j := decode(t, used)
	_, readErr := k.Read(j)
	_, planErr := k.Running.Operator.Compile(j)
	if errs := k.Admission.Validate(
		j,
	); len(errs) > 0 || !k.Queueing.Basis.Missing(j) || !errors.Is(readErr, jobs.ErrIncomplete) ||
		!errors.Is(planErr, jobs.ErrIncomplete) {
		t.Errorf("it waits for its cluster: %v, %v, %v", errs, readErr, planErr)
	}
	if ref := k.Queueing.Basis.Of(
		j,
	); ref.Kind != "RayCluster" || ref.Name != "c" || ref.At.String() != "spec.clusterSelector[ray.io/cluster]" ||
		k.Queueing.Basis.Kind(ref) == nil {
		t.Errorf("%+v", ref)
	}
	if k.Queueing.Basis.With(j, &api.RayCluster{}, jobs.Schedulers{}) != jobs.Object(j) ||
		k.Queueing.Basis.With(j, &batchv1.Job{}, jobs.Schedulers{}) != jobs.Object(j) {
		t.Error("these say no image")
	}
	known, is := k.Queueing.Basis.With(j, c, jobs.Schedulers{}).(*api.RayJob)
	if !is || k.Queueing.Basis.Missing(known) || !k.Queueing.Basis.Missing(j) {
		t.Fatal("it is not recorded, or where it does not belong")
	}
	f, err := k.Read(known)
	if err != nil || len(f.PodSets) != 1 ||
		f.PodSets[0].Template.Spec.Containers[0].Image != "rayproject/ray:2" {
		t.Errorf("%+v, %v", f.PodSets, err)
	}
	if pod := submitter(
		t,
		known,
	).Spec.Template.Spec; pod.Containers[0].Image != "rayproject/ray:2" ||
		len(pod.ImagePullSecrets) != 1 {
		t.Errorf("%+v", pod)
	}
	known.Spec.ClusterSelector["ray.io/cluster"] = "other"
	if !k.Queueing.Basis.Missing(known) {
		t.Error("another cluster may have another image")
	}
	for why, spec := range map[string]string{
		"its author says the pod": used + ", submitterPodTemplate: {spec: {containers: [{name: c}]}}", "no pod submits it": "submissionMode: HTTPMode, " + used, "it has a cluster of its own": some,
	} {
		if k.Queueing.Basis.Missing(decode(t, spec)) {
			t.Errorf("%s, and it waits for a cluster", why)
		}
	}
}

// TestRefused: an error names the field and the cure.
func TestRefused(t *testing.T) {
	k := rayjob.Kind()
	const used = "entrypoint: x, clusterSelector: {ray.io/cluster: c}, submitterPodTemplate: {spec: {containers: [{name: c}]}}, "
	for name, tc := range map[string]struct{ spec, field, cure string }{
		"NoCluster":      {"entrypoint: x", "spec.rayClusterSpec", "clusterSelector"},
		"Both":           {"clusterSelector: {ray.io/cluster: c}, " + some, "spec.clusterSelector", "keep one"},
		"Selector":       {strings.Replace(used, "ray.io/cluster", "app", 1), "spec.clusterSelector", "ray.io/cluster alone"},
		"UsedAgain":      {used + "backoffLimit: 1", "spec.backoffLimit", "new cluster"},
		"NoEntrypoint":   {cluster, "spec.entrypoint", "command"},
		"InCluster":      {"entrypoint: x, rayClusterSpec: {headGroupSpec: {template: {}}}", "spec.rayClusterSpec.headGroupSpec.template.spec.containers", "runs Ray"},
		"ServiceName":    {"entrypoint: x, rayClusterSpec: {headGroupSpec: {headService: {metadata: {name: s}}, POD}}", "spec.rayClusterSpec.headGroupSpec.headService.metadata.name", "remove it"},
		"Mode":           {"submissionMode: Other, " + some, "spec.submissionMode", "HTTPMode"},
		"HTTPEmpty":      {"submissionMode: HTTPMode, " + cluster, "spec.entrypoint", "command"},
		"HTTPName":       {"submissionMode: HTTPMode, jobId: ../x, " + some, "spec.jobId", "letters"},
		"HTTPAmounts":    {"submissionMode: HTTPMode, entrypointResources: x, " + some, "spec.entrypointResources", "JSON"},
		"Kubernetes":     {"entrypoint: x, rayClusterSpec: {authOptions: {enableK8sTokenAuth: true}, headGroupSpec: {POD}}", "spec.rayClusterSpec.authOptions.enableK8sTokenAuth", "token of its own"},
		"HTTPKubernetes": {"submissionMode: HTTPMode, entrypoint: x, rayClusterSpec: {authOptions: {enableK8sTokenAuth: true}, headGroupSpec: {POD}}", "spec.rayClusterSpec.authOptions.enableK8sTokenAuth", "token of its own"},
		"Alone":          {"submissionMode: InteractiveMode, backoffLimit: 1, " + some, "spec.backoffLimit", "remove it"},
		"BesideUsed":     {"submissionMode: SidecarMode, entrypoint: x, clusterSelector: {ray.io/cluster: c}", "spec.clusterSelector", "rayClusterSpec"},
		"BesidePod":      {"submissionMode: SidecarMode, submitterPodTemplate: {spec: {containers: [{name: c}]}}, " + some, "spec.submitterPodTemplate", "K8sJobMode"},
		"BesideTries":    {"submissionMode: SidecarMode, submitterConfig: {backoffLimit: 1}, " + some, "spec.submitterConfig", "K8sJobMode"},
		"BesideAgain":    {"submissionMode: SidecarMode, entrypoint: x, rayClusterSpec: {headGroupSpec: {template: {spec: {restartPolicy: Always, containers: [{name: c}]}}}}", "spec.rayClusterSpec.headGroupSpec.template.spec.restartPolicy", "Never"},
		"EmptyPod":       {"submitterPodTemplate: {}, " + some, "spec.submitterPodTemplate.spec.containers", "submits"},
		"AlwaysAgain":    {"submitterPodTemplate: {spec: {restartPolicy: Always, containers: [{name: c}]}}, " + some, "spec.submitterPodTemplate.spec.restartPolicy", "Never"},
		"YAML":           {"runtimeEnvYAML: '[', " + some, "spec.runtimeEnvYAML", "YAML"},
		"Backoff":        {"backoffLimit: -1, " + some, "spec.backoffLimit", "from 0"},
		"Deadline":       {"activeDeadlineSeconds: 0, " + some, "spec.activeDeadlineSeconds", "from 1"},
		"Late":           {"preRunningDeadlineSeconds: 0, " + some, "spec.preRunningDeadlineSeconds", "from 1"},
		"Submits":        {"submitterConfig: {backoffLimit: -1}, " + some, "spec.submitterConfig.backoffLimit", "from 0"},
		"TTLAlone":       {"ttlSecondsAfterFinished: 5, " + some, "spec.ttlSecondsAfterFinished", "shutdownAfterJobFinishes"},
		"Workers":        {used + "deletionStrategy: {onSuccess: {policy: DeleteWorkers}}", "spec.deletionStrategy", "not this job's"},
		"WorkersGrow":    {"deletionStrategy: {onSuccess: {policy: DeleteWorkers}}, entrypoint: x, rayClusterSpec: {enableInTreeAutoscaling: true, headGroupSpec: {POD}}", "spec.deletionStrategy", "DeleteCluster"},
		"NotOurs":        {used + "deletionStrategy: {onSuccess: {policy: DeleteCluster}}", "spec.deletionStrategy", "not this job's"},
		"TwoWays":        {"deletionStrategy: {onSuccess: {policy: DeleteSelf}, deletionRules: [{policy: DeleteSelf, condition: {jobStatus: FAILED}}]}, " + some, "spec.deletionStrategy.deletionRules", "one way"},
		"NoCondition":    {"deletionStrategy: {deletionRules: [{policy: DeleteSelf, condition: {}}]}, " + some, "spec.deletionStrategy.deletionRules[0].condition", "one of"},
		"Manager":        {"managedBy: me, " + some, "spec.managedBy", "ray.io/kuberay-operator"},
	} {
		j := decode(t, tc.spec)
		errs := k.Admission.Validate(j)
		if len(errs) != 1 || errs[0].Field != tc.field || !strings.Contains(errs[0].Error(), tc.cure) {
			t.Errorf("%s: %v", name, errs)
		}
		if _, err := k.Running.Operator.Compile(j); err == nil {
			t.Errorf("%s: it has a plan", name)
		}
		if _, err := k.Read(j); err == nil {
			t.Errorf("%s: it can be queued", name)
		}
		if len(k.Admission.ValidateChange(decode(t, some), j)) == 0 {
			t.Errorf("%s: it may become so", name)
		}
		if name != "Manager" && len(k.Admission.ValidateChange(j, j)) > 0 {
			t.Errorf("%s: what is so may stay so", name)
		}
	}
	long := decode(t, some)
	long.Name = strings.Repeat("n", 48)
	if errs := k.Admission.Validate(long); len(errs) != 1 || errs[0].Field != "metadata.name" {
		t.Errorf("%v", errs)
	}
	if told := strings.Join(
		k.Admission.Warnings(
			decode(t, "submissionMode: HTTPMode, submitterConfig: {backoffLimit: 1}, "+some),
			lifecycle.Policy{},
		),
		"\n",
	); !strings.Contains(told, "shutdownAfterJobFinishes") ||
		!strings.Contains(told, "submitterConfig") {
		t.Errorf("%q", told)
	}
}

func at(seconds int64) time.Time { return time.Unix(1_000_000+seconds, 0).UTC() }

// TestStory tells how a job stands in the words that scripts wait for.
func TestStory(t *testing.T) {
	k := rayjob.Kind()
	j := decode(t, some)
	begun := podplan.RetryState{Started: at(10)}
	again := podplan.RetryState{Started: at(10), Attempt: 1, Failures: 1}
	done := podplan.RetryState{
		Started:  at(10),
		Attempt:  1,
		Failures: 1,
		Ended:    at(30),
		Outcome:  podplan.JobSucceeded,
	}
	submits := map[string]podplan.Tally{"submitter": {Active: 1}}
	first := ""
	for _, chapter := range []struct {
		name    string
		suspend bool
		s       jobs.Progress
		want    string
	}{
		{"held by its queue", true, jobs.Progress{Suspended: true, Now: at(0)}, "/Suspended"},
		{"its cluster comes up", false, jobs.Progress{RetryState: begun, Now: at(10)}, "/Initializing"},
		{"it is submitted", false, jobs.Progress{RetryState: begun, Counts: submits, Now: at(12)}, "RUNNING/Running"},
		{"it is evicted", true, jobs.Progress{RetryState: begun, Counts: submits, Now: at(13)}, "RUNNING/Suspending"},
		{"it has gone", true, jobs.Progress{Suspended: true, Now: at(14)}, "/Suspended"},
		{"it comes back and fails", false, jobs.Progress{RetryState: again, Now: at(15)}, "/Retrying"},
		{"it runs again", false, jobs.Progress{RetryState: again, Counts: submits, Now: at(16)}, "RUNNING/Running"},
		{"it is done", false, jobs.Progress{RetryState: done, Now: at(30)}, "SUCCEEDED/Complete"},
		{"what it said stays", false, jobs.Progress{RetryState: done, Counts: submits, Now: at(31)}, "SUCCEEDED/Complete"},
	} {
		j.Spec.Suspend = chapter.suspend
		before := j.DeepCopy()
		out, _ := k.Running.Operator.Project(j, compile(t, j), &chapter.s).(*api.RayJob)
		if !equality.Semantic.DeepEqual(before, j) {
			t.Fatalf("%s: the object was changed", chapter.name)
		}
		if got := string(out.Status.JobStatus) + "/" + string(out.Status.JobDeploymentStatus); got != chapter.want {
			t.Errorf("%s: %s, want %s", chapter.name, got, chapter.want)
		}
		switch {
		case chapter.name == "it is submitted":
			first = out.Status.RayClusterName
		case chapter.name == "it runs again" && (first == "" || out.Status.RayClusterName == first):
			t.Errorf("it runs in %q and ran in %q", out.Status.RayClusterName, first)
		}
		if n := out.Status.RayClusterName; n != "" && n != compile(t, out).Roles[0].Member {
			t.Errorf("%s: its cluster is %s and is said to be %s", chapter.name, compile(t, out).Roles[0].Member, n)
		}
		j = out
	}
	if *j.Status.Failed != 1 || *j.Status.Succeeded != 1 || !j.Status.EndTime.Time.Equal(at(30)) ||
		!j.Status.StartTime.Time.Equal(at(10)) {
		t.Errorf("%+v", j.Status)
	}
	for reason, want := range map[podplan.Reason]string{podplan.DeadlineExceeded: "DeadlineExceeded", podplan.RetriesExceeded: "AppFailed"} {
		failed, _ := k.Running.Operator.Project(decode(t, some), nil, &jobs.Progress{RetryState: podplan.RetryState{Started: at(1), Outcome: podplan.JobFailed, Reason: reason, Message: "m"}}).(*api.RayJob)
		if s := failed.Status; s.Reason != want || *s.Failed != 1 || s.Message != "m" ||
			s.JobDeploymentStatus != "Failed" {
			t.Errorf("%+v", s)
		}
	}
}

// TestService: the head of the cluster of each try is found at the same name.
func TestService(t *testing.T) {
	j := decode(t, some)
	k := rayjob.Kind()
	all, err := k.Running.Operator.Artifacts(j, compile(t, j), &jobs.Progress{})
	if err != nil || len(all) != 1 || !all[0].Yields {
		t.Fatalf("%v, %v", all, err)
	}
	s, _ := all[0].Object.(*corev1.Service)
	if s.Name != "a-head-svc" || s.Spec.Selector["ray.io/cluster"] != compile(t, j).Roles[0].Member ||
		len(s.Spec.Ports) != 5 {
		t.Errorf("%+v", s)
	}
}

// TestJobs puts jobs together at random: whatever decodes is compiled or refused, by
// everybody who is asked alike, and nobody panics or changes it.
func TestJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
		spec := draw("entrypoint", "entrypoint: x, ", "entrypoint: x, ", "") +
			draw(
				"cluster",
				cluster+", ",
				cluster+", ",
				"rayClusterSpec: {headGroupSpec: {template: {}}}, ",
				"clusterSelector: {ray.io/cluster: c}, ",
				"",
			) +
			draw(
				"submitter",
				"",
				"submitterPodTemplate: {spec: {containers: [{name: c, command: [x]}]}}, ",
				"submitterPodTemplate: {}, ",
			) +
			draw(
				"mode",
				"",
				"submissionMode: K8sJobMode, ",
				"submissionMode: SidecarMode, ",
				"submissionMode: HTTPMode, ",
				"submissionMode: InteractiveMode, ",
			) +
			draw(
				"end",
				"",
				"shutdownAfterJobFinishes: true, ttlSecondsAfterFinished: 3, ",
				"ttlSecondsAfterFinished: 3, ",
				"deletionStrategy: {deletionRules: [{policy: DeleteSelf, condition: {jobStatus: FAILED}}]}, ",
				"deletionStrategy: {onFailure: {policy: DeleteWorkers}}, ",
			) +
			draw(
				"further",
				"",
				"suspend: true, ",
				"backoffLimit: 2, ",
				"runtimeEnvYAML: '{', ",
				"activeDeadlineSeconds: -1, ",
			)
		judge(t, spec)
	})
}

// FuzzRayJobs: the same of whatever can be decoded.
func FuzzRayJobs(f *testing.F) {
	for _, spec := range []string{some, "submissionMode: SidecarMode, " + some, "entrypoint: x, clusterSelector: {ray.io/cluster: c}", "deletionStrategy: {onFailure: {policy: DeleteWorkers}}, " + some} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) { judge(t, spec) })
}

// judge asks everybody about a job.
func judge(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, spec string,
) {
	t.Helper()
	k := rayjob.Kind()
	j := &api.RayJob{}
	text, err := yaml.YAMLToJSON(
		[]byte("{metadata: {name: a, namespace: b}, spec: {" + strings.ReplaceAll(spec, "POD", pod) + "}}"),
	)
	if err != nil || json.Unmarshal(text, j) != nil {
		return
	}
	before := j.DeepCopy()
	errs := k.Admission.Validate(j)
	plan, err := k.Running.Operator.Compile(j)
	facts, readErr := k.Read(j)
	waits := errors.Is(err, jobs.ErrIncomplete) && errors.Is(readErr, jobs.ErrIncomplete) &&
		k.Queueing.Basis.Missing(j)
	if (len(errs) == 0) != (readErr == nil || waits) || (readErr == nil) != (err == nil) {
		t.Fatalf("the webhook says %v, the plan %v, the queue %v", errs, err, readErr)
	}
	k.Queueing.Templates(j)
	k.Admission.Keep(j, j, nil)
	k.Admission.ValidateChange(j, j)
	k.Admission.Warnings(j, lifecycle.Policy{})
	k.Running.Operator.Project(j, plan, &jobs.Progress{})
	k.Running.Operator.Calls(j, plan, &jobs.Progress{RetryState: podplan.RetryState{Started: at(1)}})
	k.Running.Operator.Observe(j, plan, nil, &jobs.Progress{RetryState: podplan.RetryState{Started: at(1)}})
	if u, uErr := runtime.DefaultUnstructuredConverter.ToUnstructured(j); uErr == nil {
		k.Queueing.Wrapped.Written(u)
		sets, err := k.Queueing.Wrapped.PodSets(u)
		if readErr == nil && (err != nil || len(sets) != len(facts.PodSets)) {
			t.Fatalf("an AppWrapper finds %v (%v), a queue %v", sets, err, facts.PodSets)
		}
	}
	if err == nil {
		for i := range plan.Roles {
			if plan.Roles[i].Remote {
				continue
			}
			if _, err := plan.Child(
				j,
				k.GVK(),
				podplan.Member{Role: plan.Roles[i].Name},
				&podplan.RetryState{},
				nil,
			); err != nil {
				t.Fatalf("%v", err)
			}
		}
	}
	if !equality.Semantic.DeepEqual(before, j) {
		t.Fatalf("it was changed")
	}
}

func TestNames(t *testing.T) {
	k := rayjob.Kind()
	if k.GVK() != api.GroupVersion.WithKind("RayJob") || k.Naming.Resource != "rayjobs" ||
		k.Naming.Framework != "ray.io/rayjob" {
		t.Errorf("%v, %s, %s", k.GVK(), k.Naming.Resource, k.Naming.Framework)
	}
	if _, err := k.Read(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}); err == nil {
		t.Error("a pod is no job")
	}
}

func BenchmarkCompile(b *testing.B) {
	j := decode(b, strings.Replace(some, "replicas: 2", "replicas: 1000", 1))
	b.ReportAllocs()
	for b.Loop() {
		compile(b, j)
	}
}

func BenchmarkProject(b *testing.B) {
	j := decode(b, strings.Replace(some, "replicas: 2", "replicas: 1000", 1))
	p, k := compile(b, j), rayjob.Kind()
	s := &jobs.Progress{
		RetryState: podplan.RetryState{Started: at(1)},
		Counts:     map[string]podplan.Tally{"submitter": {Active: 1}},
		Now:        at(2),
	}
	b.ReportAllocs()
	for b.Loop() {
		k.Running.Operator.Project(j, p, s)
	}
}
