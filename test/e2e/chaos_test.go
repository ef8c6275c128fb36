package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/test/rig"
)

// parts are the processes of a cluster. Killing whole kills them all.
var parts = []string{"controller", "scheduler", "kube-apiserver", "etcd", "kube-controller-manager", "nodes"}

const whole = "mlbatch"

// Processes may die at any moment. Each round runs the same demo (jobs of two
// teams that queue, borrow, preempt and take back) and kills one or two
// processes, or all, after a random number of changes. A witness that misses no
// change sees that no job is lost or disturbed, no node and no quota is used
// twice, no gang runs in part, and everything finishes.
//
// A failure names its seed; MLBATCH_CHAOS_SEED repeats it, as far as processes
// can be made to repeat anything, and MLBATCH_CHAOS_ROUNDS kills more often.
func TestKillAnything(t *testing.T) {
	seed := number(t, "MLBATCH_CHAOS_SEED", 20261121)
	rounds := number(t, "MLBATCH_CHAOS_ROUNDS", 9)
	t.Logf("MLBATCH_CHAOS_SEED=%d MLBATCH_CHAOS_ROUNDS=%d", seed, rounds)
	rnd := rand.New(rand.NewPCG(uint64(seed), 0))

	changes := 0
	t.Run("nothing", func(t *testing.T) { changes = runDemo(t, "calm", nil, nil) })
	for i, v := range victims(rnd, rounds) {
		after := 1 + rnd.IntN(max(changes, 1))
		name := fmt.Sprintf("%02d-%s-after-%d", i+1, strings.Join(v, "+"), after)
		t.Run(name, func(t *testing.T) {
			runDemo(t, fmt.Sprintf("r%d", i+1), v, func(w *witness, _ change) bool { return w.changes >= after })
		})
	}
}

// Processes die between two writes that belong together, which random kills
// seldom hit.
func TestKillAtTheWorstMoment(t *testing.T) {
	evicted := func(_ *witness, c change) bool {
		w, ok := c.now.(*kueue.Workload)
		return ok && w.Status.Admission != nil &&
			apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadEvicted)
	}
	preempting := func(_ *witness, c change) bool {
		w, ok := c.now.(*kueue.Workload)
		return ok && strings.Contains(w.Name, "important") && w.Status.Admission != nil
	}
	halfBound := func(w *witness, _ change) bool {
		for job := range w.halfBound {
			if strings.HasSuffix(job, "-wide") {
				return true
			}
		}
		return false
	}
	halfMade := func(_ *witness, c change) bool {
		_, ok := c.now.(*corev1.Pod)
		return ok && c.old == nil
	}
	moments := map[string]struct {
		victims []string
		when    moment
		why     string
	}{
		"controller-evicted": {
			[]string{"controller"},
			evicted,
			"the victim is told to go, and no process remembers for which workload",
		},
		"controller-preempting": {
			[]string{"controller"},
			preempting,
			"the important job has its quota, and is not started",
		},
		"apiserver-evicted": {[]string{"kube-apiserver"}, evicted, "the answer to the write gets lost"},
		"scheduler-half-bound": {
			[]string{"scheduler"},
			halfBound,
			"some pods of a gang are bound, and others not",
		},
		"manager-half-made": {
			[]string{"kube-controller-manager", "controller"},
			halfMade,
			"some pods of a job exist, and others not",
		},
	}
	for _, name := range slices.Sorted(maps.Keys(moments)) {
		m := moments[name]
		t.Run(name, func(t *testing.T) {
			t.Log(m.why)
			runDemo(t, name, m.victims, m.when)
		})
	}
}

// victims chooses whom to kill in each round: everyone alone, then two at once,
// then the whole cluster, and again.
func victims(rnd *rand.Rand, rounds int) [][]string {
	var out [][]string
	for len(out) < rounds {
		for _, i := range rnd.Perm(len(parts)) {
			out = append(out, []string{parts[i]})
		}
		for range 2 {
			two := rnd.Perm(len(parts))[:2]
			out = append(out, []string{parts[two[0]], parts[two[1]]})
		}
		out = append(out, []string{whole})
	}
	return out[:rounds]
}

// task is a job of a demo: some pods that sleep.
type task struct {
	name, team, user    string
	pods, gpus, seconds int
	priority            string
}

func (j task) manifest() string {
	return strings.Replace(gang(j.name, j.pods, j.gpus, j.seconds),
		"restartPolicy: Never", "restartPolicy: Never\n            priorityClassName: "+j.priority, 1)
}

// runDemo lets the jobs of two teams run while processes are killed at some
// moment, and returns how many changes there were.
func runDemo(t *testing.T, prefix string, victims []string, when moment) int {
	t.Helper()
	awaitHealthy(t)
	awaitEmpty(t, "blue", "red")
	normal := func(name, team, user string) task {
		return task{
			name:     prefix + "-" + name,
			team:     team,
			user:     user,
			pods:     2,
			gpus:     4,
			seconds:  60,
			priority: "default-priority",
		}
	}
	// Alice's first jobs borrow all that there is.
	first := []task{normal("a1", "blue", "alice"), normal("a2", "blue", "alice"), normal("a3", "blue", "alice")}
	// Her important one preempts one of them, Bob's first takes his quota back,
	// and the wide one has to wait for an empty cluster.
	then := []task{
		{
			name:     prefix + "-important",
			team:     "blue",
			user:     "alice",
			pods:     2,
			gpus:     4,
			seconds:  30,
			priority: "high-priority",
		},
		normal("b1", "red", "bob"),
		normal("b2", "red", "bob"),
		{
			name:     prefix + "-wide",
			team:     "blue",
			user:     "alice",
			pods:     12,
			gpus:     2,
			seconds:  30,
			priority: "default-priority",
		},
	}
	size := map[string]int{}
	var names []string
	for _, j := range append(slices.Clone(first), then...) {
		size[j.name] = j.pods
		names = append(names, j.name)
	}
	w := newWitness(t, size, when)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		if len(victims) == 0 {
			return
		}
		if err := strike(t.Context(), w.reached, victims); err != nil {
			t.Error(err)
		}
	}()

	submit(t, first)
	always(t, "alice's jobs have run", w.wrong,
		w.all("running", func(h *history) bool { return h.ran }, names[:len(first)]...))
	submit(t, then)
	always(t, "every job succeeds", w.wrong,
		w.all("Succeeded", func(h *history) bool { return h.succeeded }, names...))
	changes := w.end()
	<-killed
	again := 0
	for _, v := range victims {
		if v != "scheduler" && v != "nodes" && v != "kube-controller-manager" {
			again = 1 // any of the others may cost a record of what was created
		}
	}
	for _, wrong := range append(w.accounts(again), panics(t)...) {
		t.Error(wrong)
	}
	if v := w.jobs[prefix+"-important"].evicted; v != 0 {
		t.Errorf("the important job was evicted %d times", v)
	}
	t.Logf(
		"%d changes; a gang was bound in part for %s at most; %s",
		changes,
		w.longest.Round(time.Millisecond),
		w.summary(),
	)
	awaitHealthy(t)
	eventually(t, "all quota is given back", func() string { return idle(t) })
	awaitEmpty(t, "blue", "red")
	eventually(t, "nothing is left", func() string { return leftovers(t, "blue", "red") })
	return changes
}

// strike kills the victims at a moment. When all die, the cluster is started
// again.
func strike(ctx context.Context, moment <-chan struct{}, victims []string) error {
	fire := func() {}
	all := slices.Contains(victims, whole)
	if !all {
		var err error
		if fire, err = cluster.Aim(ctx, victims...); err != nil {
			return err
		}
	}
	select {
	case <-moment:
	case <-ctx.Done(): // the test failed before
		return nil
	}
	if fire(); !all {
		return nil
	}
	if err := cluster.Crash(ctx); err != nil {
		return err
	}
	return cluster.Restart(ctx)
}

// submit creates jobs as their users, who try again when they get no answer.
func submit(t *testing.T, jobs []task) {
	t.Helper()
	for _, j := range jobs {
		eventually(t, "submit "+j.name, func() string {
			_, err := tryCreate(t, user(t, j.user), j.manifest(), j.team)
			if err == nil || apierrors.IsAlreadyExists(err) {
				return ""
			}
			return err.Error()
		})
	}
}

// idle is "" when no queue has anything reserved or waiting.
func idle(t *testing.T) string {
	t.Helper()
	var all kueue.ClusterQueueList
	if err := user(t, "").List(t.Context(), &all); err != nil {
		return err.Error()
	}
	for i := range all.Items {
		q := &all.Items[i]
		if n := q.Status.ReservingWorkloads + q.Status.AdmittedWorkloads + q.Status.PendingWorkloads; n > 0 {
			return fmt.Sprintf("%d workloads count in %s", n, q.Name)
		}
		for _, f := range q.Status.FlavorsReservation {
			for _, r := range f.Resources {
				if !r.Total.IsZero() {
					return fmt.Sprintf("%s of %s are reserved in %s", r.Total.String(), r.Name, q.Name)
				}
			}
		}
	}
	return ""
}

// leftovers names what deleted jobs left behind.
func leftovers(t *testing.T, namespaces ...string) string {
	t.Helper()
	for _, ns := range namespaces {
		for _, l := range []client.ObjectList{&aw.AppWrapperList{}, &kueue.WorkloadList{}, &batchv1.JobList{}, &corev1.PodList{}} {
			if err := user(t, "").List(t.Context(), l, client.InNamespace(ns)); err != nil {
				return err.Error()
			}
			if n := apimeta.LenList(l); n > 0 {
				return fmt.Sprintf("%d of %T in %s", n, l, ns)
			}
		}
	}
	return ""
}

// awaitHealthy waits until all processes are back.
func awaitHealthy(t *testing.T) {
	t.Helper()
	eventually(t, "all processes are back", func() string {
		all, err := cluster.Components(t.Context())
		if err != nil {
			return err.Error()
		}
		for _, c := range all {
			if c.Health != "ready" {
				return c.Name + " is " + c.Health
			}
		}
		return ""
	})
}

// crash is how a Go program that gave up begins its last words.
var crash = regexp.MustCompile(`(?m)^(panic:|fatal error:|F\d{4} ).*`)

// panics lists the last words of processes that were not killed.
func panics(t *testing.T) []string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(cluster.Dir, "logs", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	var out []string
	for _, l := range logs {
		text, err := os.ReadFile(l)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range crash.FindAllString(string(text), -1) {
			out = append(out, filepath.Base(l)+": "+line)
		}
	}
	return out
}

// number reads a variable of the environment.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// The controller dies while three jobs run and four wait: those that run are
// not touched, those that wait go on waiting for the same reason.
func TestControllerRestartDisturbsNothing(t *testing.T) {
	awaitHealthy(t)
	awaitEmpty(t, "blue", "red")
	names := times(t, 7, user(t, "alice"), "normal", "blue")
	eventually(t, "three run", inPhase(t, "Running", "blue", names[:3]...))
	for _, n := range names[:3] {
		eventually(t, "the pods of "+n+" run", func() string {
			all := pods(t, "blue", n)
			for i := range all {
				if all[i].Status.Phase != corev1.PodRunning {
					return all[i].Name + " is " + string(all[i].Status.Phase)
				}
			}
			return ""
		})
	}
	for _, n := range names[3:] {
		eventually(t, n+" waits", waits(t, "blue", n, "WaitingForQuota"))
	}
	before := picture(t, names)
	restarts := restartsOf(t, "controller")
	killController(t)
	eventually(t, "the controller died", func() string {
		if restartsOf(t, "controller") == restarts {
			return "it has not been restarted"
		}
		return ""
	})
	awaitHealthy(t)
	// A job submitted now is answered after all that was there before.
	late := sample(t, user(t, "alice"), "short", "blue")
	eventually(t, "a new job waits", waits(t, "blue", late, "WaitingForQuota"))
	for name, was := range before {
		if is := picture(t, names)[name]; !equality.Semantic.DeepEqual(was, is) {
			t.Errorf("%s changed:\n%s", name, cmp.Diff(was, is))
		}
	}
}

// snapshot is what a restart must not change of one job.
type snapshot struct {
	Phase     aw.AppWrapperPhase
	Admission *kueue.Admission
	// Reserved is the condition with the reason why it waits.
	Reserved metav1.Condition
	Pods     map[types.UID]corev1.PodPhase
}

func picture(t *testing.T, names []string) map[string]snapshot {
	t.Helper()
	out := map[string]snapshot{}
	for _, n := range names {
		w := itsWorkload(t, "blue", n)
		s := snapshot{
			Phase:     wrapper(t, "blue", n).Status.Phase,
			Admission: w.Status.Admission,
			Pods:      map[types.UID]corev1.PodPhase{},
		}
		if c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved); c != nil {
			s.Reserved = *c
		}
		for _, p := range pods(t, "blue", n) {
			s.Pods[p.UID] = p.Status.Phase
		}
		out[n] = s
	}
	return out
}

func restartsOf(t *testing.T, name string) int {
	t.Helper()
	all, err := cluster.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(c rig.Component) bool { return c.Name == name })
	return all[i].Restarts
}
