package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

const home = "mlbatch-system"

func meta(namespace, name, manager string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if manager != "" {
		m.Labels = map[string]string{install.PartLabel: install.App, install.ManagedLabel: manager}
	}
	return m
}

// installed is a cluster with an installation, and much that is of others.
func installed() []client.Object {
	flavors := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: meta("", "resourceflavors.kueue.x-k8s.io", "mlbatch"),
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "kueue.x-k8s.io",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "ResourceFlavor", Plural: "resourceflavors"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1beta1", Served: true},
				{Name: "v1beta2", Served: true, Storage: true},
			},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter},
		},
	}
	held := rights.Of("blue", rights.Subject("system:serviceaccount:"+home+":"+install.Controller))
	return []client.Object{
		&corev1.Namespace{ObjectMeta: meta("", home, "mlbatch")},
		flavors,
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: meta("", "others.example.com", "")},
		&kueue.ResourceFlavor{
			ObjectMeta: metav1.ObjectMeta{
				Name:       "gpu",
				Finalizers: []string{"kueue.x-k8s.io/resource-in-use", "example.com/mine"},
			},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta("", "mlbatch", "mlbatch")},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta("", "others", "")},
		&appsv1.Deployment{ObjectMeta: meta(home, "mlbatch-controller", "mlbatch")},
		&appsv1.Deployment{ObjectMeta: meta(home, "of-helm", "Helm")},
		&rbacv1.ClusterRole{ObjectMeta: meta("", "mlbatch-controller", "mlbatch")},
		&rbacv1.ClusterRole{
			ObjectMeta:      meta("", "of-roles", "mlbatch"),
			AggregationRule: &rbacv1.AggregationRule{},
		},
		&corev1.ConfigMap{ObjectMeta: meta(home, "of-others", "")},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: install.Controller}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "of-others"}},
		held,
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:  "blue",
				Name:       "alone",
				Labels:     map[string]string{kueue.ManagedLabel: "true"},
				Finalizers: []string{"kueue.x-k8s.io/managed", "example.com/mine"},
			},
		},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:  "blue",
				Name:       "of-others",
				Finalizers: []string{"kueue.x-k8s.io/managed"},
			},
		},
	}
}

// uninstalling is such a cluster, with what is deleted there, in order.
func uninstalling(deleted *[]string) (*Cluster, client.Client) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(installed()...).WithInterceptorFuncs(
		interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				err := c.Delete(ctx, o, opts...)
				if err == nil {
					*deleted = append(*deleted, strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
				}
				return err
			},
		},
	).Build()
	return &Cluster{Client: c, Pause: time.Millisecond, Say: func(string, ...any) {}}, c
}

// TestUninstall: what mlbatch installed goes, webhooks before all else, programs before what they would
// put back and combined roles before those that they are made of; nothing of others does.
func TestUninstall(t *testing.T) {
	p := &Installation{Release: install.Release{Namespace: home, Manager: "mlbatch"}}
	first := []string{
		"mlbatch",
		home + "/mlbatch-controller",
		"of-roles",
		"mlbatch-controller",
		"blue/" + rights.Binding,
		home + "/" + install.Controller,
	}
	for name, tc := range map[string]struct {
		keep bool
		want []string
		pods []string
	}{
		"Kept": {true, first, []string{"kueue.x-k8s.io/managed", "example.com/mine"}},
		"Gone": {false, append(slices.Clone(first), "resourceflavors.kueue.x-k8s.io"), []string{"example.com/mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			var deleted []string
			x, c := uninstalling(&deleted)
			if err := x.Uninstall(t.Context(), p, tc.keep); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, deleted); diff != "" {
				t.Errorf("deleted, in order (-want +got):\n%s", diff)
			}
			// The finalizer of ours has been taken off a binding, or it would be there still.
			if err := c.Get(
				t.Context(),
				client.ObjectKey{Namespace: "blue", Name: rights.Binding},
				&rbacv1.RoleBinding{},
			); !apierrors.IsNotFound(
				err,
			) {
				t.Errorf("the binding where jobs run is held: %v", err)
			}
			pod := &corev1.Pod{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "alone"}, pod); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.pods, pod.Finalizers); diff != "" {
				t.Errorf("finalizers of a pod (-want +got):\n%s", diff)
			}
			if err := c.Get(
				t.Context(),
				client.ObjectKey{Namespace: "blue", Name: "of-others"},
				pod,
			); err != nil ||
				len(pod.Finalizers) != 1 {
				t.Errorf("a pod that mlbatch did not hold is changed: %v, %v", pod.Finalizers, err)
			}
			flavor := &kueue.ResourceFlavor{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "gpu"}, flavor); err != nil {
				t.Fatal(err)
			}
			want := []string{"example.com/mine"} // that of others is theirs to take off
			if tc.keep {
				want = []string{"kueue.x-k8s.io/resource-in-use", "example.com/mine"}
			}
			if diff := cmp.Diff(want, flavor.Finalizers); diff != "" {
				t.Errorf("finalizers of an object of a kind (-want +got):\n%s", diff)
			}
			// Again: there is nothing left to do, and that is no error.
			deleted = nil
			if err := x.Uninstall(t.Context(), p, tc.keep); err != nil || len(deleted) > 0 {
				t.Errorf("the second time: %v, %v", deleted, err)
			}
		})
	}
}

// TestUninstallWaits: while a program still runs nothing is taken away that it would put back, and
// who waits too long is told for what.
func TestUninstallWaits(t *testing.T) {
	var deleted []string
	x, c := uninstalling(&deleted)
	d := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "mlbatch-controller"}, d); err != nil {
		t.Fatal(err)
	}
	d.Finalizers = []string{"example.com/ends-slowly"}
	if err := c.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := x.Uninstall(ctx, &Installation{Release: install.Release{Namespace: home, Manager: "mlbatch"}}, true)
	var unready *NotReadyError
	if !errors.As(err, &unready) ||
		!strings.Contains(err.Error(), "deployment mlbatch-controller is gone: its pods are ending") {
		t.Errorf("it must say what it waits for, got %v", err)
	}
	if diff := cmp.Diff([]string{"mlbatch", home + "/mlbatch-controller"}, deleted); diff != "" {
		t.Errorf("roles may not go while the controller runs (-want +got):\n%s", diff)
	}
}

// TestHold: what would be lost is told before it is.
func TestHold(t *testing.T) {
	var deleted []string
	x, c := uninstalling(&deleted)
	workload := func(name string, conditions ...string) {
		w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}
		for _, is := range conditions {
			w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: is, Status: metav1.ConditionTrue})
		}
		if err := c.Create(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	workload("runs", kueue.WorkloadAdmitted)
	workload("ended", kueue.WorkloadAdmitted, kueue.WorkloadFinished)
	workload("waits")
	p := &Installation{Release: install.Release{Namespace: home, Manager: "mlbatch"}}
	got, err := x.Hold(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := &Holdings{
		Namespace:   home,
		Definitions: []string{"resourceflavors.kueue.x-k8s.io"},
		Objects:     map[string]int{"resourceflavors": 1},
		Running:     1,
		Waiting:     1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(deleted) > 0 {
		t.Errorf("looking deleted %v", deleted)
	}
	yes := true
	for name, spec := range map[string]batchv1.JobSpec{"stopped": {Suspend: &yes}, "goes-on": {}} {
		j := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue",
				Name:      name,
				Labels:    map[string]string{kueue.QueueNameLabel: "q"},
			},
			Spec: spec,
		}
		if spec.Suspend == nil {
			j.Status.Active = 1
		}
		if err := c.Create(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	for kept, says := range map[bool][]string{
		true:  {"kubectl delete namespace " + home, "1 kinds with their objects", "1 jobs that run", "1 jobs that wait", "v1beta1"},
		false: {"kubectl delete namespace " + home, "1 Jobs that run go on", "1 Jobs are suspended"},
	} {
		left, err := x.Left(t.Context(), p, got, kept)
		if err != nil || len(left) != len(says) {
			t.Fatalf("kept %v: %v, %v", kept, left, err)
		}
		for i := range says {
			if !strings.Contains(left[i], says[i]) {
				t.Errorf("kept %v: %q lacks %q", kept, left[i], says[i])
			}
		}
	}
}

// TestStale: what an earlier installation had and this one has not is found, and nothing of
// others, nor a definition.
func TestStale(t *testing.T) {
	var deleted []string
	x, _ := uninstalling(&deleted)
	wanted := &unstructured.Unstructured{}
	wanted.SetAPIVersion("apps/v1")
	wanted.SetKind("Deployment")
	wanted.SetNamespace(home)
	wanted.SetName("mlbatch-controller")
	p := &Installation{
		Release: install.Release{Namespace: home, Manager: "mlbatch"},
		Stages:  []install.Stage{{Name: install.ProgramsStage, Objects: []*unstructured.Unstructured{wanted}}},
	}
	got, err := x.Stale(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range got {
		names = append(names, fmt.Sprintf("%s %s", o.GetKind(), o.GetName()))
	}
	if diff := cmp.Diff(
		[]string{
			"ValidatingWebhookConfiguration mlbatch",
			"ClusterRole of-roles",
			"ClusterRole mlbatch-controller",
		},
		names,
	); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
