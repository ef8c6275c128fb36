package decision_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	source "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/decision"
)

// watches are informers over objects that a test puts there.
type watches struct {
	cache.Cache // nothing else is asked for

	sources   map[reflect.Type]*source.FakeControllerSource
	informers map[reflect.Type]toolscache.SharedIndexInformer
	running   map[reflect.Type]bool
}

func (w *watches) source(o client.Object) *source.FakeControllerSource {
	kind := reflect.TypeOf(o)
	if w.sources[kind] == nil {
		w.sources[kind] = source.NewFakeControllerSource()
		w.informers[kind] = toolscache.NewSharedIndexInformer(w.sources[kind], o, 0, nil)
	}
	return w.sources[kind]
}

func (w *watches) GetInformer(
	ctx context.Context,
	o client.Object,
	_ ...cache.InformerGetOption,
) (cache.Informer, error) {
	w.source(o)
	kind := reflect.TypeOf(o)
	if !w.running[kind] {
		if w.running == nil {
			w.running = map[reflect.Type]bool{}
		}
		w.running[kind] = true
		go w.informers[kind].RunWithContext(ctx)
	}
	return w.informers[kind], nil
}

func waiting(name string, priority int32) *kueue.Workload {
	return &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name, UID: types.UID(name)},
		Spec: kueue.WorkloadSpec{
			QueueName: "local",
			Priority:  &priority,
			Active:    new(true),
			PodSets: []kueue.PodSet{
				{
					Name:  "main",
					Count: 1,
					Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
						{
							Name: "c",
							Resources: corev1.ResourceRequirements{
								Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
							},
						},
					}}},
				},
			},
		},
	}
}

func admitted(w *kueue.Workload) *kueue.Workload {
	w.Status.Admission = &kueue.Admission{ClusterQueue: "q", PodSetAssignments: []kueue.PodSetAssignment{
		{
			Name:          "main",
			Count:         new(int32(1)),
			Flavors:       map[corev1.ResourceName]kueue.ResourceFlavorReference{corev1.ResourceCPU: "f"},
			ResourceUsage: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		},
	}}
	for _, c := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
		w.Status.Conditions = append(
			w.Status.Conditions,
			metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: c},
		)
	}
	return w
}

func (w *watches) put(objects ...client.Object) {
	for _, o := range objects {
		w.source(o).Add(o)
	}
}

// TestFollower lets a process that does not decide answer what waits, and forget
// it when it decides itself.
func TestFollower(t *testing.T) {
	w := &watches{
		sources:   map[reflect.Type]*source.FakeControllerSource{},
		informers: map[reflect.Type]toolscache.SharedIndexInformer{},
	}
	w.put(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}},
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "f"}},
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			ResourceGroups: []kueue.ResourceGroup{
				{CoveredResources: []corev1.ResourceName{"cpu"}, Flavors: []kueue.FlavorQuotas{{
					Name: "f", Resources: []kueue.ResourceQuota{{Name: "cpu", NominalQuota: resource.MustParse("1")}},
				}}},
			},
		}},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "local"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "q"},
		},
		waiting("low", 1),
		waiting("high", 9),
		waiting("middle", 5),
	)
	until := make(chan struct{})
	f := decision.NewFollower(
		decision.FollowerOptions{Cache: w, Clock: clock.RealClock{}, Until: until, Pause: time.Millisecond},
	)
	if f.NeedLeaderElection() {
		t.Error("a process that leads needs no follower")
	}
	ask := decision.Answers{Loop: decision.New(decision.Options{Clock: clock.RealClock{}}), Follower: f}
	if _, _, err := ask.Line("q"); err == nil {
		t.Error("an answer before the picture is whole")
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Start(t.Context()) }()

	line := func(why string, want ...string) {
		t.Helper()
		var got []string
		err := wait.PollUntilContextTimeout(
			t.Context(),
			time.Millisecond,
			30*time.Second,
			true,
			func(context.Context) (bool, error) {
				all, known, err := ask.Line("q")
				got = nil
				for _, x := range all {
					got = append(got, x.Key.Name)
				}
				return err == nil && known && cmp.Equal(want, got), nil
			},
		)
		if err != nil {
			t.Fatalf("%s: the line is %v, want %v", why, got, want)
		}
	}
	line("by priority, whether there is quota or not", "high", "middle", "low")
	if q, known, err := ask.QueueOf("blue", "local"); q != "q" || !known || err != nil {
		t.Errorf("the local queue leads to %q, %v, %v", q, known, err)
	}
	w.source(&kueue.Workload{}).Modify(admitted(waiting("high", 9)))
	line("another process admitted the first", "middle", "low")
	if c, known := ask.Stats(); !known || len(c.Queues) != 1 ||
		c.Queues[0].Pending[0].Amount != core.Amount(2000) {
		t.Errorf("two wait for a core each, the stats say %+v, %v", c, known)
	}

	close(until)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask.Line("q"); err == nil {
		t.Error("an answer of a follower that does not follow")
	}
}

// A process that leads as soon as it can makes no picture to follow with: it is told that it decides before
// it is told that another process does. (It would panic, there is nothing to watch.)
func TestLeaderNeedsNoFollower(t *testing.T) {
	until := make(chan struct{})
	f := decision.NewFollower(
		decision.FollowerOptions{Clock: clock.RealClock{}, From: make(chan struct{}), Until: until},
	)
	close(until)
	if err := f.Start(t.Context()); err != nil {
		t.Error(err)
	}
}
