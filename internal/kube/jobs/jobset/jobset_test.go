package jobset_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
)

// pair is a leader and two Jobs of two workers each.
const pair = "replicatedJobs: [{name: leader, JOB}, {name: workers, replicas: 2, TWO}]"

// decode reads a JobSet whose spec may name JOB and TWO, templates of Jobs with one pod and
// with two.
func decode(t testing.TB, spec string, metadata ...string) *api.JobSet {
	t.Helper()
	const pod = "template: {spec: {containers: [{name: c, image: i}]}}"
	spec = strings.NewReplacer(
		"JOB",
		"template: {spec: {"+pod+"}}",
		"TWO",
		"template: {spec: {parallelism: 2, completions: 2, "+pod+"}}",
		"POD",
		pod,
	).Replace(spec)
	js := &api.JobSet{}
	text := "{metadata: {name: js, namespace: ns, uid: u" + strings.Join(
		append([]string{""}, metadata...),
		", ",
	) + "}, spec: {" + spec + "}}"
	if err := yaml.UnmarshalStrict([]byte(text), js); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return js
}

func compiled(t testing.TB, js *api.JobSet) *jobs.Plan {
	t.Helper()
	before := js.DeepCopy()
	p, err := jobset.Kind().Running.Operator.Compile(js)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, js); diff != "" {
		t.Errorf("the user's object was changed:\n%s", diff)
	}
	return p
}

// made makes a Job of a plan.
func made(
	t testing.TB,
	p *jobs.Plan,
	role string,
	index, attempt int32,
	admitted jobs.Admitted,
) *batchv1.Job {
	t.Helper()
	o, err := p.MakeOf(
		role,
	)(
		podplan.Member{Role: role, Index: index},
		&podplan.RetryState{Attempt: attempt},
		admitted,
	)
	if err != nil {
		t.Fatal(err)
	}
	j, ok := o.(*batchv1.Job)
	if !ok {
		t.Fatalf("it is a %T", o)
	}
	return j
}

// TestNames are what configurations, roles and commands know the kind by.
func TestNames(t *testing.T) {
	k := jobset.Kind()
	if k.GVK().String() != "jobset.x-k8s.io/v1alpha2, Kind=JobSet" || k.Naming.Resource != "jobsets" ||
		k.Naming.Framework != "jobset.x-k8s.io/jobset" {
		t.Errorf("%v, %s, %s", k.GVK(), k.Naming.Resource, k.Naming.Framework)
	}
}

// TestCompile: what a JobSet asks for is in its plan.
func TestCompile(t *testing.T) {
	leader := podplan.Role{Name: "leader", Count: 1, Holds: true, Member: "js-leader-{index}"}
	workers := podplan.Role{Name: "workers", Count: 2, Holds: true, Rank: 1, Member: "js-workers-{index}"}
	all := podplan.Term{Roles: []string{"leader", "workers"}}
	restart := func(p *podplan.Plan) {
		p.Roles[0].OnFailure, p.Roles[1].OnFailure, p.Retries = podplan.RestartJob, podplan.RestartJob, new(
			int32(3),
		)
	}
	for name, tc := range map[string]struct {
		why, spec string
		want      func(*podplan.Plan)
	}{
		"plain":       {"all have to succeed, one failure ends it", "", func(*podplan.Plan) {}},
		"suspended":   {"none may run", "suspend: true", func(p *podplan.Plan) { p.Suspended = true }},
		"ttl":         {"", "ttlSecondsAfterFinished: 60", func(p *podplan.Plan) { p.TTL = new(time.Minute) }},
		"restarts":    {"", "failurePolicy: {maxRestarts: 3}", restart},
		"together":    {"", "failurePolicy: {maxRestarts: 3, restartStrategy: BlockingRecreate}", func(p *podplan.Plan) { restart(p); p.Together = true }},
		"one by one":  {"each as soon as the one before is gone", "failurePolicy: {maxRestarts: 3, restartStrategy: Recreate}", restart},
		"no restarts": {"a policy without a number is 0: it says why it failed", "failurePolicy: {}", func(p *podplan.Plan) { restart(p); p.Retries = new(int32(0)) }},
		"rules": {"in their order, with the names that they get", `failurePolicy: {maxRestarts: 3, rules: [
  {action: FailJobSet, onJobFailureReasons: [PodFailurePolicy], targetReplicatedJobs: [workers]}, {name: host, action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureMessagePatterns: ["^host"]},
  {action: RestartJobSet}, {action: RestartJob}, {action: RestartJobAndIgnoreMaxRestarts}]}`, func(p *podplan.Plan) {
			restart(p)
			p.Rules = []podplan.Rule{
				{Name: "failurePolicyRule0", Roles: []string{"workers"}, Reasons: []string{"PodFailurePolicy"}, Then: podplan.FailJob},
				{Name: "host", Then: podplan.RestartJob, Free: true},
				{Name: "failurePolicyRule2", Then: podplan.RestartJob},
				{Name: "failurePolicyRule3", Then: podplan.Replace},
				{Name: "failurePolicyRule4", Then: podplan.Replace, Free: true},
			}
		}},
		"any": {"the first that succeeds", "successPolicy: {operator: Any}", func(p *podplan.Plan) {
			p.Success = podplan.Success{{Roles: all.Roles, AtLeast: 1}, all}
		}},
		"some": {"the leader is stopped when the workers are done", "successPolicy: {operator: All, targetReplicatedJobs: [workers]}", func(p *podplan.Plan) {
			p.Success = podplan.Success{{Roles: []string{"workers"}}, all}
		}},
		"any of some": {"", "successPolicy: {operator: Any, targetReplicatedJobs: [workers]}", func(p *podplan.Plan) {
			p.Success = podplan.Success{{Roles: []string{"workers"}, AtLeast: 1}, all}
		}},
		"in order": {"workers wait for the leader", "startupPolicy: {startupPolicyOrder: InOrder}", func(p *podplan.Plan) {
			p.Roles[1].After = []podplan.Dependency{{Role: "leader"}}
		}},
		"any order": {"", "startupPolicy: {startupPolicyOrder: AnyOrder}", func(*podplan.Plan) {}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tc.spec
			if spec != "" {
				spec += ", "
			}
			p := compiled(t, decode(t, spec+pair))
			want := podplan.Plan{
				Roles:   []podplan.Role{leader, workers},
				CleanUp: podplan.RemoveRunning,
				Success: podplan.Success{all},
			}
			tc.want(&want)
			if diff := cmp.Diff(want, p.Plan, cmpopts.IgnoreFields(podplan.Rule{}, "Messages")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// TestAfter: roles wait for what their authors say, and in order for all before them, since
// the one before may have no Jobs.
func TestAfter(t *testing.T) {
	p := compiled(
		t,
		decode(
			t,
			"replicatedJobs: [{name: a, JOB}, {name: b, replicas: 0, JOB}, {name: c, JOB, dependsOn: [{name: a, status: Complete}, {name: b, status: Ready}]}]",
		),
	)
	if diff := cmp.Diff(
		[]podplan.Dependency{{Role: "a", Done: true}, {Role: "b"}},
		p.Roles[2].After,
	); diff != "" {
		t.Error(diff)
	}
	p = compiled(
		t,
		decode(
			t,
			"startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [{name: a, JOB}, {name: b, replicas: 0, JOB}, {name: c, JOB}]",
		),
	)
	if diff := cmp.Diff([]podplan.Dependency{{Role: "a"}, {Role: "b"}}, p.Roles[2].After); diff != "" {
		t.Error(diff)
	}
}

// TestMessages: the patterns of a rule are looked for anywhere in a message.
func TestMessages(t *testing.T) {
	p := compiled(
		t,
		decode(
			t,
			`failurePolicy: {rules: [{action: RestartJobSet, onJobFailureMessagePatterns: ["exit code 1[0-9]$", "lost"]}]}, `+pair,
		),
	)
	for message, want := range map[string]bool{"container c: exit code 17": true, "node is lost today": true, "exit code 170": false} {
		got := false
		for _, m := range p.Rules[0].Messages {
			got = got || m.MatchString(message)
		}
		if got != want {
			t.Errorf("%s: %t", message, got)
		}
	}
}

// TestJob is one of a JobSet's Jobs to the last field.
func TestJob(t *testing.T) {
	js := decode(
		t,
		`coordinator: {replicatedJob: leader, podIndex: 0}, replicatedJobs: [{name: leader, JOB}, {name: workers, groupName: crew, replicas: 2,
  template: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {parallelism: 2, completions: 2, backoffLimit: 0, template: {metadata: {labels: {e: f}}, spec: {containers: [{name: c, image: i}]}}}}}]`,
	)
	got := made(t, compiled(t, js), "workers", 1, 3, nil)
	marks := map[string]string{
		"jobset.sigs.k8s.io/jobset-name":            "js",
		"jobset.sigs.k8s.io/jobset-uid":             "u",
		"jobset.sigs.k8s.io/replicatedjob-name":     "workers",
		"jobset.sigs.k8s.io/replicatedjob-replicas": "2",
		"jobset.sigs.k8s.io/global-replicas":        "3",
		"jobset.sigs.k8s.io/job-index":              "1",
		"jobset.sigs.k8s.io/job-global-index":       "2",
		"jobset.sigs.k8s.io/job-key":                "517d70ff8ddeb6684a3a547e37602be566603129", // printf ns/js-workers-1 | sha1sum
		"jobset.sigs.k8s.io/restart-attempt":        "3",
		"jobset.sigs.k8s.io/group-name":             "crew",
		"jobset.sigs.k8s.io/group-replicas":         "2",
		"jobset.sigs.k8s.io/job-group-index":        "1",
		"jobset.sigs.k8s.io/coordinator":            "js-leader-0-0.js",
	}
	with := func(key, value string) map[string]string {
		out := map[string]string{key: value}
		maps.Copy(out, marks)
		return out
	}
	want := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "js-workers-1", Labels: with("a", "b"), Annotations: with("c", "d")},
		Spec: batchv1.JobSpec{
			Parallelism: new(
				int32(2),
			),
			Completions:    new(int32(2)),
			BackoffLimit:   new(int32(0)),
			CompletionMode: new(batchv1.IndexedCompletion),
			Suspend:        new(false),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: with("e", "f"), Annotations: with("mlbatch.dev/failures", "3")},
				Spec: corev1.PodSpec{
					Subdomain:     "js",
					RestartPolicy: corev1.RestartPolicyOnFailure,
					Containers:    []corev1.Container{{Name: "c", Image: "i"}},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestFreeFailures: pods are told of failures that count against no limit, too.
func TestFreeFailures(t *testing.T) {
	p := compiled(
		t,
		decode(t, "replicatedJobs: [{name: a, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}]"),
	)
	o, err := p.MakeOf(
		"a",
	)(
		podplan.Member{Role: "a"},
		&podplan.RetryState{Attempt: 2, Failures: 1, Free: 3},
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.(*batchv1.Job).Spec.Template.Annotations["mlbatch.dev/failures"]; got != "4" {
		t.Errorf("they follow %q failures, want 4", got)
	}
}

// TestDefaults: what authors say is not overruled.
func TestDefaults(t *testing.T) {
	p := compiled(
		t,
		decode(
			t,
			"replicatedJobs: [{name: a, template: {spec: {completionMode: NonIndexed, parallelism: 3, template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}}}]",
		),
	)
	j := made(t, p, "a", 0, 0, nil)
	if *j.Spec.CompletionMode != batchv1.NonIndexedCompletion ||
		j.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever ||
		j.Spec.Completions != nil {
		t.Errorf("%v, %s", *j.Spec.CompletionMode, j.Spec.Template.Spec.RestartPolicy)
	}
	if got := j.Labels[api.GroupNameKey]; got != "default" {
		t.Errorf("its group is %q", got)
	}
}

// TestLongCoordinator: an address that is too long for a label is an annotation alone.
func TestLongCoordinator(t *testing.T) {
	sub := strings.Repeat("s", 60)
	j := made(
		t,
		compiled(t, decode(t, "network: {subdomain: "+sub+"}, coordinator: {replicatedJob: leader}, "+pair)),
		"leader",
		0,
		0,
		nil,
	)
	for _, o := range []metav1.ObjectMeta{j.ObjectMeta, j.Spec.Template.ObjectMeta} {
		if _, label := o.Labels[api.CoordinatorKey]; label ||
			o.Annotations[api.CoordinatorKey] != "js-leader-0-0."+sub {
			t.Errorf("labels %v, annotations %v", o.Labels, o.Annotations)
		}
	}
}

// TestAdmitted: what the admission gives pods goes into the Jobs when they are made.
func TestAdmitted(t *testing.T) {
	js := decode(t, "replicatedJobs: [{name: a, JOB}]")
	p := compiled(t, js)
	admitted := jobs.Admitted{"a": {
		Asked: 1,
		Labels: map[string]string{
			"l": "1",
		},
		Annotations:  map[string]string{"n": "2"},
		NodeSelector: map[string]string{"s": "3"},
		Tolerations:  []corev1.Toleration{{Key: "t", Operator: corev1.TolerationOpExists}},
	}}
	pod := made(t, p, "a", 0, 0, admitted).Spec.Template
	if pod.Labels["l"] != "1" || pod.Annotations["n"] != "2" || pod.Spec.NodeSelector["s"] != "3" ||
		len(pod.Spec.Tolerations) != 1 {
		t.Errorf("%+v", pod)
	}
	if again := made(
		t,
		p,
		"a",
		0,
		0,
		nil,
	).Spec.Template; again.Labels["l"] != "" ||
		again.Spec.NodeSelector != nil {
		t.Error("what one Job got is in the next")
	}
	for name, with := range map[string]jobs.Admitted{"other": {"b": {}}, "conflict": {"a": {Asked: 1, Labels: map[string]string{api.JobSetNameKey: "x"}}}} {
		if _, err := p.MakeOf("a")(podplan.Member{Role: "a"}, &podplan.RetryState{}, with); err == nil {
			t.Errorf("%s: it was made", name)
		}
	}
}

// TestResized: Jobs get another number of pods while they run or are held, and none that the
// JobSet was not admitted with. That is asked for first.
func TestResized(t *testing.T) {
	sized := func(n int) string {
		return fmt.Sprintf(
			"replicatedJobs: [{name: a, replicas: 2, template: {spec: {parallelism: %d, completions: %d, POD}}}]",
			n,
			n,
		)
	}
	k := jobset.Kind().Running.Operator.Child(batchv1.SchemeGroupVersion.WithKind("Job"))
	asked := jobs.Admitted{"a": {Asked: 6}}
	is := made(t, compiled(t, decode(t, sized(2))), "a", 1, 0, asked)
	for _, n := range []int32{1, 3} {
		wanted := made(t, compiled(t, decode(t, sized(int(n)))), "a", 1, 0, asked)
		for how, change := range map[string]func(is, wanted jobs.Object) jobs.Object{"runs": k.Adjust, "is held": k.Release} {
			got, _ := change(is, wanted).(*batchv1.Job)
			if *got.Spec.Parallelism != n || *got.Spec.Completions != n || *is.Spec.Parallelism != 2 {
				t.Errorf("one that %s: %d pods, want %d", how, *got.Spec.Parallelism, n)
			}
		}
	}
	if got := k.Adjust(is, made(t, compiled(t, decode(t, sized(2))), "a", 1, 0, asked)); got != jobs.Object(is) {
		t.Error("nothing changed, and the Job is another one")
	}
	one := made(t, compiled(t, decode(t, "replicatedJobs: [{name: a, JOB}]")), "a", 0, 0, nil)
	if got, _ := k.Adjust(is, one).(*batchv1.Job); *got.Spec.Parallelism != 1 || *got.Spec.Completions != 1 {
		t.Errorf("without sizes it is one pod: %+v", got.Spec)
	}
	if got := k.Adjust(one, made(t, compiled(t, decode(t, sized(1))), "a", 0, 0, nil)); got != jobs.Object(one) {
		t.Error("it has the one pod already, and is written")
	}
	queue := made(
		t,
		compiled(
			t,
			decode(t, "replicatedJobs: [{name: a, template: {spec: {parallelism: 2, completions: 8, POD}}}]"),
		),
		"a",
		0,
		0,
		nil,
	)
	if got := k.Adjust(is, queue); got != jobs.Object(is) {
		t.Error("Jobs whose pods share their work have the size that they were made with")
	}
	grown := compiled(t, decode(t, sized(4)))
	if _, err := grown.MakeOf(
		"a",
	)(
		podplan.Member{Role: "a"},
		&podplan.RetryState{},
		asked,
	); !errors.Is(
		err,
		jobs.ErrOutgrown,
	) {
		t.Errorf("eight pods, and six were asked for: %v", err)
	}
	made(t, grown, "a", 0, 0, nil) // one that is not queued asks nobody
}

// TestExclusive: each Job has the nodes of one value of a label to itself. Pods that wait
// for no plan insist on it, those with planned nodes prefer it.
func TestExclusive(t *testing.T) {
	whole := decode(
		t,
		"replicatedJobs: [{name: a, replicas: 2, TWO}]",
		"annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}",
	)
	one := decode(
		t,
		"replicatedJobs: [{name: a, replicas: 2, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {parallelism: 2, completions: 2, POD}}}]",
	)
	for name, js := range map[string]*api.JobSet{"JobSet": whole, "role": one} {
		p := compiled(t, js)
		j := made(t, p, "a", 0, 0, nil)
		if j.Annotations[api.ExclusiveKey] != "rack" || j.Spec.Template.Annotations[api.ExclusiveKey] != "rack" {
			t.Errorf("%s: annotations %v", name, j.Annotations)
		}
		near, away := j.Spec.Template.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, j.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		key := j.Labels[api.JobKey]
		if len(near) != 1 || near[0].TopologyKey != "rack" || !selects(t, near[0].LabelSelector, key) ||
			selects(t, near[0].LabelSelector, "x") {
			t.Errorf("%s: near %v", name, near)
		}
		if len(away) != 1 || away[0].TopologyKey != "rack" || selects(t, away[0].LabelSelector, key) ||
			!selects(t, away[0].LabelSelector, "x") ||
			selects(t, away[0].LabelSelector, "") {
			t.Errorf("%s: away %v", name, away)
		}
		planned := made(
			t,
			p,
			"a",
			0,
			0,
			jobs.Admitted{"a": {Asked: 4, Annotations: map[string]string{kueue.WorkloadAnnotation: "w"}}},
		).Spec.Template.Spec.Affinity
		if planned.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil ||
			len(planned.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 ||
			planned.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil ||
			len(planned.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
			t.Errorf("%s: planned %v", name, planned)
		}
		facts, err := jobset.Kind().Read(js)
		if err != nil {
			t.Fatal(err)
		}
		want := &kueue.PodSetTopologyRequest{
			PodSetSliceRequiredTopology: new("rack"),
			PodSetSliceSize:             new(int32(2)),
			PodIndexLabel: new(
				"batch.kubernetes.io/job-completion-index",
			),
			SubGroupIndexLabel: new("jobset.sigs.k8s.io/job-index"),
			SubGroupCount:      new(int32(2)),
		}
		if diff := cmp.Diff(want, facts.PodSets[0].TopologyRequest); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got := jobset.Kind().Admission.Warnings(js, lifecycle.Policy{}); len(got) != 1 {
			t.Errorf("%s: its author is told %v", name, got)
		}
	}
	whole.Annotations[api.NodeSelectorStrategyKey] = "true"
	if got := jobset.Kind().Admission.Warnings(whole, lifecycle.Policy{}); len(got) != 2 {
		t.Errorf("its author is told %v", got)
	}
	if got := jobset.Kind().Admission.Warnings(decode(t, pair), lifecycle.Policy{}); got != nil {
		t.Errorf("nothing is special about it: %v", got)
	}
}

// selects reports whether a selector selects pods of a job key; "" are pods of no JobSet.
func selects(t *testing.T, s *metav1.LabelSelector, key string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	set := labels.Set{}
	if key != "" {
		set[api.JobKey] = key
	}
	return selector.Matches(set)
}

// TestArtifacts: one service by which all pods are found, and the volumes that pods mount.
func TestArtifacts(t *testing.T) {
	artifacts := func(js *api.JobSet) []jobs.Artifact {
		out, err := jobset.Kind().Running.Operator.Artifacts(js, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	service := func(js *api.JobSet) *corev1.Service {
		for _, a := range artifacts(js) {
			if s, is := a.Object.(*corev1.Service); is {
				if !a.Stays || !a.Yields {
					t.Error("it stays while the JobSet is suspended, and one of its name holds nobody up")
				}
				return s
			}
		}
		return nil
	}
	subdomain := func(js *api.JobSet) string {
		return made(t, compiled(t, js), "leader", 0, 0, nil).Spec.Template.Spec.Subdomain
	}
	plain, named, none := decode(
		t,
		pair,
	), decode(
		t,
		"network: {subdomain: net, publishNotReadyAddresses: false}, "+pair,
	), decode(
		t,
		"network: {enableDNSHostnames: false}, "+pair,
	)
	s := service(plain)
	if s == nil || s.Name != "js" || s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses ||
		s.Spec.Selector["jobset.sigs.k8s.io/jobset-name"] != "js" ||
		subdomain(plain) != "js" {
		t.Errorf("%+v", s)
	}
	if s := service(
		named,
	); s == nil || s.Name != "net" || s.Spec.PublishNotReadyAddresses ||
		subdomain(named) != "net" {
		t.Errorf("%+v", s)
	}
	if s := service(none); s != nil || subdomain(none) != "" {
		t.Errorf("%+v", s)
	}

	claims := decode(
		t,
		`volumeClaimPolicies: [{templates: [{metadata: {name: data, labels: {a: b}}, spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}}]}, {templates: [{metadata: {name: model}}], retentionPolicy: {whenDeleted: Retain}}],
  replicatedJobs: [{name: a, template: {spec: {template: {spec: {initContainers: [{name: i, volumeMounts: [{name: model, mountPath: /m}]}], containers: [{name: c, volumeMounts: [{name: data, mountPath: /d}]}]}}}}}, {name: b, JOB}]`,
	)
	all := artifacts(claims)[1:]
	data, _ := all[0].Object.(*corev1.PersistentVolumeClaim)
	model, _ := all[1].Object.(*corev1.PersistentVolumeClaim)
	if len(all) != 2 || data.Name != "data-js" || data.Labels["a"] != "b" || len(data.Spec.AccessModes) != 1 ||
		all[0].Outlives ||
		!all[0].Stays {
		t.Errorf("%+v", all[0])
	}
	if model.Name != "model-js" || !all[1].Outlives {
		t.Errorf("%+v", all[1])
	}
	p := compiled(t, claims)
	var got []string
	for _, v := range made(t, p, "a", 0, 0, nil).Spec.Template.Spec.Volumes {
		got = append(got, v.Name+"="+v.PersistentVolumeClaim.ClaimName)
	}
	if diff := cmp.Diff([]string{"data=data-js", "model=model-js"}, got); diff != "" {
		t.Error(diff)
	}
	if v := made(t, p, "b", 0, 0, nil).Spec.Template.Spec.Volumes; v != nil {
		t.Errorf("b mounts nothing, and has %v", v)
	}
}

// TestRead: what queues are told.
func TestRead(t *testing.T) {
	js := decode(
		t,
		"suspend: true, replicatedJobs: [{name: leader, JOB}, {name: workers, replicas: 3, template: {spec: {parallelism: 4, completions: 2, template: {metadata: {annotations: {kueue.x-k8s.io/podset-preferred-topology: rack, kueue.x-k8s.io/podset-group-name: g}}, spec: {containers: [{name: c}]}}}}}]",
	)
	f, err := jobset.Kind().Read(js)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Suspended || f.Active || f.Ready || f.Finished != nil || !f.EndsOnce {
		t.Errorf("%+v", f)
	}
	counts := map[string]int32{}
	for _, ps := range f.PodSets {
		counts[string(ps.Name)] = ps.Count
		if ps.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
			t.Error("pods have their defaults")
		}
	}
	if diff := cmp.Diff(map[string]int32{"leader": 1, "workers": 6}, counts); diff != "" {
		t.Errorf("a Job never has more pods than completions: %s", diff)
	}
	want := &kueue.PodSetTopologyRequest{
		Preferred:       new("rack"),
		PodSetGroupName: new("g"),
		PodIndexLabel: new(
			"batch.kubernetes.io/job-completion-index",
		),
		SubGroupIndexLabel: new("jobset.sigs.k8s.io/job-index"),
		SubGroupCount:      new(int32(3)),
	}
	if diff := cmp.Diff(want, f.PodSets[1].TopologyRequest); diff != "" {
		t.Error(diff)
	}
}

// TestTopology: Jobs that want nodes of their own are near to each other, also those of one
// pod, unless their author says how near; others say nothing.
func TestTopology(t *testing.T) {
	const apart = "metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, "
	for why, tc := range map[string]struct {
		spec string
		want *kueue.PodSetTopologyRequest
	}{
		"one pod": {"replicatedJobs: [{name: a, template: {" + apart + "spec: {completionMode: NonIndexed, POD}}}]", &kueue.PodSetTopologyRequest{
			PodSetSliceRequiredTopology: new("rack"), PodSetSliceSize: new(int32(1)), SubGroupIndexLabel: new("jobset.sigs.k8s.io/job-index"), SubGroupCount: new(int32(1)),
		}},
		"its author's": {"replicatedJobs: [{name: a, template: {" + apart + "spec: {completionMode: NonIndexed, template: {metadata: {annotations: {kueue.x-k8s.io/podset-preferred-topology: block}}, spec: {containers: [{name: c}]}}}}}]", &kueue.PodSetTopologyRequest{
			Preferred: new("block"), SubGroupIndexLabel: new("jobset.sigs.k8s.io/job-index"), SubGroupCount: new(int32(1)),
		}},
		"nothing": {"replicatedJobs: [{name: a, JOB}]", nil},
	} {
		f, err := jobset.Kind().Read(decode(t, tc.spec))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, f.PodSets[0].TopologyRequest); diff != "" {
			t.Errorf("%s: %s", why, diff)
		}
	}
}

// TestActive: a JobSet that another controller suspended, as it says, has pods as long as one of its
// Jobs does.
func TestActive(t *testing.T) {
	for active, want := range map[int32]bool{0: false, 1: true} {
		js := decode(t, "suspend: true, "+pair)
		js.Status.Conditions = []metav1.Condition{
			{
				Type:    api.JobSetSuspended,
				Status:  metav1.ConditionTrue,
				Reason:  "SuspendedJobs",
				Message: "jobset is suspended",
			},
		}
		js.Status.ReplicatedJobsStatus = []api.ReplicatedJobStatus{
			{Name: "leader"},
			{Name: "workers", Active: active, Suspended: 1},
		}
		if f, err := jobset.Kind().Read(js); err != nil || f.Active != want {
			t.Errorf("with %d Jobs that run: %v, %v", active, f.Active, err)
		}
	}
}

// TestLater: roles that wait for others are not waited for.
func TestLater(t *testing.T) {
	for spec, want := range map[string][]string{
		pair: nil,
		"startupPolicy: {startupPolicyOrder: InOrder}, " + pair:                                                        {"workers"},
		"replicatedJobs: [{name: leader, JOB}, {name: b, JOB}, {name: c, dependsOn: [{name: b, status: Ready}], JOB}]": {"c"},
	} {
		f, err := jobset.Kind().Read(decode(t, spec))
		if diff := cmp.Diff(want, f.Later); diff != "" || err != nil {
			t.Errorf("%s: %v %s", spec, err, diff)
		}
	}
}

// TestReclaimable: pods of Jobs that are complete are given back, unless all may begin anew.
func TestReclaimable(t *testing.T) {
	for name, tc := range map[string]struct {
		why, spec string
		want      int32
	}{
		"plain":      {"two Jobs of two pods", "", 4},
		"suspended":  {"what is complete stays so, and is not queued for", "suspend: true, ", 4},
		"both":       {"but what may be made anew is", "suspend: true, failurePolicy: {maxRestarts: 1}, ", 0},
		"restarts":   {"they may be made anew", "failurePolicy: {maxRestarts: 1}, ", 0},
		"none":       {"a failure ends it", "failurePolicy: {}, ", 4},
		"free":       {"without a limit", "failurePolicy: {rules: [{action: RestartJobSetAndIgnoreMaxRestarts}]}, ", 0},
		"that alone": {"the Job that failed is made anew and no other", "failurePolicy: {rules: [{action: RestartJobAndIgnoreMaxRestarts}]}, ", 4},
	} {
		js := decode(t, tc.spec+"replicatedJobs: [{name: leader, JOB}, {name: workers, replicas: 3, TWO}]")
		js.Status.ReplicatedJobsStatus = []api.ReplicatedJobStatus{
			{Name: "leader"},
			{Name: "workers", Succeeded: 2},
		}
		f, err := jobset.Kind().Read(js)
		if err != nil {
			t.Fatal(err)
		}
		got := int32(0)
		for _, r := range f.Reclaimable {
			got += r.Count
		}
		if got != tc.want {
			t.Errorf("%s: %d are given back, want %d: %s", name, got, tc.want, tc.why)
		}
	}
}

// TestEndsOnce: whether a pod may follow one that succeeded.
func TestEndsOnce(t *testing.T) {
	for spec, want := range map[string]bool{
		pair: true,
		"failurePolicy: {maxRestarts: 1}, " + pair:                                                                                                      false,
		"failurePolicy: {rules: [{action: RestartJob}]}, " + pair:                                                                                       false,
		"replicatedJobs: [{name: a, template: {spec: {parallelism: 2, completions: 3, POD}}}]":                                                          false,
		"replicatedJobs: [{name: a, template: {spec: {completions: 1, POD}}}]":                                                                          true,
		"replicatedJobs: [{name: a, template: {spec: {parallelism: 2, completionMode: NonIndexed, POD}}}]":                                              true,
		"replicatedJobs: [{name: a, template: {spec: {parallelism: 2, completionMode: NonIndexed, completions: 4, POD}}}, {name: b, replicas: 2, JOB}]": false,
	} {
		if f, err := jobset.Kind().Read(decode(t, spec)); err != nil || f.EndsOnce != want {
			t.Errorf("%s: %t, %v", spec, f.EndsOnce, err)
		}
	}
}

// TestStartStop: a JobSet is started and stopped by its field alone, and what cannot go into
// its pods is found before.
func TestStartStop(t *testing.T) {
	k := jobset.Kind()
	js := decode(
		t,
		"suspend: true, replicatedJobs: [{name: a, template: {spec: {template: {metadata: {labels: {l: mine}}, spec: {containers: [{name: c}]}}}}}]",
	)
	o, err := k.Start(js, []jobs.PodSetInfo{{Labels: map[string]string{"x": "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	started, _ := o.(*api.JobSet)
	want := js.DeepCopy()
	want.Spec.Suspend = new(false)
	if diff := cmp.Diff(want, started); diff != "" {
		t.Error(diff)
	}
	if o, err = k.Stop(started, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(js, o); diff != "" {
		t.Error(diff)
	}
	if _, err := k.Start(js, []jobs.PodSetInfo{{Labels: map[string]string{"l": "theirs"}}}); err == nil {
		t.Error("the author's label was overruled")
	}
	if _, err := k.Start(js, nil); err == nil {
		t.Error("its admission is of another job")
	}
	js.Status.ReplicatedJobsStatus = []api.ReplicatedJobStatus{{Name: "leader"}}
	if got := k.Maker(js); got != (core.MakerState{}) {
		t.Errorf("it may still have pods: %+v", got)
	}
	js.Status.Conditions = []metav1.Condition{{Type: api.JobSetSuspended, Status: metav1.ConditionTrue}}
	if got := k.Maker(js); !got.Stopped {
		t.Errorf("none is left: %+v", got)
	}
}

// TestManagedBy: what another controller runs is left to it.
func TestManagedBy(t *testing.T) {
	for by, want := range map[string]bool{"": true, "managedBy: jobset.sigs.k8s.io/jobset-controller, ": true, "managedBy: kueue.x-k8s.io/multikueue, ": false} {
		if got := jobset.Kind().Ours(decode(t, by+pair)); got != want {
			t.Errorf("%s: %t", by, got)
		}
	}
}

// TestKeep: a user's write changes neither whether it runs nor who places its pods.
func TestKeep(t *testing.T) {
	was, is := decode(
		t,
		"suspend: true, "+pair,
	), decode(
		t,
		"replicatedJobs: [{name: workers, replicas: 2, TWO}, {name: leader, JOB}]",
	)
	was.Spec.ReplicatedJobs[1].Template.Spec.Template.Spec.SchedulerName = "ours"
	is.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.SchedulerName = "theirs"
	got, _ := jobset.Kind().Admission.Keep(was, is, nil).(*api.JobSet)
	if got.Spec.Suspend == nil || !*got.Spec.Suspend ||
		got.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.SchedulerName != "ours" {
		t.Errorf("%+v", got.Spec)
	}
}

func BenchmarkCompile(b *testing.B) {
	js := decode(b, "replicatedJobs: [{name: leader, JOB}, {name: workers, replicas: 1000, JOB}]")
	b.ReportAllocs()
	for b.Loop() {
		compiledOnly(b, js)
	}
}

func compiledOnly(b *testing.B, js *api.JobSet) *jobs.Plan {
	b.Helper()
	p, err := jobset.Kind().Running.Operator.Compile(js)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkProject(b *testing.B) {
	js := decode(b, "replicatedJobs: [{name: leader, JOB}, {name: workers, replicas: 1000, JOB}]")
	p := compiledOnly(b, js)
	s := &jobs.Progress{
		RetryState: podplan.RetryState{
			Started: time.Unix(1, 0),
			Done:    map[string]podplan.Indexes{"workers": podplan.ParseIndexes("1,3,5-9")},
		},
		Counts: map[string]podplan.Tally{
			"leader":  {Active: 1, Ready: 1},
			"workers": {Active: 900, Ready: 800, Succeeded: 100},
		},
		Now: time.Unix(2, 0),
	}
	project := jobset.Kind().Running.Operator.Project
	b.ReportAllocs()
	for b.Loop() {
		project(js, p, s)
	}
}
