package ha

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// BenchmarkSize measures what a controller needs where there are many nodes and pods that it did
// not admit: its memory, and how long it takes from its start until it admits; and then what a scheduler
// needs. Half of the nodes are full of pods. MLBATCH_BENCH_NODES and MLBATCH_BENCH_PODS are how many (10000
// and 100000), MLBATCH_BENCH_PROFILE is where a profile of its memory is put, MLBATCH_BENCH_CPU
// where one of its processor time in its first MLBATCH_BENCH_SECONDS (20) is.
func BenchmarkSize(b *testing.B) {
	nodes, pods := number(b, "MLBATCH_BENCH_NODES", 10000), number(b, "MLBATCH_BENCH_PODS", 100000)
	p := newPlane(b)
	p.crowd(nodes, pods)
	first := p.direct().ready()
	p.furnish(8*int64(nodes), 8)
	p.eventually("the first one decides", func() error { return leads(first) })
	p.workload("before", 8, 0, "")
	p.eventually("it admits", func() error { return p.holds("before") })
	first.signal(9)
	<-first.ended
	p.await(20 * time.Second) // its lease runs out, and its webhooks are known to be gone

	for b.Loop() {
		began := time.Now()
		r := p.direct()
		computed := r.computes()
		p.seldom(r.name+" is ready", func() error { return ready(p.Context(), r.order.Health) })
		isReady := time.Since(began)
		p.workload("w-"+strconv.Itoa(p.begun), 1, 0, "")
		p.seldom("it admits", func() error { return p.holds("w-" + strconv.Itoa(p.begun)) })
		admits := time.Since(began)
		computed()
		p.await(10 * time.Second) // until what was only needed to start is given back
		now, most := r.memory()
		b.ReportMetric(isReady.Seconds(), "s-ready")
		b.ReportMetric(admits.Seconds(), "s-first-decision")
		b.ReportMetric(now, "MB")
		b.ReportMetric(most, "MB-peak")
		if to := os.Getenv("MLBATCH_BENCH_PROFILE"); to != "" {
			r.profile("heap?gc=1", to)
		}
		r.signal(9)
		<-r.ended
		p.measureScheduler(b)
	}
	b.ReportMetric(0, "ns/op")
}

// measureScheduler measures what a scheduler needs until it has read everything, and then.
func (p *plane) measureScheduler(b *testing.B) {
	b.Helper()
	p.begun++
	r := &replica{plane: p, name: fmt.Sprintf("scheduler-%d", p.begun), ended: make(chan struct{})}
	r.order = order{Kubeconfig: filepath.Join(p.dir, r.name+".yaml"), Health: free(p), Scheduler: true}
	r.write(p.config.Host, p.config)
	began := time.Now()
	r.start()
	p.seldom(r.name+" is ready", func() error { return ready(p.Context(), r.order.Health) })
	b.ReportMetric(time.Since(began).Seconds(), "s-scheduler-ready")
	p.await(10 * time.Second)
	now, most := r.memory()
	b.ReportMetric(now, "MB-scheduler")
	b.ReportMetric(most, "MB-scheduler-peak")
	r.signal(9)
	<-r.ended
}

// seldom waits until something succeeds, and asks so seldom that it takes nothing from those who compute.
func (p *plane) seldom(what string, try func() error) {
	p.Helper()
	p.eventually(what, func() error {
		err := try()
		if err != nil {
			p.await(100 * time.Millisecond)
		}
		return err
	})
}

// await lets time pass.
func (p *plane) await(d time.Duration) {
	select {
	case <-p.Context().Done():
	case <-time.After(d):
	}
}

// direct starts a controller that speaks to the API server itself.
func (p *plane) direct() *replica {
	p.Helper()
	p.begun++
	r := &replica{plane: p, name: fmt.Sprintf("replica-%d", p.begun), ended: make(chan struct{})}
	r.order = order{
		Kubeconfig: filepath.Join(p.dir, r.name+".yaml"),
		Webhook:    free(p),
		Health:     free(p),
		Profiles:   free(p),
	}
	r.write(p.config.Host, p.config)
	r.start()
	return r
}

// memory is what the process holds now and held at most, in megabytes.
func (r *replica) memory() (now, most float64) {
	r.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		r.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			now = kib * 1024 / 1e6
		case "VmHWM:":
			most = kib * 1024 / 1e6
		}
	}
	return now, most
}

// computes stores what the process computes in its first seconds, if anybody wants to know; it is stored
// when what is returned returns.
func (r *replica) computes() (stored func()) {
	r.Helper()
	to := os.Getenv("MLBATCH_BENCH_CPU")
	if to == "" {
		return func() {}
	}
	r.eventually("it serves profiles", func() error {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.order.Profiles))
		if err == nil {
			err = c.Close()
		}
		return err
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.profile(fmt.Sprintf("profile?seconds=%d", number(r, "MLBATCH_BENCH_SECONDS", 20)), to)
	}()
	return func() { <-done }
}

// profile stores a profile of the process.
func (r *replica) profile(what, to string) {
	r.Helper()
	req, err := http.NewRequestWithContext(
		r.Context(),
		http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/%s", r.order.Profiles, what),
		nil,
	)
	if err != nil {
		r.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		r.Fatal(err)
	}
}

func number(b testing.TB, name string, otherwise int) int {
	b.Helper()
	if os.Getenv(name) == "" {
		return otherwise
	}
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return n
}

// crowd makes nodes, and pods that run on half of them, of teams and others. It uses
// protobuf, as it makes a great many.
func (p *plane) crowd(nodes, pods int) {
	p.Helper()
	cfg := rest.CopyConfig(p.config)
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		p.Fatal(err)
	}
	p.many(nodes, func(ctx context.Context, i int) error {
		n := nodeObject(fmt.Sprintf("node-%05d", i))
		n.Labels["topology.kubernetes.io/zone"] = fmt.Sprintf("zone-%d", i%10)
		n.Labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
		n.Status = nodeStatus(8)
		for j := range 30 {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
				Names: []string{
					fmt.Sprintf("registry.example.com/team-%d/training@sha256:%064d", j, i*100+j),
					fmt.Sprintf("registry.example.com/team-%d/training:v%d", j, i%7),
				},
				SizeBytes: 1 << 30,
			})
		}
		_, err := c.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		if err == nil {
			_, err = c.CoreV1().Nodes().UpdateStatus(ctx, withStatus(n), metav1.UpdateOptions{})
		}
		return err
	})
	perNode := max(pods/max(nodes/2, 1), 1)
	if err := p.admin.Create(
		p.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "others"}},
	); err != nil {
		p.Fatal(err)
	}
	p.account("others")
	p.many(pods, func(ctx context.Context, i int) error {
		_, err := c.CoreV1().
			Pods("others").
			Create(ctx, aPod(i, fmt.Sprintf("node-%05d", i/perNode)), metav1.CreateOptions{})
		return err
	})
}

// withStatus is an object whose status is to be stored after its making.
func withStatus(n *corev1.Node) *corev1.Node {
	out := n.DeepCopy()
	out.ResourceVersion = ""
	return out
}

// many does something many times, in parallel.
func (p *plane) many(n int, do func(context.Context, int) error) {
	p.Helper()
	began := time.Now()
	next := make(chan int)
	var all sync.WaitGroup
	for range 48 {
		all.Go(func() {
			for i := range next {
				if err := do(p.Context(), i); err != nil {
					p.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		if p.Failed() {
			break
		}
		next <- i
	}
	close(next)
	all.Wait()
	if p.Failed() {
		p.FailNow()
	}
	p.Logf("made %d in %s", n, time.Since(began).Round(time.Second))
}

// aPod is a pod as training jobs have them: with what they are configured by, which nobody here
// reads.
func aPod(i int, node string) *corev1.Pod {
	var env []corev1.EnvVar
	for j := range 30 {
		env = append(
			env,
			corev1.EnvVar{
				Name:  fmt.Sprintf("TRAINING_SETTING_%d", j),
				Value: fmt.Sprintf("a value of some length for pod %d and setting %d", i, j),
			},
		)
	}
	job := fmt.Sprintf("job-%05d", i/16)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "others", Name: fmt.Sprintf("%s-%d", job, i%16),
			Labels: map[string]string{
				"app.kubernetes.io/name":              "training",
				"app.kubernetes.io/instance":          job,
				"training.kubeflow.org/replica-index": strconv.Itoa(i % 16),
				"training.kubeflow.org/replica-type":  "worker",
				"training.kubeflow.org/job-name":      job,
			},
			Annotations: map[string]string{"example.com/config": strings.Repeat("x", 200) + strconv.Itoa(i)},
		},
		Spec: corev1.PodSpec{
			NodeName:                     node,
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: new(bool),
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{
					Name:         "shm",
					VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}},
				},
			},
			Containers: []corev1.Container{
				{
					Name:    "main",
					Image:   "registry.example.com/team/training:v" + strconv.Itoa(i%7),
					Command: []string{"torchrun", "--nnodes=16", "train.py"},
					Env:     env,
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("8Gi")},
					},
					VolumeMounts: []corev1.VolumeMount{
						{Name: "data", MountPath: "/data"},
						{Name: "shm", MountPath: "/dev/shm"},
					},
				},
			},
		},
	}
}
