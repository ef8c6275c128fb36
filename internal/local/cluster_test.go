package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
	"github.com/mlbatch/mlbatch/internal/local/supervise"
)

const testScale = 20

// shared is one cluster for all tests that do not stop it.
var shared struct {
	sync.Once
	cluster *Cluster
	dir     string
	took    time.Duration
	err     error
}

func sharedCluster(t *testing.T) *Cluster {
	t.Helper()
	shared.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp( //nolint:usetesting // outlives one test
			"",
			"mlbatch-test-",
		); shared.err != nil {
			return
		}
		begun := time.Now()
		shared.cluster, shared.err = Start(
			context.Background(),
			Config{DataDir: shared.dir, Parts: Kubernetes, TimeScale: testScale},
		)
		shared.took = time.Since(begun)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

func TestMain(m *testing.M) {
	if code, child := RunChild(context.Background(), nil); child {
		os.Exit(code)
	}
	if dir := os.Getenv("LOCAL_TEST_PARENT"); dir != "" {
		actAsParent(dir)
	}
	code := m.Run()
	if shared.cluster != nil {
		_ = shared.cluster.Stop(context.Background())
	}
	_ = os.RemoveAll(shared.dir)
	os.Exit(code)
}

func TestStartIsQuick(t *testing.T) {
	c := sharedCluster(t)
	if shared.took > 30*time.Second {
		t.Errorf("the cluster took %v to be ready; the aim is 10 s on an idle machine", shared.took)
	}
	t.Logf("ready after %v", shared.took.Round(time.Millisecond))
	v, err := clientOf(t, c).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(
		[]string{kubeversion.Release, "1", "37"},
		[]string{v.GitVersion, v.Major, v.Minor},
	); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
	for _, s := range c.Status() {
		t.Logf("%-25s %4d MiB", s.Name, Memory(s.PID)>>20)
	}
}

func TestImpersonationAndRBAC(t *testing.T) {
	c := sharedCluster(t)
	alice := kubernetes.NewForConfigOrDie(c.RESTConfigFor("alice"))
	if _, err := alice.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(
		err,
	) {
		t.Errorf("alice, who has no rights, gets %v; want forbidden", err)
	}
}

// How soon a pod runs and how soon its end is noticed is the machine's matter, so
// only what is certain is asked for: it runs no shorter than its scaled time, and
// far shorter than the time that its command says.
func TestPodsRunInScaledTime(t *testing.T) {
	const sleeps = 2 * time.Minute
	c := sharedCluster(t)
	cl := clientOf(t, c)
	waitForServiceAccount(t, cl)
	begun := time.Now()
	createPod(t, cl, "timed", "sh", "-c", fmt.Sprintf("sleep %d", int(sleeps.Seconds())))
	var p *corev1.Pod
	eventually(t, func() error { p = pod(t, cl, "timed"); return phaseIs(p, corev1.PodRunning) })
	if p.Spec.NodeName != "node-0" || p.Status.HostIP == "" {
		t.Errorf("status = %+v, want one from node-0", p.Status)
	}
	eventually(t, func() error { p = pod(t, cl, "timed"); return phaseIs(p, corev1.PodSucceeded) })
	if took, want := time.Since(begun), sleeps/testScale; took < want || took > sleeps/2 {
		t.Errorf("%v of sleep took %v, want %v", sleeps, took, want)
	}
}

func TestDeletedPodsGo(t *testing.T) {
	c := sharedCluster(t)
	cl := clientOf(t, c)
	waitForServiceAccount(t, cl)
	createPod(t, cl, "doomed", "sleep", "infinity")
	eventually(t, func() error { return phaseIs(pod(t, cl, "doomed"), corev1.PodRunning) })
	if err := cl.CoreV1().Pods("default").Delete(t.Context(), "doomed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	eventually(t, func() error { return gone(t, cl, "doomed") })
	t.Logf("gone after %v", time.Since(begun))
}

// A node that is taken down falls silent, and comes back.
func TestNodeGoesDownAndComesBack(t *testing.T) {
	c := sharedCluster(t)
	cl := clientOf(t, c)
	ready := func(want corev1.ConditionStatus) {
		t.Helper()
		eventually(t, func() error {
			n, err := cl.CoreV1().Nodes().Get(t.Context(), "node-2", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, cond := range n.Status.Conditions {
				if cond.Type == corev1.NodeReady && cond.Status == want {
					return nil
				}
			}
			return fmt.Errorf("node-2 is not Ready=%s: %+v", want, n.Status.Conditions)
		})
	}
	annotate(t, cl, simnode.NotReady)
	ready(corev1.ConditionFalse)
	annotate(t, cl, "")
	ready(corev1.ConditionTrue)
	annotate(t, cl, simnode.Down)
	ready(corev1.ConditionUnknown)
	annotate(t, cl, "")
	ready(corev1.ConditionTrue)
}

// kill -9 of any component: it comes back, what was stored is there, and work
// goes on.
func TestKilledComponentsComeBack(t *testing.T) {
	c := sharedCluster(t)
	cl := clientOf(t, c)
	waitForServiceAccount(t, cl)
	for i, name := range []string{Etcd, APIServer, ControllerManager, Nodes} {
		t.Run(name, func(t *testing.T) {
			before := statusOf(t, c, name)
			job := createJob(t, cl, fmt.Sprintf("job-%d", i))
			if err := c.Kill(name); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				s := statusOf(t, c, name)
				if s.Health != supervise.Ready || s.PID == before.PID || s.Restarts != before.Restarts+1 {
					return fmt.Errorf("%+v: not ready again", s)
				}
				return nil
			})
			eventually(t, func() error {
				j, err := cl.BatchV1().Jobs("default").Get(t.Context(), job, metav1.GetOptions{})
				if err != nil {
					return err
				}
				bind(t, cl)
				// Of a pod that was stored when the API server died, the Job's controller got no answer: it may have
				// made another one, as the documentation of Jobs says that it may.
				if done := j.Status.CompletionTime != nil; !done || j.Status.Succeeded < 2 || j.Status.Failed != 0 {
					return fmt.Errorf("job status %+v, want it complete with 2 succeeded", j.Status)
				}
				return nil
			})
		})
	}
}

func TestResume(t *testing.T) {
	dir := t.TempDir()
	c, err := Start(t.Context(), Config{DataDir: dir, Parts: APIOnly})
	if err != nil {
		t.Fatal(err)
	}
	cl := clientOf(t, c)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := cl.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Config{DataDir: dir, Parts: APIOnly})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second cluster on the directory: %v, want ErrInUse with our process", err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := ReadState(dir); err != nil || st.Phase != Stopped {
		t.Errorf("state after Stop = %v, %v; want stopped", st.Phase, err)
	}
	again, err := Start(t.Context(), Config{DataDir: dir, Parts: APIOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Stop(context.Background()) })
	if again.Ports().API != c.Ports().API {
		t.Errorf(
			"the API moved from port %d to %d; copies of the kubeconfig are useless now",
			c.Ports().API,
			again.Ports().API,
		)
	}
	if _, err := clientOf(
		t,
		again,
	).CoreV1().
		ConfigMaps("default").
		Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("an object of the first run: %v", err)
	}
}

// A crash of the machine may take the files that only help to resume: the data is
// there all the same, under the address that copies of the kubeconfig have.
func TestResumeWithoutHints(t *testing.T) {
	dir := t.TempDir()
	c, err := Start(t.Context(), Config{DataDir: dir, Parts: APIOnly})
	if err != nil {
		t.Fatal(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := clientOf(
		t,
		c,
	).CoreV1().
		ConfigMaps("default").
		Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{c.files.marker(), c.files.state()} {
		if err := os.Truncate(f, 0); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Start(t.Context(), Config{DataDir: dir, Parts: APIOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Stop(context.Background()) })
	if again.Ports().API != c.Ports().API {
		t.Errorf("the API moved from port %d to %d", c.Ports().API, again.Ports().API)
	}
	if _, err := clientOf(
		t,
		again,
	).CoreV1().
		ConfigMaps("default").
		Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("an object of the first run: %v", err)
	}
}

// The process that runs the cluster may die at any moment; nothing is left behind, and
// the next start finds everything as it was.
func TestKilledParentLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), "LOCAL_TEST_PARENT="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill() })
	if _, err := fmt.Fscanln(out, new(int), new(string)); err != nil {
		t.Fatalf("the cluster did not start: %v", err)
	}
	st, err := ReadState(dir)
	if err != nil || st.Phase != Running || st.PID != parent.Process.Pid || len(st.Components) != 2 {
		t.Fatalf("state = %+v, %v; want two components running under process %d", st, err, parent.Process.Pid)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	eventually(t, func() error {
		for _, c := range st.Components {
			if Memory(c.PID) != 0 {
				return fmt.Errorf("%s still runs as process %d", c.Name, c.PID)
			}
		}
		return nil
	})
	if st, err = ReadState(dir); err != nil || st.Phase != Stopped {
		t.Errorf("state after the kill = %v, %v; want stopped", st.Phase, err)
	}
	c, err := Start(t.Context(), Config{DataDir: dir, Parts: APIOnly})
	if err != nil {
		t.Fatalf("resume after the kill: %v", err)
	}
	if ran, err := Shutdown(t.Context(), filepath.Join(dir, "nothing")); ran || !errors.Is(err, ErrNoCluster) {
		t.Errorf("Shutdown where nothing is = %v, %v; want ErrNoCluster", ran, err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if ran, err := Shutdown(t.Context(), dir); ran || err != nil {
		t.Errorf("Shutdown of a stopped cluster = %v, %v; want nothing to do", ran, err)
	}
}

// A start that cannot succeed says why, and leaves nothing running.
func TestFailedStartIsCleanedUp(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken")
	_, err := Start(
		t.Context(),
		Config{DataDir: dir, Parts: APIOnly, Install: func(context.Context, Access) error { return broken }},
	)
	if !errors.Is(err, broken) {
		t.Fatalf("error = %v, want the one of Install", err)
	}
	st, err := ReadState(dir)
	if err != nil || st.Phase != Stopped {
		t.Errorf("state = %v, %v; want stopped", st.Phase, err)
	}
	for _, c := range st.Components {
		if c.PID != 0 {
			t.Errorf("%s is left as process %d", c.Name, c.PID)
		}
	}
}

// actAsParent runs a cluster for TestKilledParentLeavesNothing.
func actAsParent(dir string) {
	c, err := Start(context.Background(), Config{DataDir: dir, Parts: APIOnly})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(len(c.Status()), "run")
	select {}
}

func clientOf(t *testing.T, c *Cluster) *kubernetes.Clientset {
	t.Helper()
	cl, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// waitForServiceAccount waits until pods can be created.
func waitForServiceAccount(t *testing.T, cl *kubernetes.Clientset) {
	t.Helper()
	eventually(t, func() error {
		_, err := cl.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

func podSpec(command ...string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "main", Image: "busybox", Command: command}},
	}
}

func createPod(t *testing.T, cl *kubernetes.Clientset, name string, command ...string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: podSpec(command...)}
	p.Spec.NodeName = "node-0"
	if _, err := cl.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func createJob(t *testing.T, cl *kubernetes.Clientset, name string) string {
	t.Helper()
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: new(int32(2)), Parallelism: new(int32(2)), BackoffLimit: new(int32(0)),
			Template: corev1.PodTemplateSpec{Spec: podSpec("sleep", "20")},
		},
	}
	if _, err := cl.BatchV1().Jobs("default").Create(t.Context(), j, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

// bind plays the scheduler, which these clusters lack.
func bind(t *testing.T, cl *kubernetes.Clientset) {
	t.Helper()
	pods, err := cl.CoreV1().
		Pods("default").
		List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return // the caller tries again
	}
	for _, p := range pods.Items {
		b := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "node-1"},
		}
		_ = cl.CoreV1().Pods("default").Bind(t.Context(), b, metav1.CreateOptions{}) // the caller tries again
	}
}

func pod(t *testing.T, cl *kubernetes.Clientset, name string) *corev1.Pod {
	t.Helper()
	p, err := cl.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func phaseIs(p *corev1.Pod, want corev1.PodPhase) error {
	if p.Status.Phase != want {
		return fmt.Errorf("pod %s is %s, want %s: %s", p.Name, p.Status.Phase, want, p.Status.Message)
	}
	return nil
}

func gone(t *testing.T, cl *kubernetes.Clientset, name string) error {
	t.Helper()
	_, err := cl.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("pod %s is still there: %w", name, err)
}

func annotate(t *testing.T, cl *kubernetes.Clientset, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, simnode.AnnotationSimulate, value)
	if _, err := cl.CoreV1().Nodes().Patch(
		t.Context(),
		"node-2",
		"application/merge-patch+json",
		[]byte(patch),
		metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
}

func statusOf(t *testing.T, c *Cluster, name string) ComponentStatus {
	t.Helper()
	for _, s := range c.Status() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no component %s", name)
	return ComponentStatus{}
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// TestSimulatedNodesAnswer: kubectl logs and exec reach the kubelets of simulated
// nodes, through the API server.
func TestSimulatedNodesAnswer(t *testing.T) {
	c := sharedCluster(t)
	cl := clientOf(t, c)
	waitForServiceAccount(t, cl)
	createPod(t, cl, "talks", "sh", "-c", "sleep 20; exit 3")
	eventually(t, func() error { return phaseIs(pod(t, cl, "talks"), corev1.PodFailed) })
	log, err := cl.CoreV1().Pods("default").GetLogs("talks", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"started on node-0, a simulated node", "$ sh -c 'sleep 20; exit 3'", "ended with exit code 3"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log is\n%swant %q in it", log, want)
		}
	}
	url := cl.CoreV1().
		RESTClient().
		Post().
		Resource("pods").
		Namespace("default").
		Name("talks").
		SubResource("exec").
		Param("command", "ls").
		Param("stdout", "true").
		URL()
	exec, err := remotecommand.NewSPDYExecutor(c.RESTConfig(), "POST", url)
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.StreamWithContext(
		t.Context(),
		remotecommand.StreamOptions{Stdout: io.Discard},
	); err == nil ||
		!strings.Contains(err.Error(), "simulated node") {
		t.Errorf("exec answers %v; want that nodes are simulated", err)
	}
}

// TestNodeCreatedAgain: a node that an administrator deletes and creates again, with
// no more than its name, serves as before.
func TestNodeCreatedAgain(t *testing.T) {
	c := sharedCluster(t)
	cl := clientOf(t, c)
	if err := cl.CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { // once the last writer of its status has seen that it is gone
		_, err := cl.CoreV1().Nodes().Create(
			t.Context(),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
			metav1.CreateOptions{},
		)
		return err
	})
	eventually(t, func() error {
		n, err := cl.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if gpus := n.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != 8 ||
			n.Labels[simnode.LabelSimulated] != "true" {
			return fmt.Errorf("node-1 has %s GPUs and the labels %v", gpus.String(), n.Labels)
		}
		return nil
	})
}

// TestClaimsAreBound: a claim without a class gets the default one, and a volume;
// the volume goes with it.
func TestClaimsAreBound(t *testing.T) {
	c := sharedCluster(t)
	cl := clientOf(t, c)
	claims := cl.CoreV1().PersistentVolumeClaims("default")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "weights"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("50Gi")}
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (err error) {
		if claim, err = claims.Get(
			t.Context(),
			"weights",
			metav1.GetOptions{},
		); err == nil &&
			claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("the claim is %s", claim.Status.Phase)
		}
		return err
	})
	if err := claims.Delete(t.Context(), "weights", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		v, err := cl.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("its volume is %s: %w", v.Status.Phase, err)
	})
}
