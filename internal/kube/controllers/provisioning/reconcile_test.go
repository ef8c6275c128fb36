package provisioning

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mlbatch/mlbatch/api/autoscaling"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// cluster is the reconcilers over objects in memory.
type cluster struct {
	*testing.T
	client.Client
	events *events.FakeRecorder
	// fails lets writes and reads fail, by verb and kind, as "create PodTemplate".
	fails map[string]error
	opts  Options
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	s := scheme.New()
	if err := autoscaling.AddToScheme("v1")(s); err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, events: events.NewFakeRecorder(100), fails: map[string]error{}}
	answer := func(verb string, o any) error {
		name := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."), "*v1beta2.")
		return c.fails[verb+" "+strings.TrimPrefix(name, "*autoscaling.")]
	}
	c.Client = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).
		WithStatusSubresource(&kueue.Workload{}, &kueue.AdmissionCheck{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := answer("get", o); err != nil {
					return err
				}
				return w.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, w client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if err := answer("list", l); err != nil {
					return err
				}
				return w.List(ctx, l, opts...)
			},
			Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := answer("create", o); err != nil {
					return err
				}
				return w.Create(ctx, o, opts...)
			},
			Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := answer("delete", o); err != nil {
					return err
				}
				return w.Delete(ctx, o, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, w client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if err := answer("status", o); err != nil {
					return err
				}
				return w.SubResource(sub).Update(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := answer("status", o); err != nil {
					return err
				}
				return w.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	c.opts = Options{
		Client:   c.Client,
		Clock:    clocktesting.NewFakePassiveClock(t0.Add(time.Minute)),
		Recorder: c.events,
		Served:   true,
	}
	return c
}

func ours(name, config string) *kueue.AdmissionCheck {
	return &kueue.AdmissionCheck{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: kueue.AdmissionCheckSpec{
			ControllerName: kueue.ProvisioningRequestControllerName,
			Parameters: &kueue.AdmissionCheckParametersReference{
				APIGroup: kueue.GroupVersion.Group,
				Kind:     configKind,
				Name:     config,
			},
		},
	}
}

func settings() *kueue.ProvisioningRequestConfig {
	return &kueue.ProvisioningRequestConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c",
		},
		Spec: kueue.ProvisioningRequestConfigSpec{ProvisioningClassName: "class"},
	}
}

// asking is a workload with quota that waits for the check "nodes".
func asking() *kueue.Workload {
	w := newStory().workload
	w.UID = "u1"
	return w
}

func all(more ...client.Object) []client.Object {
	return append([]client.Object{
		asking(),
		ours("nodes", "c"),
		settings(),
		&kueue.ResourceFlavor{
			ObjectMeta: metav1.ObjectMeta{Name: "dws"},
			Spec:       kueue.ResourceFlavorSpec{NodeLabels: map[string]string{"pool": "dws"}},
		},
	}, more...)
}

func (c *cluster) look() (time.Duration, error) {
	c.Helper()
	res, err := (&reconciler{c.opts}).Reconcile(
		c.Context(),
		reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "blue", Name: "wl"}},
	)
	return res.RequeueAfter, err
}

func (c *cluster) mustLook() time.Duration {
	c.Helper()
	again, err := c.look()
	if err != nil {
		c.Fatal(err)
	}
	return again
}

func (c *cluster) told() (out []string) {
	for len(c.events.Events) > 0 {
		out = append(out, <-c.events.Events)
	}
	return out
}

func (c *cluster) tells(why string, want ...string) {
	c.Helper()
	if diff := cmp.Diff(want, c.told()); diff != "" {
		c.Errorf("%s: events (-want +got):\n%s", why, diff)
	}
}

// names lists the requests and pod templates there are.
func (c *cluster) names() (out []string) {
	c.Helper()
	var requests autoscaling.ProvisioningRequestList
	var templates corev1.PodTemplateList
	for _, l := range []client.ObjectList{&requests, &templates} {
		if err := c.List(c.Context(), l); err != nil {
			c.Fatal(err)
		}
	}
	for i := range requests.Items {
		out = append(out, requests.Items[i].Name)
	}
	for i := range templates.Items {
		out = append(out, templates.Items[i].Name)
	}
	return out
}

func (c *cluster) workload() *kueue.Workload {
	c.Helper()
	w := &kueue.Workload{}
	if err := c.Get(c.Context(), client.ObjectKey{Namespace: "blue", Name: "wl"}, w); err != nil {
		c.Fatal(err)
	}
	return w
}

// says lets the request say that a condition is true.
func (c *cluster) says(kind string) {
	c.Helper()
	r := &autoscaling.ProvisioningRequest{}
	if err := c.Get(c.Context(), client.ObjectKey{Namespace: "blue", Name: "wl-nodes-1"}, r); err != nil {
		c.Fatal(err)
	}
	apimeta.SetStatusCondition(
		&r.Status.Conditions,
		metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: "says " + kind},
	)
	if err := c.Update(c.Context(), r); err != nil {
		c.Fatal(err)
	}
}

// The way of a workload from its reservation to its nodes, and from its nodes to its
// end: one request, one answer, and nothing is left.
func TestLife(t *testing.T) {
	c := newCluster(t, all()...)
	if again := c.mustLook(); again != 0 {
		t.Errorf("looked at again after %v: the request is watched", again)
	}
	if diff := cmp.Diff([]string{"wl-nodes-1", "ppt-wl-nodes-1-main"}, c.names()); diff != "" {
		t.Errorf("asked with (-want +got):\n%s", diff)
	}
	c.tells("asked", "Normal ProvisioningRequestCreated Created ProvisioningRequest wl-nodes-1")
	var template corev1.PodTemplate
	if err := c.Get(
		t.Context(),
		client.ObjectKey{Namespace: "blue", Name: "ppt-wl-nodes-1-main"},
		&template,
	); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(&template, c.workload()) || template.Template.Spec.NodeSelector["pool"] != "dws" {
		t.Errorf(
			"the template is %v's, for nodes %v",
			template.OwnerReferences,
			template.Template.Spec.NodeSelector,
		)
	}
	c.mustLook()
	c.tells("nothing is new")

	c.says(autoscaling.Provisioned)
	c.mustLook()
	s := c.workload().Status.AdmissionChecks[0]
	if s.State != kueue.CheckStateReady || s.Message != "says Provisioned" || len(s.PodSetUpdates) != 1 {
		t.Errorf("the check is %+v", s)
	}
	c.tells(
		"the answer",
		"Normal AdmissionCheckUpdated Admission check nodes went from Pending to Ready: says Provisioned",
	)
	c.mustLook()
	c.tells("it is told once")

	w := c.workload()
	apimeta.SetStatusCondition(
		&w.Status.Conditions,
		metav1.Condition{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: "Succeeded"},
	)
	if err := c.Status().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	c.mustLook()
	if left := c.names(); len(left) != 0 {
		t.Errorf("after its end %v are left", left)
	}
}

// What others did, or we did before a crash, is in the way.
func TestLeftovers(t *testing.T) {
	template := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "ppt-wl-nodes-1-main"},
	}
	stranger := &autoscaling.ProvisioningRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "wl-nodes-1"},
	}
	going := stranger.DeepCopy()
	going.Finalizers, going.DeletionTimestamp = []string{"example.com/hold"}, &metav1.Time{Time: t0}
	going.OwnerReferences = []metav1.OwnerReference{{UID: "u1", Controller: new(true)}}

	c := newCluster(t, all(template)...)
	if again := c.mustLook(); again != 0 || len(c.names()) != 2 {
		t.Errorf("a template that was left: look again in %v, there are %v", again, c.names())
	}
	if err := c.Get(
		t.Context(),
		client.ObjectKeyFromObject(template),
		template,
	); err != nil ||
		len(template.Template.Spec.Containers) != 1 {
		t.Errorf("it is not written anew: %v, %+v", err, template.Template)
	}
	for name, left := range map[string]*autoscaling.ProvisioningRequest{"another's": stranger, "going": going} {
		c := newCluster(t, all(left)...)
		if again := c.mustLook(); again != goingPause {
			t.Errorf("%s: looked at again after %v, want %v", name, again, goingPause)
		}
		c.tells(name)
	}
}

// A request that is not needed any more goes with its templates; one that is gone by
// then is no error.
func TestRemove(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, "x")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "x", errors.New("another uid"))
	away := errors.New("connection refused")
	for name, tc := range map[string]struct {
		fails map[string]error
		want  string // in the error, "" for none
	}{
		"all is there":         {nil, ""},
		"template is gone":     {map[string]error{"delete PodTemplate": gone}, ""},
		"request is gone":      {map[string]error{"delete ProvisioningRequest": gone}, ""},
		"request is another":   {map[string]error{"delete ProvisioningRequest": conflict}, ""},
		"template cannot go":   {map[string]error{"delete PodTemplate": away}, "delete pod template blue/ppt-wl-nodes-1-main: connection refused"},
		"request cannot go":    {map[string]error{"delete ProvisioningRequest": away}, "delete ProvisioningRequest blue/wl-nodes-1: connection refused"},
		"workload is not read": {map[string]error{"get Workload": away}, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, all()...)
			c.mustLook()
			w := c.workload()
			w.Status.Admission = nil
			if err := c.Status().Update(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			c.fails = tc.fails
			_, err := c.look()
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if c.fails = nil; tc.fails == nil && len(c.names()) != 0 {
				t.Errorf("%v are left", c.names())
			}
		})
	}
}

// What cannot be read or written is an error, and a creation that failed is told.
func TestTrouble(t *testing.T) {
	away := errors.New("connection refused")
	for what, tc := range map[string]struct {
		want string
		told bool
	}{
		"list ProvisioningRequestList":  {"list ProvisioningRequests: ", false},
		"get AdmissionCheck":            {"read AdmissionCheck nodes: ", false},
		"get ProvisioningRequestConfig": {"read ProvisioningRequestConfig c: ", false},
		"get ResourceFlavor":            {"read flavor dws: ", false},
		"create PodTemplate":            {"create pod template blue/ppt-wl-nodes-1-main: ", true},
		"create ProvisioningRequest":    {"create ProvisioningRequest blue/wl-nodes-1: ", true},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t, all()...)
			c.fails = map[string]error{what: away}
			if _, err := c.look(); err == nil || !strings.Contains(err.Error(), tc.want+"connection refused") {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			var want []string
			if tc.told {
				want = []string{"Warning FailedCreate " + tc.want + "connection refused"}
			}
			c.tells(what, want...)
		})
	}
	t.Run("the workload is gone", func(t *testing.T) {
		if again := newCluster(t).mustLook(); again != 0 {
			t.Errorf("look again in %v", again)
		}
	})
	t.Run("a flavor is gone", func(t *testing.T) {
		c := newCluster(t, asking(), ours("nodes", "c"), settings())
		if c.mustLook(); len(c.names()) != 2 {
			t.Errorf("asked with %v, want without its labels", c.names())
		}
	})
}

// An answer that could not be written is not told.
func TestAnswersThatFail(t *testing.T) {
	resource := schema.GroupResource{Resource: "workloads"}
	for name, tc := range map[string]struct {
		err   error
		fails bool
	}{
		"conflict":    {apierrors.NewConflict(resource, "wl", errors.New("written since")), false},
		"gone":        {apierrors.NewNotFound(resource, "wl"), false},
		"server away": {errors.New("connection refused"), true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, all()...)
			c.mustLook()
			c.says(autoscaling.Provisioned)
			c.told()
			c.fails = map[string]error{"status Workload": tc.err}
			if _, err := c.look(); (err != nil) != tc.fails {
				t.Errorf("error %v", err)
			}
			c.tells(name)
		})
	}
}

// An answer does not overwrite what another controller answers at that moment.
func TestRivalIsNotOverwritten(t *testing.T) {
	w := asking()
	w.Status.AdmissionChecks = append(
		w.Status.AdmissionChecks,
		kueue.AdmissionCheckState{Name: "theirs", State: kueue.CheckStatePending},
	)
	c := newCluster(t, append(all()[1:], w)...)
	c.mustLook()
	c.says(autoscaling.Provisioned)
	server, met := c.Client, false
	c.opts.Client = interceptor.NewClient(server.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, of client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if !met {
				met = true
				w := c.workload() //nolint:contextcheck // the test reads in a context of its own
				w.Status.AdmissionChecks[1].State = kueue.CheckStateReady
				if err := server.Status().Update(ctx, w); err != nil {
					return err
				}
			}
			return of.SubResource(sub).Update(ctx, o, opts...)
		},
	})
	for range 2 {
		c.mustLook()
	}
	for _, s := range c.workload().Status.AdmissionChecks {
		if s.State != kueue.CheckStateReady {
			t.Errorf("check %s is %s", s.Name, s.State)
		}
	}
}

// Checks of other controllers, and of none, are left alone.
func TestOnlyOurChecks(t *testing.T) {
	theirs := ours("nodes", "c")
	theirs.Spec.ControllerName = "example.com/other"
	for name, objects := range map[string][]client.Object{
		"another's": {asking(), theirs, settings()},
		"no check":  {asking(), settings()},
	} {
		c := newCluster(t, objects...)
		if c.mustLook(); len(c.names()) != 0 || c.workload().Status.AdmissionChecks[0].Message != "" {
			t.Errorf("%s: asked with %v, answered %+v", name, c.names(), c.workload().Status.AdmissionChecks)
		}
	}
	c := newCluster(t, asking(), ours("nodes", "missing"), settings())
	if c.mustLook(); c.workload().Status.AdmissionChecks[0].Message != messageInactive {
		t.Errorf("ours without settings: %+v", c.workload().Status.AdmissionChecks)
	}
}

// Each check of ours says whether it is active, and changes of its settings lead to it.
func TestActivity(t *testing.T) {
	theirs := ours("theirs", "c")
	theirs.Spec.ControllerName = "example.com/other"
	c := newCluster(t, ours("nodes", "c"), ours("lost", "missing"), theirs, settings())
	a := &activity{c.opts}
	look := func(name, want string) {
		t.Helper()
		c.fails["status AdmissionCheck"] = nil
		res, err := a.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
		if err != nil || res.RequeueAfter != 0 {
			t.Fatal(res, err)
		}
		var k kueue.AdmissionCheck
		if err := client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKey{Name: name}, &k)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if s := apimeta.FindStatusCondition(k.Status.Conditions, kueue.AdmissionCheckActive); s != nil {
			got = string(s.Status) + " " + s.Reason
		}
		if got != want {
			t.Errorf("check %s is %q, want %q", name, got, want)
		}
	}
	look("nodes", "True Active")
	look("lost", "False BadParametersRef")
	look("theirs", "")
	look("gone", "")

	var requests []string
	for _, r := range a.using(t.Context(), settings()) {
		requests = append(requests, r.Name)
	}
	if diff := cmp.Diff([]string{"nodes"}, requests); diff != "" {
		t.Errorf("settings lead to (-want +got):\n%s", diff)
	}

	// Nothing new is not written, and what was written meanwhile is looked at again.
	away := errors.New("connection refused")
	reconcileNodes := func(err error) (time.Duration, error) {
		c.fails["status AdmissionCheck"] = err
		res, got := a.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "nodes"}})
		return res.RequeueAfter, got
	}
	if again, err := reconcileNodes(away); again != 0 || err != nil {
		t.Errorf("nothing is new: %v, %v", again, err)
	}
	if err := c.Delete(t.Context(), settings()); err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupResource{Resource: "admissionchecks"}
	if again, err := reconcileNodes(
		apierrors.NewConflict(resource, "nodes", errors.New("written since")),
	); again != conflictPause ||
		err != nil {
		t.Errorf("a conflict: %v, %v", again, err)
	}
	if _, err := reconcileNodes(apierrors.NewNotFound(resource, "nodes")); err != nil {
		t.Errorf("gone: %v", err)
	}
	if _, err := reconcileNodes(away); err == nil {
		t.Error("a write that failed is no error")
	}
	look("nodes", "False BadParametersRef")
	c.fails["get ProvisioningRequestConfig"] = away
	if _, err := reconcileNodes(nil); err == nil {
		t.Error("settings that cannot be read are taken for missing")
	}
}

// Changes of checks and settings lead to the unfinished workloads that wait for them.
func TestWhoIsWoken(t *testing.T) {
	other := asking()
	other.Name, other.UID, other.Status.AdmissionChecks = "other", "u2", []kueue.AdmissionCheckState{
		{Name: "budget"},
		{Name: "lost"},
	}
	ended := asking()
	ended.Name, ended.UID = "ended", "u3"
	ended.Status.Conditions = append(
		ended.Status.Conditions,
		metav1.Condition{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue},
	)
	c := newCluster(t, all(other, ended, ours("lost", "missing"))...)
	r := &reconciler{c.opts}
	named := func(all []reconcile.Request) (out []string) {
		for _, q := range all {
			out = append(out, q.String())
		}
		return out
	}
	missing := settings()
	missing.Name = "missing"
	for what, tc := range map[string]struct{ got, want []string }{
		"check":          {named(r.ofCheck(t.Context(), ours("nodes", "c"))), []string{"blue/wl"}},
		"other check":    {named(r.ofCheck(t.Context(), ours("budget", "c"))), []string{"blue/other"}},
		"settings":       {named(r.ofConfig(t.Context(), settings())), []string{"blue/wl"}},
		"other settings": {named(r.ofConfig(t.Context(), missing)), []string{"blue/other"}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	c.fails["list WorkloadList"] = errors.New("connection refused")
	c.fails["list AdmissionCheckList"] = errors.New("connection refused")
	if got := append(
		r.ofCheck(t.Context(), ours("nodes", "c")),
		r.ofConfig(t.Context(), settings())...); len(
		got,
	) != 0 {
		t.Errorf("%v are woken though nothing could be listed", got)
	}
}

// Only workloads with checks, or that had some, are looked at.
func TestChecked(t *testing.T) {
	with, without := asking(), asking()
	without.Status.AdmissionChecks = nil
	p := checked()
	for what, tc := range map[string]struct{ got, want bool }{
		"comes with one": {p.Create(event.CreateEvent{Object: with}), true},
		"comes without":  {p.Create(event.CreateEvent{Object: without}), false},
		"gets one":       {p.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: with}), true},
		"loses one":      {p.Update(event.UpdateEvent{ObjectOld: with, ObjectNew: without}), true},
		"has none":       {p.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: without}), false},
		"no workload":    {p.Create(event.CreateEvent{Object: ours("nodes", "c")}), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: let through %v, want %v", what, tc.got, tc.want)
		}
	}
}
