package scheduler

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/local"
)

const (
	testScheduler = "mlbatch-scheduler"
	schedulerUser = "system:kube-scheduler"
)

// childEnv makes the test binary a scheduler, so that a test can kill it: the
// value is "kubeconfig,port".
const childEnv = "MLBATCH_TEST_SCHEDULER"

func TestMain(m *testing.M) {
	if code, child := local.RunChild(context.Background(), nil); child {
		os.Exit(code)
	}
	if v := os.Getenv(childEnv); v != "" {
		if err := runChild(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runChild(v string) error {
	kubeconfig, port, _ := strings.Cut(v, ",")
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	return Run(ctx, Options{Client: cfg, SchedulerNames: []string{testScheduler}, HealthPort: n})
}

// world is an API server with nodes, and a scheduler where a test starts one.
type world struct {
	t       testing.TB
	ctx     context.Context
	cluster *local.Cluster
	// c is cluster administrator.
	c client.Client
}

// newWorld starts an API server that serves our kinds. There are no
// controllers and no kubelets: pods stay as tests put them.
func newWorld(tb testing.TB) *world {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs an API server")
	}
	w := &world{t: tb, ctx: context.WithoutCancel(tb.Context())} // outlives the test, for cleanup
	cluster, err := local.Start(
		w.ctx,
		local.Config{DataDir: tb.TempDir(), Parts: local.APIOnly, UnsafeNoFsync: true},
	)
	w.must(err, "start API server")
	w.cluster = cluster
	tb.Cleanup(func() {
		if err := cluster.Stop(w.ctx); err != nil {
			tb.Errorf("stop API server: %v", err)
		}
	})
	cfg := cluster.RESTConfig()
	cfg.QPS = -1
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, kueue.AddToScheme, podgroup.AddToScheme,
	} {
		w.must(add(s), "build scheme")
	}
	w.c, err = client.New(cfg, client.Options{Scheme: s})
	w.must(err, "make client")
	w.grant()
	return w
}

// grant gives the scheduler's user what it needs besides the role that
// Kubernetes itself gives to kube-scheduler.
func (w *world) grant() {
	w.t.Helper()
	const name = "mlbatch-scheduler"
	w.create(
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{
				{
					APIGroups: []string{kueue.GroupVersion.Group},
					Resources: []string{"workloads"},
					Verbs:     []string{"get", "list", "watch"},
				},
				{
					APIGroups: []string{podgroup.GroupVersion.Group},
					Resources: []string{"podgroups"},
					Verbs:     []string{"get", "list", "watch"},
				},
				{
					APIGroups: []string{podgroup.GroupVersion.Group},
					Resources: []string{"podgroups/status"},
					Verbs:     []string{"patch"},
				},
			},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: schedulerUser}},
		},
	)
}

func (w *world) must(err error, what string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// installKinds applies the definitions of Workload and PodGroup.
func (w *world) installKinds() {
	w.t.Helper()
	crds, err := config.CRDs()
	w.must(err, "read definitions")
	for _, crd := range crds {
		if crd.Spec.Names.Plural != "workloads" && crd.Spec.Names.Plural != podGroupResource {
			continue
		}
		if err := w.c.Create(w.ctx, crd); !apierrors.IsAlreadyExists(err) {
			w.must(err, "install "+crd.Name)
		}
	}
	for _, list := range []client.ObjectList{&kueue.WorkloadList{}, &podgroup.PodGroupList{}} {
		w.eventually("kinds are served", func() string {
			if err := w.c.List(w.ctx, list); err != nil {
				return err.Error()
			}
			return ""
		})
	}
}

// eventually waits until check returns "".
func (w *world) eventually(what string, check func() string) {
	w.t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(
		w.ctx,
		20*time.Millisecond,
		60*time.Second,
		true,
		func(context.Context) (bool, error) {
			last = check()
			return last == "", nil
		},
	)
	if err != nil {
		w.t.Fatalf("waiting until %s: %v: %s", what, err, last)
	}
}

// schedule runs a scheduler until the returned function is called.
func (w *world) schedule() (stop func()) {
	w.t.Helper()
	port := freePort(w.t)
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	cfg := w.cluster.RESTConfigFor(schedulerUser)
	cfg.QPS = -1
	go func() {
		done <- Run(ctx, Options{Client: cfg, SchedulerNames: []string{testScheduler}, HealthPort: port})
	}()
	w.awaitReady(port)
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("scheduler ended with %v", err)
		}
	}
	w.t.Cleanup(stop)
	return stop
}

// scheduleChild runs a scheduler that can be killed.
func (w *world) scheduleChild() *exec.Cmd {
	w.t.Helper()
	port := freePort(w.t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(
		os.Environ(),
		fmt.Sprintf("%s=%s,%d", childEnv, w.cluster.KubeconfigOf(local.Scheduler), port),
	)
	cmd.Stderr = os.Stderr
	w.must(cmd.Start(), "start scheduler process")
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	w.awaitReady(port)
	return cmd
}

func (w *world) awaitReady(port int) {
	w.t.Helper()
	w.eventually("the scheduler is ready", func() string {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", port))
		if err != nil {
			return err.Error()
		}
		w.must(resp.Body.Close(), "close answer")
		if resp.StatusCode != http.StatusOK {
			return resp.Status
		}
		return ""
	})
}

func freePort(tb testing.TB) int {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		tb.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		tb.Fatal(err)
	}
	return n
}

// node makes a ready node.
func (w *world) node(name string, gpus int, labels map[string]string) {
	w.t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{core.HostnameLabel: name}},
	}
	maps.Copy(n.Labels, labels)
	w.must(w.c.Create(w.ctx, n), "create node")
	n.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100"),
		corev1.ResourceMemory: resource.MustParse("1000Gi"),
		corev1.ResourcePods: resource.MustParse(
			"250",
		),
		core.GPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.must(w.c.Status().Update(w.ctx, n), "set node status")
	w.eventually("node "+name+" has no taints", func() string {
		if err := w.c.Get(w.ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err.Error()
		}
		if len(n.Spec.Taints) == 0 {
			return ""
		}
		n.Spec.Taints = nil
		if err := w.c.Update(w.ctx, n); err != nil {
			return err.Error()
		}
		return ""
	})
	w.t.Cleanup(func() { _ = w.c.Delete(context.Background(), n) })
}

// namespace makes a namespace in which pods can be created, and empties it at
// the end of the test.
func (w *world) namespace(name string) string {
	w.t.Helper()
	w.create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}},
	)
	w.t.Cleanup(func() { w.kill(name, "") })
	return name
}

// pod is a pod of n GPUs.
func pod(ns, name string, gpus int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   ns,
			Name:        name,
			Labels:      map[string]string{},
			Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			SchedulerName:                testScheduler,
			AutomountServiceAccountToken: new(bool),
			Containers:                   []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	if gpus > 0 {
		q := *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		p.Spec.Containers[0].Resources.Requests[core.GPU] = q
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{core.GPU: q}
	}
	return p
}

// planned makes a pod one of a Workload's.
func planned(p *corev1.Pod, workload, set string) *corev1.Pod {
	p.Annotations[kueue.WorkloadAnnotation] = workload
	p.Labels[kueue.PodSetLabel] = set
	return p
}

// grouped makes a pod one of a PodGroup's.
func grouped(p *corev1.Pod, group string) *corev1.Pod {
	p.Labels[podgroup.PodGroupLabel] = group
	return p
}

func (w *world) create(objs ...client.Object) {
	w.t.Helper()
	for _, o := range objs {
		w.must(w.c.Create(w.ctx, o), "create "+o.GetName())
	}
}

// workload makes a Workload that waits for quota.
func (w *world) workload(ns, name string, count int32) *kueue.Workload {
	w.t.Helper()
	wl := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	wl.Spec.QueueName = "q"
	wl.Spec.PodSets = []kueue.PodSet{{Name: "main", Count: count}}
	wl.Spec.PodSets[0].Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	wl.Spec.PodSets[0].Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	w.create(wl)
	return wl
}

// admit plans a Workload of one pod set; no places leave the nodes open.
func (w *world) admit(wl *kueue.Workload, places ...core.Place) {
	w.t.Helper()
	w.must(w.c.Get(w.ctx, client.ObjectKeyFromObject(wl), wl), "read workload")
	count := wl.Spec.PodSets[0].Count
	a := kueue.PodSetAssignment{Name: "main", Count: &count}
	if len(places) > 0 {
		s := kueue.TopologyAssignmentSlice{DomainCount: int32(len(places))}
		roots := []string{}
		for _, p := range places {
			roots = append(roots, p.Node)
			s.PodCounts.Individual = append(s.PodCounts.Individual, p.Count)
		}
		s.ValuesPerLevel = []kueue.TopologyAssignmentSliceLevelValues{{
			Individual: &kueue.TopologyAssignmentSliceLevelIndividualValues{Roots: roots},
		}}
		a.TopologyAssignment = &kueue.TopologyAssignment{
			Levels: []string{core.HostnameLabel},
			Slices: []kueue.TopologyAssignmentSlice{s},
		}
	}
	wl.Status.Admission = &kueue.Admission{ClusterQueue: "q", PodSetAssignments: []kueue.PodSetAssignment{a}}
	now := metav1.Now()
	wl.Status.Conditions = []metav1.Condition{
		{
			Type:               kueue.WorkloadQuotaReserved,
			Status:             metav1.ConditionTrue,
			Reason:             "QuotaReserved",
			LastTransitionTime: now,
		},
		{Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue, Reason: "Admitted", LastTransitionTime: now},
	}
	w.must(w.c.Status().Update(w.ctx, wl), "admit workload")
}

// group makes a PodGroup.
func (w *world) group(ns, name string, minMember int32) {
	w.t.Helper()
	w.create(&podgroup.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       podgroup.PodGroupSpec{MinMember: minMember},
	})
}

// nodes reads where the pods of a namespace are, by pod name; "" for nowhere.
func (w *world) nodes(ns string) map[string]string {
	w.t.Helper()
	out, err := w.readNodes(ns)
	w.must(err, "list pods")
	return out
}

// readNodes is nodes for tests that let the API server fail.
func (w *world) readNodes(ns string) (map[string]string, error) {
	var list corev1.PodList
	if err := w.c.List(w.ctx, &list, client.InNamespace(ns)); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, p := range list.Items {
		out[p.Name] = p.Spec.NodeName
	}
	return out, nil
}

// bound counts the pods of a namespace with a node whose name starts so.
func (w *world) bound(ns, prefix string) int {
	w.t.Helper()
	return countBound(w.nodes(ns), prefix)
}

func countBound(nodes map[string]string, prefix string) int {
	n := 0
	for name, node := range nodes {
		if strings.HasPrefix(name, prefix) && node != "" {
			n++
		}
	}
	return n
}

// allBound waits until n pods with the prefix have nodes.
func (w *world) allBound(ns, prefix string, n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d pods %s* have nodes", n, prefix), func() string {
		nodes, err := w.readNodes(ns)
		if err != nil {
			return err.Error()
		}
		if got := countBound(nodes, prefix); got != n {
			return fmt.Sprintf("%d have", got)
		}
		return ""
	})
}

// kill deletes pods at once.
func (w *world) kill(ns, prefix string) {
	w.t.Helper()
	for name := range w.nodes(ns) {
		if strings.HasPrefix(name, prefix) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
			w.must(client.IgnoreNotFound(w.c.Delete(w.ctx, p, client.GracePeriodSeconds(0))), "delete pod")
		}
	}
}

// finish lets a pod end.
func (w *world) finish(ns, name string, phase corev1.PodPhase) {
	w.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	patch := fmt.Sprintf(`{"status":{"phase":%q}}`, phase)
	w.must(
		w.c.Status().Patch(w.ctx, p, client.RawPatch("application/merge-patch+json", []byte(patch))),
		"finish pod",
	)
}

// says waits until the condition of a pod has the words.
func (w *world) says(ns, name string, words ...string) {
	w.t.Helper()
	w.eventually("pod "+name+" says why it waits", func() string {
		p := &corev1.Pod{}
		if err := w.c.Get(w.ctx, client.ObjectKey{Namespace: ns, Name: name}, p); err != nil {
			return err.Error()
		}
		for _, c := range p.Status.Conditions {
			if c.Type != corev1.PodScheduled {
				continue
			}
			for _, word := range words {
				if !strings.Contains(c.Message, word) {
					return fmt.Sprintf("%s: %q has no %q", c.Reason, c.Message, word)
				}
			}
			return ""
		}
		return "no condition"
	})
}
