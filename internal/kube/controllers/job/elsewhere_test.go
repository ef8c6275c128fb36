package job

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// TestRunElsewhere: a job that another controller runs has its admission in its own templates
// while it runs, and never otherwise; where its pods are made here, never at all.
func TestRunElsewhere(t *testing.T) {
	operator := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kubeflow", Name: "operator"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Image: "kubeflow/training-operator:v1-8a066f9"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for name, tc := range map[string]struct {
		why      string
		mode     jobs.Mode
		objects  []client.Object
		injected bool
	}{
		"here":             {"the pods get it when they are made", jobs.Run, nil, false},
		"by configuration": {"whoever that is", jobs.Queue, nil, true},
		"by sight":         {"it is left to that operator, which knows nothing of Workloads", jobs.Run, []client.Object{operator}, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := &api.PyTorchJob{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "blue",
					Name:      "x",
					UID:       "x",
					Labels:    map[string]string{kueue.QueueNameLabel: "q"},
				},
				Spec: api.PyTorchJobSpec{
					RunPolicy: api.RunPolicy{Suspend: new(true)},
					PyTorchReplicaSpecs: map[api.ReplicaType]*api.ReplicaSpec{api.RoleWorker: {
						Replicas: new(int32(2)), Template: corev1.PodTemplateSpec{
							ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"mine": "x"}},
							Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pytorch", Image: "x"}}},
						},
					}},
				},
			}
			b := newElsewhere(t, tc.mode, append(tc.objects, x)...)
			author := b.look(t).Spec.PyTorchReplicaSpecs
			for range 2 { // and once more, after an eviction
				b.admit(t)
				is := b.look(t)
				pods := is.Spec.PyTorchReplicaSpecs[api.RoleWorker].Template
				if *is.Spec.RunPolicy.Suspend || jobs.Injected(&pods) != tc.injected {
					t.Fatalf("%s: it runs with %+v, suspended: %v", tc.why, pods.ObjectMeta, *is.Spec.RunPolicy.Suspend)
				}
				if tc.injected && (pods.Labels[kueue.PodSetLabel] != "worker" || pods.Labels["mine"] != "x") {
					t.Errorf("%s: its pods are labelled %v", tc.why, pods.Labels)
				}
				b.evict(t)
				is = b.look(t)
				if !*is.Spec.RunPolicy.Suspend || !equality.Semantic.DeepEqual(is.Spec.PyTorchReplicaSpecs, author) {
					t.Fatalf(
						"stopped, suspended: %v (-author +is):\n%s",
						*is.Spec.RunPolicy.Suspend,
						cmp.Diff(author, is.Spec.PyTorchReplicaSpecs),
					)
				}
				if w := b.workload(
					t,
				); w.Status.Admission != nil ||
					w.Spec.PodSets[0].Template.Labels[kueue.PodSetLabel] != "" {
					t.Errorf("it waits with %+v", w.Spec.PodSets[0].Template.ObjectMeta)
				}
			}
		})
	}
}

// elsewhere is a reconciler of PyTorchJobs.
type elsewhere struct {
	*reconciler
	c client.Client
}

func newElsewhere(t *testing.T, mode jobs.Mode, objects ...client.Object) elsewhere {
	t.Helper()
	all := kinds.All()
	k := pytorchjob.Kind()
	k.Queueing.Mode = mode
	objects = append(
		objects,
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kubeflow"}},
	)
	c := fake.NewClientBuilder().
		WithScheme(scheme.For(all)).
		WithObjects(objects...).
		WithStatusSubresource(&kueue.Workload{}).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		WithIndex(&corev1.Pod{}, foreign.Index, foreign.IndexImages(all.Others())).
		Build()
	return elsewhere{&reconciler{kind: &k, adapter: restoring(&k), opts: Options{
		Client:   c,
		Live:     c,
		Recorder: events.NewFakeRecorder(100),
		Clock:    clocktesting.NewFakePassiveClock(now),
		Parents:  all.Parents(),
		Managed:  func(string, string) bool { return true },
		Ended:    func(*kueue.Workload) {},
		Told:     func(*kueue.Workload, workloadlifecycle.Event) {},
	}}, c}
}

// look reconciles the job until it comes to rest, and returns it.
func (b elsewhere) look(t *testing.T) *api.PyTorchJob {
	t.Helper()
	name := types.NamespacedName{Namespace: "blue", Name: "x"}
	for range 8 {
		if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
			t.Fatal(err)
		}
	}
	var x api.PyTorchJob
	if err := b.c.Get(t.Context(), name, &x); err != nil {
		t.Fatal(err)
	}
	return &x
}

func (b elsewhere) workload(t *testing.T) *kueue.Workload {
	t.Helper()
	var ws kueue.WorkloadList
	if err := b.c.List(t.Context(), &ws); err != nil || len(ws.Items) != 1 {
		t.Fatalf("%d workloads: %v", len(ws.Items), err)
	}
	return &ws.Items[0]
}

func (b elsewhere) admit(t *testing.T) {
	t.Helper()
	w := b.workload(t)
	w.Status.Admission = &kueue.Admission{
		ClusterQueue:      "cq",
		PodSetAssignments: []kueue.PodSetAssignment{{Name: "worker", Count: new(int32(2))}},
	}
	b.say(t, w, map[string]metav1.ConditionStatus{
		kueue.WorkloadQuotaReserved: metav1.ConditionTrue,
		kueue.WorkloadAdmitted:      metav1.ConditionTrue,
		kueue.WorkloadEvicted:       metav1.ConditionFalse,
	})
}

func (b elsewhere) evict(t *testing.T) {
	t.Helper()
	b.say(t, b.workload(t), map[string]metav1.ConditionStatus{kueue.WorkloadEvicted: metav1.ConditionTrue})
}

func (b elsewhere) say(t *testing.T, w *kueue.Workload, conditions map[string]metav1.ConditionStatus) {
	t.Helper()
	for kind, status := range conditions { // each is another one
		apimeta.SetStatusCondition(
			&w.Status.Conditions,
			metav1.Condition{Type: kind, Status: status, Reason: "Preempted"},
		)
	}
	if err := b.c.Status().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}
