package basis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	ray "github.com/mlbatch/mlbatch/api/ray/v1"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

type bench struct {
	*reconciler
	told *events.FakeRecorder
}

func newBench(objects ...client.Object) bench {
	objects = append(
		objects,
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}},
	)
	all := jobs.Kinds{trainjob.Kind()}
	c := fake.NewClientBuilder().
		WithScheme(scheme.For(all)).
		WithObjects(objects...).
		WithStatusSubresource(&api.TrainJob{}).
		Build()
	told := events.NewFakeRecorder(20)
	return bench{
		&reconciler{
			Options{Client: c, Live: c, Recorder: told, Schedulers: jobs.Schedulers{Given: "ours"}},
			&all[0],
		},
		told,
	}
}

func aJob(namespace, kind, runtime string) *api.TrainJob {
	return &api.TrainJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tj", UID: "u"},
		Spec:       api.TrainJobSpec{RuntimeRef: api.RuntimeRef{Name: runtime, Kind: &kind}},
	}
}

func spec() api.TrainingRuntimeSpec {
	return api.TrainingRuntimeSpec{
		Template: api.JobSetTemplate{
			Spec: jobset.JobSetSpec{ReplicatedJobs: []jobset.ReplicatedJob{{Name: "node"}}},
		},
	}
}

func inCluster(name string) *api.ClusterTrainingRuntime {
	return &api.ClusterTrainingRuntime{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "r"}, Spec: spec()}
}

func inNamespace(namespace, name string) *api.TrainingRuntime {
	return &api.TrainingRuntime{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "r"},
		Spec:       spec(),
	}
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
		if r := runtimeOf(t, got); r != nil {
			recorded = r.Name
			for _, j := range r.Spec.Template.Spec.ReplicatedJobs {
				scheduler = j.Template.Spec.Template.Spec.SchedulerName
			}
		}
		if said := b.said(); recorded != tc.want || scheduler != tc.scheduler || !strings.Contains(said, tc.said) ||
			tc.said == "" && said != "" {
			t.Errorf("%s: %s: recorded %q with scheduler %q, said %q", name, tc.why, recorded, scheduler, said)
		}
	}
}

// TestAnnotates: a RayJob that names a cluster has its image once that is there, in an annotation: the
// status may be another controller's, and its fields are not touched.
func TestAnnotates(t *testing.T) {
	all := jobs.Kinds{rayjob.Kind(), raycluster.Kind()}
	j := &ray.RayJob{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "rj", UID: "u"}}
	j.Spec.Entrypoint, j.Spec.ClusterSelector, j.Status.Message = "x", map[string]string{
		"ray.io/cluster": "c",
	}, "theirs"
	c := fake.NewClientBuilder().
		WithScheme(scheme.For(all)).
		WithObjects(j, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}).
		WithStatusSubresource(j).
		Build()
	told := events.NewFakeRecorder(20)
	b := bench{&reconciler{Options{Client: c, Live: c, Recorder: told}, &all[0]}, told}
	name := client.ObjectKeyFromObject(j)
	look := func() *ray.RayJob {
		t.Helper()
		if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
			t.Fatal(err)
		}
		is := &ray.RayJob{}
		if err := c.Get(t.Context(), name, is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	if is := look(); !b.kind.Queueing.Basis.Missing(is) {
		t.Errorf("%v", is.Annotations)
	}
	if said := b.said(); !strings.Contains(
		said,
		"until there is a RayCluster c: correct spec.clusterSelector[ray.io/cluster], or create it",
	) {
		t.Error(said)
	}
	cluster := &ray.RayCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "c"}}
	cluster.Spec.HeadGroupSpec.Template.Spec.Containers = []corev1.Container{
		{Name: "ray", Image: "rayproject/ray:2"},
	}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if woken := b.waiting(&b.kind.Queueing.Basis.Kinds[0])(t.Context(), cluster); len(woken) != 1 {
		t.Errorf("%v are woken", woken)
	}
	is := look()
	if f, err := b.kind.Read(
		is,
	); err != nil || f.PodSets[0].Template.Spec.Containers[0].Image != "rayproject/ray:2" ||
		is.Status.Message != "theirs" {
		t.Errorf("%v, %+v", err, is)
	}
}

// TestWakes: jobs that wait are looked at when what they wait for comes.
func TestWakes(t *testing.T) {
	done := aJob("lab", "ClusterTrainingRuntime", "r")
	done.Name, done.Status.Runtime = "done", &api.ResolvedRuntime{Name: "r"}
	other := aJob("lab", "ClusterTrainingRuntime", "other")
	other.Name = "other"
	b := newBench(aJob("blue", "ClusterTrainingRuntime", "r"), aJob("lab", "TrainingRuntime", "r"), done, other)
	kinds := b.kind.Queueing.Basis.Kinds
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
	if p := comes(); !p.Create(event.CreateEvent{}) || p.Update(event.UpdateEvent{}) ||
		p.Delete(event.DeleteEvent{}) ||
		p.Generic(event.GenericEvent{}) {
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
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return tc.err
			},
		})
		if _, err := b.run(t, "blue"); (err != nil) != tc.told {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecordsOfAppWrappers: what its components name is written into an AppWrapper, one after
// the other, and what it creates has it from there, whatever the runtime has become.
func TestRecordsOfAppWrappers(t *testing.T) {
	all := jobs.Kinds{trainjob.Kind(), appwrapper.Kind()}
	template := func(name, named string) aw.AppWrapperComponent {
		return aw.AppWrapperComponent{Template: runtime.RawExtension{Raw: fmt.Appendf(
			nil,
			`{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"name":%q},"spec":{"runtimeRef":{"name":%q,"kind":"TrainingRuntime"}}}`,
			name,
			named,
		)}}
	}
	w := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w", UID: "w"}}
	w.Spec.Components = []aw.AppWrapperComponent{template("a", "r"), template("b", "s")}
	part := aJob("blue", "TrainingRuntime", "r")
	part.Name = "a"
	part.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(w, aw.GroupVersion.WithKind(aw.AppWrapperKind)),
	}
	first := inNamespace("blue", "r")
	c := fake.NewClientBuilder().
		WithScheme(scheme.For(all)).
		WithStatusSubresource(&api.TrainJob{}, &aw.AppWrapper{}).
		WithObjects(
			&corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
			},
			w,
			first,
			inNamespace("lab", "s"),
			part,
		).
		Build()
	told := events.NewFakeRecorder(20)
	look := func(kind int, name string) {
		t.Helper()
		r := &reconciler{
			Options{Client: c, Live: c, Recorder: told, Schedulers: jobs.Schedulers{Given: "ours"}},
			&all[kind],
		}
		if _, err := r.Reconcile(
			t.Context(),
			reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: name}},
		); err != nil {
			t.Fatal(err)
		}
	}
	recorded := func() (out []bool) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			t.Fatal(err)
		}
		for _, s := range w.Status.ComponentStatus {
			out = append(out, s.Basis != nil)
		}
		return out
	}
	look(1, "w")
	look(1, "w")
	if got := recorded(); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("with the runtime of another namespace: recorded %v", got)
	}
	select {
	case said := <-told.Events:
		if !strings.Contains(said, "spec.components[1].template.spec.runtimeRef.name") {
			t.Errorf("it said %q", said)
		}
	default:
		t.Error("nothing was said of the runtime that is not there")
	}
	if err := c.Create(t.Context(), inNamespace("blue", "s")); err != nil {
		t.Fatal(err)
	}
	look(1, "w")
	if got := recorded(); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("when it has come: recorded %v", got)
	}
	first.Spec.Template.Spec.ReplicatedJobs = append(
		first.Spec.Template.Spec.ReplicatedJobs,
		jobset.ReplicatedJob{Name: "more", Replicas: new(int32(99))},
	)
	if err := c.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	look(0, "a")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(part), part); err != nil {
		t.Fatal(err)
	}
	if r := runtimeOf(t, part); r == nil || len(r.Spec.Template.Spec.ReplicatedJobs) != 1 ||
		r.Spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.SchedulerName != "ours" {
		t.Errorf("the component runs by %v", r)
	}
}

// runtimeOf is the runtime that is recorded of a job.
func runtimeOf(t *testing.T, job *api.TrainJob) *api.ResolvedRuntime {
	t.Helper()
	text, is := job.Annotations["mlbatch.dev/training-runtime"]
	if !is {
		return job.Status.Runtime
	}
	out := &api.ResolvedRuntime{}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRuntimesAreRecordedUnderTheDefinitionOfOthers: it has no place for them in the status.
func TestRuntimesAreRecordedUnderTheDefinitionOfOthers(t *testing.T) {
	b := newBench(aJob("blue", api.ClusterTrainingRuntimeKind, "torch"), inCluster("torch"))
	inner, _ := b.Client.(client.WithWatch)
	b.Client = interceptor.NewClient(
		inner,
		interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if job, is := o.(*api.TrainJob); is {
					job.Status.Runtime = nil
				}
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		},
	)
	got, err := b.run(t, "blue")
	if err != nil {
		t.Fatal(err)
	}
	if r := runtimeOf(t, got); r == nil || r.Name != "torch" || b.kind.Queueing.Basis.Missing(got) {
		t.Errorf("recorded is %v", r)
	}
	if f, err := b.kind.Read(got); err != nil || len(f.PodSets) == 0 {
		t.Errorf("it is read as %+v, %v", f, err)
	}
}

// TestRuntimesThatAreTooLargeAreTold: annotations have a limit.
func TestRuntimesThatAreTooLargeAreTold(t *testing.T) {
	b := newBench(aJob("blue", api.ClusterTrainingRuntimeKind, "torch"), inCluster("torch"))
	inner, _ := b.Client.(client.WithWatch)
	b.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return apierrors.NewInvalid(api.GroupVersion.WithKind(api.TrainJobKind).GroupKind(), o.GetName(), nil)
		},
	})
	if _, err := b.run(t, "blue"); err != nil {
		t.Fatal(err)
	}
	if said := b.said(); !strings.Contains(
		said,
		"BasisNotRecorded What it is based on cannot be recorded in it",
	) {
		t.Errorf("it said %q", said)
	}
}
