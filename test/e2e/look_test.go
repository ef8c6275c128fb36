package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// failing is a Job of two pods that end with exit code 3.
const failing = `
apiVersion: batch/v1
kind: Job
metadata:
  name: %s
  labels: {kueue.x-k8s.io/queue-name: default-queue}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  backoffLimit: 1 # the second failure ends it; by the first its other pod would be stopped
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: work
        image: busybox
        command: ["sh", "-c", "sleep 20; exit 3"]
        resources: {limits: {nvidia.com/gpu: 1}}
`

// typed runs a command as a user and reads what it prints as JSON.
func typed[T any](t *testing.T, as string, args ...string) T {
	t.Helper()
	var out T
	args = append(args, "-o", "json")
	if as != "" {
		args = append(args, "--as", as)
	}
	text, err := cluster.Run(t.Context(), args...)
	if err != nil {
		t.Fatalf("mlbatch %s: %v", strings.Join(args, " "), err)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// ended is what hist prints.
type ended struct {
	Items []view.PastJob `json:"items"`
}

// A job that failed: which rank, with which exit code, and what it wrote last, with alice's own
// rights; and it is remembered when it is gone.
func TestShowNamesTheFailingRank(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice := user(t, "alice")
	create(t, alice, fmt.Sprintf(failing, "breaks"), "blue")
	var shown why.Details
	eventually(t, "it failed", func() string {
		shown = typed[why.Details](t, "alice", "show", "blue/breaks")
		if shown.State != "Failed" || shown.Failure == nil {
			return fmt.Sprintf("it is %s", shown.State)
		}
		return ""
	})
	f := shown.Failure
	if f.ExitCode == nil || *f.ExitCode != 3 || f.Rank == nil || f.Node == "" ||
		!strings.HasPrefix(f.Pod, fmt.Sprintf("breaks-%d-", *f.Rank)) {
		t.Errorf("the failure is told as %+v", f)
	}
	if log := strings.Join(f.Log, "\n"); !strings.Contains(log, "exit code 3") {
		t.Errorf("the end of its log: %q (%s)", log, f.NoLog)
	}
	var steps []why.MomentKind
	for _, m := range shown.Timeline {
		if m.Step != why.Starts { // told of where it failed in a later second
			steps = append(steps, m.Step)
		}
	}
	if want := []why.MomentKind{
		why.Submitted,
		why.Admits,
		why.Fails,
		why.Fails,
		why.Ends,
	}; fmt.Sprint(
		steps,
	) != fmt.Sprint(
		want,
	) {
		t.Errorf("it went %v, want %v: %+v", steps, want, shown.Timeline)
	}
	events, err := cluster.Run(t.Context(), "events", "blue/breaks", "--as", "alice")
	if err != nil || !strings.Contains(events, "Created pod: "+f.Pod) ||
		!strings.Contains(events, "Admitted by ClusterQueue blue-cluster-queue") {
		t.Errorf("its events, %v:\n%s", err, events)
	}
	remembered := func() string {
		for _, r := range typed[ended](t, "alice", "hist", "-n", "blue", "--state", "Failed", "--since", "10m").Items {
			if r.Name == "breaks" && r.ExitCode != nil && *r.ExitCode == 3 && r.GPUs == 2 && r.FailedNode == f.Node &&
				r.GPUHours > 0 {
				return ""
			}
		}
		return "it is not in the history"
	}
	eventually(t, "it is recorded", remembered)
	if err := alice.Delete(
		t.Context(),
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "breaks"}},
		client.PropagationPolicy("Background"),
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() string {
		if w := workloadOf(t, "blue", "breaks"); w != nil {
			return "its Workload is there: " + fmt.Sprint(w.Finalizers)
		}
		return ""
	})
	if why := remembered(); why != "" {
		t.Errorf("now that it is deleted, %s", why)
	}
	if out, err := cluster.Run(t.Context(), "hist", "-n", "blue", "--as", "bob"); err == nil {
		t.Errorf("bob reads the history of blue: %s", out)
	}
}

// A job that was evicted says for whom and by which rule: by name to who may see that job, by
// queue and UID to others.
func TestTimelineNamesForWhom(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	create(t, user(t, "alice"), gang("alice-borrows", 3, 8, 6000), "blue")
	eventually(t, "alice has it all", inPhase(t, "Running", "blue", "alice-borrows"))
	create(t, user(t, "bob"), gang("bob-secret", 1, 8, 6000), "red")
	eventually(t, "bob takes back what is his", inPhase(t, "Running", "red", "bob-secret"))
	uid := string(itsWorkload(t, "red", "bob-secret").UID)
	for as, want := range map[string]string{"": "AppWrapper red/bob-secret of ClusterQueue red-cluster-queue", "alice": uid} {
		shown := typed[why.Details](t, as, "show", "blue/alice-borrows")
		told := ""
		for _, m := range shown.Timeline {
			if m.Step == why.Evicts {
				told = m.Text
			}
		}
		if !strings.Contains(told, want) ||
			!strings.Contains(told, "takes back quota that this workload borrowed") ||
			shown.Evictions != 1 ||
			shown.User != "alice" {
			t.Errorf("as %q: evicted %d times: %q", as, shown.Evictions, told)
		}
		if as == "alice" && strings.Contains(told, "bob-") {
			t.Errorf("alice learns the names of bob's jobs: %s", told)
		}
	}
}

// Jobs that end or are deleted while no controller runs, and some that it was killed over, are
// remembered once each.
func TestHistorySurvivesKills(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice := user(t, "alice")
	want := map[string]bool{}
	remove := func(name string) {
		t.Helper()
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}
		if err := alice.Delete(t.Context(), job, client.PropagationPolicy("Background")); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		var names []string
		for i := range 4 {
			name := fmt.Sprintf("gone-%d-%d", round, i)
			eventually(t, "the controller is there to take it", func() string {
				if _, err := tryCreate(t, alice, fmt.Sprintf(failing, name), "blue"); err != nil {
					return err.Error()
				}
				return ""
			})
			want[name] = true
			names = append(names, name)
		}
		eventually(t, "one of them ended", func() string {
			if w := workloadOf(t, "blue", names[0]); w == nil || !isFinished(w) {
				return names[0] + " runs"
			}
			return ""
		})
		killController(t)
		for _, name := range names {
			remove(name)
		}
	}
	eventually(t, "all are remembered, once each", func() string {
		times := map[string]int{}
		for _, r := range typed[ended](t, "alice", "hist", "-n", "blue", "--since", "10m").Items {
			times[r.Name]++
		}
		for name := range want {
			if times[name] != 1 {
				return fmt.Sprintf("%s is there %d times", name, times[name])
			}
		}
		return ""
	})
	for _, sum := range typed[struct {
		Items []cli.PastSum `json:"items"`
	}](t, "", "hist", "-A", "--since", "10m", "--by", "namespace").Items {
		if sum.Name == "blue" && sum.Jobs < len(want) {
			t.Errorf("the sum of blue counts %d jobs", sum.Jobs)
		}
	}
}

// What capacity says is what happens: the gang that it names starts, and one pod more does not.
func TestCapacityIsWhatStarts(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice := user(t, "alice")
	create(t, user(t, "bob"), gang("bob-scatters", 1, 3, 6000), "red")
	eventually(t, "bob has some", inPhase(t, "Running", "red", "bob-scatters"))
	said := typed[struct {
		Items []cli.CapacityRow `json:"items"`
	}](t, "alice", "capacity", "-n", "blue", "--gpus-per-pod", "4,8")
	if len(said.Items) != 2 {
		t.Fatalf("capacity says %+v", said)
	}
	for _, r := range said.Items {
		if r.Pods < 1 {
			t.Fatalf("nothing would start: %+v", r)
		}
		larger, fits := fmt.Sprintf("larger-%d", r.GPUsPerPod), fmt.Sprintf("fits-%d", r.GPUsPerPod)
		create(t, alice, gang(larger, int(r.Pods)+1, int(r.GPUsPerPod), 6000), "blue")
		eventually(t, "one pod more waits", waits(t, "blue", larger))
		if err := alice.Delete(
			t.Context(),
			wrapper(t, "blue", larger),
			client.PropagationPolicy("Background"),
		); err != nil {
			t.Fatal(err)
		}
		create(t, alice, gang(fits, int(r.Pods), int(r.GPUsPerPod), 6000), "blue")
		eventually(
			t,
			fmt.Sprintf("%d pods of %d GPUs start", r.Pods, r.GPUsPerPod),
			inPhase(t, "Running", "blue", fits),
		)
		if err := alice.Delete(
			t.Context(),
			wrapper(t, "blue", fits),
			client.PropagationPolicy("Background"),
		); err != nil {
			t.Fatal(err)
		}
		awaitEmpty(t, "blue")
	}
}
