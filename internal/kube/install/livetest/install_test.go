package livetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/install/rollout"
	"github.com/mlbatch/mlbatch/internal/local"
)

// planned is an installation of values.
func planned(t *testing.T, values string) *rollout.Installation {
	t.Helper()
	p := &rollout.Installation{
		Values: install.DefaultValues("v1.0.0"),
		Release: install.Release{
			Namespace: install.DefaultNamespace,
			Name:      "mlbatch",
			Manager:   "mlbatch",
			Version:   "v1.0.0",
		},
	}
	if _, err := p.Values.ReadValues("values", []byte(values)); err != nil {
		t.Fatal(err)
	}
	var err error
	if p.Stages, err = install.Render(p.Values, p.Release); err != nil {
		t.Fatal(err)
	}
	return p
}

// written are what the API server calls the state of each object of a plan.
func (x *cluster) written(p *rollout.Installation) map[string]string {
	x.t.Helper()
	out := map[string]string{}
	for _, s := range p.Stages {
		for _, o := range s.Objects {
			has := &unstructured.Unstructured{}
			has.SetGroupVersionKind(o.GroupVersionKind())
			if err := x.admin.Get(x.t.Context(), client.ObjectKeyFromObject(o), has); err != nil {
				x.t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
			// Deployments change on their own, as pods come and go; their spec does not.
			if out[o.GetKind()+" "+o.GetName()] = has.GetResourceVersion(); has.GetGeneration() > 0 {
				out[o.GetKind()+" "+o.GetName()] = "generation " + string(rune('0'+has.GetGeneration()))
			}
		}
	}
	return out
}

// TestInstall installs as `mlbatch install` does, twice, changes a value, and uninstalls, on a
// cluster whose nodes run no containers: that the programs answer is not part of it.
func TestInstall(t *testing.T) {
	lc, err := local.Start(
		t.Context(),
		local.Config{DataDir: t.TempDir(), Parts: local.Kubernetes, UnsafeNoFsync: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lc.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	api, err := discovery.NewDiscoveryClientForConfig(lc.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	x := &cluster{t: t, config: lc.RESTConfig(), admin: connect(t, lc.RESTConfig(), "")}
	var said strings.Builder
	roll := &rollout.Cluster{
		Client:    x.admin,
		Discovery: api,
		Pause:     50 * time.Millisecond,
		Say: func(format string, args ...any) {
			t.Logf(format, args...)
			said.WriteString(format)
		},
	}
	p := planned(t, "")

	// 1. Nothing stands in the way of an administrator, and all of a user.
	facts, err := rollout.Look(t.Context(), x.admin, api, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rollout.Preflight(p, facts) {
		if f.Severity == finding.Error {
			t.Errorf("%+v", f)
		}
	}
	stranger := connect(t, lc.RESTConfig(), "alice")
	if facts, err = rollout.Look(t.Context(), stranger, api, p); err != nil || len(facts.Denied) < 20 {
		t.Errorf("a user may not install: %v, %v", facts, err)
	}

	// 2. What would be is told before it is.
	before, err := roll.Compare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if before.From != "" || before.Unchanged != 0 || len(before.Changes) < 100 {
		t.Errorf(
			"of an empty cluster %d would be created, %d unchanged, from %q",
			len(before.Changes),
			before.Unchanged,
			before.From,
		)
	}
	if err := x.admin.Get(
		t.Context(),
		client.ObjectKey{Name: "workloads.kueue.x-k8s.io"},
		&apiextensionsv1.CustomResourceDefinition{},
	); !apierrors.IsNotFound(
		err,
	) {
		t.Errorf("comparing must write nothing: %v", err)
	}

	// 3. Installing it a second time changes nothing.
	if err := roll.Apply(t.Context(), p, false); err != nil {
		t.Fatal(err)
	}
	first := x.written(p)
	if err := roll.Apply(t.Context(), p, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, x.written(p)); diff != "" {
		t.Errorf("the second time changed (-first +second):\n%s", diff)
	}
	again, err := roll.Compare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Changes) > 0 || again.From != "v1.0.0" {
		t.Errorf("after it nothing is to be changed: %+v", again)
	}

	// 4. Nobody answers here: waiting says so, with the reason.
	short := &spent{Context: t.Context(), done: make(chan struct{})}
	told := roll.Say
	roll.Say = func(format string, args ...any) {
		told(format, args...)
		if len(args) > 1 && args[0] == "waiting" && args[1] == "deployment mlbatch-controller" {
			short.once.Do(func() { close(short.done) })
		}
	}
	err = roll.Apply(short, p, true)
	roll.Say = told
	var unready *rollout.NotReadyError
	if !errors.As(err, &unready) || !strings.Contains(err.Error(), "deployment mlbatch-controller") {
		t.Errorf("what is not ready must be told, got %v", err)
	}

	// 5. What a value turned off goes.
	less := planned(
		t,
		"networkPolicy: {enabled: false}\ncontroller: {config: \"apiVersion: config.kueue.x-k8s.io/v1beta2\\nkind: Configuration\\nmanageJobsWithoutQueueName: true\\n\"}",
	)
	would, err := roll.Compare(t.Context(), less)
	if err != nil {
		t.Fatal(err)
	}
	deeds := map[rollout.Action]int{}
	for _, c := range would.Changes {
		deeds[c.Action]++
	}
	if diff := cmp.Diff(map[rollout.Action]int{rollout.Removed: 2, rollout.Changed: 2}, deeds); diff != "" {
		t.Errorf(
			"two policies would go, and ConfigMap and Deployment change (-want +got):\n%s\n%+v",
			diff,
			would.Changes,
		)
	}
	if err := roll.Apply(t.Context(), less, false); err != nil {
		t.Fatal(err)
	}
	if after, err := roll.Compare(t.Context(), less); err != nil || len(after.Changes) > 0 {
		t.Errorf("then nothing is left to change: %+v, %v", after, err)
	}
	x.uninstalls(roll, less)
}

// spent is a context whose time is over when its channel is closed, however long that takes.
type spent struct {
	context.Context //nolint:containedctx // it is one
	done            chan struct{}
	once            sync.Once
}

func (s *spent) Done() <-chan struct{} { return s.done }

func (s *spent) Err() error {
	select {
	case <-s.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// uninstalls takes it out again, first keeping the kinds, and then for good.
func (x *cluster) uninstalls(roll *rollout.Cluster, p *rollout.Installation) {
	t := x.t
	t.Helper()
	x.withoutWebhooks(p, func() {
		for _, o := range []client.Object{
			// One that runs, and what the controller bound where jobs run.
			&batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "runs"},
				Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"mlbatch.dev/run-for": "forever"}},
					Spec:       corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "m", Image: "i"}}},
				}},
			},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}}},
			rights.Of("team", rights.Subject("system:serviceaccount:mlbatch-system:mlbatch-controller")),
		} {
			if err := x.admin.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		x.runs("default", "runs")
	})
	job := func() *batchv1.Job {
		j := &batchv1.Job{}
		if err := x.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "runs"}, j); err != nil {
			t.Fatal(err)
		}
		return j
	}
	uid, pod := job().UID, x.podOf("default", "runs")
	if pod == nil {
		t.Fatal("the job has no pod")
	}
	goesOn := func(when string) {
		t.Helper()
		if now := x.podOf(
			"default",
			"runs",
		); now == nil || now.UID != pod.UID || now.DeletionTimestamp != nil ||
			now.Status.Phase != corev1.PodRunning {
			t.Errorf("%s the pod of a job goes on running, as the same: %+v", when, now)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := roll.Uninstall(ctx, p, true); err != nil {
		t.Fatal(err)
	}
	if j := job(); j.UID != uid || j.DeletionTimestamp != nil || j.Spec.Suspend != nil && *j.Spec.Suspend {
		t.Errorf("a job that runs goes on: %+v", j.Spec)
	}
	goesOn("with the kinds kept")
	x.nothingLeft(p)
	// Installed again it is as it was. The kinds are there: to apply them once more would take
	// most of the time.
	beside := *p
	beside.Stages = slices.DeleteFunc(
		slices.Clone(p.Stages),
		func(s install.Stage) bool { return s.Name == install.DefinitionsStage },
	)
	if err := roll.Apply(ctx, &beside, false); err != nil {
		t.Fatal(err)
	}
	if after, err := roll.Compare(
		ctx,
		&beside,
	); err != nil || len(after.Changes) > 0 ||
		after.From != p.Release.Version {
		t.Errorf("installed again nothing is to be changed: %+v, %v", after, err)
	}
	goesOn("with mlbatch back")
	if err := roll.Uninstall(ctx, p, true); err != nil {
		t.Fatal(err)
	}
	// With the webhooks gone nobody is asked; the kinds are there, in the version that is stored.
	flavor := &kueue.ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"kueue.x-k8s.io/resource-in-use"}},
	}
	if err := x.admin.Create(t.Context(), flavor); err != nil {
		t.Fatalf("a kind that was kept can be written: %v", err)
	}
	for _, s := range p.Stages {
		for _, o := range s.Objects {
			has := &unstructured.Unstructured{}
			has.SetGroupVersionKind(o.GroupVersionKind())
			err := x.admin.Get(t.Context(), client.ObjectKeyFromObject(o), has)
			if kept := s.Name == install.DefinitionsStage ||
				s.Name == install.NamespaceStage; kept != (err == nil) ||
				err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("%s %s: kept %v, got %v", o.GetKind(), o.GetName(), kept, err)
			}
		}
	}
	if left, err := roll.Left(t.Context(), p, &rollout.Holdings{}, true); err != nil || len(left) < 3 {
		t.Errorf("what is left is told: %v, %v", left, err)
	}
	// For good: an object with a finalizer of ours goes, though nobody is there to take it off.
	holds, err := roll.Hold(t.Context(), p)
	if err != nil || holds.Objects["resourceflavors"] != 1 {
		t.Errorf("what would be lost is told: %+v, %v", holds, err)
	}
	if err := roll.Uninstall(ctx, p, false); err != nil {
		t.Fatal(err)
	}
	if definitions, err := roll.Hold(t.Context(), p); err != nil || len(definitions.Definitions) > 0 {
		t.Errorf("left: %+v, %v", definitions, err)
	}
	if job().UID != uid {
		t.Error("a Job of Kubernetes stays even then")
	}
	goesOn("with all kinds gone")
	x.nothingLeft(p)
	// Nothing of the old installation is in the way of the next.
	if err := roll.Apply(ctx, p, false); err != nil {
		t.Fatal(err)
	}
	x.written(p) // all of it is there
	goesOn("with mlbatch installed once more")
}

// withoutWebhooks does something while nobody has to be asked, and has webhooks asked again. There
// is no controller here that would answer.
func (x *cluster) withoutWebhooks(p *rollout.Installation, do func()) {
	x.t.Helper()
	last := p.Stages[len(p.Stages)-1]
	if last.Name != install.WebhooksStage {
		x.t.Fatalf("the last stage is %s", last.Name)
	}
	for _, o := range last.Objects {
		if err := x.admin.Delete(x.t.Context(), o.DeepCopy()); err != nil {
			x.t.Fatal(err)
		}
	}
	x.eventually("nobody asks the webhooks", func() error {
		return x.admin.Create(
			x.t.Context(),
			x.parse(
				"{apiVersion: v1, kind: Pod, metadata: {generateName: probe-, namespace: default}, spec: {containers: [{name: c, image: x}]}}",
			),
			client.DryRunAll,
		)
	})
	do()
	for _, o := range last.Objects {
		if err := install.Put(x.t.Context(), x.admin, o); err != nil {
			x.t.Fatal(err)
		}
	}
}

// podOf is the pod of a Job, nil if there is none.
func (x *cluster) podOf(namespace, job string) *corev1.Pod {
	x.t.Helper()
	pods := &corev1.PodList{}
	if err := x.admin.List(
		x.t.Context(),
		pods,
		client.InNamespace(namespace),
		client.MatchingLabels{batchv1.JobNameLabel: job},
	); err != nil {
		x.t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		return nil
	}
	return &pods.Items[0]
}

// runs binds the pod of a Job to a simulated node, as a scheduler does, and returns once it runs.
func (x *cluster) runs(namespace, job string) {
	x.t.Helper()
	nodes := &corev1.NodeList{}
	if err := x.admin.List(x.t.Context(), nodes); err != nil || len(nodes.Items) == 0 {
		x.t.Fatalf("%d nodes: %v", len(nodes.Items), err)
	}
	x.eventually("the pod runs", func() error {
		pod := x.podOf(namespace, job)
		switch {
		case pod == nil:
			return errors.New("there is none")
		case pod.Spec.NodeName == "":
			return x.admin.SubResource("binding").
				Create(
					x.t.Context(),
					pod,
					&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: nodes.Items[0].Name}},
				)
		case pod.Status.Phase != corev1.PodRunning:
			return errors.New("it is " + string(pod.Status.Phase))
		}
		return nil
	})
}

// nothingLeft checks that nothing of a plan is left, but its namespace and definitions that may
// have been kept, and nothing that its programs made.
func (x *cluster) nothingLeft(p *rollout.Installation) {
	x.t.Helper()
	for _, s := range p.Stages {
		for _, o := range s.Objects {
			if s.Name == install.DefinitionsStage || s.Name == install.NamespaceStage {
				continue
			}
			has := &unstructured.Unstructured{}
			has.SetGroupVersionKind(o.GroupVersionKind())
			if err := x.admin.Get(x.t.Context(), client.ObjectKeyFromObject(o), has); !apierrors.IsNotFound(err) {
				x.t.Errorf("%s %s is left: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
	pods := &corev1.PodList{}
	if err := x.admin.List(
		x.t.Context(),
		pods,
		client.InNamespace(p.Release.Namespace),
		client.MatchingLabels{install.PartLabel: install.App},
	); err != nil ||
		len(pods.Items) > 0 {
		x.t.Errorf("%d pods of mlbatch are left: %v", len(pods.Items), err)
	}
	bindings := &rbacv1.RoleBindingList{}
	if err := x.admin.List(x.t.Context(), bindings); err != nil {
		x.t.Fatal(err)
	}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; b.Name == rights.Binding {
			x.t.Errorf("the controller is bound in %s still", b.Namespace)
		}
	}
}
