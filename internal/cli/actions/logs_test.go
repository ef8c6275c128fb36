package actions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// job is Job blue/train and its Workload.
func job(parallelism int32) (*batchv1.Job, *kueue.Workload) {
	j := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{
			APIVersion: "batch/v1",
			Kind:       "Job",
		},
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train", UID: "j"},
		Spec:       batchv1.JobSpec{Parallelism: &parallelism},
	}
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      "job-train",
			UID:       "w",
			Labels:    map[string]string{kueue.JobUIDLabel: "j"},
		},
	}
	w.Spec.QueueName = "q"
	w.Spec.PodSets = []kueue.PodSet{{Name: kueue.DefaultPodSetName, Count: parallelism}}
	return j, w
}

// cluster is a client of objects.
func cluster(objects ...client.Object) client.WithWatch {
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	b := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...)
	for _, o := range []client.Object{&batchv1.Job{}, &kueue.Workload{}, &appsv1.Deployment{}, &corev1.Pod{}} {
		b = b.WithIndex(o, "metadata.name", byName)
	}
	return b.Build()
}

// watches is a client and a wait for so many of its watches to have begun: the fake client tells
// a watch nothing of what changed before it, as API servers do.
func watches(c client.WithWatch) (client.WithWatch, func(n int)) {
	begun := make(chan struct{}, 10)
	watching := interceptor.NewClient(
		c,
		interceptor.Funcs{
			Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
				defer func() { begun <- struct{}{} }()
				return c.Watch(ctx, list, opts...)
			},
		},
	)
	return watching, func(n int) {
		for range n {
			<-begun
		}
	}
}

// podOf is the pod of train with an index, whose container has been started again so often.
func podOf(index int, state corev1.ContainerState, restarts int32) *corev1.Pod {
	name := fmt.Sprintf("train-%d", index)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      name,
			UID:       types.UID(name),
			Labels: map[string]string{
				batchv1.JobNameLabel:                 "train",
				batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index),
				kueue.PodSetLabel:                    "main",
			},
		},
	}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: state, RestartCount: restarts}}
	if restarts > 0 {
		p.Status.ContainerStatuses[0].LastTerminationState = ends(1)
	}
	return p
}

func runs() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(1, 0)}}
}

func ends(code int32) corev1.ContainerState {
	return corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.Unix(1, 0), ExitCode: code},
	}
}

func pulls() corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
}

// asked notes which logs were opened at the same time, and tells lines of pods.
type asked struct {
	lock    sync.Mutex
	open    int
	most    int
	lines   map[string]string
	options []corev1.PodLogOptions
}

func (a *asked) opener(_ context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.options = append(a.options, *o)
	run := pod.Status.ContainerStatuses[0].RestartCount
	if o.Previous {
		run--
	}
	text, known := a.lines[fmt.Sprintf("%s#%d", pod.Name, run)]
	if o.Previous {
		if before, is := a.lines[fmt.Sprintf("before %s#%d", pod.Name, run+1)]; is {
			text, known = before, true
		}
	}
	if !known && !o.Previous {
		text, known = a.lines[pod.Name]
	}
	if !known {
		return nil, errors.New("the node does not answer")
	}
	a.open++
	a.most = max(a.most, a.open)
	return &closing{strings.NewReader(text), func() {
		a.lock.Lock()
		defer a.lock.Unlock()
		a.open--
	}}, nil
}

type closing struct {
	io.Reader
	close func()
}

func (c *closing) Close() error {
	c.close()
	return nil
}

// at is a line of a log with its time.
func at(second int, text string) string {
	return fmt.Sprintf("2026-01-01T00:00:%02dZ %s\n", second, text)
}

func TestLogs(t *testing.T) {
	two := map[string]string{"train-0": at(1, "a") + at(3, "c"), "train-1": at(2, "b") + at(3, "d")}
	tests := map[string]struct {
		why     string
		pods    []*corev1.Pod
		lines   map[string]string
		options LogOptions
		ended   bool
		out     string
		notes   string
		err     string
	}{
		"merged": {
			"in the order of time, and of ranks where that is the same",
			[]*corev1.Pod{podOf(1, runs(), 0), podOf(0, runs(), 0)},
			two,
			LogOptions{},
			false,
			"0 | a\n1 | b\n0 | c\n1 | d\n", "", "",
		},
		"timestamps": {
			"as the node has them",
			[]*corev1.Pod{podOf(0, runs(), 0), podOf(1, runs(), 0)},
			two,
			LogOptions{Timestamps: true, Ranks: rank(t, "1")},
			false,
			"2026-01-01T00:00:02Z b\n2026-01-01T00:00:03Z d\n", "", "",
		},
		"failed first": {
			"with room for one log, that of the pod that failed",
			[]*corev1.Pod{podOf(0, runs(), 0), podOf(1, ends(3), 0)},
			two,
			LogOptions{Most: 1},
			false,
			"1 | b\n1 | d\n",
			"1 of 2 logs are shown, those of failed pods first: choose with --role and --rank, or show more with --most\n",
			"",
		},
		"one does not answer": {
			"the others are printed",
			[]*corev1.Pod{podOf(0, runs(), 0), podOf(1, runs(), 0)},
			map[string]string{"train-1": at(2, "b")},
			LogOptions{},
			false,
			"1 | b\n", "0: the node does not answer\n", "",
		},
		"terminal": {
			"which obeys nothing that a pod prints",
			[]*corev1.Pod{podOf(0, runs(), 0)},
			map[string]string{"train-0": at(1, "a\x1b[2Jb")},
			LogOptions{Terminal: true},
			false,
			`0 | a\x1b[2Jb` + "\n", "", "",
		},
		"none answers": {
			"which is no success",
			[]*corev1.Pod{podOf(0, runs(), 0)},
			nil,
			LogOptions{},
			false,
			"",
			"0: the node does not answer\n",
			"0: the node does not answer",
		},
		"gone": {
			"not an empty output",
			nil,
			nil,
			LogOptions{},
			true,
			"",
			"",
			"the pods of Job blue/train are gone, and their logs with them: it has failed (out of retries)",
		},
		"waits": {
			"and why is a question of its own",
			nil,
			nil,
			LogOptions{},
			false,
			"",
			"",
			"it is waiting (PendingEvaluation); mlbatch why blue/train says more",
		},
		"not started": {
			"why it has no log yet",
			[]*corev1.Pod{podOf(0, pulls(), 0)},
			nil,
			LogOptions{},
			false,
			"",
			"",
			"no pod of Job blue/train has started yet, so there are no logs: mlbatch logs -f waits for them; 1 pod: ImagePullBackOff",
		},
		"previous": {
			"there was one run",
			[]*corev1.Pod{podOf(0, runs(), 0)},
			two,
			LogOptions{Previous: true},
			false,
			"",
			"",
			"no container of Job blue/train was started again",
		},
		"no rank": {
			"which there are",
			[]*corev1.Pod{podOf(0, runs(), 0), podOf(1, runs(), 0)},
			two,
			LogOptions{Ranks: rank(t, "7")},
			false,
			"",
			"",
			"there are 2 pods, from 0 to 1",
		},
		"no role": {
			"there are none",
			[]*corev1.Pod{podOf(0, runs(), 0), podOf(1, runs(), 0)},
			two,
			LogOptions{Role: "worker"},
			false,
			"",
			"",
			"the pods of this job are all alike",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j, w := job(2)
			if tc.ended {
				w.Status.Conditions = []metav1.Condition{
					{
						Type:    kueue.WorkloadFinished,
						Status:  metav1.ConditionTrue,
						Reason:  "Failed",
						Message: "out of retries.",
					},
				}
			}
			target := &Target{
				JobObjects: why.JobObjects{
					Asked:    view.Ref{Kind: view.KindJob, Namespace: "blue", Name: "train"},
					Job:      j,
					Workload: w,
				},
			}
			for _, p := range tc.pods {
				target.Pods = append(target.Pods, *p)
			}
			var out, notes bytes.Buffer
			a := &asked{lines: tc.lines}
			err := Logs(t.Context(), nil, a.opener, target, tc.options, &out, &notes)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%s: error %v, want %q", tc.why, err, tc.err)
			}
			if diff := cmp.Diff(tc.out, out.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if diff := cmp.Diff(tc.notes, notes.String()); diff != "" {
				t.Errorf("%s: notes (-want +got):\n%s", tc.why, diff)
			}
			if a.open != 0 || tc.options.Most > 0 && a.most > tc.options.Most {
				t.Errorf("%d logs were read at the same time, and %d are still open", a.most, a.open)
			}
		})
	}
}

func rank(t *testing.T, text string) Ranks {
	t.Helper()
	r, err := ParseRanks(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLogsFollow: a container that starts again and a pod that comes later are read, each run
// once, and it ends with the job.
func TestLogsFollow(t *testing.T) {
	j, w := job(2)
	c := cluster(j, w, podOf(0, runs(), 0))
	target, err := Find(t.Context(), c, view.Ref{Kind: view.KindJob, Namespace: "blue", Name: "train"})
	if err != nil {
		t.Fatal(err)
	}
	a := &asked{
		lines: map[string]string{
			"train-0#0": at(1, "first"),
			"train-0#1": at(2, "second"),
			"train-1":   at(3, "other"),
		},
	}
	out := &watchedText{seen: make(chan string, 100)}
	done := make(chan error)
	watched, watching := watches(c)
	go func() {
		done <- Logs(t.Context(), watched, a.opener, target, LogOptions{Follow: true, Most: 10}, out, io.Discard)
	}()
	await := func(want string) {
		t.Helper()
		select {
		case got := <-out.seen:
			if got != want {
				t.Errorf("printed %q, want %q", got, want)
			}
		case err := <-done:
			t.Fatalf("it ended (%v) before %q", err, want)
		case <-time.After(10 * time.Second):
			t.Fatalf("%q is not printed", want)
		}
	}
	change := func(o client.Object, f func()) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		f()
		write := c.Update
		if _, is := o.(*corev1.Pod); is {
			write = func(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
				return c.Status().Update(ctx, o)
			}
		}
		if err := write(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	await("0 | first\n")
	watching(3) // the Job, its Workload and pods
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train-0"}}
	change(p, func() { p.Status = podOf(0, runs(), 1).Status })
	await("0 | second\n")
	if err := c.Create(t.Context(), podOf(1, runs(), 0)); err != nil {
		t.Fatal(err)
	}
	await("1 | other\n")
	change(w, func() {
		w.Status.Conditions = []metav1.Condition{
			{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: "Succeeded"},
		}
	})
	if err := <-done; err != nil {
		t.Errorf("a job that has ended ends its logs: %v", err)
	}
	select {
	case more := <-out.seen:
		t.Errorf("printed %q: each run is told once", more)
	default:
	}
}

// TestFollowMissesNoRun: a node may have started a container again before its log is asked for,
// and tells the run that is there. Whatever was told, each line of each run is printed once.
func TestFollowMissesNoRun(t *testing.T) {
	type lines = map[string]string
	zero, one, two := at(1, "zero a")+at(2, "zero b"), at(3, "one a")+at(4, "one b"), at(5, "two a")
	tests := map[string]struct {
		why      string
		restarts []int32 // of the container, as it is seen
		lines    lines
		options  LogOptions
		want     []string
	}{
		"in time": {
			"each as it is run",
			[]int32{0, 1},
			lines{"train-0#0": zero, "train-0#1": one},
			LogOptions{},
			[]string{"zero a", "zero b", "one a", "one b"},
		},
		"late": {
			"it had been started again before: the run before is part of the story",
			[]int32{1},
			lines{"train-0#0": zero, "train-0#1": one},
			LogOptions{},
			[]string{"zero a", "zero b", "one a", "one b"},
		},
		"late for the tail": {
			"of which no more than the end was asked for",
			[]int32{1},
			lines{"train-0#0": zero, "train-0#1": one},
			LogOptions{Tail: new(int64(10))},
			[]string{"one a", "one b"},
		},
		"overtaken": {
			"the node told the second run for the first",
			[]int32{0, 1},
			lines{"train-0#0": one, "train-0#1": one, "before train-0#1": zero},
			LogOptions{},
			[]string{"one a", "one b", "zero a", "zero b"},
		},
		"broken off": {
			"what is left of it comes before the next",
			[]int32{0, 1},
			lines{"train-0#0": at(1, "zero a"), "train-0#1": one, "before train-0#1": zero},
			LogOptions{},
			[]string{"zero a", "zero b", "one a", "one b"},
		},
		"one not seen": {
			"two at once",
			[]int32{0, 2},
			lines{"train-0#0": zero, "train-0#1": one, "train-0#2": two},
			LogOptions{},
			[]string{"zero a", "zero b", "one a", "one b", "two a"},
		},
		"forgotten": {
			"a node need not keep what was before",
			[]int32{1},
			lines{"train-0#1": one},
			LogOptions{},
			[]string{"one a", "one b"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			a := &asked{lines: tc.lines}
			tc.options.Most = 10
			f := newFollower(
				&logs{
					target:     &Target{},
					open:       a.opener,
					LogOptions: tc.options,
					notes:      io.Discard,
					printer:    &printer{to: &out},
				},
			)
			for _, n := range tc.restarts {
				for _, s := range f.fresh([]logSource{{why.Member{Pod: podOf(0, runs(), n)}, "c"}}) {
					f.stream(t.Context(), s)
				}
				f.running.Wait()
			}
			if diff := cmp.Diff(strings.Join(tc.want, "\n")+"\n", out.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if f.streams != 0 {
				t.Errorf("%d logs count as read", f.streams)
			}
		})
	}
}

// TestFollowIsBounded: with room for two logs, one of which is taken, that of the pod that failed
// is followed.
func TestFollowIsBounded(t *testing.T) {
	var notes bytes.Buffer
	f := newFollower(&logs{LogOptions: LogOptions{Follow: true, Most: 2}, notes: &notes})
	f.streams = 1
	var all []logSource
	for i, state := range []corev1.ContainerState{runs(), ends(3), runs()} {
		all = append(all, logSource{why.Member{Pod: podOf(i, state, 0), Index: i}, "c"})
	}
	if got := f.fresh(all); len(got) != 1 || got[0].member.Index != 1 {
		t.Errorf("it follows %d logs: %+v", len(got), got)
	}
	if !strings.Contains(notes.String(), "2 logs are not shown, because 2 are followed at the same time") {
		t.Errorf("it says %q", notes.String())
	}
}

// watchedText tells what is written.
type watchedText struct{ seen chan string }

func (w *watchedText) Write(b []byte) (int, error) {
	w.seen <- string(b)
	return len(b), nil
}

func TestForTerminal(t *testing.T) {
	tests := map[string]struct{ why, text, want string }{
		"plain":    {"as it is", "step 3\tloss 0.1", "step 3\tloss 0.1"},
		"colours":  {"they could hide what is printed after them", "\x1b[1;31mred\x1b[0m", "red"},
		"title":    {"a terminal would obey", "\x1b]0;owned\x07", `\x1b]0;owned\a`},
		"progress": {"the last state counts", "10%\r20%\r30%\r", "30%"},
		"bidi":     {"what is shown would not be what is there", "a\u202eb", `a\u202eb`},
	}
	for name, tc := range tests {
		if got := ForTerminal(tc.text); got != tc.want {
			t.Errorf("%s: %q, want %q: %s", name, got, tc.want, tc.why)
		}
	}
}

func TestParseRanks(t *testing.T) {
	members := why.Members(nil, []corev1.Pod{
		{
			ObjectMeta: metav1.ObjectMeta{
				Name:   "m",
				Labels: map[string]string{kubeflow.ReplicaTypeLabel: "master", kubeflow.ReplicaIndexLabel: "0"},
			},
		},
		{
			ObjectMeta: metav1.ObjectMeta{
				Name:   "w0",
				Labels: map[string]string{kubeflow.ReplicaTypeLabel: "worker", kubeflow.ReplicaIndexLabel: "0"},
			},
		},
		{
			ObjectMeta: metav1.ObjectMeta{
				Name:   "w1",
				Labels: map[string]string{kubeflow.ReplicaTypeLabel: "worker", kubeflow.ReplicaIndexLabel: "1"},
			},
		},
	})
	tests := map[string]struct{ why, role, ranks, want string }{
		"all":        {"", "", "all", "master-0 worker-0 worker-1"},
		"job":        {"ranks count in the job", "", "1", "worker-0"},
		"role":       {"and in a role that is named", "worker", "1", "worker-1"},
		"range":      {"both ends are meant", "", "0..1", "master-0 worker-0"},
		"dash":       {"people write that, too", "", "1-2", "worker-0 worker-1"},
		"list":       {"", "", "0,2", "master-0 worker-1"},
		"name":       {"as it stands before the lines", "", "worker-1", "worker-1"},
		"other case": {"roles are keys in manifests", "Worker", "", "worker-0 worker-1"},
		"typo": {
			"which roles there are",
			"wroker",
			"",
			"error: --role wroker: its pods have the roles master, worker",
		},
		"beyond": {
			"which ranks there are",
			"",
			"3",
			"error: --rank: there is no such pod: there are 3 pods, from master-0 to worker-1",
		},
		"words":     {"no number", "", "x", "error: --rank x: use numbers"},
		"backwards": {"no range", "", "3..1", "error: --rank 3..1: use numbers"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ranks, err := ParseRanks(tc.ranks)
			var chosen []why.Member
			if err == nil {
				chosen, err = Choose(members, tc.role, ranks)
			}
			var labels []string
			for i := range chosen {
				labels = append(labels, Label(&chosen[i]))
			}
			got := strings.Join(labels, " ")
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != tc.want && (!strings.HasPrefix(tc.want, "error") || !strings.HasPrefix(got, tc.want)) {
				t.Errorf("%q, want %q: %s", got, tc.want, tc.why)
			}
		})
	}
}
