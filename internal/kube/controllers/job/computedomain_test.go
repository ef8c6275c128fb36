package job

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

func withGPU(t *corev1.PodTemplateSpec) {
	t.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
}

// sharing asks for a ComputeDomain.
func sharing(j *batchv1.Job) {
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, kueue.ComputeDomainAnnotation, "true")
	withGPU(&j.Spec.Template)
}

// domains is a cluster in which a Job asks for a ComputeDomain.
type domains struct {
	bench
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	name  types.NamespacedName
}

// newDomains makes it; a cluster that does not serve the kind has no ComputeDomains.
func newDomains( //nolint:revive // a fact about the cluster
	t *testing.T,
	served bool,
	objects ...client.Object,
) *domains {
	t.Helper()
	d := &domains{
		t:     t,
		clock: clocktesting.NewFakePassiveClock(now),
		name:  types.NamespacedName{Namespace: "blue", Name: "train"},
	}
	s := scheme.New()
	if err := resourcev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	mapper := apimeta.NewDefaultRESTMapper(nil)
	for gvk := range s.AllKnownTypes() {
		mapper.Add(gvk, apimeta.RESTScopeNamespace)
	}
	gvk := jobs.ComputeDomainGVK()
	if served {
		mapper.Add(gvk, apimeta.RESTScopeNamespace)
	}
	s.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
	gvk.Kind += "List"
	s.AddKnownTypeWithName(gvk, &unstructured.UnstructuredList{})
	objects = append(objects, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
	})
	c := fake.NewClientBuilder().WithScheme(s).WithRESTMapper(mapper).WithObjects(objects...).
		WithStatusSubresource(&kueue.Workload{}, &batchv1.Job{}).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		WithIndex(&batchv1.Job{}, PrebuiltIndex, IndexPrebuilt).
		Build()
	d.bench = newBench(t, func(o *Options) { o.Client, o.Live, o.Clock = c, c, d.clock })
	return d
}

// goes lets so much time pass and the controller work, and returns when it looks again.
func (d *domains) goes(after time.Duration) time.Duration {
	d.t.Helper()
	d.clock.SetTime(d.clock.Now().Add(after))
	var result reconcile.Result
	for range 6 {
		var err error
		if result, err = d.Reconcile(d.t.Context(), reconcile.Request{NamespacedName: d.name}); err != nil {
			d.t.Fatal(err)
		}
	}
	return result.RequeueAfter
}

// admit gives the Workload quota.
func (d *domains) admit() {
	d.t.Helper()
	w := &d.workloads(d.t)[0]
	admitted(w)
	for i := range w.Status.Conditions {
		w.Status.Conditions[i].LastTransitionTime = metav1.NewTime(d.clock.Now())
	}
	if err := d.opts.Client.Status().Update(d.t.Context(), w); err != nil {
		d.t.Fatal(err)
	}
}

func (d *domains) suspended() bool {
	d.t.Helper()
	var j batchv1.Job
	if err := d.opts.Client.Get(d.t.Context(), d.name, &j); err != nil {
		d.t.Fatal(err)
	}
	return *j.Spec.Suspend
}

// object is the ComputeDomain of the Workload's name, nil if there is none.
func (d *domains) object() *unstructured.Unstructured {
	d.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(jobs.ComputeDomainGVK())
	err := d.opts.Client.Get(
		d.t.Context(), types.NamespacedName{Namespace: "blue", Name: d.workloads(d.t)[0].Name}, o,
	)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return o
}

// template makes the claim template as the driver does, for a ComputeDomain with this UID.
func (d *domains) template(uid types.UID) {
	d.t.Helper()
	o := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: d.workloads(d.t)[0].Name, Labels: map[string]string{domainOwnerLabel: string(uid)},
	}}
	if err := d.opts.Client.Create(d.t.Context(), o); err != nil {
		d.t.Fatal(err)
	}
}

func (d *domains) refusal() string {
	d.t.Helper()
	return d.workloads(d.t)[0].Annotations[kueue.PodsRefusedAnnotation]
}

// TestAJobStartsWhenItsComputeDomainIsThere: the ComputeDomain is made when the job is admitted and not
// before, the job starts when the driver has made the claim template, and it goes when the job has ended.
func TestAJobStartsWhenItsComputeDomainIsThere(t *testing.T) {
	d := newDomains(t, true, aJob(inQueue, sharing))
	d.goes(0)
	w := d.workloads(t)[0]
	if got := w.Annotations[kueue.ComputeDomainPodSetsAnnotation]; got != "main" || d.object() != nil {
		t.Fatalf("it waits, in the domain are %q, made %v", got, d.object())
	}
	if r := w.Spec.PodSets[0].TopologyRequest; r == nil || r.Required == nil ||
		*r.Required != "nvidia.com/gpu.clique" {
		t.Fatalf("its pods are near as %v says", r)
	}
	d.admit()
	again := d.goes(0)
	o := d.object()
	if o == nil || !d.suspended() || again != domainPause {
		t.Fatalf("admitted: ComputeDomain %v, suspended %v, looks again in %v", o, d.suspended(), again)
	}
	want := map[string]any{
		"numNodes": int64(2),
		"channel":  map[string]any{"resourceClaimTemplate": map[string]any{"name": w.Name}},
	}
	if diff := cmp.Diff(want, o.Object["spec"]); diff != "" || !metav1.IsControlledBy(o, &w) {
		t.Fatalf("it is of %v (-want +got):\n%s", o.GetOwnerReferences(), diff)
	}
	d.template(o.GetUID())
	d.goes(domainPause)
	if d.suspended() {
		t.Fatal("all is there, and it does not start")
	}
	var j batchv1.Job
	if err := d.opts.Client.Get(t.Context(), d.name, &j); err != nil {
		t.Fatal(err)
	}
	if got := j.Spec.Template.Annotations[kueue.ComputeDomainClaimAnnotation]; got != w.Name {
		t.Errorf("its pods are told of claim template %q", got)
	}
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	j.Status.Succeeded = 2
	if err := d.opts.Client.Status().Update(t.Context(), &j); err != nil {
		t.Fatal(err)
	}
	if d.goes(0); d.object() != nil {
		t.Error("the job has ended, and its ComputeDomain is there")
	}
}

// TestWithoutADriverAJobHoldsNoQuota: a job that waits a minute for its claim template gives its quota back with the
// reason, and is queued again by itself when the template is there.
func TestWithoutADriverAJobHoldsNoQuota(t *testing.T) {
	d := newDomains(t, true, aJob(inQueue, sharing))
	d.goes(0)
	d.admit()
	d.goes(0)
	if d.goes(domainPatience - time.Second); d.refusal() != "" {
		t.Fatalf("it gives up at once: %s", d.refusal())
	}
	d.goes(2 * time.Second)
	w := d.workloads(t)[0]
	if w.Status.Admission != nil || !strings.Contains(d.refusal(), "has not made the ResourceClaimTemplate") {
		t.Fatalf("it holds %v, refused for %q", w.Status.Admission, d.refusal())
	}
	if d.object() == nil {
		t.Fatal("without it nobody sees whether the driver works")
	}
	if again := d.goes(trialPause); d.refusal() == "" || again == 0 {
		t.Fatalf("nothing changed: refused for %q, looks again in %v", d.refusal(), again)
	}
	d.template(d.object().GetUID())
	if d.goes(trialPause); d.refusal() != "" {
		t.Errorf("the driver works again, and it is held for %q", d.refusal())
	}
}

// TestWithoutComputeDomainsAJobWaits: where the cluster does not have the kind, a job that asks for one waits
// with that reason from the start, and holds no quota for it.
func TestWithoutComputeDomainsAJobWaits(t *testing.T) {
	d := newDomains(t, false, aJob(inQueue, sharing))
	if again := d.goes(
		0,
	); !strings.Contains(d.refusal(), "has no ComputeDomains (resource.nvidia.com/v1beta1)") ||
		again == 0 {
		t.Errorf("it waits for %q, and looks again in %v", d.refusal(), again)
	}
	plain := newDomains(t, false, aJob(inQueue))
	if plain.goes(0); plain.refusal() != "" {
		t.Errorf("a job that asks for none waits for %q", plain.refusal())
	}
}

// TestAnothersComputeDomainIsNotTakenOver: what has the name and is not the job's stays as it is, and the job says so
// without quota; what an earlier Workload of the job left is waited for, and goes.
func TestAnothersComputeDomainIsNotTakenOver(t *testing.T) {
	for name, tc := range map[string]struct {
		why     string
		owner   *metav1.OwnerReference
		label   string // of a claim template that is there in place of a ComputeDomain
		claims  bool
		refused string
		stays   bool
	}{
		"somebody's": {"it is not the job's", nil, "", false, "there is another ComputeDomain", true},
		"another Workload's": {
			"that has another name", &metav1.OwnerReference{Kind: "Workload", Name: "w", UID: "x", Controller: new(true)},
			"", false, "there is another ComputeDomain", true,
		},
		"an earlier Workload's": {
			"it has the name of this one", &metav1.OwnerReference{Kind: "Workload", UID: "x", Controller: new(true)},
			"", false, "", false,
		},
		"a claim template": {"no driver made it", nil, "", true, "there is another ResourceClaimTemplate", true},
		"one that goes":    {"the driver made it for one that is gone", nil, "gone", true, "", true},
	} {
		d := newDomains(t, true, aJob(inQueue, sharing))
		d.goes(0)
		w := d.workloads(t)[0]
		var is client.Object
		if tc.claims {
			is = &resourcev1.ResourceClaimTemplate{}
			if tc.label != "" {
				is.SetLabels(map[string]string{domainOwnerLabel: tc.label})
			}
		} else {
			is = newDomain(&w, 2)
			is.SetOwnerReferences(nil)
			if tc.owner != nil {
				if tc.owner.Name == "" {
					tc.owner.Name = w.Name
				}
				is.SetOwnerReferences([]metav1.OwnerReference{*tc.owner})
			}
		}
		is.SetNamespace("blue")
		is.SetName(w.Name)
		is.SetUID("another")
		if err := d.opts.Client.Create(t.Context(), is); err != nil {
			t.Fatal(err)
		}
		d.admit()
		d.goes(0)
		if got := d.refusal(); (got == "") != (tc.refused == "") || !strings.Contains(got, tc.refused) {
			t.Errorf("%s: %s: it is refused for %q, want %q", name, tc.why, got, tc.refused)
		}
		if !d.suspended() {
			t.Errorf("%s: it starts", name)
		}
		err := d.opts.Client.Get(t.Context(), client.ObjectKeyFromObject(is), is)
		if stays := err == nil && is.GetUID() == "another"; stays != tc.stays {
			t.Errorf("%s: %s: it stays: %v (%v)", name, tc.why, stays, err)
		}
	}
}

// TestAClaimTemplateOfAnotherIsNotUsed: pods would share the memory of whoever made it.
func TestAClaimTemplateOfAnotherIsNotUsed(t *testing.T) {
	d := newDomains(t, true, aJob(inQueue, sharing))
	d.goes(0)
	d.admit()
	d.goes(0)
	d.template("another")
	if d.goes(
		domainPause,
	); !d.suspended() ||
		!strings.Contains(d.refusal(), "there is another ResourceClaimTemplate") {
		t.Errorf("suspended %v, refused for %q", d.suspended(), d.refusal())
	}
}

// TestAComputeDomainIsForAsManyNodesAsTheJobHas: one that was made for another number, which cannot be
// changed, is made anew.
func TestAComputeDomainIsForAsManyNodesAsTheJobHas(t *testing.T) {
	d := newDomains(t, true, aJob(inQueue, sharing))
	d.goes(0)
	w := d.workloads(t)[0]
	if err := d.opts.Client.Create(t.Context(), newDomain(&w, 7)); err != nil {
		t.Fatal(err)
	}
	d.admit()
	d.goes(0)
	o := d.object()
	if o == nil {
		t.Fatal("there is none")
	}
	if nodes, _, _ := unstructured.NestedInt64(o.Object, "spec", "numNodes"); nodes != 2 {
		t.Errorf("it is for %d nodes", nodes)
	}
}

// TestAStoppedJobHasNoComputeDomain: once its pods are gone; it gets another when it starts again, since that
// may be on fewer nodes.
func TestAStoppedJobHasNoComputeDomain(t *testing.T) {
	d := newDomains(t, true, aJob(inQueue, sharing))
	d.goes(0)
	d.admit()
	d.goes(0)
	w := &d.workloads(t)[0]
	condition(kueue.WorkloadEvicted, kueue.ReasonPreempted)(w)
	if err := d.opts.Client.Status().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if d.goes(0); d.object() != nil || d.workloads(t)[0].Status.Admission != nil {
		t.Errorf("evicted, it has %v and holds %v", d.object(), d.workloads(t)[0].Status.Admission)
	}
}

// TestClaimsOfAnOwnComputeDomainAreKnown: pods that have a claim of a ComputeDomain that their author made are
// near, and on nodes of their own, as if it had been made for them; claims of other things say nothing.
func TestClaimsOfAnOwnComputeDomainAreKnown(t *testing.T) {
	claiming := func(template string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Spec.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{
				{Name: "c", ResourceClaimTemplateName: &template},
			}
		}
	}
	mine := newDomain(aWorkload(named("mine")), 2)
	mine.SetOwnerReferences(nil)
	for template, want := range map[string]string{"mine": "main=mine", "gpus": ""} {
		d := newDomains(t, true, aJob(inQueue, sharing, claiming(template)), mine.DeepCopy())
		if want == "" {
			var j batchv1.Job
			if err := d.opts.Client.Get(t.Context(), d.name, &j); err != nil {
				t.Fatal(err)
			}
			j.Annotations = nil
			if err := d.opts.Client.Update(t.Context(), &j); err != nil {
				t.Fatal(err)
			}
		}
		d.goes(0)
		w := d.workloads(t)[0]
		near := w.Spec.PodSets[0].TopologyRequest
		if got := w.Annotations[kueue.ComputeDomainPodSetsAnnotation]; got != want ||
			(near == nil) != (want == "") {
			t.Errorf("claims of template %s: noted %q, near %v, want %q", template, got, near, want)
		}
		d.admit()
		if d.goes(0); d.suspended() || d.object() != nil {
			t.Errorf("claims of template %s: it does not start, or another ComputeDomain is made", template)
		}
	}
}
