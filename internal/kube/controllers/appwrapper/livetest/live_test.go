package livetest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	awcontroller "github.com/mlbatch/mlbatch/internal/kube/controllers/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/local"
)

func TestMain(m *testing.M) {
	if code, child := local.RunChild(context.Background(), nil); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// patience is how long to wait for what must happen.
const patience = 30 * time.Second

const manifest = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"large-"},"spec":{
	"completions":4,"parallelism":4,"template":{"spec":{"restartPolicy":"Never","terminationGracePeriodSeconds":0,
	"containers":[{"name":"c","image":"i","command":["sleep","600"],"resources":{"limits":{"nvidia.com/gpu":4}}}]}}}}`

// TestAgainstAPIServer lives through admission, a bad node, preemption and
// deletion with a real API server and the controllers of Kubernetes. The test
// stands in for the scheduler and for the kubelets.
func TestAgainstAPIServer(t *testing.T) {
	x := begin(t)
	w := &awv1beta2.AppWrapper{ObjectMeta: metav1.ObjectMeta{
		Namespace:    "default",
		GenerateName: "large-",
		Annotations:  map[string]string{awv1beta2.RetryPausePeriodDurationAnnotation: "1s"},
	}}
	w.Spec.Suspend = true
	w.Spec.Components = []awv1beta2.AppWrapperComponent{{Template: runtime.RawExtension{Raw: []byte(manifest)}}}
	if err := x.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	x.key = client.ObjectKeyFromObject(w)
	x.phase("Suspended")
	took := timed(
		func() { x.admit(); x.await("pods run", func() bool { return x.count(corev1.PodRunning) == 4 }) },
	)
	t.Logf("admitted to running: %s", took)
	x.await("ready", func() bool { return x.condition(awv1beta2.PodsReady) })

	took = timed(
		func() { x.label("n1", "EVICT"); x.await("pods gone", func() bool { return len(x.pods()) == 0 }) },
	)
	t.Logf("EVICT to last pod deleted: %s", took)
	if took > 2*time.Second {
		t.Errorf("EVICT to last pod deleted took %s", took)
	}
	x.await("running again", func() bool { return x.count(corev1.PodRunning) == 4 && x.is("Running") })
	for _, p := range x.pods() {
		terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) != 1 || !strings.Contains(fmt.Sprint(terms), "EVICT") {
			t.Errorf("pod %s may return to the node: %v", p.Name, terms)
		}
	}
	x.label("n1", "PASS")
	if n := x.get().Status.Retries; n != 0 {
		t.Errorf("moving used %d retries", n)
	}

	took = timed(func() { x.stop(); x.phase("Suspended") })
	t.Logf("suspended to released: %s", took)
	if x.condition(awv1beta2.QuotaReserved) || len(x.pods()) != 0 {
		t.Errorf("suspended with %d pods", len(x.pods()))
	}

	x.admit()
	x.await("running", func() bool { return x.count(corev1.PodRunning) == 4 })
	x.finish()
	x.phase("Succeeded")
	if x.condition(awv1beta2.QuotaReserved) {
		t.Error("quota is held after the end")
	}
	if err := x.Delete(t.Context(), x.get()); err != nil {
		t.Fatal(err)
	}
	x.await("gone", func() bool {
		return apierrors.IsNotFound(x.Get(t.Context(), x.key, &awv1beta2.AppWrapper{})) && len(x.pods()) == 0
	})
}

type cluster struct {
	client.Client
	t   *testing.T
	key types.NamespacedName
	// bad is the node that the test's scheduler leaves alone.
	bad string
}

func begin(t *testing.T) *cluster {
	t.Helper()
	c, err := local.Start(
		t.Context(),
		local.Config{DataDir: t.TempDir(), Parts: local.Kubernetes, UnsafeNoFsync: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	cfg := c.RESTConfig()
	cfg.QPS = -1
	cl, err := client.New(cfg, client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	x := &cluster{Client: cl, t: t}
	x.install()
	ctrl.SetLogger(testr.New(t))
	mgr, err := ctrl.NewManager(
		cfg,
		ctrl.Options{Scheme: scheme.New(), Metrics: metricsserver.Options{BindAddress: "0"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := awcontroller.SetupWithManager(
		mgr,
		awcontroller.Options{Metrics: prometheus.NewRegistry()},
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return x
}

// install creates the kind and those that are watched as its components, and nodes that
// only the test runs.
func (x *cluster) install() {
	x.t.Helper()
	crds, err := config.CRDs()
	if err != nil {
		x.t.Fatal(err)
	}
	for _, crd := range crds {
		ours := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		if !slices.ContainsFunc(kinds.All(), func(k jobs.Kind) bool { return k.GroupKind() == ours }) {
			continue
		}
		if err := x.Create(x.t.Context(), crd); err != nil {
			x.t.Fatal(err)
		}
		x.await("the kind "+crd.Spec.Names.Kind+" is served", func() bool {
			have := &apiextensionsv1.CustomResourceDefinition{}
			if err := x.Get(x.t.Context(), client.ObjectKeyFromObject(crd), have); err != nil {
				return false
			}
			for _, c := range have.Status.Conditions {
				if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
					return true
				}
			}
			return false
		})
	}
	for _, n := range []string{"n1", "n2"} {
		if err := x.Create(x.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}}); err != nil {
			x.t.Fatal(err)
		}
	}
}

// await lets the test's scheduler and kubelets work until ok.
func (x *cluster) await(what string, ok func() bool) {
	x.t.Helper()
	const pause = 10 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(pause) {
		x.work()
		if ok() {
			return
		}
	}
	x.t.Fatalf("%s: not within %s; %+v", what, patience, x.get().Status)
}

// work binds pods that wait and runs those that are bound.
func (x *cluster) work() {
	x.t.Helper()
	for i, p := range x.pods() {
		switch {
		case p.DeletionTimestamp != nil:
		case p.Spec.NodeName == "":
			node := fmt.Sprintf("n%d", i%2+1)
			if node == x.bad {
				node = "n2"
			}
			err := x.SubResource("binding").
				Create(x.t.Context(), &p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				x.t.Errorf("bind: %v", err)
			}
		case p.Status.Phase == corev1.PodPending:
			x.run(p, corev1.PodRunning)
		}
	}
}

func (x *cluster) run(p corev1.Pod, phase corev1.PodPhase) {
	x.t.Helper()
	p.Status.Phase = phase
	if err := x.Status().Update(
		x.t.Context(),
		&p,
	); err != nil && !apierrors.IsConflict(err) &&
		!apierrors.IsNotFound(err) {
		x.t.Errorf("set phase of pod: %v", err)
	}
}

func (x *cluster) finish() {
	x.t.Helper()
	for _, p := range x.pods() {
		x.run(p, corev1.PodSucceeded)
	}
}

func (x *cluster) pods() []corev1.Pod {
	x.t.Helper()
	var l corev1.PodList
	if x.key.Name == "" {
		return nil
	}
	if err := x.List(
		x.t.Context(),
		&l,
		client.InNamespace(x.key.Namespace),
		client.MatchingLabels{awv1beta2.AppWrapperLabel: x.key.Name},
	); err != nil {
		x.t.Fatal(err)
	}
	return l.Items
}

func (x *cluster) count(phase corev1.PodPhase) int {
	n := 0
	for _, p := range x.pods() {
		if p.Status.Phase == phase && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func (x *cluster) get() *awv1beta2.AppWrapper {
	w := &awv1beta2.AppWrapper{}
	if err := x.Get(x.t.Context(), x.key, w); err != nil {
		return &awv1beta2.AppWrapper{}
	}
	return w
}

func (x *cluster) is(phase string) bool { return string(x.get().Status.Phase) == phase }

func (x *cluster) phase(p string) {
	x.t.Helper()
	x.await("phase "+p, func() bool { return x.is(p) })
}

func (x *cluster) condition(kind string) bool {
	for _, c := range x.get().Status.Conditions {
		if c.Type == kind {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

func timed(do func()) time.Duration {
	begun := time.Now()
	do()
	return time.Since(begun)
}

// change writes the AppWrapper as its queue's controller does.
func (x *cluster) change(by func(*awv1beta2.AppWrapper) (jobs.Object, error)) {
	x.t.Helper()
	x.await("written", func() bool {
		o, err := by(x.get())
		if err != nil {
			x.t.Fatal(err)
		}
		w, ok := o.(*awv1beta2.AppWrapper)
		return ok && x.Update(x.t.Context(), w) == nil
	})
}

func (x *cluster) admit() {
	x.t.Helper()
	x.change(func(w *awv1beta2.AppWrapper) (jobs.Object, error) {
		facts, err := appwrapper.Adapter{}.Read(w)
		if err != nil {
			return nil, err
		}
		return appwrapper.Adapter{}.Start(
			w,
			[]jobs.PodSetInfo{{Name: string(facts.PodSets[0].Name), Count: facts.PodSets[0].Count}},
		)
	})
}

func (x *cluster) stop() {
	x.t.Helper()
	x.change(func(w *awv1beta2.AppWrapper) (jobs.Object, error) { return appwrapper.Adapter{}.Stop(w, nil) })
}

func (x *cluster) label(node, value string) {
	x.t.Helper()
	x.bad = ""
	if value != "PASS" {
		x.bad = node
	}
	x.await("labelled", func() bool {
		n := &corev1.Node{}
		if err := x.Get(x.t.Context(), types.NamespacedName{Name: node}, n); err != nil {
			x.t.Fatal(err)
		}
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[nodehealth.HealthLabel] = value
		return x.Update(x.t.Context(), n) == nil
	})
}
