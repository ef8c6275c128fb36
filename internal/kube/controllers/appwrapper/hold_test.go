package appwrapper

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// forge makes a Job that says it belongs to the AppWrapper.
func forge(t *testing.T, x *world, name string) *batchv1.Job {
	t.Helper()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: x.key.Namespace, Name: name, UID: "forged"}}
	j.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(x.get(), awv1beta2.GroupVersion.WithKind("AppWrapper")),
	}
	if err := x.server.Create(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	return j
}

// A user makes the component before the controller does, with other pods.
func TestForgedComponent(t *testing.T) {
	name := running(t, jobManifest).jobs()[0].Name
	x := newWorld(t, wrapper(jobManifest))
	x.reconcileAll()
	x.admit()
	forge(t, x, name)
	x.to("Running")
	j, s := x.jobs()[0], x.get().Status.ComponentStatus[0]
	if len(x.jobs()) != 1 || j.UID == "forged" || s.UID != j.UID {
		t.Errorf(
			"%d jobs, UID %s, recorded %s: a forged one must be deleted, and ours be created",
			len(x.jobs()),
			j.UID,
			s.UID,
		)
	}
	if err := x.server.Delete(t.Context(), &j); err != nil {
		t.Fatal(err)
	}
	forge(t, x, name)
	x.to("Failed")
	if !strings.Contains(x.conditions(), "Unhealthy=True/MissingComponent") {
		t.Errorf("one that took the place of ours is believed: %s", x.conditions())
	}
}

// What was made stays the AppWrapper's, whatever a user takes off it: it would make pods for as long as
// the AppWrapper deletes them, and after that without quota.
func TestComponentsWithoutTheirOwnerAreDeleted(t *testing.T) {
	for _, how := range []string{"suspended", "deleted"} {
		t.Run(how, func(t *testing.T) {
			x := running(t, jobManifest)
			j := x.jobs()[0]
			j.OwnerReferences, j.Labels = nil, nil
			if err := x.server.Update(t.Context(), &j); err != nil {
				t.Fatal(err)
			}
			x.reconcileAll()
			if x.phase() != "Running" || len(x.jobs()) != 1 {
				t.Fatalf("phase %s with %d jobs: it goes on as it was", x.phase(), len(x.jobs()))
			}
			if how == "suspended" {
				x.stop()
			} else if err := x.server.Delete(t.Context(), x.get()); err != nil {
				t.Fatal(err)
			}
			x.reconcileAll()
			if n := len(x.jobs()); n > 0 {
				t.Errorf("%d jobs are left, which make pods", n)
			}
		})
	}
}

// What a component has made, and a user has taken away from it, makes no pods for ever.
func TestWhatMakesPodsAnewIsDeleted(t *testing.T) {
	x := running(t, jobManifest)
	set := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: x.key.Namespace, Name: "taken", UID: "taken"}}
	if err := x.server.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	hold(t, x) // it takes its pods some time to end
	x.stop()
	x.reconcileAll()
	made := x.pods()[0].DeepCopy()
	made.ObjectMeta = metav1.ObjectMeta{
		Namespace:         x.key.Namespace,
		Name:              "anew",
		UID:               "anew",
		Labels:            made.Labels,
		CreationTimestamp: metav1.NewTime(x.clock.Now().Add(2 * time.Second)),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(set, batchv1.SchemeGroupVersion.WithKind("Job")),
		},
	}
	if err := x.server.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	x.reconcileAll()
	if err := x.server.Get(t.Context(), client.ObjectKeyFromObject(set), set); !apierrors.IsNotFound(err) {
		t.Errorf("the set is left, and makes pods again: %v", err)
	}
}

// A finalizer on what was wrapped keeps neither quota nor the AppWrapper.
func TestFinalizersOfOthers(t *testing.T) {
	x := running(t, jobManifest)
	hold(t, x)
	j := x.jobs()[0]
	j.Finalizers = []string{holder}
	if err := x.server.Update(t.Context(), &j); err != nil {
		t.Fatal(err)
	}
	x.stop()
	x.reconcileAll()
	if !strings.Contains(x.conditions(), "QuotaReserved=True") {
		t.Fatalf("a deleted pod still runs, and the quota is gone: %s", x.conditions())
	}
	for _, p := range x.pods() { // its containers stop, the object stays
		p.Status.Phase = corev1.PodFailed
		x.status(&p)
	}
	x.reconcileAll()
	if x.phase() != "Suspending" || !strings.Contains(x.conditions(), "QuotaReserved=False") {
		t.Errorf("no pod is left that runs: phase %s, %s", x.phase(), x.conditions())
	}
	if facts, err := (appwrapper.Adapter{}).Read(x.get()); err != nil || facts.Active {
		t.Errorf("its Workload waits for it: %v", err)
	}
	if err := x.server.Delete(t.Context(), x.get()); err != nil {
		t.Fatal(err)
	}
	x.reconcileAll()
	if x.phase() != "gone" {
		t.Errorf("deleted, it stays %s for a finalizer that is not ours", x.phase())
	}
}

// A component whose kind may not be read fails with the reason, and does not keep
// the AppWrapper.
func TestForbiddenKind(t *testing.T) {
	forbidden := func(x *world) {
		x.r.live = interceptor.NewClient(x.server, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if o.GetObjectKind().GroupVersionKind().Kind == "Service" {
					return apierrors.NewForbidden(
						schema.GroupResource{Resource: "services"},
						key.Name,
						errors.New("no rule allows it"),
					)
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
	}
	x := newWorld(t, wrapper(jobManifest, serviceManifest))
	forbidden(x)
	x.reconcileAll()
	x.admit()
	x.to("Failed")
	if why := meta.FindStatusCondition(
		x.get().Status.Conditions,
		"Unhealthy",
	); !strings.Contains(why.Message, "Read Service front: ") ||
		!strings.Contains(why.Message, "no rule allows it") {
		t.Errorf("it says %+v", why)
	}
	if !strings.Contains(x.conditions(), "QuotaReserved=False") {
		t.Errorf("it holds quota: %s", x.conditions())
	}

	x = running(t, jobManifest, serviceManifest)
	forbidden(x)
	x.reconcileAll()
	if x.phase() != "Running" {
		t.Errorf("rights are taken away for a moment: %s", x.phase())
	}
	if err := x.server.Delete(t.Context(), x.get()); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		x.reconcileAll()
		x.clock.SetTime(x.clock.Now().Add(x.recheck))
	}
	var s corev1.Service
	if err := x.server.Get(
		t.Context(),
		client.ObjectKey{Namespace: x.key.Namespace, Name: "front"},
		&s,
	); x.phase() != "gone" ||
		!apierrors.IsNotFound(err) {
		t.Errorf("deletion depends on reading: %s, its Service: %v", x.phase(), err)
	}
}

// A wrapped Pod goes with its node, and comes back elsewhere.
func TestWrappedPodLosesItsNode(t *testing.T) {
	for name, lose := range map[string]func(*world, *corev1.Pod){
		"deleted node": func(x *world, _ *corev1.Pod) {
			if err := x.server.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}); err != nil {
				t.Fatal(err)
			}
		},
		"drained node": func(x *world, p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
			x.status(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newWorld(t, wrapper(podManifest))
			x.reconcileAll()
			x.admit()
			x.to("Running")
			p := x.pods()[0]
			p.Spec.NodeName = "node-0"
			if err := x.server.Update(t.Context(), &p); err != nil {
				t.Fatal(err)
			}
			p.Status.Phase = corev1.PodRunning
			x.status(&p)
			x.reconcileAll()
			lose(x, &p)
			if name == "deleted node" &&
				len(x.r.onNode(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}})) != 1 {
				t.Error("the node does not lead to the AppWrapper")
			}
			if err := x.reconcile(); err != nil {
				t.Fatal(err)
			}
			if x.phase() != "Resetting" || x.get().Status.Retries != 0 {
				t.Fatalf("phase %s, %d retries: %s", x.phase(), x.get().Status.Retries, x.conditions())
			}
			x.to("Running")
			if len(x.pods()) != 1 || x.pods()[0].UID == p.UID {
				t.Errorf("pods %v", x.pods())
			}
		})
	}
}

// The same while no controller looked: what is left is the record of where the pod ran.
func TestWrappedPodWentWithItsNodeUnseen(t *testing.T) {
	node := func(change func(*world, *corev1.Node)) func(*world) {
		return func(x *world) {
			var n corev1.Node
			if err := x.server.Get(x.t.Context(), client.ObjectKey{Name: "node-0"}, &n); err != nil {
				x.t.Fatal(err)
			}
			if err := x.server.Delete(x.t.Context(), &n); err != nil {
				x.t.Fatal(err)
			}
			if change == nil {
				return
			}
			n.ResourceVersion = ""
			change(x, &n)
			if err := x.server.Create(x.t.Context(), &n); err != nil {
				x.t.Fatal(err)
			}
		}
	}
	tainted := func(key string) func(*world, *corev1.Node) {
		return func(_ *world, n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoExecute}}
		}
	}
	for name, tc := range map[string]struct {
		why  string
		lose func(*world)
		want string
	}{
		"deleted node":  {"pods of nodes that are gone are removed", node(nil), "Resetting"},
		"another node":  {"it has the name of the one that is gone", node(func(x *world, n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(x.clock.Now().Add(time.Minute)) }), "Resetting"},
		"drained node":  {"it is cordoned since", node(func(_ *world, n *corev1.Node) { n.Spec.Unschedulable = true }), "Resetting"},
		"node is lost":  {"its pods are removed for being out of reach", node(tainted(corev1.TaintNodeUnreachable)), "Resetting"},
		"node gave up":  {"its pods are removed at once", node(tainted(corev1.TaintNodeOutOfService)), "Resetting"},
		"others' taint": {"it drives no pod away that was let in", node(tainted("example.com/maintenance")), "Failed"},
		"deleted pod":   {"a user did not want it any more", func(*world) {}, "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newWorld(t, wrapper(podManifest))
			x.reconcileAll()
			x.admit()
			x.to("Running")
			p := x.pods()[0]
			p.Spec.NodeName = "node-0"
			if err := x.server.Update(t.Context(), &p); err != nil {
				t.Fatal(err)
			}
			p.Status.Phase = corev1.PodRunning
			x.status(&p)
			mark := len(x.writes)
			x.reconcileAll()
			if got := x.since(mark); len(got) != 1 {
				t.Errorf("its node is written beside what is written anyway: %v", got)
			}
			tc.lose(x)
			if err := x.server.Delete(t.Context(), &p); err != nil {
				t.Fatal(err)
			}
			x.to(tc.want)
			if x.get().Status.Retries != 0 {
				t.Errorf("%s: charged: %s", tc.why, x.conditions())
			}
			if tc.want == "Failed" {
				return
			}
			x.to("Running")
			if s := x.get().Status.ComponentStatus[0]; s.Node != "" || len(x.pods()) != 1 || x.pods()[0].UID == p.UID {
				t.Errorf("%s: on node %q, pods %v", tc.why, s.Node, x.pods())
			}
		})
	}
}

// An AppWrapper of another controller goes when it is deleted, whatever gave
// it our finalizer, and is left alone otherwise.
func TestWrapperOfAnotherController(t *testing.T) {
	w := wrapper(jobManifest)
	w.Spec.ManagedBy, w.Spec.Suspend = new("example.com/other"), false
	w.Finalizers = []string{awv1beta2.AppWrapperFinalizer, "example.com/theirs"}
	x := newWorld(t, w)
	if err := x.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(x.writes) != 0 {
		t.Errorf("it was written to: %v", x.writes)
	}
	if err := x.server.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if err := x.reconcile(); err != nil {
		t.Fatal(err)
	}
	is := &awv1beta2.AppWrapper{}
	if err := x.server.Get(t.Context(), x.key, is); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/theirs"}, is.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}

// All that is wrong with annotations is one event: of several with one
// reason only one would be seen.
func TestAllThatIsWrongWithAnnotationsIsOneEvent(t *testing.T) {
	w := wrapper(jobManifest)
	w.Annotations = map[string]string{
		"workload.codeflare.dev.appwrapper/retryLimit":                "many",
		"workload.codeflare.dev.appwrapper/warmupGracePeriodDuration": "soon",
	}
	x := newWorld(t, w)
	x.reconcileAll()
	if diff := cmp.Diff([]string{"InvalidAnnotation"}, x.told()); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
	_, warnings := appwrapper.ParsePolicy(lifecycle.Defaults(), w.Annotations)
	if s := sentences(
		warnings,
	); !strings.Contains(s, `"many" is not`) || !strings.Contains(s, `; annotation`) ||
		!strings.Contains(s, `"soon" is not`) {
		t.Errorf("it says %q", s)
	}
}
