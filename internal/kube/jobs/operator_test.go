package jobs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/test/toy"
)

// plan is that of two masters, of which one container is told about the others, and
// three workers.
func plan() *jobs.Plan {
	template := func() *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "mine"}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"disk": "ssd"},
				Containers: []corev1.Container{
					{Name: "main", Env: []corev1.EnvVar{{Name: "RANK", Value: "my own"}}},
					{Name: "side"},
				},
			},
		}
	}
	return &jobs.Plan{
		Plan: podplan.Plan{Roles: []podplan.Role{
			{
				Name:      "Master",
				Count:     2,
				Member:    "j-master-{index}",
				Container: "main",
				Labels:    map[string]string{"rank": "{rank}"},
				Env:       []podplan.Env{{Name: "RANK", Value: "{rank}"}, {Name: "IP", Field: "status.podIP"}},
			},
			{
				Name:   "Worker",
				Count:  3,
				Rank:   2,
				Member: "j-worker-{index}",
				Env:    []podplan.Env{{Name: "RANK", Value: "{rank}"}},
				Ports:  []podplan.Port{{Name: "p", Port: 1}},
			},
		}},
		Templates: []*corev1.PodTemplateSpec{template(), template()},
	}
}

func owner() *toy.Toy {
	return &toy.Toy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "u"}}
}

func TestPodsOfMembers(t *testing.T) {
	p, gvk := plan(), toy.GroupVersion().WithKind("Toy")
	got, err := p.Pod(
		owner(),
		gvk,
		podplan.Member{Role: "Worker", Index: 1},
		&podplan.RetryState{Attempt: 7, Failures: 2},
		&jobs.PodSetInfo{
			Labels: map[string]string{
				"queue": "q",
			},
			Annotations:  map[string]string{"workload": "w"},
			NodeSelector: map[string]string{"gpu": "a"},
			Tolerations:  []corev1.Toleration{{Key: "gpu"}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       "n",
			Name:            "j-worker-1",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner(), gvk)},
			Annotations:     map[string]string{"workload": "w", recovery.FailuresAnnotation: "2"},
			Labels: map[string]string{
				"app":                 "mine",
				"queue":               "q",
				recovery.JobLabel:     "u",
				recovery.RoleLabel:    "worker",
				recovery.IndexLabel:   "1",
				recovery.AttemptLabel: "7",
			},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"disk": "ssd", "gpu": "a"}, Tolerations: []corev1.Toleration{{Key: "gpu"}},
			Containers: []corev1.Container{
				{Name: "main", Env: []corev1.EnvVar{{Name: "RANK", Value: "my own"}}},
				{Name: "side", Env: []corev1.EnvVar{{Name: "RANK", Value: "3"}}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err = p.Pod(owner(), gvk, podplan.Member{Role: "Master", Index: 1}, &podplan.RetryState{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Labels["rank"] != "1" || len(got.Spec.Containers[1].Env) > 0 ||
		got.Spec.Containers[0].Env[0].Value != "my own" {
		t.Errorf("what its author wrote stays, and only one container is told: %+v", got)
	}
	if e := got.Spec.Containers[0].Env[1]; e.ValueFrom == nil ||
		e.ValueFrom.FieldRef.FieldPath != "status.podIP" {
		t.Errorf("a variable from a field: %+v", e)
	}
	if diff := cmp.Diff(plan(), p); diff != "" {
		t.Errorf("the plan changed (-was +is):\n%s", diff)
	}
	if _, err = p.Pod(
		owner(),
		gvk,
		podplan.Member{Role: "Worker"},
		&podplan.RetryState{},
		&jobs.PodSetInfo{NodeSelector: map[string]string{"disk": "hdd"}},
	); err == nil {
		t.Error("an admission overrides what the author wrote")
	}
	if s := p.Service(owner(), gvk, podplan.Member{Role: "Master"}); s != nil {
		t.Errorf("a role without ports has a service: %v", s)
	}
	s := p.Service(owner(), gvk, podplan.Member{Role: "Worker", Index: 1})
	for k, v := range s.Spec.Selector {
		if want.Labels[k] != v {
			t.Errorf("the service selects %v", s.Spec.Selector)
		}
	}
	if s.Name != want.Name || s.Spec.ClusterIP != corev1.ClusterIPNone || len(s.Spec.Ports) != 1 ||
		len(s.Spec.Selector) != 3 {
		t.Errorf("service %+v", s)
	}
}

func TestSee(t *testing.T) {
	now := metav1.Now()
	exits := func(container string, code int32, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name:  container,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}},
		}
	}
	condition := func(c corev1.PodConditionType) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: c, Status: corev1.ConditionTrue}}
	}
	worker := podplan.Member{Role: "Worker", Index: 2}
	for name, tc := range map[string]struct {
		why  string
		pod  string
		meta func(*metav1.ObjectMeta)
		corev1.PodStatus
		want podplan.Seen
	}{
		"new":     {why: "no kubelet has it", want: podplan.Seen{Member: worker}},
		"pending": {PodStatus: corev1.PodStatus{Phase: corev1.PodPending}, want: podplan.Seen{Member: worker}},
		"lost":    {why: "its node does not answer", PodStatus: corev1.PodStatus{Phase: corev1.PodUnknown}, want: podplan.Seen{Member: worker}},
		"runs":    {PodStatus: corev1.PodStatus{Phase: corev1.PodRunning}, want: podplan.Seen{Member: worker, Life: podplan.Running}},
		"ready":   {PodStatus: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: condition(corev1.PodReady)}, want: podplan.Seen{Member: worker, Life: podplan.Ready}},
		"crashed before": {
			why: "each run in it that failed counts", PodStatus: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{RestartCount: 2}, {RestartCount: 1}}},
			want: podplan.Seen{Member: worker, Life: podplan.Running, Failures: 3},
		},
		"done": {PodStatus: corev1.PodStatus{Phase: corev1.PodSucceeded}, want: podplan.Seen{Member: worker, Life: podplan.Succeeded}},
		"failed": {
			why: "its end is one more", PodStatus: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "a", RestartCount: 2}, exits("main", 1, "Error")}},
			want: podplan.Seen{Member: worker, Life: podplan.Failed, Failures: 3, Final: true, Why: "container main exited with code 1, Error"},
		},
		"killed": {
			why: "a signal may be one of the moment", PodStatus: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{exits("main", 137, "OOMKilled")}},
			want: podplan.Seen{Member: worker, Life: podplan.Failed, Failures: 1, Why: "container main exited with code 137, OOMKilled"},
		},
		"first signal": {
			why: "128 is beyond what programs return", PodStatus: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{exits("main", 128, "")}},
			want: podplan.Seen{Member: worker, Life: podplan.Failed, Failures: 1, Why: "container main exited with code 128"},
		},
		"evicted": {
			why: "not its own fault", PodStatus: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "disk is full", Conditions: condition(corev1.DisruptionTarget)},
			want: podplan.Seen{Member: worker, Life: podplan.Failed, Failures: 1, Disrupted: true, Why: "Evicted: disk is full"},
		},
		"refused": {why: "a node says why in words", PodStatus: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}, want: podplan.Seen{Member: worker, Life: podplan.Failed, Failures: 1, Why: "OutOfcpu"}},
		"goes":    {meta: func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &now }, want: podplan.Seen{Member: worker, Leaving: true}},
		"attempt": {meta: func(m *metav1.ObjectMeta) { m.Labels = map[string]string{recovery.AttemptLabel: "4"} }, want: podplan.Seen{Member: worker, Attempt: 4}},
		"labels lie": {
			why: "anybody may write labels; names are given once", meta: func(m *metav1.ObjectMeta) {
				m.Labels = map[string]string{recovery.RoleLabel: "master", recovery.IndexLabel: "0", recovery.AttemptLabel: "x"}
			},
			want: podplan.Seen{Member: worker},
		},
		"too many": {why: "no member has the name", pod: "j-worker-3"},
		"one role tells by its container": {
			why: "the sidecar's end is not the master's", pod: "j-master-0",
			PodStatus: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{exits("side", 1, ""), exits("main", 137, "")}},
			want:      podplan.Seen{Member: podplan.Member{Role: "Master"}, Life: podplan.Failed, Failures: 1, Why: "container side exited with code 1"},
		},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "j-worker-2"}, Status: tc.PodStatus}
		if tc.pod != "" {
			pod.Name = tc.pod
		}
		if tc.meta != nil {
			tc.meta(&pod.ObjectMeta)
		}
		if diff := cmp.Diff(tc.want, plan().See([]*corev1.Pod{pod})[0]); diff != "" {
			t.Errorf("%s (%s) (-want +got):\n%s", name, tc.why, diff)
		}
	}
}

// TestNothingIsForgotten: what is remembered of a job is read as it was written.
func TestNothingIsForgotten(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	for name, m := range map[string]podplan.RetryState{
		"nothing":   {},
		"begun":     {Started: at(1), Attempt: 2, Failures: 3, Free: 4, LastFailure: at(4), Counted: []string{"a", "b"}},
		"done":      {Started: at(1), Done: map[string]podplan.Indexes{"Worker": {{First: 0, Last: 3}, {First: 7, Last: 7}}, "Master": {{First: 0, Last: 0}}}},
		"succeeded": {Started: at(1), Ended: at(2), Outcome: podplan.JobSucceeded},
		"failed":    {Started: at(1), Ended: at(2), Outcome: podplan.JobFailed, Reason: podplan.RetriesExceeded, Message: "why"},
		"too late":  {Started: at(1), Ended: at(2), Outcome: podplan.JobFailed, Reason: podplan.DeadlineExceeded},
		"broken":    {Started: at(1), Ended: at(2), Outcome: podplan.JobFailed, Reason: podplan.MemberFailed},
	} {
		if diff := cmp.Diff(m, jobs.Remembered(jobs.ToRecovery(&m))); diff != "" {
			t.Errorf("%s (-was +is):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(podplan.RetryState{}, jobs.Remembered(nil)); diff != "" {
		t.Errorf("of a job that is new:\n%s", diff)
	}
}

// TestReplaceable: which jobs survive that pods are taken off their nodes one by one.
func TestReplaceable(t *testing.T) {
	compile := func(fails ...podplan.OnFailure) func(jobs.Object) (*jobs.Plan, error) {
		return func(o jobs.Object) (*jobs.Plan, error) {
			p := &jobs.Plan{}
			for _, f := range fails {
				p.Roles = append(p.Roles, podplan.Role{OnFailure: f})
			}
			x, _ := o.(*toy.Toy)
			p.Suspended = x.Spec.Hold
			return p, nil
		}
	}
	for name, tc := range map[string]struct {
		why  string
		kind jobs.Kind
		job  *toy.Toy
		want bool
	}{
		"made anew": {"all of them are", jobs.Kind{Running: jobs.Running{Operator: &jobs.Operator{Compile: compile(podplan.Replace, podplan.RestartJob, podplan.Ignore)}}}, owner(), true},
		"others fail": {
			"those that lose touch with it may fail, and that is the end", jobs.Kind{Running: jobs.Running{Operator: &jobs.Operator{Compile: compile(podplan.Replace, podplan.FailJob)}}}, owner(), false,
		},
		"others may fail for good": {"as above", jobs.Kind{Running: jobs.Running{Operator: &jobs.Operator{Compile: compile(podplan.ReplaceRetriable)}}}, owner(), false},
		"suspended":                {"its pods go anyway", jobs.Kind{Running: jobs.Running{Operator: &jobs.Operator{Compile: compile(podplan.Replace)}}}, &toy.Toy{Spec: toy.Spec{Hold: true}}, false},
		"not understood": {"nothing is known of it", jobs.Kind{
			Running: jobs.Running{
				Operator: &jobs.Operator{Compile: func(jobs.Object) (*jobs.Plan, error) {
					return nil, errors.New("no")
				}},
			},
		}, owner(), false},
		"run by others": {"they move it as a whole", jobs.Kind{}, owner(), false},
		"says itself":   {"its kind knows", jobs.Kind{Queueing: jobs.Queueing{Replaces: func(jobs.Object, []corev1.Pod) (int32, bool) { return 5, false }}}, owner(), true},
	} {
		if n, _ := tc.kind.Replaceable(tc.job, nil); (n > 0) != tc.want {
			t.Errorf("%s (%s): %d more", name, tc.why, n)
		}
	}
}

// TestRightsThatWeLackAreToldWithTheCure: whatever we may not do, and not what policies and limits forbid.
func TestRightsThatWeLackAreToldWithTheCure(t *testing.T) {
	for why, lacks := range map[string]bool{
		`User "c" cannot create resource "pods" in API group "" in the namespace "n"`:    true,
		`User "c" cannot get resource "configmaps" in API group "" in the namespace "n"`: true,
		`exceeded quota: no-pods, requested: pods=1`:                                     false,
		`violates PodSecurity "restricted:latest"`:                                       false,
	} {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New(why))
		if jobs.LacksRight(err) != lacks || strings.Contains(jobs.Refusal(err), "mlbatch team create") != lacks ||
			!strings.Contains(jobs.Refusal(err), why) {
			t.Errorf("%s: %v, %s", why, jobs.LacksRight(err), jobs.Refusal(err))
		}
	}
}
