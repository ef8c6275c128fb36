package realpods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mlbatch/mlbatch/test/rig"
)

// nodes is how many the shared cluster has.
const nodes = 3

const gpuResource = corev1.ResourceName("nvidia.com/gpu")

// cannot begins what mlbatch says where a machine lacks something for real pods.
const cannot = "real pods cannot run here"

// shared is the cluster of all tests; nil where they cannot run.
var shared *rig.Cluster

// unable says why they cannot.
var unable error

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	var log bytes.Buffer
	var err error
	shared, err = rig.Start(ctx, &log, "--runtime=containerd", fmt.Sprintf("--nodes=%d", nodes))
	cancel()
	if _, why, lacks := strings.Cut(log.String(), cannot); err != nil && lacks {
		unable = errors.New(cannot + why)
		os.Exit(m.Run()) // each says so
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "start a cluster: %v\n%s", err, log.String())
		os.Exit(1)
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stop the cluster: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// cluster is the shared one, or skips.
func cluster(t *testing.T) (*rig.Cluster, kubernetes.Interface) {
	t.Helper()
	if unable != nil {
		t.Skip(unable)
	}
	return shared, clientOf(t, shared)
}

func clientOf(t *testing.T, c *rig.Cluster) kubernetes.Interface {
	t.Helper()
	cl, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// namespace makes one for a test. It has the service account that pods need.
func namespace(t *testing.T, cl kubernetes.Interface) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	_, err := cl.CoreV1().Namespaces().Create(
		t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{},
	)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.CoreV1().Namespaces().Delete(
			context.Background(),
			name,
			metav1.DeleteOptions{},
		); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Log(err)
		}
	})
	eventually(t, func(ctx context.Context) error {
		_, err := cl.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return name
}

// patience is for a machine that does much else.
const patience = 2 * time.Minute

// eventually waits until a condition holds, and fails with why it did not.
func eventually(t *testing.T, holds func(context.Context) error) {
	t.Helper()
	rig.Eventually(t, patience, holds)
}

// busybox is a pod that runs a script.
func busybox(name, script string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{
				Name: "main", Image: "busybox:1.36", Command: []string{"sh", "-c", script},
			}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func onNode(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} }
}

func withGPUs(n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpuResource: resource.MustParse(n)}
	}
}

func create(t *testing.T, cl kubernetes.Interface, ns string, p *corev1.Pod) {
	t.Helper()
	if _, err := cl.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// inPhase waits for a pod to get there.
func inPhase(t *testing.T, cl kubernetes.Interface, ns, name string, want corev1.PodPhase) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	eventually(t, func(ctx context.Context) (err error) {
		if p, err = cl.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if p.Status.Phase != want {
			return fmt.Errorf(
				"pod %s is %s and not %s: %s %s%s",
				name,
				p.Status.Phase,
				want,
				p.Status.Reason,
				p.Status.Message,
				containerStates(p),
			)
		}
		return nil
	})
	return p
}

func containerStates(p *corev1.Pod) string {
	var b strings.Builder
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil:
			fmt.Fprintf(&b, " %s waits: %s %s", s.Name, s.State.Waiting.Reason, s.State.Waiting.Message)
		case s.State.Terminated != nil:
			fmt.Fprintf(
				&b,
				" %s ended with %d: %s %s",
				s.Name,
				s.State.Terminated.ExitCode,
				s.State.Terminated.Reason,
				s.State.Terminated.Message,
			)
		}
	}
	return b.String()
}

func logs(t *testing.T, cl kubernetes.Interface, ns, name string) string {
	t.Helper()
	r, err := cl.CoreV1().Pods(ns).GetLogs(name, &corev1.PodLogOptions{}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// typed types a command of mlbatch.
func typed(t *testing.T, c *rig.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
