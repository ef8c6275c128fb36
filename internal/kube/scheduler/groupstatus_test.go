package scheduler

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

func TestPhaseOf(t *testing.T) {
	cases := map[string]struct {
		why  string
		live int32
		st   podgroup.PodGroupStatus
		want podgroup.PodGroupPhase
	}{
		"too few":      {"two of three pods exist", 2, podgroup.PodGroupStatus{}, podgroup.PodGroupPending},
		"all exist":    {"none has a node", 3, podgroup.PodGroupStatus{}, podgroup.PodGroupPreScheduling},
		"being placed": {"one has a node", 3, podgroup.PodGroupStatus{Scheduled: 1}, podgroup.PodGroupScheduling},
		"placed":       {"none runs yet", 3, podgroup.PodGroupStatus{Scheduled: 3}, podgroup.PodGroupScheduled},
		"running": {
			"all run",
			3,
			podgroup.PodGroupStatus{Scheduled: 3, Running: 3},
			podgroup.PodGroupRunning,
		},
		"ending": {
			"some are done, the others run",
			1,
			podgroup.PodGroupStatus{Scheduled: 3, Running: 1, Succeeded: 2},
			podgroup.PodGroupRunning,
		},
		"one failed": {
			"the gang is not whole any more",
			2,
			podgroup.PodGroupStatus{Scheduled: 3, Running: 2, Failed: 1},
			podgroup.PodGroupFailed,
		},
		"done": {
			"enough succeeded, whatever else failed",
			0,
			podgroup.PodGroupStatus{Scheduled: 4, Succeeded: 3, Failed: 1},
			podgroup.PodGroupFinished,
		},
		"failed, retry": {
			"a failed pod's replacement has no node yet",
			1,
			podgroup.PodGroupStatus{Scheduled: 1, Failed: 1},
			podgroup.PodGroupScheduling,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, phaseOf(3, c.live, c.st)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

func TestStatusOf(t *testing.T) {
	now, before := metav1.NewTime(time.Unix(100, 5).UTC()), metav1.NewTime(time.Unix(50, 0).UTC())
	second := metav1.NewTime(time.Unix(100, 0).UTC())
	in := func(phase corev1.PodPhase, node string) *corev1.Pod {
		p := grouped(pod("ns", "p", 0), "g")
		p.Status.Phase, p.Spec.NodeName = phase, node
		return p
	}
	owned := func(p *corev1.Pod, name string) *corev1.Pod {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: name, Controller: new(true)}}
		return p
	}
	cases := map[string]struct {
		why  string
		min  int32
		was  podgroup.PodGroupStatus
		pods []*corev1.Pod
		want podgroup.PodGroupStatus
	}{
		"no pods": {
			"it waits for them, and has not begun",
			2,
			podgroup.PodGroupStatus{},
			nil,
			podgroup.PodGroupStatus{Phase: podgroup.PodGroupPending},
		},
		"no size": {
			"one pod is the least",
			0,
			podgroup.PodGroupStatus{},
			nil,
			podgroup.PodGroupStatus{Phase: podgroup.PodGroupPending},
		},
		"waiting for nodes": {
			"its beginning is when its pods existed, to the second, and it is its owner's",
			2,
			podgroup.PodGroupStatus{},
			[]*corev1.Pod{owned(in(corev1.PodPending, ""), "first"), owned(in(corev1.PodPending, ""), "second")},
			podgroup.PodGroupStatus{
				Phase:             podgroup.PodGroupPreScheduling,
				OccupiedBy:        "ns/first",
				ScheduleStartTime: &second,
			},
		},
		"begun before": {
			"the beginning stays, and so does the owner",
			2,
			podgroup.PodGroupStatus{OccupiedBy: "ns/old", ScheduleStartTime: &before, Running: 9},
			[]*corev1.Pod{owned(in(corev1.PodRunning, "n"), "first"), in(corev1.PodUnknown, "n")},
			podgroup.PodGroupStatus{
				Phase:             podgroup.PodGroupScheduled,
				OccupiedBy:        "ns/old",
				ScheduleStartTime: &before,
				Running:           1,
				Scheduled:         2,
			},
		},
		"running pods exist": {
			"a pod that runs is one of those that exist", 3,
			podgroup.PodGroupStatus{},
			[]*corev1.Pod{in(corev1.PodRunning, ""), in(corev1.PodPending, ""), in(corev1.PodUnknown, "")},
			podgroup.PodGroupStatus{Phase: podgroup.PodGroupPreScheduling, ScheduleStartTime: &second, Running: 1},
		},
		"some have ended": {
			"each is counted as what it came to",
			4,
			podgroup.PodGroupStatus{},
			[]*corev1.Pod{
				in(corev1.PodSucceeded, "n"),
				in(corev1.PodSucceeded, "n"),
				in(corev1.PodFailed, "n"),
				in(corev1.PodRunning, "n"),
			},
			podgroup.PodGroupStatus{
				Phase:             podgroup.PodGroupFailed,
				ScheduleStartTime: &second,
				Succeeded:         2,
				Failed:            1,
				Running:           1,
				Scheduled:         4,
			},
		},
		"finished": {
			"it stays so when its pods are deleted", 2,
			podgroup.PodGroupStatus{Phase: podgroup.PodGroupFinished, Succeeded: 2},
			nil,
			podgroup.PodGroupStatus{Phase: podgroup.PodGroupFinished, Succeeded: 2},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := &podgroup.PodGroup{Spec: podgroup.PodGroupSpec{MinMember: c.min}, Status: c.was}
			if diff := cmp.Diff(c.want, statusOf(g, c.pods, now)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

// The status of a group is written when it differs from what is stored, and only then.
func TestStatusIsWrittenWhenItChanges(t *testing.T) {
	stored := podgroup.PodGroupStatus{Phase: podgroup.PodGroupPending}
	cases := map[string]struct {
		why    string
		group  *podgroup.PodGroup
		pods   int
		answer int
		writes bool
		fails  bool
	}{
		"changed":   {"a pod came", &podgroup.PodGroup{Status: stored}, 1, http.StatusOK, true, false},
		"unchanged": {"every pod event asks", &podgroup.PodGroup{Status: stored}, 0, http.StatusOK, false, false},
		"no group":  {"its pods have the label of nothing", nil, 1, http.StatusOK, false, false},
		"deleted": {
			"there is nothing to write on",
			&podgroup.PodGroup{Status: stored},
			1,
			http.StatusNotFound,
			true,
			false,
		},
		"server away": {
			"it is tried again",
			&podgroup.PodGroup{Status: stored},
			1,
			http.StatusForbidden,
			true,
			true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var path string
			var got podgroup.PodGroup
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path = r.Method + " " + r.URL.Path
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Errorf("what is written: %v", err)
				}
				w.WriteHeader(c.answer)
			}))
			defer srv.Close()
			s, _, key := newTestGroupStatus(t, srv.URL)
			if c.group != nil {
				c.group.Namespace, c.group.Name = "ns", "g"
				c.group.Spec.MinMember = 1
				if err := s.groups.GetIndexer().Add(c.group); err != nil {
					t.Fatal(err)
				}
			}
			for range c.pods {
				p := grouped(pod("ns", "p", 0), "g")
				p.UID, p.Status.Phase = "p", corev1.PodPending
				s.pods.came(p)
			}
			if err := s.write(t.Context(), key); (err != nil) != c.fails {
				t.Errorf("%v: %s", err, c.why)
			}
			want := ""
			if c.writes {
				want = "PATCH /apis/" + podgroup.GroupVersion.String() + "/namespaces/ns/podgroups/g/status"
			}
			if path != want {
				t.Errorf("request %q, want %q: %s", path, want, c.why)
			}
			if c.writes && got.Status.Phase != podgroup.PodGroupPreScheduling {
				t.Errorf("writes phase %q", got.Status.Phase)
			}
		})
	}
}

func TestWhoseStatusIsLookedAt(t *testing.T) {
	s, queue, key := newTestGroupStatus(t, "http://127.0.0.1:1")
	s.touched(pod("ns", "plain", 0))
	if len(queue.later) != 0 {
		t.Errorf("a pod without a group: looks at %v", queue.later)
	}
	s.touched(grouped(planned(pod("ns", "p", 0), "w", "main"), "g"))
	s.handler().OnAdd(&podgroup.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}, true)
	if diff := cmp.Diff([]gang.Key{key, key}, queue.later); diff != "" {
		t.Errorf("a planned pod with a group, and a new group (-want +got):\n%s", diff)
	}
}

func newTestGroupStatus(t *testing.T, url string) (*groupStatus, *laterQueue[gang.Key], gang.Key) {
	t.Helper()
	scheme, err := crdScheme()
	if err != nil {
		t.Fatal(err)
	}
	client, err := podGroupSource().client(&rest.Config{Host: url}, scheme)
	if err != nil {
		t.Fatal(err)
	}
	inf, err := podGroupSource().informer(client, scheme)
	if err != nil {
		t.Fatal(err)
	}
	s := newGroupStatus(newHandIndex().podIndex, inf, client)
	queue := &laterQueue[gang.Key]{TypedRateLimitingInterface: s.queue}
	s.queue = queue
	t.Cleanup(queue.ShutDown)
	return s, queue, gang.Key{Kind: gang.KindPodGroup, Namespace: "ns", Name: "g"}
}
