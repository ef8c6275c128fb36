package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

var name = types.NamespacedName{Namespace: "blue", Name: "job-train"}

// bench is a Job of pods that run, in the time of a synctest bubble.
type bench struct {
	t *testing.T
	r *reconciler
	c client.Client
	// logs is what the logs of pods say, an error if they cannot be read; slow is how long that takes.
	mu    sync.Mutex
	logs  map[string]string
	reads map[string]int
	fails error
	slow  time.Duration
	hung  []bool
	told  *events.FakeRecorder
}

func newBench(t *testing.T, pods int, states map[string]string) *bench {
	t.Helper()
	now := metav1.NewTime(time.Now())
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name, UID: "0123456789",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "j", Controller: new(true)},
			},
		},
		Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "main", Count: int32(pods)}}},
		Status: kueue.WorkloadStatus{
			Admission: &kueue.Admission{
				ClusterQueue: "q",
				PodSetAssignments: []kueue.PodSetAssignment{
					{Name: "main", Count: new(int32(pods))},
				},
			},
			Conditions: []metav1.Condition{
				{Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue, Reason: "Admitted", LastTransitionTime: now},
			},
		},
	}
	objects := []client.Object{w, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: "train", UID: "j", Annotations: states,
	}}}
	for i := range pods {
		objects = append(objects, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue", Name: fmt.Sprintf("train-%d", i), UID: types.UID(fmt.Sprintf("p%d", i)),
				Labels: map[string]string{
					batchv1.JobCompletionIndexAnnotation: fmt.Sprint(i), kueue.PodSetLabel: "main",
				},
				Annotations: map[string]string{kueue.WorkloadAnnotation: name.Name},
			},
			Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i), Containers: []corev1.Container{{Name: "c"}}},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning,
				Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
				},
			},
		})
	}
	b := &bench{t: t, logs: map[string]string{}, reads: map[string]int{}, told: events.NewFakeRecorder(100)}
	b.c = fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).
		WithStatusSubresource(&kueue.Workload{}).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		Build()
	b.restart()
	return b
}

// restart begins a process that remembers nothing.
func (b *bench) restart() {
	b.r = newReconciler(Options{
		Client: b.c, Clock: clock.RealClock{}, Recorder: b.told, Kinds: jobs.Kinds{job.Kind()},
		Hung: func(_ *kueue.Workload, restart bool) { b.hung = append(b.hung, restart) },
		Log: func(ctx context.Context, _, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.reads[pod]++
			if b.slow > 0 {
				b.mu.Unlock()
				select {
				case <-time.After(b.slow):
				case <-ctx.Done():
				}
				b.mu.Lock()
			}
			if ctx.Err() != nil || b.fails != nil {
				return nil, errors.Join(ctx.Err(), b.fails)
			}
			return io.NopCloser(strings.NewReader(b.logs[pod])), nil
		},
	})
}

// run reconciles whenever that is asked for, until some time has gone by.
func (b *bench) run(d time.Duration) {
	b.t.Helper()
	end := time.Now().Add(d)
	for {
		was := b.workload().ResourceVersion
		res, err := b.r.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: name})
		if err != nil {
			b.t.Fatal(err)
		}
		if b.workload().ResourceVersion != was {
			continue // its own writes come back
		}
		left := time.Until(end)
		if left <= 0 {
			return
		}
		if res.RequeueAfter > 0 {
			left = min(left, res.RequeueAfter)
		}
		select {
		case <-b.r.woken:
		case <-time.After(left):
		}
	}
}

func (b *bench) workload() *kueue.Workload {
	b.t.Helper()
	w := &kueue.Workload{}
	if err := b.c.Get(b.t.Context(), name, w); err != nil {
		b.t.Fatal(err)
	}
	return w
}

func (b *bench) condition() (status, reason, message string) {
	c := apimeta.FindStatusCondition(b.workload().Status.Conditions, kueue.WorkloadProgressing)
	if c == nil {
		return "", "", ""
	}
	return string(c.Status), c.Reason, c.Message
}

func (b *bench) step(pod string, step int) {
	b.t.Helper()
	p := &corev1.Pod{}
	if err := b.c.Get(b.t.Context(), types.NamespacedName{Namespace: "blue", Name: pod}, p); err != nil {
		b.t.Fatal(err)
	}
	p.Annotations[kueue.StepAnnotation] = fmt.Sprint(step)
	if err := b.c.Update(b.t.Context(), p); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) evidence() []history.JobEvidence {
	b.t.Helper()
	var all history.JobEvidenceList
	if err := b.c.List(b.t.Context(), &all); err != nil {
		b.t.Fatal(err)
	}
	return all.Items
}

// expect fails if the condition is another one.
func (b *bench) expect(why, status, reason string, contains ...string) {
	b.t.Helper()
	s, r, m := b.condition()
	if s != status || r != reason {
		b.t.Errorf("%s: it is %s, %s (%s), want %s, %s", why, s, r, m, status, reason)
	}
	for _, text := range contains {
		if !strings.Contains(m, text) {
			b.t.Errorf("%s: it says %q, want %q", why, m, text)
		}
	}
}

const minute = time.Minute

// TestHangIsFoundAndKept: a job of which one rank is behind takes no step. What its pods said is kept before it is said
// to be restarted, and the one that is behind is named.
func TestHangIsFoundAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3, map[string]string{
			kueue.ProgressEveryAnnotation: "5m", kueue.OnHangAnnotation: kueue.OnHangRestart,
		})
		b.logs["train-1"] = "one\ntwo \x1b[31mred\xff\n"
		b.run(20 * minute)
		b.expect("the first step may take half an hour", "", "")
		for step := range 3 {
			for i := range 3 {
				b.step(fmt.Sprintf("train-%d", i), step+1)
			}
			b.run(4 * minute)
			b.expect("it goes on", "True", kueue.ReasonProgress, "step ")
		}
		b.step("train-0", 4)
		b.step("train-2", 4)
		b.run(3 * minute)
		b.expect("the slowest counts, and has time", "True", kueue.ReasonProgress)
		b.run(time.Minute)
		b.expect(
			"it hangs",
			"False",
			kueue.ReasonRestartDue,
			"step 3; expected every 5m",
			"rank 1, pod train-1 on node-1",
			"evidence: train-01234567-",
		)
		all := b.evidence()
		if len(all) != 1 || len(all[0].Ranks) != 3 {
			t.Fatalf("kept is %+v", all)
		}
		if r := all[0].Ranks[1]; r.Pod != "train-1" || r.Step == nil || *r.Step != 3 ||
			r.Log != "one\ntwo [31mred" {
			t.Errorf("of the one behind %+v is kept", r)
		}
		if len(b.hung) != 1 || !b.hung[0] {
			t.Errorf("counted as %v", b.hung)
		}
	})
}

// TestFirstStep: a job that takes none hangs when the time for it is over.
func TestFirstStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2, map[string]string{
			kueue.ProgressEveryAnnotation: "1m", kueue.ProgressFirstAnnotation: "10m",
		})
		b.run(10*minute - time.Second)
		b.expect("it may start", "", "")
		b.run(5 * time.Second)
		b.expect("it did not", "False", kueue.ReasonNoProgress, "expected within 10m", "evidence:", "only observed")
		b.run(30 * minute)
		if n := len(b.evidence()); n != 1 {
			t.Errorf("it was kept %d times", n)
		}
	})
}

// TestNothingStatedNothingJudged: of a job that states no rule nothing is said, and nothing of it is read.
func TestNothingStatedNothingJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1, nil)
		b.step("train-0", 1)
		b.run(time.Hour)
		b.expect("it states nothing", "", "")
		if len(b.reads) > 0 {
			t.Errorf("read were %v", b.reads)
		}
	})
}

// TestItGoesOnAgain: a hang that is observed is over with the next step.
func TestItGoesOnAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1, map[string]string{kueue.ProgressEveryAnnotation: "1m"})
		b.step("train-0", 1)
		b.run(2 * minute)
		b.expect("it hangs", "False", kueue.ReasonNoProgress)
		b.step("train-0", 2)
		b.run(time.Second)
		b.expect("it goes on", "True", kueue.ReasonProgress, "step 2")
	})
}

// TestCap: a job that was restarted as often as it allows is observed, and says so.
func TestCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1, map[string]string{
			kueue.ProgressEveryAnnotation: "1m",
			kueue.OnHangAnnotation:        kueue.OnHangRestart,
			kueue.HangRestartsAnnotation:  "2",
		})
		w := b.workload()
		w.Status.SchedulingStats = &kueue.SchedulingStats{
			Evictions: []kueue.WorkloadSchedulingStatsEviction{{Reason: kueue.ReasonHang, Count: 2}},
		}
		if err := b.c.Status().Update(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		b.step("train-0", 1)
		b.run(3 * minute)
		b.expect("twice is all", "False", kueue.ReasonNoProgress, "restarted 2 times", kueue.HangRestartsAnnotation)
	})
}

// TestUnreadableEvidence: a restart does not wait for nodes that do not answer for longer than the deadline.
func TestUnreadableEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 80, map[string]string{
			kueue.ProgressEveryAnnotation: "1m", kueue.OnHangAnnotation: kueue.OnHangRestart,
		})
		b.slow = time.Hour
		b.step("train-0", 1)
		b.run(90*time.Second + EvidenceDeadline + 2*time.Second)
		b.expect("it does not wait", "False", kueue.ReasonRestartDue)
		all := b.evidence()
		if len(all) != 1 || len(all[0].Ranks) != history.MaxEvidenceRanks || all[0].Ranks[0].NoLog == "" ||
			all[0].Pods != 80 {
			t.Errorf("kept is %+v", all)
		}
	})
}

// TestKilledWhileItHangs: a process that comes after goes on: it finds the hang, and keeps it once.
func TestKilledWhileItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1, map[string]string{
			kueue.ProgressEveryAnnotation: "1m", kueue.OnHangAnnotation: kueue.OnHangRestart,
		})
		b.step("train-0", 7)
		b.run(minute)
		b.restart()
		b.run(80 * time.Second)
		b.expect("what was before it began is not held against the job", "True", kueue.ReasonProgress)
		b.run(12 * time.Second)
		b.expect("it hangs since the step that the condition tells of", "False", kueue.ReasonRestartDue, "step 7")
		b.restart()
		b.run(3 * minute)
		if n := len(b.evidence()); n != 1 {
			t.Errorf("kept %d times", n)
		}
	})
}

// TestContainerRestarted: what a pod said before its container was started again counts for nothing.
func TestContainerRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(
			t,
			1,
			map[string]string{kueue.ProgressEveryAnnotation: "1m", kueue.ProgressFirstAnnotation: "20m"},
		)
		b.step("train-0", 7)
		b.run(minute)
		p := &corev1.Pod{}
		if err := b.c.Get(t.Context(), types.NamespacedName{Namespace: "blue", Name: "train-0"}, p); err != nil {
			t.Fatal(err)
		}
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now())
		if err := b.c.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		b.run(19 * minute)
		b.expect("it begins anew", "", "")
		b.step("train-0", 6)
		b.run(time.Second)
		b.expect("and takes steps from a checkpoint on", "True", kueue.ReasonProgress, "step 6")
	})
}

// TestEndedRanks: once the only rank has ended that told of steps, the others are not judged.
func TestEndedRanks(t *testing.T) {
	for why, states := range map[string]map[string]string{
		"annotations": {kueue.ProgressEveryAnnotation: "1m"},
		"log":         {kueue.ProgressEveryAnnotation: "1m", kueue.ProgressLogAnnotation: "step"},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 2, states)
				b.logs["train-0"] = time.Now().UTC().Format(time.RFC3339Nano) + " step\n"
				b.step("train-0", 1)
				b.run(minute)
				p := &corev1.Pod{}
				if err := b.c.Get(t.Context(), types.NamespacedName{Namespace: "blue", Name: "train-0"}, p); err != nil {
					t.Fatal(err)
				}
				p.Status.Phase = corev1.PodSucceeded
				if err := b.c.Status().Update(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				b.run(time.Hour)
				b.expect("nobody tells of steps any more", "True", kueue.ReasonProgress)
			})
		})
	}
}

// TestLog: steps are read from the log of the first pod alone, no more often than each quarter of what was stated, and
// what cannot be read is no silence.
func TestLog(t *testing.T) {
	for why, expression := range map[string]string{"a number": `step=(\d+)`, "lines": `step=`} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 2, map[string]string{
					kueue.ProgressEveryAnnotation: "2m", kueue.ProgressLogAnnotation: expression,
				})
				write := func(line string) {
					b.mu.Lock()
					defer b.mu.Unlock()
					b.logs["train-0"] += time.Now().UTC().Format(time.RFC3339Nano) + " " + line + "\n"
				}
				for i := range 5 {
					write(fmt.Sprintf("loss=0.1 step=%d", i+1))
					write("alive")
					b.run(100 * time.Second)
					b.expect("it goes on", "True", kueue.ReasonProgress)
				}
				if n := b.reads["train-0"]; n > 20 || b.reads["train-1"] > 0 {
					t.Errorf("in 500 seconds it was read %d times, and that of another pod %d times", n, b.reads["train-1"])
				}
				b.fails = errors.New("the kubelet does not answer")
				b.run(10 * minute)
				b.expect("nobody knows", "True", kueue.ReasonProgress)
				b.fails = nil
				for range 4 {
					write("alive")
					b.run(minute)
				}
				b.expect("it lives, and takes no step", "False", kueue.ReasonNoProgress, "step 5")
			})
		})
	}
}

// TestSlowNode: what cannot be read of one node keeps nothing of others from being read.
func TestSlowNode(t *testing.T) {
	s := slots{nodes: map[string]int{}}
	for i := range mostReadsOfNode + 1 {
		if took := s.take("slow"); took != (i < mostReadsOfNode) {
			t.Errorf("read %d of a node: %t", i, took)
		}
	}
	if !s.take("other") {
		t.Error("another node waits for it")
	}
	s.give("slow")
	if !s.take("slow") {
		t.Error("what was given back is not taken")
	}
}

// TestHostileLogs: long lines, binary, and what repeats do not get through the limits.
func TestHostileLogs(t *testing.T) {
	const most = 100
	for why, text := range map[string]string{
		"one long line": strings.Repeat("x", 1<<20),
		"many lines":    strings.Repeat("line\n", 1<<16),
		"binary":        strings.Repeat("\x00\xff\x1b[2J", 1<<10),
		"wide":          strings.Repeat("\u4e16", 1<<10),
	} {
		if got := lastLines([]byte(text), most); len(got) > most || strings.ContainsAny(got, "\x00\x1b") {
			t.Errorf("%s: %d bytes are left: %q", why, len(got), got)
		}
	}
}

// TestFloodedLog: where more is written than is read of it, that no step was seen says nothing.
func TestFloodedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1, map[string]string{
			kueue.ProgressEveryAnnotation: "2m", kueue.ProgressLogAnnotation: `step=(\d+)`,
		})
		flood := func(step string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			stamp := time.Now().UTC().Format(time.RFC3339Nano)
			b.logs["train-0"] = stamp + " " + step + "\n" + strings.Repeat(stamp+" noise\n", mostLines)
		}
		b.logs["train-0"] = time.Now().UTC().Format(time.RFC3339Nano) + " step=1\n"
		b.run(minute)
		b.expect("it goes on", "True", kueue.ReasonProgress)
		for range 10 {
			flood("alive")
			b.run(minute)
		}
		b.expect("nobody knows", "True", kueue.ReasonProgress)
	})
}

// TestEvidenceIsBounded: what is kept of the jobs of a namespace within some minutes is no more than stays there.
func TestEvidenceIsBounded(t *testing.T) {
	r, at := newReconciler(Options{}), time.Unix(1e6, 0)
	for i := range 2 * mostLately {
		if may := r.mayKeep("blue", at.Add(time.Duration(i)*time.Second)); may != (i < mostLately) {
			t.Fatalf("hang %d is kept: %t", i, may)
		}
	}
	if !r.mayKeep("red", at) || !r.mayKeep("blue", at.Add(evidencePause)) {
		t.Error("others, or later ones, are not kept")
	}
}

// TestEndOfALog: the last bytes are kept, however much there is before them.
func TestEndOfALog(t *testing.T) {
	const most = 8
	for _, text := range []string{"", "short", "12345678", strings.Repeat("x", 3*most) + "the end.", strings.Repeat("abc", 1000) + "end"} {
		got, err := endOf(iotest.OneByteReader(strings.NewReader(text)), most)
		if want := text[max(len(text)-most, 0):]; err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
