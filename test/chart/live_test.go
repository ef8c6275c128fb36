package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/test/rig"
)

// liveVariable, if set, has the chart installed into a cluster with real nodes, as root.
const liveVariable = "MLBATCH_CHART_LIVE"

// patience is for a machine that does much else.
const patience = 5 * time.Minute

// TestChartOnACluster does what an admin with Helm does: install, helm test, upgrade, uninstall, install
// again. A job that runs runs through all of it, kinds and queues stay, and Helm's test fails where
// nothing decides.
func TestChartOnACluster(t *testing.T) {
	if os.Getenv(liveVariable) == "" {
		t.Skip("it takes root and real nodes: make installed")
	}
	var log bytes.Buffer
	c, err := rig.StartBare(t.Context(), &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	h := newHelm(t, c)
	values := func() map[string]any {
		registry, rest, _ := strings.Cut(c.Image(), "/")
		repository, tag, _ := strings.Cut(rest, ":")
		return map[string]any{"image": map[string]any{"registry": registry, "repository": repository, "tag": tag}}
	}
	typed := func(args ...string) string {
		t.Helper()
		out, err := c.Run(t.Context(), args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}

	h.install(values())
	h.test(nil)
	typed("team", "create", "blue", "--create-flavor", "--gpus", "8", "--users", "alice")
	typed(
		"run",
		"-n",
		"blue",
		"--as",
		"alice",
		"--gpus",
		"1",
		"--image",
		"busybox:1.36",
		"--name",
		"first",
		"--",
		"true",
	)
	typed(
		"run",
		"-n",
		"blue",
		"--as",
		"alice",
		"--detach",
		"--gpus",
		"1",
		"--image",
		"busybox:1.36",
		"--name",
		"stays",
		"--",
		"sleep",
		"3600",
	)
	before := h.pod("stays")
	if out := typed("doctor"); !strings.Contains(out, "Nothing is wrong") {
		t.Errorf("doctor says\n%s", out)
	}

	more := values()
	more["scheduler"] = map[string]any{"replicas": 1}
	h.upgrade(more)
	if n := h.replicas("mlbatch-scheduler"); n != 1 {
		t.Errorf("after an upgrade to one replica there are %d", n)
	}
	h.upgrade(values())
	scale := func(replicas string) {
		typed(
			"kubectl",
			"scale",
			"-n",
			install.DefaultNamespace,
			"deployment/mlbatch-controller",
			"--replicas="+replicas,
		)
		typed(
			"kubectl",
			"rollout",
			"status",
			"-n",
			install.DefaultNamespace,
			"deployment/mlbatch-controller",
			"--timeout=3m",
		)
	}
	scale("0")
	// A rollout to nothing is complete while pods that still answer end.
	typed(
		"kubectl",
		"wait",
		"-n",
		install.DefaultNamespace,
		"--for=delete",
		"pod",
		"-l",
		"app.kubernetes.io/component=controller",
		"--timeout=3m",
	)
	h.test(errFailed)
	scale("2")
	h.test(nil)
	typed(
		"run",
		"-n",
		"blue",
		"--as",
		"alice",
		"--gpus",
		"1",
		"--image",
		"busybox:1.36",
		"--name",
		"second",
		"--",
		"true",
	)

	h.uninstall()
	if out := typed("kubectl", "get", "clusterqueues", "-o", "name"); !strings.Contains(out, "blue") {
		t.Errorf("the queues that are left are %q", out)
	}
	if after := h.pod("stays"); after != before {
		t.Errorf("without mlbatch the job's pod is %s, and was %s", after, before)
	}
	h.install(values())
	typed(
		"run",
		"-n",
		"blue",
		"--as",
		"alice",
		"--gpus",
		"1",
		"--image",
		"busybox:1.36",
		"--name",
		"third",
		"--",
		"true",
	)
	if after := h.pod("stays"); after != before {
		t.Errorf("with mlbatch again the job's pod is %s, and was %s", after, before)
	}
}

// errFailed is what Helm's test says of a release that does not work.
var errFailed = errors.New("it fails")

// helm is Helm with a cluster.
type helm struct {
	*testing.T
	config *action.Configuration
	chart  *chart.Chart
	kube   kubernetes.Interface
}

func newHelm(t *testing.T, c *rig.Cluster) *helm {
	t.Helper()
	settings := cli.New()
	settings.KubeConfig = filepath.Join(c.Dir, "kubeconfig")
	settings.SetNamespace(install.DefaultNamespace)
	config := &action.Configuration{}
	if err := config.Init(settings.RESTClientGetter(), install.DefaultNamespace, "secret", t.Logf); err != nil {
		t.Fatal(err)
	}
	of, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &helm{t, config, of, kube}
}

func (h *helm) install(values map[string]any) {
	h.Helper()
	i := action.NewInstall(h.config)
	i.ReleaseName, i.Namespace, i.CreateNamespace, i.Wait, i.Timeout = "mlbatch", install.DefaultNamespace, true, true, patience
	if _, err := i.RunWithContext(h.Context(), h.chart, values); err != nil {
		h.Fatalf("helm install: %v", err)
	}
}

func (h *helm) upgrade(values map[string]any) {
	h.Helper()
	u := action.NewUpgrade(h.config)
	u.Namespace, u.Wait, u.Timeout = install.DefaultNamespace, true, patience
	if _, err := u.RunWithContext(h.Context(), "mlbatch", h.chart, values); err != nil {
		h.Fatalf("helm upgrade: %v", err)
	}
}

func (h *helm) uninstall() {
	h.Helper()
	u := action.NewUninstall(h.config)
	u.Wait, u.Timeout = true, patience
	if _, err := u.Run("mlbatch"); err != nil {
		h.Fatalf("helm uninstall: %v", err)
	}
}

// test types helm test, which is to succeed, or to fail.
func (h *helm) test(want error) {
	h.Helper()
	r := action.NewReleaseTesting(h.config)
	r.Namespace, r.Timeout = install.DefaultNamespace, patience
	rel, err := r.Run("mlbatch")
	if (err == nil) == (want == nil) {
		return
	}
	said := ""
	if rel != nil {
		var out bytes.Buffer
		_ = r.GetPodLogs(&out, rel) // a pod that is gone has said nothing
		said = out.String()
	}
	h.Errorf("helm test: %v, want %v\n%s", err, want, said)
}

// pod is the only pod of a job, which runs.
func (h *helm) pod(job string) string {
	h.Helper()
	var out string
	rig.Eventually(h.T, patience, func(ctx context.Context) error {
		pods, err := h.kube.CoreV1().
			Pods("blue").
			List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it has %d pods", len(pods.Items))
		}
		out = string(pods.Items[0].UID)
		return nil
	})
	return out
}

// replicas is how many pods a Deployment is to have, 0 if there is none.
func (h *helm) replicas(deployment string) int32 {
	h.Helper()
	d, err := h.kube.AppsV1().
		Deployments(install.DefaultNamespace).
		Get(h.Context(), deployment, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0
	}
	if err != nil {
		h.Fatal(err)
	}
	return *d.Spec.Replicas
}
