package provisioning

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/api/autoscaling"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// story is a workload of one pod set that has quota and waits for one check.
type story struct {
	facts
}

func newStory() *story {
	gpu := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "wl"}}
	w.Spec.Active = new(true)
	w.Spec.PodSets = []kueue.PodSet{
		{
			Name:  "main",
			Count: 4,
			Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: gpu}}},
			},
		},
	}
	w.Status.Admission = &kueue.Admission{ClusterQueue: "q", PodSetAssignments: []kueue.PodSetAssignment{
		{
			Name:    "main",
			Count:   new(int32(3)),
			Flavors: map[corev1.ResourceName]kueue.ResourceFlavorReference{"nvidia.com/gpu": "dws"},
		},
	}}
	w.Status.Conditions = []metav1.Condition{
		{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(t0)},
	}
	w.Status.AdmissionChecks = []kueue.AdmissionCheckState{
		{Name: "nodes", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(t0)},
	}
	return &story{
		facts{
			workload: w,
			checks: []check{
				{
					"nodes",
					&kueue.ProvisioningRequestConfig{
						Spec: kueue.ProvisioningRequestConfigSpec{ProvisioningClassName: "class"},
					},
				},
			},
			flavors: map[kueue.ResourceFlavorReference]*kueue.ResourceFlavor{"dws": {Spec: kueue.ResourceFlavorSpec{
				NodeLabels: map[string]string{
					"pool": "dws",
				},
				Tolerations: []corev1.Toleration{{Key: "queued", Operator: corev1.TolerationOpExists}},
			}}},
			now: t0.Add(time.Minute),
		},
	}
}

func (s *story) state() *kueue.AdmissionCheckState { return &s.workload.Status.AdmissionChecks[0] }
func (s *story) config() *kueue.ProvisioningRequestConfigSpec {
	return &s.checks[0].config.Spec
}

// asked lets the workload have the request of its present attempt, on which
// these conditions are true.
func (s *story) asked(conditions ...string) *story {
	attempt := ptr.Deref(s.state().RetryCount, 0) + 1
	r := s.demand(s.checks[0].config, requestName("wl", "nodes", attempt)).request
	for _, c := range conditions {
		r.Status.Conditions = append(
			r.Status.Conditions,
			metav1.Condition{Type: c, Status: metav1.ConditionTrue, Message: "says " + c},
		)
	}
	s.requests = append(s.requests, r)
	return s
}

func (s *story) with(change func(*story)) *story {
	change(s)
	return s
}

// outcome is a step in short.
type outcome struct {
	Create, Remove []string
	State          kueue.CheckState
	Message        string
	RequeueAfter   int32
}

func (s *story) outcome() outcome {
	next := decide(s.facts)
	var o outcome
	for _, d := range next.create {
		o.Create = append(o.Create, d.request.Name)
	}
	for _, r := range next.remove {
		o.Remove = append(o.Remove, r.Name)
	}
	for _, st := range next.states {
		o.State, o.Message, o.RequeueAfter = st.State, st.Message, ptr.Deref(st.RequeueAfterSeconds, 0)
	}
	return o
}

func TestDecide(t *testing.T) {
	first := []string{"wl-nodes-1"}
	condition := func(kind string) func(*story) {
		return func(s *story) {
			s.workload.Status.Conditions = append(
				s.workload.Status.Conditions,
				metav1.Condition{Type: kind, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(t0)},
			)
		}
	}
	is := func(state kueue.CheckState) func(*story) { return func(s *story) { s.state().State = state } }
	retried := func(n int32) func(*story) { return func(s *story) { s.state().RetryCount = &n } }
	cases := map[string]struct {
		why   string
		story *story
		want  outcome
	}{
		"quota reserved": {"nodes are asked for", newStory(), outcome{Create: first}},
		"third try": {
			"its number is how often the check said Retry, plus one",
			newStory().with(retried(2)),
			outcome{Create: []string{"wl-nodes-3"}},
		},
		"no reservation": {
			"no workload asks for nodes without quota",
			newStory().with(func(s *story) { s.workload.Status.Admission = nil }),
			outcome{},
		},
		"asked":    {"the answer is awaited", newStory().asked(), outcome{}},
		"accepted": {"nothing is known of when", newStory().asked(autoscaling.Accepted), outcome{}},
		"failed": {
			"another try, with a new reservation",
			newStory().asked(autoscaling.Failed),
			outcome{State: kueue.CheckStateRetry, Message: "Retrying after failure: says Failed", RequeueAfter: 60},
		},
		"failed again": {
			"the pause doubles",
			newStory().with(retried(2)).asked(autoscaling.Failed),
			outcome{State: kueue.CheckStateRetry, Message: "Retrying after failure: says Failed", RequeueAfter: 240},
		},
		"failed too often": {
			"three repetitions are the default",
			newStory().with(retried(3)).asked(autoscaling.Failed),
			outcome{State: kueue.CheckStateRejected, Message: "says Failed"},
		},
		"failed, said already": {
			"an answer stands until the eviction resets it",
			newStory().with(is(kueue.CheckStateRetry)).asked(autoscaling.Failed),
			outcome{},
		},
		"rejected": {
			"for good",
			newStory().with(is(kueue.CheckStateRejected)).asked(autoscaling.Provisioned),
			outcome{},
		},
		"booking expired": {
			"the nodes were given away before the workload was admitted",
			newStory().asked(autoscaling.Provisioned, autoscaling.BookingExpired),
			outcome{
				State:        kueue.CheckStateRetry,
				Message:      "Retrying after booking expired: says BookingExpired",
				RequeueAfter: 60,
			},
		},
		"booking expired later": {
			"pods that run hold their nodes themselves",
			newStory().with(
				is(kueue.CheckStateReady),
			).with(
				condition(kueue.WorkloadAdmitted),
			).asked(
				autoscaling.Provisioned,
				autoscaling.BookingExpired,
			),
			outcome{},
		},
		"revoked": {
			"pods to come would wait for nodes that are gone",
			newStory().with(
				is(kueue.CheckStateReady),
			).with(
				condition(kueue.WorkloadAdmitted),
			).asked(
				autoscaling.Provisioned,
				autoscaling.CapacityRevoked,
			),
			outcome{State: kueue.CheckStateRejected, Message: "says CapacityRevoked"},
		},
		"failure comes first": {
			"Failed outranks what was before",
			newStory().asked(autoscaling.Accepted, autoscaling.Provisioned, autoscaling.Failed),
			outcome{State: kueue.CheckStateRetry, Message: "Retrying after failure: says Failed", RequeueAfter: 60},
		},
		"provisioned": {
			"the workload may start",
			newStory().asked(autoscaling.Accepted, autoscaling.Provisioned),
			outcome{State: kueue.CheckStateReady, Message: "says Provisioned"},
		},
		"provisioned, said": {
			"nothing new",
			newStory().with(is(kueue.CheckStateReady)).asked(autoscaling.Provisioned),
			outcome{},
		},
		"ready, request gone": {
			"a running job needs no new nodes",
			newStory().with(is(kueue.CheckStateReady)),
			outcome{},
		},
		"no such resource": {
			"no pod asks for what nodes are made for",
			newStory().with(func(s *story) { s.config().ManagedResources = []corev1.ResourceName{"tpu"} }),
			outcome{State: kueue.CheckStateReady, Message: messageNoNeed},
		},
		"managed resource": {
			"a limit is a request",
			newStory().with(func(s *story) { s.config().ManagedResources = []corev1.ResourceName{"nvidia.com/gpu"} }),
			outcome{Create: first},
		},
		"check inactive": {
			"it says why it waits", newStory().with(func(s *story) { s.checks[0].config = nil }),
			outcome{State: kueue.CheckStatePending, Message: messageInactive},
		},
		"check of a running job inactive": {
			"what runs is left alone",
			newStory().with(
				is(kueue.CheckStateReady),
			).asked(
				autoscaling.Provisioned,
			).with(
				func(s *story) { s.checks[0].config = nil },
			),
			outcome{},
		},
		"class changed": {
			"the request is removed; when it is gone another is made",
			newStory().asked().with(func(s *story) { s.config().ProvisioningClassName = "other" }),
			outcome{Remove: first},
		},
		"class changed under a running job": {
			"its nodes are in use",
			newStory().with(
				is(kueue.CheckStateReady),
			).asked(
				autoscaling.Provisioned,
			).with(
				func(s *story) { s.config().ProvisioningClassName = "other" },
			),
			outcome{},
		},
		"request of an earlier reservation": {
			"its nodes were for other flavors, or are gone",
			newStory().asked(autoscaling.Provisioned).with(func(s *story) {
				s.workload.Status.Conditions[0].LastTransitionTime = metav1.NewTime(t0.Add(time.Hour))
			}),
			outcome{Remove: first},
		},
		"request of an earlier try": {
			"one is enough",
			newStory().asked(autoscaling.Failed).with(retried(1)),
			outcome{Create: []string{"wl-nodes-2"}, Remove: first},
		},
		"evicted": {
			"the nodes are not needed",
			newStory().with(condition(kueue.WorkloadEvicted)).asked(autoscaling.Provisioned),
			outcome{Remove: first},
		},
		"evicted, and runs on": {
			"its pods are on the nodes for a while",
			newStory().with(
				condition(kueue.WorkloadEvicted),
			).with(
				condition(kueue.WorkloadStopNotice),
			).asked(
				autoscaling.Provisioned,
			),
			outcome{},
		},
		"finished": {
			"the nodes are not needed any more",
			newStory().with(
				is(kueue.CheckStateReady),
			).with(
				condition(kueue.WorkloadFinished),
			).asked(
				autoscaling.Provisioned,
			),
			outcome{Remove: first},
		},
		"deleted": {
			"it will never start",
			newStory().asked().with(func(s *story) { s.workload.DeletionTimestamp = &metav1.Time{Time: t0} }),
			outcome{Remove: first},
		},
		"check of another controller": {
			"its answers are its own", newStory().with(func(s *story) { s.checks = nil }), outcome{},
		},
		"details missing": {
			"pods could not be tied to the nodes yet",
			newStory().with(selects).asked(autoscaling.Provisioned),
			outcome{
				State:   kueue.CheckStatePending,
				Message: `Provisioned; waiting for the detail "Pool" of the provisioning class`,
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.story.outcome()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

// selects gives pods a node label whose value the class tells.
func selects(s *story) {
	s.config().PodSetUpdates = &kueue.ProvisioningRequestPodSetUpdates{
		NodeSelector: []kueue.ProvisioningRequestPodSetUpdatesNodeSelector{
			{Key: "pool-name", ValueFromProvisioningClassDetail: "Pool"},
		},
	}
}

func TestAcceptedShowsWhen(t *testing.T) {
	s := newStory().asked(autoscaling.Accepted)
	s.requests[0].Status.Conditions = append(s.requests[0].Status.Conditions,
		metav1.Condition{Type: autoscaling.Provisioned, Status: metav1.ConditionFalse, Message: "ETA 10:00"})
	if got, want := s.outcome(), (outcome{State: kueue.CheckStatePending, Message: "ETA 10:00"}); !cmp.Equal(
		got,
		want,
	) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestPodsAreTiedToTheirNodes(t *testing.T) {
	s := newStory().with(selects).asked(autoscaling.Provisioned)
	s.requests[0].Status.ProvisioningClassDetails = map[string]autoscaling.Detail{"Pool": "p-17"}
	want := []kueue.AdmissionCheckState{
		{
			Name:               "nodes",
			State:              kueue.CheckStateReady,
			LastTransitionTime: metav1.NewTime(s.now),
			Message:            "says Provisioned",
			PodSetUpdates: []kueue.PodSetUpdate{
				{
					Name: "main",
					Annotations: map[string]string{
						"autoscaling.x-k8s.io/consume-provisioning-request": "wl-nodes-1",
						"autoscaling.x-k8s.io/provisioning-class-name":      "class",
					},
					NodeSelector: map[string]string{"pool-name": "p-17"},
				},
			},
		},
	}
	if diff := cmp.Diff(want, decide(s.facts).states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

func TestDemand(t *testing.T) {
	s := newStory()
	s.config().Parameters = map[string]kueue.ProvisioningParameter{"ValidUntilSeconds": "60", "Zone": "a"}
	s.workload.Annotations = map[string]string{"provreq.kueue.x-k8s.io/Zone": "b", "other": "c"}
	d := s.demand(s.checks[0].config, "r")
	if got := d.request.Labels[kueue.ManagedLabel]; got != "true" {
		t.Errorf("the label by which requests of queueing are found is %q", got)
	}
	want := autoscaling.ProvisioningRequestSpec{
		ProvisioningClassName: "class",
		Parameters:            map[string]autoscaling.Parameter{"ValidUntilSeconds": "60", "Zone": "b"},
		PodSets: []autoscaling.PodSet{
			{PodTemplateRef: autoscaling.Reference{Name: "ppt-r-main"}, Count: 3},
		},
	}
	if diff := cmp.Diff(want, d.request.Spec); diff != "" {
		t.Errorf(
			"the admitted count, and the job's own parameters over those of the settings (-want +got):\n%s",
			diff,
		)
	}
	pod := d.templates[0].Template.Spec
	got := []any{
		pod.NodeSelector,
		len(pod.Tolerations),
		pod.Containers[0].Resources.Requests.Name("nvidia.com/gpu", resource.DecimalSI).String(),
	}
	if diff := cmp.Diff([]any{map[string]string{"pool": "dws"}, 1, "8"}, got); diff != "" {
		t.Errorf("a template looks like a pod of the flavor (-want +got):\n%s", diff)
	}
	if s.workload.Spec.PodSets[0].Template.Spec.NodeSelector != nil ||
		s.workload.Spec.PodSets[0].Template.Spec.Containers[0].Resources.Requests != nil {
		t.Error("the workload was changed")
	}
}

func TestMergePolicy(t *testing.T) {
	cases := map[string]struct {
		why    string
		policy kueue.PodSetMergePolicy
		change func(*corev1.PodSpec) // of the second pod set
		want   []int32
	}{
		"none":            {"each has its own", "", nil, []int32{3, 2}},
		"equal templates": {"one entry", kueue.IdenticalPodTemplates, nil, []int32{5}},
		"other command": {
			"is another template",
			kueue.IdenticalPodTemplates,
			func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"x"} },
			[]int32{3, 2},
		},
		"command is no need": {
			"a scheduler does not look at it",
			kueue.IdenticalWorkloadSchedulingRequirements,
			func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"x"} },
			[]int32{5},
		},
		"other node": {
			"is another need",
			kueue.IdenticalWorkloadSchedulingRequirements,
			func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"a": "b"} },
			[]int32{3, 2},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			second := *s.workload.Spec.PodSets[0].DeepCopy()
			second.Name = "second"
			if c.change != nil {
				c.change(&second.Template.Spec)
			}
			s.workload.Spec.PodSets = append(s.workload.Spec.PodSets, second)
			a := *s.workload.Status.Admission.PodSetAssignments[0].DeepCopy()
			a.Name, a.Count = "second", new(int32(2))
			s.workload.Status.Admission.PodSetAssignments = append(s.workload.Status.Admission.PodSetAssignments, a)
			if c.policy != "" {
				s.config().PodSetMergePolicy = &c.policy
			}
			var got []int32
			for _, ps := range s.demand(s.checks[0].config, "r").request.Spec.PodSets {
				got = append(got, ps.Count)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
			if n := len(decide(s.asked(autoscaling.Provisioned).facts).states[0].PodSetUpdates); n != 2 {
				t.Errorf("%d pod sets are tied to the nodes, want both", n)
			}
		})
	}
}

func TestBackoffIsCappedAndNeverWraps(t *testing.T) {
	got := []int32{
		backoff(60, 1800, 1),
		backoff(60, 1800, 5),
		backoff(60, 1800, 6),
		backoff(60, 1800, 1000),
		backoff(0, 1800, 1000),
		backoff(2147483647, 2147483647, 9),
		backoff(60, 30, 1),
	}
	if want := []int32{60, 960, 1800, 1800, 0, 2147483647, 30}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNamesAreValidAndDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?`).Filter(func(s string) bool {
			return len(validation.NameIsDNSSubdomain(s, false)) == 0
		})
		a, b := part.Draw(t, "workload"), part.Draw(t, "check")
		n := rapid.Int32Range(1, 1000).Draw(t, "attempt")
		name := requestName(a, b, n)
		if bad := validation.NameIsDNSSubdomain(name, false); len(bad) > 0 {
			t.Errorf("%q: %v", name, bad)
		}
		if name == requestName(a, b, n+1) {
			t.Errorf("attempts %d and %d have the same name", n, n+1)
		}
		if bad := validation.NameIsDNSSubdomain(templateName(name, strings.Repeat("p", 63)), false); len(bad) > 0 {
			t.Errorf("template: %v", bad)
		}
	})
}

func TestActive(t *testing.T) {
	ref := func(group, kind, name string) *kueue.AdmissionCheckParametersReference {
		return &kueue.AdmissionCheckParametersReference{APIGroup: group, Kind: kind, Name: name}
	}
	cases := map[string]struct {
		why            string
		parameters     *kueue.AdmissionCheckParametersReference
		exists, served bool
		reason, text   string
	}{
		"good": {
			"all is there",
			ref("kueue.x-k8s.io", "ProvisioningRequestConfig", "c"),
			true,
			true,
			"Active",
			"is active",
		},
		"no parameters": {
			"nothing says which class",
			nil,
			false,
			true,
			"BadParametersRef",
			"spec.parameters is missing",
		},
		"other kind": {
			"it says nothing of classes",
			ref("", "ConfigMap", "c"),
			false,
			true,
			"BadParametersRef",
			"must be a ProvisioningRequestConfig",
		},
		"missing": {
			"it may come later",
			ref("kueue.x-k8s.io", "ProvisioningRequestConfig", "c"),
			false,
			true,
			"BadParametersRef",
			"c does not exist",
		},
		"not served": {
			"no controller could answer",
			ref("kueue.x-k8s.io", "ProvisioningRequestConfig", "c"),
			true,
			false,
			"ProvisioningRequestNotServed",
			"install its definition",
		},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		got := active(
			&kueue.AdmissionCheck{Spec: kueue.AdmissionCheckSpec{Parameters: c.parameters}},
			c.exists,
			c.served,
		)
		if got.Reason != c.reason || !strings.Contains(got.Message, c.text) ||
			(got.Status == metav1.ConditionTrue) != (c.reason == "Active") {
			t.Errorf("%s: %s: got %s %s: %s", name, c.why, got.Status, got.Reason, got.Message)
		}
	}
}
