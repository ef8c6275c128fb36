package appwrapper

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/view"
)

// fails ends the first pod with an exit code after it ran for a time, and its Job with it.
func (x *world) fails(code int32, ran time.Duration) {
	x.t.Helper()
	p := x.pods()[0]
	p.Status.Phase = corev1.PodFailed
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "c",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Error",
			StartedAt:  metav1.NewTime(x.clock.Now().Add(-ran)),
			FinishedAt: metav1.NewTime(x.clock.Now()),
		}},
	}}
	x.status(&p)
	x.jobCondition(batchv1.JobFailed, "BackoffLimitExceeded")
	x.reconcileAll()
}

// again brings it to where its pods run, as after a reset.
func (x *world) again() {
	x.t.Helper()
	x.to("Running")
	x.run(0, corev1.PodRunning)
	x.reconcileAll()
}

// queued are its queues, which say what follows failures.
func queued(local, cluster string) []client.Object {
	note := func(text string) map[string]string {
		if text == "" {
			return nil
		}
		return map[string]string{kueue.RetryPolicyAnnotation: text}
	}
	return []client.Object{
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "default-queue", Annotations: note(local)},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "team"},
		},
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "team", Annotations: note(cluster)}},
	}
}

// TestWhoSaysWhatFollowsAFailure: the job says it first, then its LocalQueue, its ClusterQueue, the configuration file;
// annotations of AppWrappers go before queues, file and defaults. The pod ends with 7 twice, each time after a minute.
func TestWhoSaysWhatFollowsAFailure(t *testing.T) {
	limit := appwrapper.AnnotationPrefix + "retryLimit"
	for name, c := range map[string]struct {
		why            string
		job            map[string]string
		local, cluster string
		file           string
		first, second  string // the phases that follow
		told           string
	}{
		"nobody":         {why: "it ends alike twice", first: "Resetting", second: "Failed", told: "of the defaults"},
		"ClusterQueue":   {why: "it knows its jobs", cluster: "exit 7: Fail", first: "Failed", told: "of ClusterQueue team"},
		"LocalQueue":     {why: "it is more specific", cluster: "exit 7: Fail", local: "exit 7: Retry", first: "Resetting", second: "Resetting"},
		"file":           {why: "it is for all queues", file: "exit 7: Fail", first: "Failed", told: "of the configuration file"},
		"file, limit":    {why: "it is for all queues", file: "limit: 0", first: "Failed", told: "limit of 0 retries"},
		"job":            {why: "it is the most specific", job: map[string]string{kueue.RetryPolicyAnnotation: "exit 7: Fail"}, local: "exit 7: Retry", first: "Failed", told: "of the job"},
		"retryLimit":     {why: "its author said how often", job: map[string]string{limit: "2"}, cluster: "exit 7: Fail", first: "Resetting", second: "Resetting"},
		"no sense":       {why: "what makes no sense changes nothing", job: map[string]string{kueue.RetryPolicyAnnotation: "exit 7"}, first: "Resetting", second: "Failed"},
		"queue no sense": {why: "nor that of a queue", cluster: "never", first: "Resetting", second: "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wrapper(jobManifest)
			w.Labels = map[string]string{kueue.QueueNameLabel: "default-queue"}
			w.Annotations = c.job
			x := newWorld(t, w, queued(c.local, c.cluster)...)
			if c.file != "" {
				said, err := core.ParseRetryText(c.file, "the configuration file")
				if err != nil {
					t.Fatal(err)
				}
				x.r.said = &said
			}
			x.reconcileAll()
			if told := slices.Contains(x.told(), "InvalidAnnotation"); told != (name == "no sense") {
				t.Errorf("%s: that an annotation is ignored is told: %v", c.why, told)
			}
			x.admit()
			x.again()
			x.fails(7, time.Minute)
			if got := x.phase(); got != c.first {
				t.Fatalf("%s: %s after the first failure, want %s", c.why, got, c.first)
			}
			if c.second != "" {
				x.again()
				x.fails(7, time.Minute)
				if got := x.phase(); got != c.second {
					t.Fatalf("%s: %s after the second failure, want %s: %s", c.why, got, c.second, x.unhealthy())
				}
			}
			if said := x.unhealthy(); !strings.Contains(said, c.told) {
				t.Errorf("%s: it says %q, want %s", c.why, said, c.told)
			}
		})
	}
}

// unhealthy is what the condition says.
func (x *world) unhealthy() string {
	for _, c := range x.get().Status.Conditions {
		if c.Type == awv1beta2.Unhealthy {
			return c.Message
		}
	}
	return ""
}

// TestProgressIsTriedAgain: what ends alike after hours, or after a checkpoint, is no user error for certain.
func TestProgressIsTriedAgain(t *testing.T) {
	for name, second := range map[string]func(*world){
		"ran for hours": func(x *world) { x.fails(1, 3*time.Hour) },
		"told of a checkpoint": func(x *world) {
			x.clock.SetTime(x.clock.Now().Add(2 * time.Minute))
			w := x.get()
			w.Annotations = map[string]string{history.CheckpointAnnotation: x.clock.Now().Add(-time.Second).UTC().Format(time.RFC3339)}
			if err := x.server.Update(x.t.Context(), w); err != nil {
				x.t.Fatal(err)
			}
			x.fails(1, time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := running(t, jobManifest)
			x.fails(1, time.Minute)
			x.again()
			second(x)
			if x.phase() != "Resetting" || x.get().Status.Retries != 2 {
				t.Errorf("phase %s, %d retries: %s", x.phase(), x.get().Status.Retries, x.unhealthy())
			}
		})
	}
}

// TestBadNodesInARow: a job that a rack throws off again and again gives up in the end, without a retry spent, and a
// process that dies in between does not count anew.
func TestBadNodesInARow(t *testing.T) {
	x := running(t, jobManifest)
	for i := range core.DefaultDisruptions {
		x.label("node-1", "EVICT")
		x.reconcileAll()
		if x.phase() != "Resetting" {
			t.Fatalf("move %d: phase %s: %s", i+1, x.phase(), x.unhealthy())
		}
		x.label("node-1", "PASS")
		x.again()
	}
	x.label("node-1", "EVICT")
	x.reconcileAll()
	if x.phase() != "Failed" || x.get().Status.Retries != 0 ||
		!strings.Contains(x.unhealthy(), "12 disruptions") {
		t.Errorf("phase %s, %d retries: %s", x.phase(), x.get().Status.Retries, x.unhealthy())
	}
}

// TestRunningForDaysIsProgress: a job that ran for days until a node took one of its pods along, in whose place none came
// in time, is remembered as one that got somewhere. One whose pods never came is not, however long it waits for them and
// whatever is deleted meanwhile.
func TestRunningForDaysIsProgress(t *testing.T) {
	for name, c := range map[string]struct {
		ran      time.Duration
		patience string // its graces, 5m if it names none
		leaves   bool   // its pod takes its time to end
		want     bool
	}{
		"for days":                      {ran: 72 * time.Hour, want: true},
		"for days, and ends slowly":     {ran: 72 * time.Hour, leaves: true, want: true},
		"for a minute":                  {ran: time.Minute},
		"ten seconds, and waits long":   {ran: 10 * time.Second, patience: "20m"},
		"never":                         {},
		"never, and waits long":         {patience: "20m"},
		"never, and its pod is deleted": {leaves: true, patience: "20m"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wrapper(jobManifest)
			if c.patience != "" {
				w.Annotations = map[string]string{
					appwrapper.AnnotationPrefix + "admissionGracePeriodDuration": c.patience,
					appwrapper.AnnotationPrefix + "warmupGracePeriodDuration":    c.patience,
				}
			}
			x := newWorld(t, w)
			x.reconcileAll()
			x.admit()
			x.to("Running")
			if c.ran > 0 {
				x.run(0, corev1.PodRunning)
				x.reconcileAll()
				x.clock.SetTime(x.clock.Now().Add(c.ran))
			}
			switch {
			case c.ran > 0:
				x.loses(c.leaves)
			case c.leaves:
				x.run(0, corev1.PodPending)
				x.loses(true)
			}
			for range 120 {
				if x.phase() != "Running" {
					break
				}
				x.clock.SetTime(x.clock.Now().Add(30 * time.Second))
				x.reconcileAll()
			}
			got := view.RetryHistory(view.RestartedAttempts(x.get()), 0).Last
			if len(got) != 1 || got[0].Category != core.CategoryStartFailure || got[0].Progress != c.want {
				t.Errorf("%s: %+v, want progress: %v", x.phase(), got, c.want)
			}
		})
	}
}

// loses has a pod deleted in whose place none comes, if need be only a minute after it was told to end.
func (x *world) loses(slowly bool) { //nolint:revive // how it ends
	x.t.Helper()
	p := x.pods()[0]
	if slowly {
		p.Spec.NodeName, p.Finalizers = "node-1", []string{"example.com/ends"}
		if err := x.server.Update(x.t.Context(), &p); err != nil {
			x.t.Fatal(err)
		}
	}
	if err := x.server.Delete(x.t.Context(), &p); err != nil {
		x.t.Fatal(err)
	}
	x.reconcileAll()
	if !slowly {
		return
	}
	x.clock.SetTime(x.clock.Now().Add(time.Minute))
	x.reconcileAll()
	p = x.pods()[0]
	p.Finalizers = nil
	if err := x.server.Update(x.t.Context(), &p); err != nil {
		x.t.Fatal(err)
	}
	x.reconcileAll()
}
