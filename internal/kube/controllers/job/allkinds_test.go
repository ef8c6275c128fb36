package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	trainer "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// samples are a job of each kind. SIZE is how many workers it has, IMAGE what they run, and ROLE is
// where further workers would be.
func samples() map[string]struct{ spec, role string } {
	const pod = "template: {spec: {containers: [{name: NAME, image: IMAGE}]}}"
	of := func(name string) string { return strings.Replace(pod, "NAME", name, 1) }
	const ray = "{headGroupSpec: {rayStartParams: {}, HEAD}, workerGroupSpecs: [{groupName: g, replicas: SIZE, minReplicas: 0, maxReplicas: 9, rayStartParams: {}, HEAD} ROLE]}"
	cluster := strings.ReplaceAll(ray, "HEAD", of("c"))
	group := ", {groupName: h, replicas: 2, minReplicas: 0, maxReplicas: 9, rayStartParams: {}, " + of("c") + "}"
	return map[string]struct{ spec, role string }{
		"AppWrapper": {
			"components: [{template: {apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {parallelism: SIZE, template: {spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE}]}}}}} ROLE]",
			", {template: {apiVersion: v1, kind: Pod, metadata: {name: y}, spec: {containers: [{name: c, image: IMAGE}]}}}",
		},
		"Job": {
			"parallelism: SIZE, template: {spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE}]}}",
			"",
		},
		"PyTorchJob": {
			"pytorchReplicaSpecs: {Worker: {replicas: SIZE, " + of("pytorch") + "} ROLE}",
			", Master: {" + of("pytorch") + "}",
		},
		"TFJob": {
			"tfReplicaSpecs: {Worker: {replicas: SIZE, " + of("tensorflow") + "} ROLE}",
			", PS: {" + of("tensorflow") + "}",
		},
		"XGBoostJob": {
			"xgbReplicaSpecs: {Master: {" + of("xgboost") + "}, Worker: {replicas: SIZE, " + of("xgboost") + "}}",
			"",
		},
		"PaddleJob": {
			"paddleReplicaSpecs: {Worker: {replicas: SIZE, " + of("paddle") + "} ROLE}",
			", Master: {" + of("paddle") + "}",
		},
		"JAXJob": {"jaxReplicaSpecs: {Worker: {replicas: SIZE, " + of("jax") + "}}", ""},
		"MPIJob": {
			"mpiReplicaSpecs: {Launcher: {" + of("mpi") + "}, Worker: {replicas: SIZE, " + of("mpi") + "}}",
			"",
		},
		"RayCluster": {strings.TrimSuffix(strings.TrimPrefix(cluster, "{"), "}"), group},
		"RayJob":     {"entrypoint: x, rayClusterSpec: " + cluster, group},
		"RayService": {
			"serveConfigV2: 'applications: [{name: a, import_path: a:b}]', rayClusterConfig: " + cluster,
			group,
		},
		"JobSet": {
			"replicatedJobs: [{name: a, template: {spec: {parallelism: SIZE, completions: SIZE, completionMode: Indexed, " + of(
				"c",
			) + "}}} ROLE]",
			", {name: b, template: {spec: {" + of("c") + "}}}",
		},
		"TrainJob": {"runtimeRef: {name: r}, trainer: {numNodes: SIZE, image: IMAGE}", ""},
	}
}

// world is a job of a kind among what the reconciler looks at.
type world struct {
	*testing.T
	kind *jobs.Kind
	r    *reconciler
	c    client.Client
}

func kindWorld(t *testing.T, k jobs.Kind, objects ...client.Object) *world {
	t.Helper()
	c := fake.NewClientBuilder().
		WithScheme(scheme.For(kinds.All())).
		WithObjects(objects...).
		WithStatusSubresource(&kueue.Workload{}).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		WithIndex(&corev1.Pod{}, foreign.Index, foreign.IndexImages(kinds.All().Others())).
		Build()
	clock := clocktesting.NewFakePassiveClock(now)
	return &world{t, &k, &reconciler{kind: &k, adapter: restoring(&k), passed: newPassed(clock), opts: Options{
		Client:   c,
		Live:     c,
		Recorder: events.NewFakeRecorder(1000),
		Clock:    clock,
		Parents:  kinds.All().Parents(),
		Kinds:    kinds.All(),
		Managed:  func(string, string) bool { return true },
		Ended:    func(*kueue.Workload) {},
		Told:     func(*kueue.Workload, workloadlifecycle.Event) {},
	}}, c}
}

// sample is the job of a kind of so many workers.
func sample( //nolint:revive // what it has
	t *testing.T,
	k *jobs.Kind,
	size int,
	image string,
	role bool,
) jobs.Object {
	t.Helper()
	s, known := samples()[k.GVK().Kind]
	if !known {
		t.Fatalf("there is no sample of a %s: add one", k.GVK().Kind)
	}
	more := ""
	if role {
		more = s.role
	}
	text := strings.NewReplacer("SIZE", fmt.Sprint(size), "IMAGE", image).
		Replace(strings.ReplaceAll(s.spec, "ROLE", more))
	o := k.New()
	head := fmt.Sprintf(
		"{apiVersion: %s, kind: %s, metadata: {name: x, namespace: blue, uid: u, labels: {kueue.x-k8s.io/queue-name: q}}, spec: {%s}}",
		k.GVK().GroupVersion(),
		k.GVK().Kind,
		text,
	)
	if err := yaml.UnmarshalStrict([]byte(head), o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if k.Queueing.Basis != nil {
		r := &trainer.ClusterTrainingRuntime{}
		if err := yaml.UnmarshalStrict(
			[]byte(
				`{metadata: {name: r}, spec: {mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}]}}}}`,
			),
			r,
		); err != nil {
			t.Fatal(err)
		}
		o = k.Queueing.Basis.With(o, r, jobs.Schedulers{})
	}
	if !k.Queueing.Suspended(o) {
		held, err := k.Stop(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	return o
}

func (w *world) settle() {
	w.Helper()
	for range 8 {
		w.record()
		if _, err := w.r.Reconcile(
			w.Context(),
			reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "x"}},
		); err != nil {
			w.Fatal(err)
		}
	}
}

// record does what package history does with Workloads that are being deleted.
func (w *world) record() {
	w.Helper()
	var all kueue.WorkloadList
	if err := w.c.List(w.Context(), &all); err != nil {
		w.Fatal(err)
	}
	for i := range all.Items {
		is := all.Items[i].DeepCopy()
		if is.DeletionTimestamp == nil || !controllerutil.RemoveFinalizer(is, history.Finalizer) {
			continue
		}
		if err := w.c.Patch(w.Context(), is, client.MergeFrom(&all.Items[i])); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) job() jobs.Object {
	w.Helper()
	o := w.kind.New()
	if err := w.c.Get(w.Context(), types.NamespacedName{Namespace: "blue", Name: "x"}, o); err != nil {
		w.Fatal(err)
	}
	return o
}

// workload is that of the job; nil if there is none.
func (w *world) workload() *kueue.Workload {
	w.Helper()
	var all kueue.WorkloadList
	if err := w.c.List(w.Context(), &all); err != nil {
		w.Fatal(err)
	}
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp == nil {
			return &all.Items[i]
		}
	}
	return nil
}

// admit gives the job all that it asks for.
func (w *world) admit() {
	w.Helper()
	is := w.workload()
	is.Status.Admission = &kueue.Admission{ClusterQueue: "cq"}
	for _, ps := range is.Spec.PodSets {
		is.Status.Admission.PodSetAssignments = append(
			is.Status.Admission.PodSetAssignments,
			kueue.PodSetAssignment{Name: ps.Name, Count: new(ps.Count)},
		)
	}
	for _, kind := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
		apimeta.SetStatusCondition(
			&is.Status.Conditions,
			metav1.Condition{
				Type:               kind,
				Status:             metav1.ConditionTrue,
				Reason:             kind,
				LastTransitionTime: metav1.NewTime(now),
			},
		)
	}
	if err := w.c.Status().Update(w.Context(), is); err != nil {
		w.Fatal(err)
	}
	w.settle()
}

// change has the author of the job make another of it. It reports whether that was refused, or
// undone.
func (w *world) change(size int, image string, role bool) (refused bool) {
	w.Helper()
	was, is := w.job(), sample(w.T, w.kind, size, image, role)
	is.SetResourceVersion(was.GetResourceVersion())
	is.SetAnnotations(was.GetAnnotations())
	if w.kind.Queueing.Basis != nil {
		is = w.kind.Queueing.Basis.With(is, &corev1.Pod{}, jobs.Schedulers{})
	}
	if w.kind.Admission.Keep != nil {
		is = w.kind.Admission.Keep(was, is, w.workload().Spec.PodSets)
	}
	if w.kind.Admission.ValidateChange != nil && len(w.kind.Admission.ValidateChange(was, is)) > 0 {
		return true
	}
	if w.kind.Admission.Admits != nil && w.kind.Admission.Admits(was, is) != "" {
		return true
	}
	if err := w.c.Update(w.Context(), is); err != nil {
		w.Fatal(err)
	}
	return false
}

func pending(w *kueue.Workload) int32 {
	n := int32(0)
	for i := range w.Spec.PodSets {
		n += w.Spec.PodSets[i].Count
	}
	for _, r := range w.Status.ReclaimablePods {
		n -= r.Count
	}
	return n
}

func all(o jobs.Facts) int32 {
	n := int32(0)
	for _, ps := range o.PodSets {
		n += ps.Count
	}
	return n
}

// TestEveryKindAndEveryChange: a job of any kind that is changed while it runs or waits, or whose
// namespace becomes a team's or stops being one, is treated by what it is then, or the change is
// refused: nothing is ignored, and no quota is kept for what is not asked for.
func TestEveryKindAndEveryChange(t *testing.T) {
	const size, image = 4, "old"
	rigid := map[string]bool{"TrainJob": true, "AppWrapper": true} // cannot shrink as they run
	for _, k := range kinds.All() {
		name := k.GVK().Kind
		begun := func(t *testing.T) *world {
			t.Helper()
			o := sample(t, &k, size, image, false)
			w := kindWorld(
				t,
				k,
				o,
				&corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
				},
			)
			w.settle()
			if w.workload() == nil {
				t.Fatal("it is not queued")
			}
			w.admit()
			if w.kind.Queueing.Suspended(w.job()) {
				t.Fatal("it was admitted and does not run")
			}
			return w
		}
		// anew expects that the job is stopped and waits for so many pods.
		anew := func(w *world) {
			w.Helper()
			w.settle()
			f, err := w.kind.Read(w.job())
			if err != nil {
				w.Fatal(err)
			}
			is := w.workload()
			if !w.kind.Queueing.Suspended(w.job()) || is == nil || is.Status.Admission != nil ||
				pending(is) != all(f) {
				w.Errorf(
					"it does not queue for its %d pods: suspended %v, %+v",
					all(f),
					w.kind.Queueing.Suspended(w.job()),
					is,
				)
			}
		}
		t.Run(name+"/grown", func(t *testing.T) {
			w := begun(t)
			if !w.change(size+1, image, false) {
				anew(w)
			}
		})
		if samples()[name].role != "" { // others have one role
			t.Run(name+"/role added", func(t *testing.T) {
				w := begun(t)
				if !w.change(size, image, true) {
					anew(w)
				}
			})
		}
		t.Run(name+"/made smaller, and larger again", func(t *testing.T) {
			w := begun(t)
			before := pending(w.workload())
			switch {
			case w.change(size-1, image, false):
				return
			case rigid[name]:
				anew(w)
				return
			}
			w.settle()
			if is := w.workload(); w.kind.Queueing.Suspended(w.job()) || is.Status.Admission == nil ||
				pending(is) >= before {
				t.Fatalf(
					"it keeps the quota of %d of %d pods, suspended: %v",
					pending(is),
					before,
					w.kind.Queueing.Suspended(w.job()),
				)
			}
			if w.change(size, image, false) {
				t.Fatal("it may not grow again")
			}
			anew(w)
		})
		t.Run(name+"/edited while it waits", func(t *testing.T) {
			o := sample(t, &k, size, image, false)
			w := kindWorld(t, k, o, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
			w.settle()
			w.edited(o)
		})
		t.Run(name+"/joins and leaves the teams", func(t *testing.T) {
			o := sample(t, &k, size, image, false)
			o.SetLabels(nil)
			as := []jobs.PodSetInfo{}
			f, err := k.Read(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, ps := range f.PodSets {
				as = append(as, jobs.PodSetInfo{Name: string(ps.Name), Count: ps.Count, Asked: ps.Count})
			}
			if o, err = k.Start(o, as); err != nil {
				t.Fatal(err)
			}
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
			w := kindWorld(t, k, o, ns)
			w.settle()
			if w.workload() != nil || w.kind.Queueing.Suspended(w.job()) {
				t.Fatal("it is queued, and names no queue where none has to")
			}
			w.label("true")
			w.settle()
			if is := w.workload(); is == nil || is.Spec.QueueName != "" || !w.kind.Queueing.Suspended(w.job()) {
				t.Fatalf("it runs without a queue in a team's namespace: %+v", is)
			}
			w.label("false")
			w.settle()
			if is := w.workload(); is != nil || w.kind.Queueing.Suspended(w.job()) {
				t.Errorf("it is held for naming no queue, and needs none: %+v", is)
			}
		})
		t.Run(name+"/ended with pods left", func(t *testing.T) {
			w := begun(t)
			is := w.workload()
			set := string(is.Spec.PodSets[len(is.Spec.PodSets)-1].Name)
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace:   "blue",
					Name:        "p",
					Labels:      map[string]string{kueue.PodSetLabel: set},
					Annotations: map[string]string{kueue.WorkloadAnnotation: is.Name},
				},
				Spec:   corev1.PodSpec{NodeName: "n"},
				Status: corev1.PodStatus{Phase: corev1.PodRunning},
			}
			if err := w.c.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			w.r.adapter = hasEnded{w.r.adapter}
			w.settle()
			if left := pending(w.workload()); left != 1 {
				t.Errorf("it keeps the quota of %d pods and has 1", left)
			}
			if err := w.c.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			w.settle()
			if !apimeta.IsStatusConditionTrue(w.workload().Status.Conditions, kueue.WorkloadFinished) {
				t.Error("it has no pods any more, and is not finished")
			}
		})
	}
}

func (w *world) label(team string) {
	w.Helper()
	ns := &corev1.Namespace{}
	if err := w.c.Get(w.Context(), types.NamespacedName{Name: "blue"}, ns); err != nil {
		w.Fatal(err)
	}
	ns.Labels = map[string]string{kueue.TeamNamespaceLabel: team}
	if err := w.c.Update(w.Context(), ns); err != nil {
		w.Fatal(err)
	}
}

// hasEnded is the adapter of a job that has.
type hasEnded struct{ jobs.Adapter }

// Read says so.
func (h hasEnded) Read(o jobs.Object) (jobs.Facts, error) {
	f, err := h.Adapter.Read(o)
	f.Finished, f.Reclaimable = &jobs.Outcome{Success: true}, nil
	return f, err
}

// edited gives a job that waits another image: it is queued with it, and all that is made of the job
// from then on has it, also what was made before and was held back.
func (w *world) edited(before jobs.Object) {
	w.Helper()
	if w.change(4, "new", false) {
		return
	}
	w.settle()
	text := func(o any) string {
		out, err := json.Marshal(o)
		if err != nil {
			w.Fatal(err)
		}
		return string(out)
	}
	if w.kind.GVK().Kind == "AppWrapper" {
		return // its components are not counted by their images
	}
	if is := text(
		w.workload().Spec,
	); !strings.Contains(is, `"image":"new"`) ||
		strings.Contains(is, `"image":"old"`) {
		w.Errorf("it is queued as it was: %s", is)
	}
	if w.kind.Running.Operator == nil {
		return
	}
	was, err := w.kind.Running.Operator.Compile(before)
	if err != nil {
		w.Fatal(err)
	}
	p, err := w.kind.Running.Operator.Compile(w.job())
	if err != nil {
		w.Fatal(err)
	}
	for i := range p.Roles {
		role, m := &p.Roles[i], podplan.Member{Role: p.Roles[i].Name}
		if p.MakeOf(role.Name) == nil {
			continue // its pods go when it is held
		}
		made, err := p.Child(w.job(), w.kind.GVK(), m, &podplan.RetryState{}, nil)
		if err != nil {
			w.Fatal(err)
		}
		if is := text(made); strings.Contains(is, `"image":"old"`) {
			w.Errorf("role %s is made as it was: %s", role.Name, is)
		}
		if old := was.Role(role.Name); role.Holds && (role.Version == "" || old.Version == role.Version) {
			w.Errorf("what was made of role %s before and is held back would go on as it was", role.Name)
		}
	}
}
