package demo

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func wrapper(phase appwrapper.AppWrapperPhase) *appwrapper.AppWrapper {
	return &appwrapper.AppWrapper{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       "blue",
			Name:            "a",
			ResourceVersion: "5",
			Labels:          map[string]string{appwrapper.AppWrapperUserLabel: "alice"},
		},
		Status: appwrapper.AppWrapperStatus{Phase: phase},
	}
}

// workload of job blue/NAME with conditions "Type=Status/Reason/Message".
func workload(name string, nodes []string, conditions ...string) *kueue.Workload {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: "wl-" + name, UID: types.UID("uid-" + name), ResourceVersion: "6",
		OwnerReferences: []metav1.OwnerReference{{Kind: "AppWrapper", Name: name, Controller: new(true)}},
	}}
	for _, c := range conditions {
		kind, rest, _ := strings.Cut(c, "=")
		f := strings.SplitN(rest, "/", 3)
		w.Status.Conditions = append(
			w.Status.Conditions,
			metav1.Condition{Type: kind, Status: metav1.ConditionStatus(f[0]), Reason: f[1], Message: f[2]},
		)
	}
	if nodes != nil {
		w.Status.Admission = &kueue.Admission{
			PodSetAssignments: []kueue.PodSetAssignment{{TopologyAssignment: &kueue.TopologyAssignment{
				Slices: []kueue.TopologyAssignmentSlice{{ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{
					{Individual: &kueue.TopologyAssignmentSliceLevelIndividualValues{Prefix: new("node-"), Roots: nodes}},
				}}},
			}}},
		}
	}
	return w
}

func pod(phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       "blue",
			Name:            "p",
			UID:             "1",
			ResourceVersion: "7",
			Labels:          map[string]string{appwrapper.AppWrapperLabel: "a"},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{
			{
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{gpuResource: resource.MustParse("4")},
				},
			},
		}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func leaving(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = &metav1.Time{}
	return p
}

func node(health string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "node-1",
			ResourceVersion: "8",
			Labels:          map[string]string{nodehealth.HealthLabel: health},
		},
	}
}

func TestObserve(t *testing.T) {
	add, mod, del := watch.Added, watch.Modified, watch.Deleted
	cases := map[string]struct {
		why    string
		events []watch.Event
		want   []Moment
	}{
		"a job comes, changes and goes": {
			why: "phases are told when they change, and only then",
			events: []watch.Event{
				{
					Type:   add,
					Object: wrapper(""),
				},
				{Type: mod, Object: wrapper("Suspended")},
				{Type: mod, Object: wrapper("Suspended")},
				{Type: del, Object: wrapper("Suspended")},
			},
			want: []Moment{
				{
					What: Submitted,
					Job:  "blue/a",
					Who:  "alice",
				},
				{What: Phase, Job: "blue/a", Reason: "Suspended"},
				{What: Removed, Job: "blue/a"},
			},
		},
		"a workload waits, is admitted and gives way": {
			why: "the Workload tells the story of its job",
			events: []watch.Event{
				{Type: add, Object: workload("b", nil)},
				{Type: add, Object: workload("a", nil, "QuotaReserved=False/WaitingForQuota/no GPUs")},
				{Type: mod, Object: workload("a", []string{"1", "0"}, "QuotaReserved=True/QuotaReserved/ok")},
				{Type: mod, Object: workload(
					"a",
					[]string{"1", "0"},
					"QuotaReserved=True/QuotaReserved/ok",
					"Evicted=True/Preempted/x",
					"Preempted=True/InClusterQueue/Preempted to accommodate the workload blue/wl-b: it goes first",
				)},
				{Type: mod, Object: workload("a", nil, "QuotaReserved=False/Pending/x", "Evicted=True/Preempted/x")},
			},
			want: []Moment{
				{What: Queued, Job: "blue/b"},
				{What: Queued, Job: "blue/a"},
				{What: Waits, Job: "blue/a", Reason: "WaitingForQuota", Message: "no GPUs"},
				{What: Admitted, Job: "blue/a", Node: "node-0 node-1"},
				{What: Evicted, Job: "blue/a", Reason: "InClusterQueue", Message: "x", For: "blue/b"},
				{What: Released, Job: "blue/a"},
				{What: Waits, Job: "blue/a", Reason: "Pending", Message: "x"},
			},
		},
		"a workload gives way to another team's": {
			why: "a message that teams of others may read names it by its UID",
			events: []watch.Event{
				{Type: add, Object: workload("b", nil)},
				{Type: add, Object: workload("a", []string{"1"}, "QuotaReserved=True/QuotaReserved/ok")},
				{
					Type: mod,
					Object: workload(
						"a",
						[]string{"1"},
						"QuotaReserved=True/QuotaReserved/ok",
						"Evicted=True/Preempted/x",
						"Preempted=True/InCohortReclamation/Preempted to accommodate a workload of ClusterQueue red (UID: uid-b): it takes back quota",
					),
				},
			},
			want: []Moment{
				{What: Queued, Job: "blue/b"},
				{What: Queued, Job: "blue/a"},
				{What: Admitted, Job: "blue/a", Node: "node-1"},
				{What: Evicted, Job: "blue/a", Reason: "InCohortReclamation", Message: "x", For: "blue/b"},
			},
		},
		"a pod runs and is removed": {
			why: "a pod is gone when it is gone, not when its deletion begins",
			events: []watch.Event{
				{Type: add, Object: pod(corev1.PodPending)},
				{Type: mod, Object: pod(corev1.PodRunning)},
				{Type: mod, Object: leaving(pod(corev1.PodRunning))},
				{Type: del, Object: leaving(pod(corev1.PodRunning))},
			},
			want: []Moment{
				{What: PodRuns, Job: "blue/a", Pod: "p", Node: "node-1", GPUs: 4},
				{What: PodLeaves, Job: "blue/a", Pod: "p", Node: "node-1", GPUs: 4},
				{What: PodEnded, Job: "blue/a", Pod: "p", Node: "node-1", GPUs: 4},
			},
		},
		"a pod succeeds": {
			why: "its GPUs are free from then on, and its deletion later tells nothing new",
			events: []watch.Event{
				{Type: add, Object: pod(corev1.PodRunning)},
				{Type: mod, Object: pod(corev1.PodSucceeded)},
				{Type: del, Object: pod(corev1.PodSucceeded)},
			},
			want: []Moment{
				{
					What: PodRuns,
					Job:  "blue/a",
					Pod:  "p",
					Node: "node-1",
					GPUs: 4,
				},
				{What: PodEnded, Job: "blue/a", Pod: "p", Node: "node-1", GPUs: 4},
			},
		},
		"a node goes bad and is mended": {
			why: "a label that was never there is no news",
			events: []watch.Event{
				{Type: add, Object: node("")},
				{Type: mod, Object: node("EVICT")},
				{Type: mod, Object: node("EVICT")},
				{Type: mod, Object: node("")},
			},
			want: []Moment{{What: Labelled, Node: "node-1", Reason: "EVICT"}, {What: Labelled, Node: "node-1"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := newObserver()
			var got []Moment
			for _, e := range c.events {
				got = append(got, o.observe(e)...)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Moment{})); diff != "" {
				t.Errorf("%s\n%s", c.why, diff)
			}
		})
	}
}

func TestRecorderFollowsTheCluster(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	r, err := Record(ctx, c, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Wait()
	defer cancel()

	told := make(chan Moment, 8)
	r.Begin(func(m Moment) { told <- m })
	aw := wrapper("")
	aw.ResourceVersion = ""
	if err := c.Create(ctx, aw); err != nil {
		t.Fatal(err)
	}
	arrived := func(t Timeline) bool { return len(t.jobs("blue/")) == 1 }
	if err := r.Until(ctx, "the job appears", arrived); err != nil {
		t.Fatal(err)
	}
	if m := <-told; m.What != Submitted || m.Who != "alice" {
		t.Errorf("told %+v", m)
	}
	if err := c.Delete(ctx, aw, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if err := r.Until(
		ctx,
		"the job is gone",
		func(t Timeline) bool { return t.stand("blue/a").removed },
	); err != nil {
		t.Fatal(err)
	}
}

func TestUntilEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Record(
		ctx,
		fake.NewClientBuilder().WithScheme(scheme.New()).Build(),
		clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
	)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	r.Wait()
	if err := r.Until(
		ctx,
		"pigs fly",
		func(Timeline) bool { return false },
	); err == nil ||
		!strings.Contains(err.Error(), "pigs fly") {
		t.Errorf("got %v, want an error that says what was waited for", err)
	}
}

func TestPrinterLeavesOutSinglePods(t *testing.T) {
	var out strings.Builder
	p := newPrinter(&out)
	for _, m := range story(t, `
		0.1 blue/short-1 holds n0
		0.4 blue/short-2 holds-off
		0.5 blue/short-2 waits still the same
		1.0 n0 label EVICT
		3.0 blue/short-1 evicted InClusterQueue blue/short-2
		3.1 blue/short-1 released
	`) {
		p.tell(m)
	}
	want := `   0.1s  blue/short-1           submitted by alice
   0.1s  blue/short-1           admitted on n0
   0.1s  blue/short-1           runs: 2 pods on n0
   0.4s  blue/short-2           submitted by alice
   0.4s  blue/short-2           waits: no quota
   1.0s  n0                     label autopilot.ibm.com/gpuhealth: EVICT
   3.0s  blue/short-1           evicted for blue/short-2 (InClusterQueue)
   3.1s  blue/short-1           gave its quota back
   3.1s  blue/short-1           waits: no quota
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
