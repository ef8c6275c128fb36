package simnode

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// at is a moment of the tests' time, in seconds.
func at(seconds float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func newPod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "blue", UID: "u"},
		Spec: corev1.PodSpec{
			NodeName: "node-1", RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "busybox"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func command(words ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Command = words }
}

func policy(r corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = r }
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

// inits are init containers by their scripts; "sidecar" is one.
func inits(scripts ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i, text := range scripts {
			c := corev1.Container{Name: fmt.Sprintf("init-%d", i), Command: []string{"sh", "-c", text}}
			if text == "sidecar" {
				c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
}

// live plays a pod's life: it decides, applies, and goes to when the step
// says, and notes what it saw.
func live(t *testing.T, p *corev1.Pod, scale float64, until float64) []string {
	t.Helper()
	now, lines := at(0.5), []string{}
	for range 100 {
		v := Decide(Facts{Pod: p, Now: now, Scale: scale})
		if v.Status != nil {
			p = p.DeepCopy()
			p.Status = *v.Status
			lines = append(lines, describe(p, now))
		}
		if v.Remove {
			lines = append(lines, now.Sub(at(0)).String()+" removed")
			break
		}
		if v.Status == nil && (v.Wake.IsZero() || v.Wake.After(at(until))) {
			break
		}
		if !v.Wake.IsZero() && v.Wake.After(now) && !v.Wake.After(at(until)) {
			now = v.Wake
		}
	}
	return lines
}

func describe(p *corev1.Pod, now time.Time) string {
	s := now.Sub(at(0)).String() + " " + string(p.Status.Phase)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			s += " ready"
		}
	}
	for _, cs := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		s += " " + cs.Name + ":"
		switch {
		case cs.State.Running != nil:
			s += "up"
		case cs.State.Waiting != nil:
			s += cs.State.Waiting.Reason
		case cs.State.Terminated != nil:
			s += cs.State.Terminated.Reason
		}
		if cs.RestartCount > 0 {
			s += " again"
		}
	}
	return s
}

// TestRunsThatFail: a container that starts again has one run more.
func TestRunsThatFail(t *testing.T) {
	p := newPod(policy(corev1.RestartPolicyOnFailure), command("sleep", "1"))
	p.Annotations = map[string]string{AnnotationFailAt: "2,3", AnnotationFailures: "1"}
	want := []string{
		"500ms Running ready main:up",
		"1.5s Running ready main:up again",
		"2.5s Running main:CrashLoopBackOff again",
		"12.5s Running ready main:up again",
		"13.5s Succeeded main:Completed again",
	}
	if got := live(t, p, 1, 60); !slices.Equal(got, want) {
		t.Errorf("it lives\n%q, want\n%q", got, want)
	}
}

func TestLivesOfPods(t *testing.T) {
	tests := map[string]struct {
		why   string
		pod   *corev1.Pod
		scale float64
		want  []string
	}{
		"success": {
			"runs as long as it says, in scaled time, with one write each way",
			newPod(command("sh", "-c", "sleep 600")), 100,
			[]string{"500ms Running ready main:up", "6.5s Succeeded main:Completed"},
		},
		"failure": {
			"the exit code decides",
			newPod(command("sleep", "10"), annotated(AnnotationExitCode, "1")), 1,
			[]string{"500ms Running ready main:up", "10.5s Failed main:Error"},
		},
		"no image": {
			"a registry that exists nowhere has none, and a kubelet tries for ever",
			newPod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "registry.invalid/x:1" }), 1,
			[]string{"500ms Pending main:ImagePullBackOff"},
		},
		"no image of an init container": {
			"so the others wait",
			newPod(inits("true"), func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "registry.invalid/x:1" }), 1,
			[]string{"500ms Pending main:PodInitializing init-0:ImagePullBackOff"},
		},
		"no command": {
			"the runtime cannot start it",
			newPod(command("/nonexistent/train")), 1,
			[]string{"500ms Running ready main:up", "500ms Failed main:StartError"},
		},
		"no command, again and again": {
			"it is tried again, as one that crashes",
			newPod(policy(corev1.RestartPolicyOnFailure), command("/nonexistent/train")),
			1,
			[]string{
				"500ms Running ready main:up",
				"500ms Running ready main:up again",
				"500ms Running main:CrashLoopBackOff again",
				"10.5s Running ready main:up again",
				"10.5s Running main:CrashLoopBackOff again",
				"30.5s Running ready main:up again",
				"30.5s Running main:CrashLoopBackOff again",
			},
		},
		"forever": {
			"a server never ends",
			newPod(policy(corev1.RestartPolicyAlways)), 1,
			[]string{"500ms Running ready main:up"},
		},
		"on failure": {
			"the first restart is immediate, later ones wait longer and longer",
			newPod(
				policy(corev1.RestartPolicyOnFailure),
				command("sleep", "1"),
				annotated(AnnotationExitCode, "2"),
			),
			1,
			[]string{
				"500ms Running ready main:up",
				"1.5s Running ready main:up again",
				"2.5s Running main:CrashLoopBackOff again",
				"12.5s Running ready main:up again",
				"13.5s Running main:CrashLoopBackOff again",
				"33.5s Running ready main:up again",
				"34.5s Running main:CrashLoopBackOff again",
			},
		},
		"fails first": {
			"its first run fails, the one after it does not",
			newPod(
				policy(corev1.RestartPolicyOnFailure),
				command("sleep", "1"),
				annotated(AnnotationFailFirst, "1"),
			),
			1,
			[]string{
				"500ms Running ready main:up",
				"1.5s Running ready main:up again",
				"2.5s Succeeded main:Completed again",
			},
		},
		"two containers": {
			"the pod ends with its last container, each end shows",
			newPod(command("sleep", "5"), func(p *corev1.Pod) {
				p.Spec.Containers = append(
					p.Spec.Containers,
					corev1.Container{Name: "b", Command: []string{"sleep", "9"}},
				)
			}),
			1,
			[]string{
				"500ms Running ready main:up b:up",
				"5.5s Running main:Completed b:up",
				"9.5s Succeeded main:Completed b:Completed",
			},
		},
		"init containers": {
			"they take their time, one after the other, and sidecars start between them",
			newPod(command("sleep", "5"), inits("sleep 2", "sidecar", "sleep 3")), 1,
			[]string{
				"500ms Pending main:PodInitializing init-0:up init-1:PodInitializing init-2:PodInitializing",
				"2.5s Pending main:PodInitializing init-0:Completed init-1:up init-2:up",
				"5.5s Running ready main:up init-0:Completed init-1:up init-2:Completed",
				"10.5s Succeeded main:Completed init-0:Completed init-1:Completed init-2:Completed",
			},
		},
		"quick init container": {
			"what says nothing of its time takes none",
			newPod(command("sleep", "5"), inits("git clone")), 1,
			[]string{"500ms Running ready main:up init-0:Completed", "5.5s Succeeded main:Completed init-0:Completed"},
		},
		"init container fails": {
			"the pod fails with it, and nothing else runs",
			newPod(command("sleep", "5"), inits("sleep 1; exit 4", "sleep 3")), 1,
			[]string{
				"500ms Pending main:PodInitializing init-0:up init-1:PodInitializing",
				"1.5s Failed main:PodInitializing init-0:Error init-1:PodInitializing",
			},
		},
		"init container is run again": {
			"where the pod says so",
			newPod(policy(corev1.RestartPolicyAlways), inits("sleep 20; exit 4")), 1,
			[]string{
				"500ms Pending main:PodInitializing init-0:up",
				"20.5s Pending main:PodInitializing init-0:up again",
				"40.5s Pending main:PodInitializing init-0:CrashLoopBackOff again",
				"50.5s Pending main:PodInitializing init-0:up again",
			},
		},
		"bad annotation": {
			"nothing runs by a wish that cannot be read",
			newPod(annotated(AnnotationRunFor, "long")), 1,
			[]string{"500ms Failed"},
		},
		"deadline": {
			"a kubelet ends what runs too long",
			newPod(command("sleep", "50"), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(20)) }), 1,
			[]string{"500ms Running ready main:up", "20.5s Failed main:Error"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, live(t, tc.pod, tc.scale, 60)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// running is a pod that runs since the given time.
func running(p *corev1.Pod, since float64) *corev1.Pod {
	p.Status = *Decide(Facts{Pod: p, Now: at(since), Scale: 1}).Status
	return p
}

func deleted(p *corev1.Pod, asked float64, grace int64) *corev1.Pod {
	t := metav1.NewTime(at(asked + float64(grace)))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &t, &grace
	return p
}

func TestDeletion(t *testing.T) {
	slow := annotated(AnnotationStopAfter, "1h")
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	tests := map[string]struct {
		why    string
		pod    *corev1.Pod
		now    float64
		phase  corev1.PodPhase // written; empty if nothing is
		remove bool
		wake   float64 // zero if never
	}{
		"just asked": {
			"the process gets its moment",
			deleted(running(newPod(), 0), 10, 30),
			10,
			"",
			false,
			10.2,
		},
		"moment over": {
			"then it is gone",
			deleted(running(newPod(), 0), 10, 30),
			10.2,
			corev1.PodFailed,
			true,
			0,
		},
		"slow": {
			"a process may use up its grace",
			deleted(running(newPod(slow), 0), 10, 30),
			39,
			"",
			false,
			40,
		},
		"slow, grace over": {
			"and not more",
			deleted(running(newPod(slow), 0), 10, 30),
			40,
			corev1.PodFailed,
			true,
			0,
		},
		"never started": {"nothing to wait for", deleted(newPod(), 10, 30), 10, corev1.PodFailed, true, 0},
		"ended before":  {"its result stands", deleted(newPod(ended), 10, 30), 12, "", true, 0},
		"held by a finalizer": {
			"the node has said its word already",
			deleted(newPod(ended), 10, 0),
			12,
			"",
			false,
			0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v := Decide(Facts{Pod: tc.pod, Now: at(tc.now), Scale: 1})
			var phase corev1.PodPhase
			if v.Status != nil {
				phase = v.Status.Phase
			}
			var wake time.Time
			if tc.wake != 0 {
				wake = at(tc.wake)
			}
			if phase != tc.phase || v.Remove != tc.remove || !v.Wake.Equal(wake) {
				t.Errorf(
					"wrote %q, remove %v, wake %v; want %q, %v, %v: %s",
					phase,
					v.Remove,
					v.Wake,
					tc.phase,
					tc.remove,
					wake,
					tc.why,
				)
			}
		})
	}
}

// The status counts in seconds; only the simulator that started a container
// knows better, and after a restart it uses what is written.
func TestExactStart(t *testing.T) {
	p := running(newPod(command("sleep", "10")), 0.75)
	p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(at(0))
	exact := Decide(Facts{Pod: p, Began: map[string]time.Time{"main": at(0.75)}, Now: at(1), Scale: 1})
	if want := at(10.75); !exact.Wake.Equal(want) {
		t.Errorf("with the exact start, the container ends %v, want %v", exact.Wake, want)
	}
	restarted := Decide(Facts{Pod: p, Now: at(500), Scale: 1})
	if restarted.Status == nil || restarted.Status.Phase != corev1.PodSucceeded {
		t.Fatal("a pod whose time passed while no simulator looked has not ended")
	}
	if got := restarted.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time; !got.Equal(at(10)) {
		t.Errorf("it ended at %v, want when its time was over, %v", got, at(10))
	}
}

func TestRunningStatusIsAKubelets(t *testing.T) {
	p := running(newPod(func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	}), 1)
	st := p.Status
	if st.StartTime == nil || st.PodIP == "" || st.HostIP != "10.1.0.2" || len(st.PodIPs) != 1 ||
		len(st.HostIPs) != 1 {
		t.Errorf("start time or addresses are missing: %+v", st)
	}
	want := map[corev1.PodConditionType]corev1.ConditionStatus{
		"PodScheduled":              "True",
		"PodReadyToStartContainers": "True",
		"Initialized":               "True",
		"Ready":                     "True",
		"ContainersReady":           "True",
	}
	got := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range st.Conditions {
		got[c.Type] = c.Status
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if st.InitContainerStatuses[0].State.Terminated == nil || st.InitContainerStatuses[1].State.Running == nil {
		t.Errorf("init containers complete and sidecars run; got %+v", st.InitContainerStatuses)
	}
	if v := Decide(Facts{Pod: p, Now: at(2), Scale: 1}); v.Status != nil {
		t.Errorf("an unchanged pod was written again:\n%s", cmp.Diff(p.Status, *v.Status))
	}
}

func TestRefusal(t *testing.T) {
	gpus := func(n string) *corev1.Pod {
		return newPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpuResource: resource.MustParse(n)}
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{gpuResource: resource.MustParse(n)}
		})
	}
	f := DefaultFleet()
	f.Pods = 3
	node := f.Node(0, at(0))
	tests := map[string]struct {
		why   string
		taken []*corev1.Pod
		pod   *corev1.Pod
		want  string
	}{
		"fits": {"exactly full is fine", []*corev1.Pod{gpus("4")}, gpus("4"), ""},
		"GPU": {
			"a GPU is not given out twice",
			[]*corev1.Pod{gpus("4"), gpus("1")},
			gpus("4"),
			"node node-0 has 3 of nvidia.com/gpu left, the pod requests 4",
		},
		"too many": {
			"pods count as well",
			[]*corev1.Pod{newPod(), newPod(), newPod()},
			newPod(),
			"node node-0 has room for 3 pods and runs as many",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, refusal(node, tc.taken, tc.pod)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
	v := Decide(Facts{Pod: newPod(), Now: at(0), Scale: 1, Refusal: "full"})
	if v.Status == nil || v.Status.Phase != corev1.PodFailed || v.Status.Message != "full" {
		t.Errorf("step for a refused pod = %+v, want a failed one that says why", v.Status)
	}
}
