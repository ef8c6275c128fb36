package cache_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

var key = core.Key{Namespace: "blue", Name: "w"}

func node() cache.ObjectUpdate {
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Node, Name: "n"}, Object: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}}
}

func pod(name, workload, on string, phase corev1.PodPhase) cache.ObjectUpdate {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      name,
			Labels:    map[string]string{kueue.PodSetLabel: "main"},
		},
		Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		}}}},
		Status: corev1.PodStatus{Phase: phase},
	}
	if workload != "" {
		p.Annotations = map[string]string{kueue.WorkloadAnnotation: workload}
	}
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Pod, Namespace: "blue", Name: name}, Object: p}
}

// deletedPod was deleted, and has not gone.
func deletedPod(name, workload, on string, phase corev1.PodPhase) cache.ObjectUpdate {
	c := pod(name, workload, on, phase)
	if p, ok := c.Object.(*corev1.Pod); ok {
		p.DeletionTimestamp = &metav1.Time{}
	}
	return c
}

func lostNode() cache.ObjectUpdate {
	c := node()
	if n, ok := c.Object.(*corev1.Node); ok {
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	}
	return c
}

func gonePod(name string) cache.ObjectUpdate {
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Pod, Namespace: "blue", Name: name}}
}

func workload(change ...func(*kueue.Workload)) cache.ObjectUpdate {
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w"},
		Spec:       kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "main", Count: 1}}, Active: new(true)},
	}
	for _, c := range change {
		c(w)
	}
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Workload, Namespace: "blue", Name: "w"}, Object: w}
}

func admitted(w *kueue.Workload) {
	w.Status.Admission = convert.StatusAdmission(core.Admission{Queue: "q", PodSets: []core.PodSetAdmission{
		{Name: "main", Count: 1, Places: []core.Place{{Node: "n", Count: 1}}},
	}})
}

func endsOnce(w *kueue.Workload) {
	w.Annotations = map[string]string{kueue.EndsOnceAnnotation: "true"}
}

func reservedLater(w *kueue.Workload) {
	apimeta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type:               kueue.WorkloadQuotaReserved,
		Status:             metav1.ConditionTrue,
		Reason:             "QuotaReserved",
		LastTransitionTime: metav1.Now(),
	})
}

func finished(w *kueue.Workload) {
	apimeta.SetStatusCondition(
		&w.Status.Conditions,
		metav1.Condition{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: "Succeeded"},
	)
}

// picture is what a batch of events says, in the words of the tests.
type picture struct {
	ForeignCPU core.Amount // milli, on node n; -1 if the node was not told
	Settled    int32
	Ended      int32 // places given back
	Evicting   bool
	Gone       bool
	Told       bool // a WorkloadSet was sent
}

func look(events []core.Event) picture {
	p := picture{ForeignCPU: -1}
	for _, e := range events {
		switch e := e.(type) {
		case core.NodeSet:
			p.ForeignCPU = e.Node.Foreign.Of(core.CPU)
		case core.WorkloadGone:
			p.Gone = true
		case core.WorkloadSet:
			p.Told, p.Evicting = true, e.Workload.Evicting
			p.Settled, p.Ended = total(e.Workload.Settled), total(e.Workload.Ended)
		}
	}
	return p
}

func total(sets []core.PodSetPlaces) int32 {
	n := int32(0)
	for _, s := range sets {
		for _, pl := range s.Places {
			n += pl.Count
		}
	}
	return n
}

func reclaimed(w *kueue.Workload) {
	w.Status.ReclaimablePods = []kueue.ReclaimablePod{{Name: "main", Count: 1}}
}

func TestTranslate(t *testing.T) {
	cases := map[string]struct {
		why    string
		before []cache.ObjectUpdate
		plan   core.Plan
		then   []cache.ObjectUpdate
		want   picture
	}{
		"pod of nobody": {
			why:    "what we did not place takes room that cannot be planned",
			before: []cache.ObjectUpdate{node()}, then: []cache.ObjectUpdate{pod("p", "", "n", corev1.PodRunning)},
			want: picture{ForeignCPU: 2000},
		},
		"pod of nobody that ended": {
			why: "a finished pod uses nothing",
			before: []cache.ObjectUpdate{
				node(),
				pod("p", "", "n", corev1.PodRunning),
			},
			then: []cache.ObjectUpdate{pod("p", "", "n", corev1.PodSucceeded)},
			want: picture{ForeignCPU: 0},
		},
		"pod on its planned node": {
			why: "its place is held by the plan already",
			before: []cache.ObjectUpdate{
				node(),
				workload(admitted),
			},
			then: []cache.ObjectUpdate{pod("p", "w", "n", corev1.PodRunning)},
			want: picture{ForeignCPU: 0, Settled: 1, Told: true},
		},
		"pod on its planned node before the written plan is seen": {
			why:    "counting it twice would refuse others for nothing",
			before: []cache.ObjectUpdate{node(), workload()},
			plan: core.Plan{core.Admit{Key: key, Admission: core.Admission{Queue: "q", PodSets: []core.PodSetAdmission{
				{Name: "main", Count: 1, Places: []core.Place{{Node: "n", Count: 1}}},
			}}}},
			then: []cache.ObjectUpdate{pod("p", "w", "n", corev1.PodRunning)},
			want: picture{ForeignCPU: 0, Settled: 1, Told: true},
		},
		"second pod where one was planned": {
			why:    "what exceeds the plan is foreign",
			before: []cache.ObjectUpdate{node(), workload(admitted), pod("p", "w", "n", corev1.PodRunning)},
			then:   []cache.ObjectUpdate{pod("p2", "w", "n", corev1.PodRunning)},
			want:   picture{ForeignCPU: 2000, Settled: 2, Told: true},
		},
		"pod that succeeded and will be replaced": {
			why:    "a Job with more completions than pods at a time goes on there",
			before: []cache.ObjectUpdate{node(), workload(admitted), pod("p", "w", "n", corev1.PodRunning)},
			then:   []cache.ObjectUpdate{pod("p", "w", "n", corev1.PodSucceeded)},
			want:   picture{ForeignCPU: 0, Settled: 1, Told: true},
		},
		"pod that succeeded for good": {
			why:    "others may use its place",
			before: []cache.ObjectUpdate{node(), workload(admitted), pod("p", "w", "n", corev1.PodSucceeded)},
			then:   []cache.ObjectUpdate{workload(admitted, reclaimed)},
			want:   picture{ForeignCPU: 0, Settled: 1, Ended: 1, Told: true},
		},
		"pod that succeeded for good, and its place taken since": {
			why: "the place is in use",
			before: []cache.ObjectUpdate{
				node(),
				workload(admitted),
				pod("p", "w", "n", corev1.PodSucceeded),
				pod("p2", "w", "n", corev1.PodRunning),
			},
			then: []cache.ObjectUpdate{workload(admitted, reclaimed)},
			want: picture{ForeignCPU: 0, Settled: 2, Told: true},
		},
		"pod given back that left no trace": {
			why:    "the job was made smaller: others may use its place",
			before: []cache.ObjectUpdate{node(), workload(admitted)},
			then:   []cache.ObjectUpdate{workload(admitted, reclaimed)},
			want:   picture{ForeignCPU: 0, Ended: 1, Told: true},
		},
		"failed pod": {
			why:    "its place has to be filled again",
			before: []cache.ObjectUpdate{node(), workload(admitted), pod("p", "w", "n", corev1.PodRunning)},
			then:   []cache.ObjectUpdate{pod("p", "w", "n", corev1.PodFailed)},
			want:   picture{ForeignCPU: 0, Settled: 0, Told: true},
		},
		"all pods succeeded": {
			why:    "it has ended, though its controller is away: it is not evicted any more",
			before: []cache.ObjectUpdate{node(), workload(admitted, endsOnce), pod("p", "w", "n", corev1.PodRunning)},
			then:   []cache.ObjectUpdate{pod("p", "w", "n", corev1.PodSucceeded)},
			want:   picture{ForeignCPU: 0, Settled: 1, Evicting: true, Told: true},
		},
		"all pods succeeded, others follow": {
			why:    "a Job with more completions than pods at a time goes on",
			before: []cache.ObjectUpdate{node(), workload(admitted), pod("p", "w", "n", corev1.PodRunning)},
			then:   []cache.ObjectUpdate{pod("p", "w", "n", corev1.PodSucceeded)},
			want:   picture{ForeignCPU: 0, Settled: 1, Told: true},
		},
		"one pod failed": {
			why:    "it is made again",
			before: []cache.ObjectUpdate{node(), workload(admitted, endsOnce), pod("p", "w", "n", corev1.PodRunning)},
			then:   []cache.ObjectUpdate{pod("p", "w", "n", corev1.PodFailed)},
			want:   picture{ForeignCPU: 0, Told: true},
		},
		"a pod succeeded, another runs": {
			why: "it may not end well",
			before: []cache.ObjectUpdate{
				node(),
				workload(admitted, endsOnce),
				pod("p", "w", "n", corev1.PodSucceeded),
			},
			then: []cache.ObjectUpdate{pod("p2", "w", "n", corev1.PodRunning)},
			want: picture{ForeignCPU: 0, Settled: 2, Told: true},
		},
		"pods of an earlier admission succeeded": {
			why: "what was done then is not counted in what it was given now",
			before: []cache.ObjectUpdate{
				node(),
				workload(admitted, endsOnce, reservedLater),
				pod("p", "w", "n", corev1.PodRunning),
			},
			then: []cache.ObjectUpdate{pod("p", "w", "n", corev1.PodSucceeded)},
			want: picture{ForeignCPU: 0, Settled: 1, Told: true},
		},
		"deleted pod that has not ended": {
			why:    "it may go on for a day: its place is not moved to where a replacement could run beside it",
			before: []cache.ObjectUpdate{node(), workload(admitted), pod("p", "w", "n", corev1.PodRunning)},
			then:   []cache.ObjectUpdate{deletedPod("p", "w", "n", corev1.PodRunning)},
			want:   picture{ForeignCPU: 0, Settled: 1, Told: true},
		},
		"deleted pod on a node that does not answer": {
			why:    "no kubelet would ever say that it ended",
			before: []cache.ObjectUpdate{node(), workload(admitted), deletedPod("p", "w", "n", corev1.PodRunning)},
			then:   []cache.ObjectUpdate{lostNode()},
			want:   picture{ForeignCPU: 0, Settled: 0, Told: true},
		},
		"deleted pod and another on a node that does not answer": {
			why: "the other will be deleted, too: they get another node together",
			before: []cache.ObjectUpdate{
				node(), workload(admitted), lostNode(), pod("q", "w", "n", corev1.PodRunning),
				pod("p", "w", "n", corev1.PodRunning),
			},
			then: []cache.ObjectUpdate{deletedPod("p", "w", "n", corev1.PodRunning)},
			want: picture{ForeignCPU: 2000, Settled: 0, Told: true},
		},
		"pods on a node that does not answer": {
			why: "it may come back, and none was deleted",
			before: []cache.ObjectUpdate{
				node(), workload(admitted), pod("q", "w", "n", corev1.PodRunning),
			},
			then: []cache.ObjectUpdate{lostNode(), pod("r", "w", "n", corev1.PodRunning)},
			want: picture{ForeignCPU: 2000, Settled: 2, Told: true},
		},
		"deleted pod beside one that succeeded on a node that does not answer": {
			why: "what is done is done",
			before: []cache.ObjectUpdate{
				node(), workload(admitted), lostNode(), pod("q", "w", "n", corev1.PodSucceeded),
				pod("p", "w", "n", corev1.PodRunning),
			},
			then: []cache.ObjectUpdate{deletedPod("p", "w", "n", corev1.PodRunning)},
			want: picture{ForeignCPU: 0, Settled: 1, Told: true},
		},
		"deleted pod that ended": {
			why: "whatever keeps the object, nothing runs",
			before: []cache.ObjectUpdate{
				node(),
				workload(admitted),
				pod("p", "w", "n", corev1.PodRunning),
				{Ref: workload().Ref},
			},
			then: []cache.ObjectUpdate{deletedPod("p", "w", "n", corev1.PodFailed)},
			want: picture{ForeignCPU: 0, Gone: true},
		},
		"deleted pod without a node": {
			why: "it never gets one",
			before: []cache.ObjectUpdate{
				node(),
				workload(admitted),
				pod("p", "w", "", corev1.PodPending),
				{Ref: workload().Ref},
			},
			then: []cache.ObjectUpdate{deletedPod("p", "w", "", corev1.PodPending)},
			want: picture{ForeignCPU: 0, Gone: true},
		},
		"deleted workload with a live pod": {
			why:    "quota is released only when the pods are gone",
			before: []cache.ObjectUpdate{node(), workload(admitted), pod("p", "w", "n", corev1.PodRunning)},
			then:   []cache.ObjectUpdate{{Ref: workload().Ref}},
			want:   picture{ForeignCPU: -1, Settled: 1, Evicting: true, Told: true},
		},
		"last pod of a deleted workload": {
			why: "now it is gone",
			before: []cache.ObjectUpdate{
				node(),
				workload(admitted),
				pod("p", "w", "n", corev1.PodRunning),
				{Ref: workload().Ref},
			},
			then: []cache.ObjectUpdate{gonePod("p")},
			want: picture{ForeignCPU: 0, Gone: true},
		},
		"finished workload with a live pod after a restart": {
			why:    "what runs holds quota, whatever the conditions say",
			before: []cache.ObjectUpdate{node()},
			then:   []cache.ObjectUpdate{workload(admitted, finished), pod("p", "w", "n", corev1.PodRunning)},
			want:   picture{ForeignCPU: 0, Settled: 1, Evicting: true, Told: true},
		},
		"finished workload without pods after a restart": {
			why:    "nobody knew of it, and it has nothing",
			before: []cache.ObjectUpdate{node()},
			then:   []cache.ObjectUpdate{workload(admitted, finished), pod("p", "w", "n", corev1.PodSucceeded)},
			want:   picture{ForeignCPU: 0},
		},
		"finished workload": {
			why:    "its pods ended, so it holds nothing",
			before: []cache.ObjectUpdate{node(), workload(admitted), pod("p", "w", "n", corev1.PodSucceeded)},
			then:   []cache.ObjectUpdate{workload(admitted, finished)},
			want:   picture{ForeignCPU: 0, Gone: true},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := cache.NewWorld(convert.Rules{})
			for _, b := range c.before {
				w.Translate([]cache.ObjectUpdate{b})
			}
			w.Decided(c.plan)
			if diff := cmp.Diff(c.want, look(w.Translate(c.then))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

// TestPortsOfOthers: a port counts for the engine until a pod that it did not place ends, and a
// pod that it placed is no other.
func TestPortsOfOthers(t *testing.T) {
	w := cache.NewWorld(convert.Rules{})
	told := func(c cache.ObjectUpdate) (out []core.Limit) {
		for _, e := range w.Translate([]cache.ObjectUpdate{c}) {
			if e, ok := e.(core.NodeSet); ok {
				out = e.Node.ForeignLimits
			}
		}
		return out
	}
	withPort := func(name, workload string, phase corev1.PodPhase) cache.ObjectUpdate {
		c := pod(name, workload, "n", phase)
		c.Object.(*corev1.Pod).Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		return c
	}
	told(node())
	told(workload(admitted))
	port := core.Limit{Name: "host port 80/TCP", Count: 1, Most: 1}
	for _, step := range []struct {
		why  string
		then cache.ObjectUpdate
		want []core.Limit
	}{
		{"the workload has its place", withPort("p", "w", corev1.PodRunning), nil},
		{"nobody placed it", withPort("q", "", corev1.PodRunning), []core.Limit{port}},
		{"two of a controller that checks nothing", withPort("r", "", corev1.PodRunning), []core.Limit{{Name: port.Name, Count: 2, Most: 1}}},
		{"one has ended", withPort("q", "", corev1.PodSucceeded), []core.Limit{port}},
		{"the other is gone", gone(withPort("r", "", corev1.PodRunning)), nil},
	} {
		if diff := cmp.Diff(step.want, told(step.then)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, diff)
		}
	}
}
