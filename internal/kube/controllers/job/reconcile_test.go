package job

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// bench is one reconciler for Jobs over objects in memory.
type bench struct {
	*reconciler
	told *events.FakeRecorder
}

func newBench(t *testing.T, change func(*Options), objects ...client.Object) bench {
	t.Helper()
	objects = append(
		objects,
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}},
	)
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).
		WithStatusSubresource(&kueue.Workload{}, &batchv1.Job{}).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		WithIndex(&batchv1.Job{}, PrebuiltIndex, IndexPrebuilt).
		Build()
	told := events.NewFakeRecorder(100)
	opts := Options{
		Client: c, Live: c, Recorder: told, Clock: clocktesting.NewFakePassiveClock(now),
		Managed: func(_, kind string) bool { return kind == "Job" || kind == aw.AppWrapperKind },
		Parents: map[schema.GroupVersionKind]jobs.Parent{
			batchjob.Adapter{}.GVK(): batchjob.Adapter{}, appwrapper.Adapter{}.GVK(): appwrapper.Adapter{},
		},
		Ended: func(*kueue.Workload) {}, Told: func(*kueue.Workload, workloadlifecycle.Event) {},
	}
	if change != nil {
		change(&opts)
	}
	return bench{
		&reconciler{opts: opts, kind: &jobs.Kind{}, adapter: batchjob.Adapter{}, passed: newPassed(opts.Clock)},
		told,
	}
}

// reconcileAll reconciles the Job until nothing is written any more, and returns it.
func (b bench) reconcileAll(t *testing.T, name types.NamespacedName) *batchv1.Job {
	t.Helper()
	last := ""
	for range 20 {
		if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
			t.Fatal(err)
		}
		now := b.versions(t)
		if now == last {
			var j batchv1.Job
			if err := b.opts.Client.Get(t.Context(), name, &j); err != nil {
				t.Fatal(err)
			}
			return &j
		}
		last = now
	}
	t.Fatal("it never comes to rest")
	return nil
}

func (b bench) versions(t *testing.T) string {
	t.Helper()
	var js batchv1.JobList
	if err := b.opts.Client.List(t.Context(), &js); err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, j := range js.Items {
		out += j.Name + j.ResourceVersion + " "
	}
	for _, w := range b.workloads(t) {
		out += w.Name + w.ResourceVersion + " "
	}
	return out
}

func (b bench) workloads(t *testing.T) []kueue.Workload {
	t.Helper()
	var ws kueue.WorkloadList
	if err := b.opts.Client.List(t.Context(), &ws); err != nil {
		t.Fatal(err)
	}
	return ws.Items
}

func (b bench) events() string {
	var out []string
	for {
		select {
		case e := <-b.told.Events:
			out = append(out, strings.Fields(e)[1])
		default:
			return strings.Join(out, " ")
		}
	}
}

func inQueue(j *batchv1.Job) { metav1.SetMetaDataLabel(&j.ObjectMeta, kueue.QueueNameLabel, "q") }

func inLab(j *batchv1.Job) { j.Namespace = "lab" }

func controlledBy(apiVersion, kind, name string, uid types.UID) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)},
		}
	}
}

func cronJob(owner ...metav1.OwnerReference) client.Object {
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "nightly", UID: "c1", OwnerReferences: owner},
	}
}

// aWrapper is one that runs and has recorded these parts.
func aWrapper(labels map[string]string, parts ...aw.AppWrapperComponentStatus) *aw.AppWrapper {
	w := &aw.AppWrapper{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "wrap", UID: "a1", Labels: labels},
	}
	w.Status.Phase, w.Status.ComponentStatus = aw.AppWrapperRunning, parts
	return w
}

func part(kind, name string, uid types.UID) aw.AppWrapperComponentStatus {
	return aw.AppWrapperComponentStatus{APIVersion: "batch/v1", Kind: kind, Name: name, UID: uid}
}

func resuming(w *aw.AppWrapper) *aw.AppWrapper {
	w.Status.Phase = aw.AppWrapperResuming
	return w
}

// Which jobs get a Workload, and which are left alone.
func TestWhichJobsAreManaged(t *testing.T) {
	wrapper := metav1.OwnerReference{
		APIVersion: aw.GroupVersion.String(),
		Kind:       aw.AppWrapperKind,
		Name:       "wrap",
		UID:        "a1",
		Controller: new(true),
	}
	teams := labels.SelectorFromSet(labels.Set{kueue.TeamNamespaceLabel: "true"})
	var chain []client.Object
	for i := range 12 {
		o := &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue",
				Name:      string(rune('a' + i)),
				UID:       types.UID("c" + string(rune('a'+i))),
			},
		}
		if i < 11 {
			next := string(rune('a' + i + 1))
			o.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "batch/v1", Kind: "CronJob", Name: next, UID: types.UID("c" + next), Controller: new(true)},
			}
		}
		chain = append(chain, o)
	}
	cases := map[string]struct {
		why     string
		job     *batchv1.Job
		objects []client.Object
		scope   jobs.Scope
		managed bool
		event   string
	}{
		"team":              {why: "every Job of a team waits", job: aJob(), managed: true, event: "Held"},
		"no team, no queue": {why: "it concerns no queue", job: aJob(inLab)},
		"no team, queue":    {why: "it asks to wait", job: aJob(inLab, inQueue), managed: true},
		"no team, all managed": {
			why:     "the installation wants it",
			job:     aJob(inLab),
			scope:   jobs.Scope{WithoutQueue: true},
			managed: true,
			event:   "Held",
		},
		"outside the selector": {
			why:   "the selector is always respected",
			job:   aJob(inLab, inQueue),
			scope: jobs.Scope{Namespaces: teams, WithoutQueue: true},
		},
		"of a CronJob": {
			why:     "which is no job",
			job:     aJob(inQueue, controlledBy("batch/v1", "CronJob", "nightly", "c1")),
			objects: []client.Object{cronJob()},
			managed: true,
		},
		"of an AppWrapper": {
			why:     "the AppWrapper waits for both",
			job:     aJob(inQueue, controlledBy(aw.GroupVersion.String(), aw.AppWrapperKind, "wrap", "a1")),
			objects: []client.Object{aWrapper(nil, part("Job", "train", "u1"))},
		},
		"of an AppWrapper's part": {
			why:     "the whole waits, however deep",
			job:     aJob(inQueue, controlledBy("batch/v1", "CronJob", "nightly", "c1")),
			objects: []client.Object{aWrapper(nil, part("CronJob", "nightly", "c1")), cronJob(wrapper)},
		},
		"of an older AppWrapper": {
			why:     "an earlier version recorded no UIDs",
			job:     aJob(inQueue, controlledBy(aw.GroupVersion.String(), aw.AppWrapperKind, "wrap", "a1")),
			objects: []client.Object{aWrapper(nil, part("Job", "train", ""))},
		},
		"of one that is being made": {
			why:     "it is recorded in a moment",
			job:     aJob(inQueue, controlledBy(aw.GroupVersion.String(), aw.AppWrapperKind, "wrap", "a1")),
			objects: []client.Object{resuming(aWrapper(nil, part("Job", "train", "")))},
		},
		"says it is a part": {
			why:     "any user can write an owner reference",
			job:     aJob(inQueue, controlledBy(aw.GroupVersion.String(), aw.AppWrapperKind, "wrap", "a1")),
			objects: []client.Object{aWrapper(nil, part("Job", "other", "u9"))},
			managed: true,
		},
		"took a part's name": {
			why:     "it is another object",
			job:     aJob(inQueue, controlledBy(aw.GroupVersion.String(), aw.AppWrapperKind, "wrap", "a1")),
			objects: []client.Object{aWrapper(nil, part("Job", "train", "u9"))},
			managed: true,
		},
		"says so while one is made": {
			why:     "its name is none of a part",
			job:     aJob(inQueue, controlledBy(aw.GroupVersion.String(), aw.AppWrapperKind, "wrap", "a1")),
			objects: []client.Object{resuming(aWrapper(nil, part("Job", "other", "")))},
			managed: true,
		},
		"part of a stranger": {
			why:     "the chain breaks above it",
			job:     aJob(inQueue, controlledBy("batch/v1", "CronJob", "nightly", "c1")),
			objects: []client.Object{aWrapper(nil), cronJob(wrapper)},
			managed: true,
		},
		"part of a Job": {
			why: "Jobs make pods and no Jobs",
			job: aJob(inQueue, controlledBy("batch/v1", "Job", "mine", "j1")),
			objects: []client.Object{
				&batchv1.Job{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: "blue",
						Name:      "mine",
						UID:       "j1",
						Labels:    map[string]string{kueue.QueueNameLabel: "q"},
					},
				},
			},
			managed: true,
		},
		"of a gone AppWrapper": {
			why: "the garbage collector is about to remove it",
			job: aJob(inQueue, controlledBy(aw.GroupVersion.String(), aw.AppWrapperKind, "wrap", "a1")),
		},
		"of an earlier AppWrapper": {
			why:     "of the same name: gone as well",
			job:     aJob(inQueue, controlledBy(aw.GroupVersion.String(), aw.AppWrapperKind, "wrap", "a0")),
			objects: []client.Object{aWrapper(nil)},
		},
		"eleven deep": {
			why:     "no job is that nested",
			job:     aJob(inQueue, controlledBy("batch/v1", "CronJob", "a", "ca")),
			objects: chain,
			event:   "JobNestingTooDeep",
		},
		"owned, and not controlled": {
			why: "only a controller makes it a part",
			job: aJob(
				inQueue,
				controlledBy("v1", "ConfigMap", "x", "x"),
				func(j *batchv1.Job) { j.OwnerReferences[0].Controller = nil },
			),
			managed: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.Scope = c.scope }, append(c.objects, c.job)...)
			b.reconcileAll(t, client.ObjectKeyFromObject(c.job))
			if n := len(b.workloads(t)); n > 1 || (n == 1) != c.managed {
				t.Errorf("%s: it has %d workloads", c.why, n)
			}
			if told := b.events(); !strings.HasPrefix(told, c.event) || c.event == "" && told != "" {
				t.Errorf("told %q, want %q", told, c.event)
			}
		})
	}
}

// A new Workload says whose it is, who must agree, and what the installation
// copies.
func TestNewWorkload(t *testing.T) {
	j := aJob(inQueue, gatedJob("acme.com/x"), func(j *batchv1.Job) { j.Labels["team"] = "nlp" })
	b := newBench(t, func(o *Options) { o.LabelKeysToCopy = []string{"team", "absent"} }, j)
	b.reconcileAll(t, client.ObjectKeyFromObject(j))
	w := b.workloads(t)[0]
	if diff := cmp.Diff(map[string]string{kueue.JobUIDLabel: "u1", "team": "nlp"}, w.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if by := w.Annotations[kueue.AdmissionGatedByAnnotation]; by != "acme.com/x" {
		t.Errorf("it is gated by %q", by)
	}
	if got := b.events(); got != "AdmissionGated" {
		t.Errorf("told %q", got)
	}
	b.edit(t, j, func(j *batchv1.Job) { j.Annotations = nil })
	b.reconcileAll(t, client.ObjectKeyFromObject(j))
	if _, gated := b.workloads(t)[0].Annotations[kueue.AdmissionGatedByAnnotation]; gated {
		t.Error("the gate was opened, and the workload does not know")
	}
	if got := b.events(); got != "AdmissionGateCleared UpdatedWorkload" {
		t.Errorf("told %q", got)
	}
}

func (b bench) edit(t *testing.T, key client.Object, change func(*batchv1.Job)) {
	t.Helper()
	var j batchv1.Job
	if err := b.opts.Client.Get(t.Context(), client.ObjectKeyFromObject(key), &j); err != nil {
		t.Fatal(err)
	}
	change(&j)
	if err := b.opts.Client.Update(t.Context(), &j); err != nil {
		t.Fatal(err)
	}
}

// A prebuilt Workload becomes the job's own as it is, and the job's others go.
func TestAdoptPrebuilt(t *testing.T) {
	prebuilt := aWorkload(named("made-before"))
	prebuilt.Spec.Priority = new(int32(77))
	old := aWorkload(
		named("old"),
		ownedBy("train", ""),
		func(w *kueue.Workload) { w.Finalizers = []string{kueue.ResourceInUseFinalizer} },
	)
	j := aJob(inQueue, func(j *batchv1.Job) { j.Labels[kueue.PrebuiltWorkloadLabel] = "made-before" })
	b := newBench(t, nil, j, prebuilt, old)
	b.reconcileAll(t, client.ObjectKeyFromObject(j))
	ws := b.workloads(t)
	if len(ws) != 1 || ws[0].Name != "made-before" || !metav1.IsControlledBy(&ws[0], j) {
		t.Fatalf("workloads are %+v", ws)
	}
	if w := ws[0]; w.Labels[kueue.JobUIDLabel] != "u1" ||
		!slices.Contains(w.Finalizers, kueue.ResourceInUseFinalizer) ||
		*w.Spec.Priority != 77 ||
		w.Spec.QueueName != "q" {
		t.Errorf("adopted as %+v", w)
	}
}

// A prebuilt Workload that was written by hand, and admitted before its job came,
// is compared with the job all the same.
func TestAdoptAdmitted(t *testing.T) {
	byHand := aWorkload(
		named("made-before"),
		admitted,
		func(w *kueue.Workload) { w.Spec.PodSets[0].Template = corev1.PodTemplateSpec{Spec: template().Spec} },
	)
	for name, c := range map[string]struct {
		why    string
		change func(*batchv1.Job)
		ended  bool
	}{
		"same pods":  {"labels that the API server gave the Job do not matter", func(*batchv1.Job) {}, false},
		"other pods": {"the quota is for fewer", wider, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := aJob(inQueue, c.change, func(j *batchv1.Job) {
				j.Labels[kueue.PrebuiltWorkloadLabel] = "made-before"
				j.Spec.Template.Labels = map[string]string{batchv1.JobNameLabel: "train", "mine": "x"}
			})
			b := newBench(t, nil, j, byHand.DeepCopy())
			after := b.reconcileAll(t, client.ObjectKeyFromObject(j))
			w := b.workloads(t)[0]
			if ended := convert.Finished(
				&w,
			); ended != c.ended || *after.Spec.Suspend != c.ended ||
				!metav1.IsControlledBy(&w, j) {
				t.Errorf(
					"%s: ended %v, job suspended %v, owners %v",
					c.why,
					ended,
					*after.Spec.Suspend,
					w.OwnerReferences,
				)
			}
		})
	}
}

// The pods say which queues they came through, unless that is too long or not
// wanted.
func TestPodLabels(t *testing.T) {
	cases := map[string]struct {
		why   string
		queue string
		off   bool
		want  map[string]string
	}{
		"names": {
			"accounting goes by them",
			"cq",
			false,
			map[string]string{
				kueue.PodSetLabel:           "main",
				kueue.ClusterQueueNameLabel: "cq",
				kueue.LocalQueueNameLabel:   "default-queue",
			},
		},
		"long name": {
			"no label can hold it, and the job must start",
			strings.Repeat("q", 64),
			false,
			map[string]string{kueue.PodSetLabel: "main", kueue.LocalQueueNameLabel: "default-queue"},
		},
		"gate off": {"the installation does without", "cq", true, map[string]string{kueue.PodSetLabel: "main"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.Labels.NoQueues = c.off })
			w := aWorkload(admitted)
			w.Status.Admission.ClusterQueue = kueue.ClusterQueueReference(c.queue)
			infos, err := b.infos(t, w)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, infos[0].Labels); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

// infos are those of a Workload's admission.
func (b bench) infos(t *testing.T, w *kueue.Workload) ([]jobs.PodSetInfo, error) {
	t.Helper()
	return admission.Infos(t.Context(), b.opts.Client, w, b.opts.Labels)
}

// A Workload that was made is not made again while the cache does not show it: that would cost the API
// server a write. It may have been deleted meanwhile, so it is awaited for some seconds only; and the
// Workload of another job of the same name is none.
func TestWorkloadIsAwaited(t *testing.T) {
	j := aJob(inQueue)
	clock := clocktesting.NewFakePassiveClock(now)
	tries, again := 0, time.Duration(0)
	b := newBench(t, func(o *Options) {
		o.Clock = clock
		o.Client = interceptor.NewClient(o.Client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, is := list.(*kueue.WorkloadList); is {
					return nil // the cache lags behind
				}
				return c.List(ctx, list, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				tries++
				return c.Create(ctx, o, opts...)
			},
		})
	}, j)
	step := func(why string, want int) {
		t.Helper()
		res, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(j)})
		if err != nil {
			t.Fatal(err)
		}
		if tries != want {
			t.Errorf("%s: made %d times, want %d", why, tries, want)
		}
		again = res.RequeueAfter
	}
	step("it is new", 1)
	step("it was made", 1)
	if again == 0 {
		t.Error("nothing looks again whether it is there")
	}
	clock.SetTime(now.Add(longestWait))
	step("it may have been deleted", 2)
	var is batchv1.Job
	if err := b.opts.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &is); err != nil {
		t.Fatal(err)
	}
	if err := b.opts.Client.Delete(t.Context(), &is); err != nil {
		t.Fatal(err)
	}
	next := aJob(inQueue, func(j *batchv1.Job) { j.UID = "u2" })
	if err := b.opts.Client.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	tries = 2 // and not the Job
	step("another job of the name", 3)
}
