package simnode

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

// endedAt is a pod whose only container ended.
func endedAt(t *testing.T, p *corev1.Pod, seconds float64) *corev1.Pod {
	t.Helper()
	p = running(p, 0)
	p.Status = *Decide(Facts{Pod: p, Now: at(seconds), Scale: 1}).Status
	return p
}

// TestTranscriptsTellWhatBecameOfAContainer: nothing is really run, so a log says
// what would have been.
func TestTranscriptsTellWhatBecameOfAContainer(t *testing.T) {
	crashed := running(newPod(policy(corev1.RestartPolicyAlways), command("sh", "-c", "sleep 1; exit 3")), 0)
	for _, now := range []float64{1, 2, 3} {
		if v := Decide(Facts{Pod: crashed, Now: at(now), Scale: 1}); v.Status != nil {
			crashed.Status = *v.Status
		}
	}
	tests := map[string]struct {
		why       string
		pod       *corev1.Pod
		container string
		previous  bool
		want      string // lines, or what the error says
		ended     bool
	}{
		"running": {
			"its command, and what it will do",
			running(newPod(command("sh", "-c", "sleep 60; exit 2")), 0),
			"main",
			false,
			"started on node-1, a simulated node: nothing is really run\n$ sh -c 'sleep 60; exit 2'\ntakes 1m0s, then ends with exit code 2",
			false,
		},
		"server": {
			"no end to foresee",
			running(newPod(policy(corev1.RestartPolicyAlways)), 0),
			"main",
			false,
			"started on node-1, a simulated node: nothing is really run\n$ (what the image busybox runs)\ngoes on until it is stopped",
			false,
		},
		"ended": {
			"how, and after how long",
			endedAt(t, newPod(command("sleep", "5"), annotated(AnnotationExitCode, "7")), 5),
			"main",
			false,
			"started on node-1, a simulated node: nothing is really run\n$ sleep 5\ntakes 5s, then ends with exit code 7\nended with exit code 7 after 5s",
			true,
		},
		"previous": {"the run before", crashed, "main", true, "ended with exit code 3 after 1s", true},
		"no run yet": {
			"as a kubelet says it",
			newPod(),
			"main",
			false,
			`container "main" in pod "p" is waiting to start: ContainerCreating`,
			false,
		},
		"init": {
			"the others wait", running(newPod(inits("sleep 9")), 0), "main", false,
			`container "main" in pod "p" is waiting to start: PodInitializing`, false,
		},
		"no previous": {
			"there was one run only",
			running(newPod(), 0),
			"main",
			true,
			`previous terminated container "main" in pod "p" not found`,
			false,
		},
		"unknown": {
			"no such container",
			running(newPod(), 0),
			"side",
			false,
			`container "side" in pod "p" is not known`,
			false,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var lines []string
			got, err := transcribe(tc.pod, tc.container, 1, tc.previous)
			for _, l := range got.lines {
				lines = append(lines, l.text)
			}
			if err != nil {
				lines = []string{err.Error()}
			}
			if text := strings.Join(lines, "\n"); !strings.HasSuffix(text, tc.want) || got.ended != tc.ended {
				t.Errorf("%s: ended %v, log\n%s\nwant %v,\n%s", tc.why, got.ended, text, tc.ended, tc.want)
			}
		})
	}
}

// TestTimesOfLinesGrow: whoever follows a container that is started again within a second knows by
// their times which lines are new.
func TestTimesOfLinesGrow(t *testing.T) {
	p := running(
		newPod(policy(corev1.RestartPolicyAlways), command("sleep", "1"), annotated(AnnotationFailFirst, "1")),
		0,
	)
	cs := &p.Status.ContainerStatuses[0]
	begun := cs.State.Running.StartedAt
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{StartedAt: begun, FinishedAt: begun, ExitCode: code},
		}
	}
	cs.RestartCount = 1
	cs.LastTerminationState = ended(1)
	for name, state := range map[string]corev1.ContainerState{"runs again": cs.State, "has ended again": ended(0)} {
		cs.State = state
		var lines []logLine
		for _, previous := range []bool{true, false} {
			told, err := transcribe(p, "main", 1, previous)
			if err != nil {
				t.Fatal(err)
			}
			if text := told.lines[2].text; strings.HasSuffix(text, "then ends with exit code 1") != previous {
				t.Errorf("%s: the run (before: %v) %s", name, previous, text)
			}
			lines = append(lines, told.lines...)
		}
		for i := 1; i < len(lines); i++ {
			if !lines[i].at.After(lines[i-1].at) {
				t.Errorf(
					"%s: %q is written at %v, and %q before it at %v",
					name,
					lines[i].text,
					lines[i].at,
					lines[i-1].text,
					lines[i-1].at,
				)
			}
		}
	}
}

// kubeletOf serves the kubelet of node-1, which has one pod.
func kubeletOf(t *testing.T, pod *corev1.Pod) (*fake.Clientset, string) {
	t.Helper()
	node := DefaultFleet().Node(1, at(0))
	cl := fake.NewClientset(node, pod)
	s, err := newSimulator(cl, clocktesting.NewFakeClock(at(100)), options{scale: 1, fleet: DefaultFleet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, i := range []cache.SharedIndexInformer{s.nodes, s.pods} {
		running.Go(func() { i.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), s.nodes.HasSynced, s.pods.HasSynced) {
		t.Fatal("the caches are not filled")
	}
	srv := httptest.NewServer(kubelets{s}.handler())
	t.Cleanup(func() {
		srv.Close()
		cancel()
		running.Wait()
	})
	return cl, srv.URL
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

func TestKubeletsAnswer(t *testing.T) {
	_, url := kubeletOf(t, endedAt(t, newPod(command("sleep", "5")), 5))
	tests := map[string]struct {
		why, path string
		code      int
		says      string
	}{
		"tail": {
			"the last lines only",
			"/containerLogs/blue/p/main?tailLines=1",
			200,
			"ended with exit code 0 after 5s",
		},
		"timestamps": {
			"as kubectl shows them",
			"/containerLogs/blue/p/main?tailLines=1&timestamps=true",
			200,
			"2026-01-01T00:00:05.000000003Z ended with exit code 0 after 5s",
		},
		"since": {
			"nothing older",
			"/containerLogs/blue/p/main?sinceSeconds=96",
			200,
			"ended with exit code 0 after 5s",
		},
		"limit": {"so many bytes", "/containerLogs/blue/p/main?tailLines=1&limitBytes=5", 200, "ended"},
		"follow": {
			"nothing more will come",
			"/containerLogs/blue/p/main?follow=true&tailLines=1",
			200,
			"ended with exit code 0 after 5s",
		},
		"other pod": {"not on this cluster", "/containerLogs/blue/q/main", 404, `pod "blue/q" not found`},
		"bad number": {
			"said plainly",
			"/containerLogs/blue/p/main?tailLines=many",
			400,
			`tailLines "many" is no number`,
		},
		"exec": {
			"there is nothing to run in, but something to tell",
			"/exec/blue/p/main?command=ls",
			501,
			"pod blue/p is on a simulated node: there is no process to run commands in. Of container main its logs say: started on node-1, a simulated node: nothing is really run; $ sleep 5; takes 5s, then ends with exit code 0; ended with exit code 0 after 5s",
		},
		"exec other": {
			"the container is named",
			"/exec/blue/p/side?command=ls",
			501,
			`there is no process to run commands in: container "side" in pod "p" is not known`,
		},
		"gone": {
			"nothing is known of it",
			"/exec/blue/q/main?command=ls",
			501,
			"there is no process to run commands in",
		},
		"forward": {"nor to talk to", "/portForward/blue/p", 501, "there is no process to forward ports to"},
		"else":    {"no other service", "/pods", 404, "404 page not found"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if code, body := fetch(t, url+tc.path); code != tc.code || !strings.Contains(body, tc.says) {
				t.Errorf("%s: %d %q, want %d %q", tc.why, code, body, tc.code, tc.says)
			}
		})
	}
}

// TestLogsAreFollowed: a client that follows sees the end, and is then let go.
func TestLogsAreFollowed(t *testing.T) {
	p := running(newPod(command("sleep", "5")), 0)
	cl, url := kubeletOf(t, p)
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodGet,
		url+"/containerLogs/blue/p/main?follow=true",
		http.NoBody,
	)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 64)
	if _, err := resp.Body.Read(first); err != nil {
		t.Fatal(err)
	}
	p = p.DeepCopy()
	p.Status = *Decide(Facts{Pod: p, Now: at(5), Scale: 1}).Status
	if _, err := cl.CoreV1().Pods("blue").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(rest), "ended with exit code 0 after 5s\n") {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}

// TestOnlyTheAPIServerIsAnswered: it knows who may read which logs.
func TestOnlyTheAPIServerIsAnswered(t *testing.T) {
	h := fromAPIServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("answered") }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/containerLogs/blue/p/main", http.NoBody))
	if w.Code != http.StatusForbidden {
		t.Errorf("without a certificate: %d, want 403", w.Code)
	}
}

// TestClaimsGetVolumes: those of our storage classes do, once.
func TestClaimsGetVolumes(t *testing.T) {
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        "weights",
			UID:         "u",
			Annotations: map[string]string{annStorageProvisioner: Provisioner},
		}}
		c.Spec.StorageClassName = new("simulated")
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		change(c)
		return c
	}
	got := volumeFor(claim(func(*corev1.PersistentVolumeClaim) {}))
	if got == nil || got.Name != "pvc-u" || got.Spec.ClaimRef.Name != "weights" ||
		got.Spec.StorageClassName != "simulated" {
		t.Fatalf("volume is %+v", got)
	}
	if d := cmp.Diff([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, got.Spec.AccessModes); d != "" {
		t.Error(d)
	}
	for why, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"it has one":              func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" },
		"another one provides it": func(c *corev1.PersistentVolumeClaim) { c.Annotations[annStorageProvisioner] = "nfs" },
		"it is being deleted":     func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) },
		"it asks for no class":    func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil },
		"no provisioner is asked": func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil },
	} {
		if v := volumeFor(claim(change)); v != nil {
			t.Errorf("%s, and it gets %s", why, v.Name)
		}
	}
	got.Status.Phase = corev1.VolumeReleased
	if !abandoned(got) {
		t.Error("a volume whose claim is gone stays")
	}
	if got.Status.Phase = corev1.VolumeBound; abandoned(got) {
		t.Error("a volume in use goes")
	}
}
