package basis

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

type bench struct {
	*reconciler
	told *events.FakeRecorder
}

func newBench(objects ...client.Object) bench {
	objects = append(objects,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}},
	)
	all := jobs.Kinds{trainjob.Kind()}
	c := fake.NewClientBuilder().WithScheme(scheme.For(all)).WithObjects(objects...).WithStatusSubresource(&api.TrainJob{}).Build()
	told := events.NewFakeRecorder(20)
	return bench{&reconciler{Options{Client: c, Live: c, Recorder: told, SchedulerName: "ours"}, &all[0]}, told}
}

func aJob(namespace, kind, runtime string) *api.TrainJob {
	return &api.TrainJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tj", UID: "u"},
		Spec:       api.TrainJobSpec{RuntimeRef: api.RuntimeRef{Name: runtime, Kind: &kind}},
	}
}

func spec() api.TrainingRuntimeSpec {
	return api.TrainingRuntimeSpec{Template: api.JobSetTemplate{Spec: jobset.JobSetSpec{ReplicatedJobs: []jobset.ReplicatedJob{{Name: "node"}}}}}
}

func inCluster(name string) *api.ClusterTrainingRuntime {
	return &api.ClusterTrainingRuntime{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "r"}, Spec: spec()}
}

func inNamespace(namespace, name string) *api.TrainingRuntime {
	return &api.TrainingRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "r"}, Spec: spec()}
}

func (b bench) run(t *testing.T, namespace string) (*api.TrainJob, error) {
	t.Helper()
	name := types.NamespacedName{Namespace: namespace, Name: "tj"}
	_, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: name})
	o := &api.TrainJob{}
	if err := b.Client.Get(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
	return o, err
}

func (b bench) said() string {
	select {
	case e := <-b.told.Events:
		return e
	default:
		return ""
	}
}

// TestRecords: what a job names is written into it, once.
func TestRecords(t *testing.T) {
	const cluster, namespaced = "ClusterTrainingRuntime", "TrainingRuntime"
	now := metav1.Now()
	leaving := aJob("blue", cluster, "r")
	leaving.DeletionTimestamp, leaving.Finalizers = &now, []string{"a.b/c"}
	foreign := aJob("blue", cluster, "r")
	foreign.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue")
	done := aJob("blue", cluster, "r")
	done.Status.Runtime = &api.ResolvedRuntime{Name: "before"}
	queued := aJob("lab", cluster, "r")
	queued.Labels = map[string]string{kueue.QueueNameLabel: "q"}
	for name, tc := range map[string]struct {
		why             string
		job             *api.TrainJob
		runtime         client.Object
		want, scheduler string
		said            string
	}{
		"cluster":    {"it is for all namespaces", aJob("blue", cluster, "r"), inCluster("r"), "r", "ours", ""},
		"namespace":  {"it is for its own", aJob("blue", namespaced, "r"), inNamespace("blue", "r"), "r", "ours", ""},
		"another's":  {"and for no other", aJob("blue", namespaced, "r"), inNamespace("lab", "r"), "", "", "until there is a TrainingRuntime r: correct spec.runtimeRef.name"},
		"other kind": {"the kind is said", aJob("blue", namespaced, "r"), inCluster("r"), "", "", "until there is a TrainingRuntime r"},
		"none":       {"it waits", aJob("blue", cluster, "x"), inCluster("r"), "", "", "until there is a ClusterTrainingRuntime x"},
		"nothing":    {"that is no runtime", aJob("blue", "JobSet", "r"), inCluster("r"), "", "", "There are no JobSets"},
		"not queued": {"whose scheduler is its own business", aJob("lab", cluster, "r"), inCluster("r"), "r", "", ""},
		"in a queue": {"whose is not", queued, inCluster("r"), "r", "ours", ""},
		"leaving":    {"it is going", leaving, inCluster("r"), "", "", ""},
		"foreign":    {"it is run elsewhere", foreign, inCluster("r"), "", "", ""},
		"once":       {"what is recorded stays", done, inCluster("r"), "before", "", ""},
	} {
		b := newBench(tc.job, tc.runtime)
		got, err := b.run(t, tc.job.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		recorded, scheduler := "", ""
		if r := got.Status.Runtime; r != nil {
			recorded = r.Name
			for _, j := range r.Spec.Template.Spec.ReplicatedJobs {
				scheduler = j.Template.Spec.Template.Spec.SchedulerName
			}
		}
		if said := b.said(); recorded != tc.want || scheduler != tc.scheduler || !strings.Contains(said, tc.said) || tc.said == "" && said != "" {
			t.Errorf("%s: %s: recorded %q with scheduler %q, said %q", name, tc.why, recorded, scheduler, said)
		}
	}
}

// TestWakes: jobs that wait are looked at when what they wait for comes.
func TestWakes(t *testing.T) {
	done := aJob("lab", "ClusterTrainingRuntime", "r")
	done.Name, done.Status.Runtime = "done", &api.ResolvedRuntime{Name: "r"}
	other := aJob("lab", "ClusterTrainingRuntime", "other")
	other.Name = "other"
	b := newBench(aJob("blue", "ClusterTrainingRuntime", "r"), aJob("lab", "TrainingRuntime", "r"), done, other)
	kinds := b.kind.Basis.Kinds
	for name, tc := range map[string]struct {
		kind *jobs.BasisKind
		came client.Object
		want string
	}{
		"cluster":           {&kinds[0], inCluster("r"), "blue/tj"},
		"namespace":         {&kinds[1], inNamespace("lab", "r"), "lab/tj"},
		"another namespace": {&kinds[1], inNamespace("blue", "r"), ""},
		"another name":      {&kinds[0], inCluster("s"), ""},
	} {
		var got []string
		for _, r := range b.waiting(tc.kind)(t.Context(), tc.came) {
			got = append(got, r.String())
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: woke %v, not %s", name, got, tc.want)
		}
	}
	if p := comes(); !p.Create(event.CreateEvent{}) || p.Update(event.UpdateEvent{}) || p.Delete(event.DeleteEvent{}) || p.Generic(event.GenericEvent{}) {
		t.Error("a changed runtime wakes jobs")
	}
}

// TestOvertaken: a write that was overtaken is not repeated: what was written comes to be
// looked at. Other failures are told.
func TestOvertaken(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		told bool
	}{
		"conflict": {apierrors.NewConflict(schema.GroupResource{}, "tj", nil), false},
		"gone":     {apierrors.NewNotFound(schema.GroupResource{}, "tj"), false},
		"down":     {apierrors.NewServiceUnavailable("down"), true},
	} {
		b := newBench(aJob("blue", "ClusterTrainingRuntime", "r"), inCluster("r"))
		live, _ := b.Client.(client.WithWatch)
		b.Client = interceptor.NewClient(live, interceptor.Funcs{
			SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
				return tc.err
			},
		})
		if _, err := b.run(t, "blue"); (err != nil) != tc.told {
			t.Errorf("%s: %v", name, err)
		}
	}
}
