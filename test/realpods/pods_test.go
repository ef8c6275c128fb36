package realpods

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestPodRuns: a pod is a real container: it prints what it computes, its log and a
// command in it go through its kubelet, and it ends as its process does.
func TestPodRuns(t *testing.T) {
	c, cl := cluster(t)
	ns := namespace(t, cl)
	create(t, cl, ns, busybox("adds", "echo $((20 + 22)); exit 3"))
	p := inPhase(t, cl, ns, "adds", corev1.PodFailed)
	if got := logs(t, cl, ns, "adds"); got != "42\n" {
		t.Errorf("its log is %q", got)
	}
	if code := p.Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 3 {
		t.Errorf("it ended with %d", code)
	}
	// Whatever the pull policy is: what is there needs no registry.
	create(t, cl, ns, busybox("stays", "hostname; sleep 3600", func(p *corev1.Pod) {
		p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "busybox", corev1.PullAlways
	}))
	inPhase(t, cl, ns, "stays", corev1.PodRunning)
	if got := typed(
		t,
		c,
		"kubectl",
		"exec",
		"-n",
		ns,
		"stays",
		"--",
		"sh",
		"-c",
		"echo in $HOSTNAME",
	); got != "in stays\n" {
		t.Errorf("a command in it prints %q", got)
	}
}

// TestNamesAndServices: pods find services and each other by name and reach them over
// nodes, and ports by the service's address.
func TestNamesAndServices(t *testing.T) {
	_, cl := cluster(t)
	ns := namespace(t, cl)
	for name, ip := range map[string]string{"web": "", "peers": corev1.ClusterIPNone} {
		_, err := cl.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ServiceSpec{
				ClusterIP: ip, Selector: map[string]string{"app": "server"},
				Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	create(
		t,
		cl,
		ns,
		busybox(
			"server",
			"mkdir /www; echo hello > /www/index.html; httpd -f -p 8080 -h /www",
			onNode("node-0"),
			func(p *corev1.Pod) {
				p.Spec.Hostname, p.Spec.Subdomain = "server", "peers"
			},
		),
	)
	inPhase(t, cl, ns, "server", corev1.PodRunning)
	for i := range nodes {
		name := fmt.Sprintf("client-%d", i)
		create(t, cl, ns, busybox(name, fmt.Sprintf(`
get() { until timeout 5 wget -q -O - "$1"; do sleep 0.5; done; }
get http://web; get http://web.%[1]s.svc.cluster.local; get http://server.peers:8080`, ns), onNode(fmt.Sprintf("node-%d", i))))
		inPhase(t, cl, ns, name, corev1.PodSucceeded)
		if got := logs(t, cl, ns, name); got != strings.Repeat("hello\n", 3) {
			t.Errorf("from node-%d: %q", i, got)
		}
	}
	// The API server is a service as well.
	create(t, cl, ns, busybox("asks", "until nc -w 5 kubernetes.default 443 < /dev/null; do sleep 0.5; done"))
	inPhase(t, cl, ns, "asks", corev1.PodSucceeded)
}

// TestGPUsAreCounted: the kubelet gives each pod GPUs of its own, and refuses what it
// does not have.
func TestGPUsAreCounted(t *testing.T) {
	_, cl := cluster(t)
	ns := namespace(t, cl)
	show := "echo $NVIDIA_VISIBLE_DEVICES; sleep 3600"
	create(t, cl, ns, busybox("three", show, withGPUs("3"), onNode("node-1")))
	create(t, cl, ns, busybox("five", show, withGPUs("5"), onNode("node-1")))
	have := map[string]bool{}
	for _, name := range []string{"three", "five"} {
		inPhase(t, cl, ns, name, corev1.PodRunning)
		for n := range strings.SplitSeq(strings.TrimSpace(logs(t, cl, ns, name)), ",") {
			have[n] = true
		}
	}
	if len(have) != 8 {
		t.Errorf("two pods with 3 and 5 GPUs have %v", have)
	}
	// Past every scheduler: the kubelet says no.
	create(t, cl, ns, busybox("pushes", show, withGPUs("1"), func(p *corev1.Pod) { p.Spec.NodeName = "node-1" }))
	if p := inPhase(
		t,
		cl,
		ns,
		"pushes",
		corev1.PodFailed,
	); !strings.Contains(p.Status.Reason, "OutOf") &&
		p.Status.Reason != "UnexpectedAdmissionError" {
		t.Errorf("it failed because of %s: %s", p.Status.Reason, p.Status.Message)
	}
}

// TestVolumes: a claim gets a volume that pods on several nodes share, and whose content
// goes with it.
func TestVolumes(t *testing.T) {
	_, cl := cluster(t)
	ns := namespace(t, cl)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if _, err := cl.CoreV1().
		PersistentVolumeClaims(ns).
		Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mounted := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{
				Name: "data",
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				},
			},
		}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	create(t, cl, ns, busybox("writes", "echo weights > /data/model", mounted, onNode("node-0")))
	inPhase(t, cl, ns, "writes", corev1.PodSucceeded)
	create(t, cl, ns, busybox("reads", "cat /data/model", mounted, onNode("node-2")))
	inPhase(t, cl, ns, "reads", corev1.PodSucceeded)
	if got := logs(t, cl, ns, "reads"); got != "weights\n" {
		t.Errorf("another node reads %q", got)
	}
}

// TestKilledParts: what runs a node may be killed: it comes back, and running containers
// do not notice.
func TestKilledParts(t *testing.T) {
	c, cl := cluster(t)
	ns := namespace(t, cl)
	create(t, cl, ns, busybox("stays", "sleep 3600", onNode("node-0")))
	before := inPhase(t, cl, ns, "stays", corev1.PodRunning).Status.ContainerStatuses[0]
	for _, part := range []string{"node-0-kubelet", "node-0-containerd", "node-0-kube-proxy", "dns", "volumes", "network"} {
		back, err := c.Kill(t.Context(), part)
		if err == nil {
			err = back(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, func(ctx context.Context) error { return allReady(ctx, c) })
		create(
			t,
			cl,
			ns,
			busybox(
				"after-"+part,
				"nslookup kubernetes.default.svc.cluster.local",
				onNode("node-0"),
				func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure },
			),
		)
		inPhase(t, cl, ns, "after-"+part, corev1.PodSucceeded)
	}
	after := inPhase(t, cl, ns, "stays", corev1.PodRunning).Status.ContainerStatuses[0]
	if after.ContainerID != before.ContainerID || after.RestartCount != before.RestartCount {
		t.Errorf(
			"the container was %s and is %s, with %d restarts",
			before.ContainerID,
			after.ContainerID,
			after.RestartCount,
		)
	}
}
