package simnode

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestHostsInFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		why, text string
		want      []string
	}{
		"Open MPI":    {"a host and its slots; the domain is that of its service", "train-worker-0.train.blue.svc slots=2\ntrain-worker-1.train.blue.svc slots=2\n", []string{"train-worker-0", "train-worker-1"}},
		"Intel MPI":   {"slots after a colon", "w-0.train.blue.svc:2\nw-1.train.blue.svc:2", []string{"w-0", "w-1"}},
		"of v1":       {"names of pods", "w-0 slots=1\n", []string{"w-0"}},
		"itself":      {"it is up when it runs", "me.train.blue.svc\nw-0.train.blue.svc\n", []string{"w-0"}},
		"twice":       {"one pod", "w-0 slots=1\nw-0 slots=1\n", []string{"w-0"}},
		"no pods":     {"addresses and comments name none", "# hosts\n10.0.0.1 slots=2\nlocalhost\n\n", nil},
		"nobody else": {"mpirun works alone", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, hostsIn(tc.text, "me")); d != "" {
				t.Error(tc.why, d)
			}
		})
	}
}

func TestWhenHostsAreUp(t *testing.T) {
	ended := endedAt(t, newPod(command("sleep", "5")), 5)
	failed := endedAt(t, newPod(command("sleep", "5"), annotated(AnnotationExitCode, "1")), 5)
	leaving := running(newPod(), 3)
	leaving.DeletionTimestamp = new(metav1.NewTime(at(9)))
	for name, tc := range map[string]struct {
		why  string
		pod  *corev1.Pod
		want float64
		up   bool
	}{
		"runs":      {"since its container started", running(newPod(), 3), 3, true},
		"succeeded": {"it was up", ended, 0, true},
		"failed":    {"another one comes, or nothing", failed, 0, false},
		"begins":    {"its containers do not run yet", newPod(), 0, false},
		"init":      {"others come first", running(newPod(inits("sleep 9")), 3), 0, false},
		"leaves":    {"it is about to go", leaving, 0, false},
		"none":      {"there is none", nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			since, up := upSince(tc.pod, nil)
			if up != tc.up || up && !since.Equal(at(tc.want)) {
				t.Errorf("up %v since %v, want %v, %v: %s", up, since, tc.up, at(tc.want), tc.why)
			}
		})
	}
}

// launcherPod finds its hosts in a file.
func launcherPod(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Name, p.UID = "launcher", "l"
		p.Spec.Volumes = []corev1.Volume{
			{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{
					Name: "config",
				},
				Items: []corev1.KeyToPath{{Key: "discover", Path: "discover"}, {Key: key, Path: "hostfile"}},
			}}},
		}
	}
}

// TestLaunchersEndAfterTheirHostsAreUp, so long after it as they run, and whenever they began.
func TestLaunchersEndAfterTheirHostsAreUp(t *testing.T) {
	named := func(name, host string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Name, p.UID, p.Spec.Hostname = name, types.UID(name), host }
	}
	second := newPod(named("train-node-1-x7k2p", "w-1"))
	cl := fake.NewClientset(
		DefaultFleet().Node(1, at(0)),
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "config"},
			Data:       map[string]string{"hosts": "w-0.j slots=2\nw-1.j slots=2\n"},
		},
		running(
			newPod(launcherPod("hosts"), command("sleep", "10")),
			0,
		),
		running(newPod(named("w-0", "")), 20),
		second,
	)
	clock := clocktesting.NewFakeClock(at(90))
	s, err := newSimulator(cl, clock, options{scale: 1, fleet: DefaultFleet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	for _, i := range []cache.SharedIndexInformer{s.nodes, s.pods} {
		watching.Go(func() { i.RunWithContext(ctx) })
	}
	defer watching.Wait()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), s.nodes.HasSynced, s.pods.HasSynced) {
		t.Fatal("the caches are not filled")
	}
	sync := func() time.Duration {
		t.Helper()
		again, err := s.syncPod(ctx, "blue/launcher")
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	if again := sync(); again != 0 {
		t.Errorf("with a host missing it is looked at again after %v", again)
	}
	for range 3 { // what the watch began with
		key, _ := s.podQueue.Get()
		s.podQueue.Done(key)
	}
	if _, err := cl.CoreV1().
		Pods("blue").
		UpdateStatus(ctx, running(second, 85), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for key := ""; key != "blue/launcher"; { // nothing else happened to it
		key, _ = s.podQueue.Get()
		s.podQueue.Done(key)
	}
	if again := sync(); again != 5*time.Second {
		t.Errorf("its hosts are up since 85 s, it runs for 10 s, and 5 s later it is looked at again in %v", again)
	}
	clock.SetTime(at(95))
	sync()
	p, err := cl.CoreV1().Pods("blue").Get(ctx, "launcher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	end := p.Status.ContainerStatuses[0].State.Terminated
	if p.Status.Phase != corev1.PodSucceeded || !end.FinishedAt.Time.Equal(at(95)) {
		t.Errorf("it is %s: %+v", p.Status.Phase, end)
	}
	s.forget("l")
	if len(s.launchers)+len(s.needed) > 0 {
		t.Errorf("of launchers that are gone it remembers %v, %v", s.launchers, s.needed)
	}
}

// TestWhoNeedsNoHosts: pods without a list, or whose list is not there.
func TestWhoNeedsNoHosts(t *testing.T) {
	s, err := newSimulator(
		fake.NewClientset(),
		clocktesting.NewFakeClock(at(0)),
		options{scale: 1, fleet: DefaultFleet()},
	)
	if err != nil {
		t.Fatal(err)
	}
	for why, pod := range map[string]*corev1.Pod{"it has no list": newPod(), "its list is not there": newPod(launcherPod("hosts"))} {
		if h, err := s.hostsOf(t.Context(), pod); err != nil || h.Missing {
			t.Errorf("%s: %+v, %v", why, h, err)
		}
	}

	v := Decide(
		Facts{
			Pod:   running(newPod(inits("sleep 3"), command("sleep", "4")), 0),
			Hosts: Hosts{Missing: true},
			Now:   at(3),
			Scale: 1,
		},
	)
	if v.Status == nil || v.Status.Phase != corev1.PodRunning || !v.Wake.IsZero() {
		t.Errorf("init containers need no hosts, containers do: %+v", v)
	}
}
