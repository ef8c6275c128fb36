package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	past "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// checkedQueue is a queue whose workloads need the word of the check "budget",
// which an external controller answers: the test.
const checkedQueue = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: checked-cluster-queue}
spec:
  namespaceSelector: {}
  admissionChecksStrategy: {admissionChecks: [{name: budget}, {name: elsewhere, onFlavors: [unused]}]}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: checked, resources: [{name: cpu, nominalQuota: 1}]}
    - {name: unused, resources: [{name: cpu, nominalQuota: 0}]}
`

const checkedJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: checked}}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - {name: c, image: busybox, command: [sleep, "600"], resources: {requests: {cpu: 1}}}
`

// checked sets up the queue; its checks have no controller yet that answers them. It
// stays for the next test.
func checked(t *testing.T, admin client.Client) {
	t.Helper()
	awaitEmpty(t, "blue")
	for _, m := range []string{
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: checked}}",
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: unused}}",
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: budget}, spec: {controllerName: example.com/budget}}",
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: elsewhere}, spec: {controllerName: example.com/budget}}",
		checkedQueue,
	} {
		if _, err := tryCreate(t, admin, m, ""); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	create(
		t,
		admin,
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: checked}, spec: {clusterQueue: checked-cluster-queue}}",
		"blue",
	)
	answering(t, admin, metav1.ConditionFalse)
}

// answering says whether a controller answers the checks.
func answering(t *testing.T, admin client.Client, active metav1.ConditionStatus) {
	t.Helper()
	for _, name := range []string{"budget", "elsewhere"} {
		c := &kueue.AdmissionCheck{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, c); err != nil {
			t.Fatal(err)
		}
		apimeta.SetStatusCondition(
			&c.Status.Conditions,
			metav1.Condition{
				Type:    kueue.AdmissionCheckActive,
				Status:  active,
				Reason:  "Test",
				Message: "The test answers them, or not",
			},
		)
		if err := admin.Status().Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// answer is the word of the external controller.
func answer(
	t *testing.T,
	admin client.Client,
	owner string,
	state kueue.CheckState,
	more ...func(*kueue.AdmissionCheckState),
) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		w := itsWorkload(t, "blue", owner)
		c := &w.Status.AdmissionChecks[0]
		c.State, c.LastTransitionTime, c.Message = state, metav1.Now(), "the test says "+string(state)
		for _, m := range more {
			m(c)
		}
		return admin.Status().Update(t.Context(), w)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reservedOnly is "" while a job has quota and waits for the check "budget".
func reservedOnly(t *testing.T, owner string) string {
	t.Helper()
	w := workloadOf(t, "blue", owner)
	if w == nil || w.Status.Admission == nil {
		return "it has no reservation"
	}
	if a := apimeta.FindStatusCondition(
		w.Status.Conditions,
		kueue.WorkloadAdmitted,
	); a == nil ||
		a.Reason != kueue.ReasonUnsatisfiedAdmissionChecks {
		return fmt.Sprintf("Admitted is %+v", a)
	}
	if c := w.Status.AdmissionChecks; len(c) != 1 || c[0].Name != "budget" ||
		c[0].State != kueue.CheckStatePending {
		return fmt.Sprintf("checks are %+v, want budget pending and none of another flavor", c)
	}
	if n := len(pods(t, "blue", owner)); n > 0 {
		return fmt.Sprintf("%d pods exist before it is admitted", n)
	}
	return ""
}

// is returns "" once a condition of the job's Workload has a status and a reason.
func is(t *testing.T, c client.Client, owner, kind, status, reason string) string {
	t.Helper()
	var all kueue.WorkloadList
	if err := c.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		return err.Error()
	}
	for i := range all.Items {
		if o := metav1.GetControllerOf(&all.Items[i]); o == nil || o.Name != owner {
			continue
		}
		got := apimeta.FindStatusCondition(all.Items[i].Status.Conditions, kind)
		if got == nil || string(got.Status) != status || got.Reason != reason {
			return fmt.Sprintf("%s is %+v, want %s %s", kind, got, status, reason)
		}
		return ""
	}
	return "it has no workload"
}

// told is "" once an event on the job's Workload was recorded exactly once. No
// other test may use the job's name.
func told(t *testing.T, c client.Client, owner, reason string) string {
	t.Helper()
	var all corev1.EventList
	if err := c.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		return err.Error()
	}
	n := 0
	for _, e := range all.Items { // the Workload itself may be gone already
		if o := e.InvolvedObject; o.Kind == "Workload" && strings.Contains(o.Name, "-"+owner+"-") &&
			e.Reason == reason {
			n++
		}
	}
	if n != 1 {
		return fmt.Sprintf("there are %d events %s on its workload, want 1", n, reason)
	}
	return ""
}

func TestAdmissionCheckSaysYes(t *testing.T) {
	admin := user(t, "")
	checked(t, admin)
	create(t, admin, fmt.Sprintf(checkedJob, "agreed"), "blue")
	eventually(t, "no controller answers the check", waits(t, "blue", "agreed", "Suspended", "budget"))
	answering(t, admin, metav1.ConditionTrue)
	eventually(t, "quota comes first", func() string { return reservedOnly(t, "agreed") })
	// The answer comes while no controller runs.
	killController(t)
	answer(t, admin, "agreed", kueue.CheckStateReady, func(c *kueue.AdmissionCheckState) {
		c.PodSetUpdates = []kueue.PodSetUpdate{
			{
				Name:         "main",
				Labels:       map[string]string{"example.com/account": "a-17"},
				Annotations:  map[string]string{"example.com/note": "paid"},
				NodeSelector: map[string]string{"kubernetes.io/hostname": "node-1"},
				Tolerations:  []corev1.Toleration{{Key: "example.com/paid", Operator: corev1.TolerationOpExists}},
			},
		}
	})
	eventually(t, "it runs with what the check wants", func() string {
		all := pods(t, "blue", "agreed")
		if len(all) != 1 || all[0].Labels["example.com/account"] != "a-17" ||
			all[0].Annotations["example.com/note"] != "paid" ||
			all[0].Spec.NodeSelector["kubernetes.io/hostname"] != "node-1" {
			return fmt.Sprintf("its pods are %+v", all)
		}
		for _, tol := range all[0].Spec.Tolerations {
			if tol.Key == "example.com/paid" {
				return ""
			}
		}
		return fmt.Sprintf("its pod tolerates %+v", all[0].Spec.Tolerations)
	})
	eventually(t, "its reservation was told", func() string { return told(t, admin, "agreed", "QuotaReserved") })
	eventually(t, "its admission was told", func() string { return told(t, admin, "agreed", "Admitted") })
	awaitEmpty(t, "blue")
}

func TestAdmissionCheckAsksForAnotherTry(t *testing.T) {
	admin := user(t, "")
	checked(t, admin)
	answering(t, admin, metav1.ConditionTrue)
	create(t, admin, fmt.Sprintf(checkedJob, "again"), "blue")
	eventually(t, "quota comes first", func() string { return reservedOnly(t, "again") })
	answer(
		t,
		admin,
		"again",
		kueue.CheckStateRetry,
		func(c *kueue.AdmissionCheckState) { c.RequeueAfterSeconds = new(int32(2)) },
	)
	eventually(t, "it leaves", func() string { return told(t, admin, "again", "EvictedDueToAdmissionCheck") })
	eventually(t, "it comes back after the pause", func() string {
		if diff := is(t, admin, "again", kueue.WorkloadRequeued, "True", kueue.ReasonBackoffFinished); diff != "" {
			return diff
		}
		return reservedOnly(t, "again")
	})
	w := itsWorkload(t, "blue", "again")
	if c := w.Status.AdmissionChecks[0]; ptr.Deref(c.RetryCount, 0) != 1 ||
		c.Message != "Reset to Pending after eviction. Previously: Retry" {
		t.Errorf("the check is %+v, want asked anew with one retry", c)
	}
	answer(t, admin, "again", kueue.CheckStateReady)
	eventually(t, "it runs", func() string { return jobRuns(t, "again", 1) })
	awaitEmpty(t, "blue")
}

func TestAdmissionCheckSaysNo(t *testing.T) {
	admin := user(t, "")
	checked(t, admin)
	answering(t, admin, metav1.ConditionTrue)
	create(t, admin, fmt.Sprintf(checkedJob, "refused"), "blue")
	eventually(t, "quota comes first", func() string { return reservedOnly(t, "refused") })
	answer(t, admin, "refused", kueue.CheckStateRejected)
	eventually(t, "it is deactivated and gives its quota back", func() string {
		w := itsWorkload(t, "blue", "refused")
		if ptr.Deref(w.Spec.Active, true) || w.Status.Admission != nil {
			return fmt.Sprintf("active is %v, its admission %+v", ptr.Deref(w.Spec.Active, true), w.Status.Admission)
		}
		return is(t, admin, "refused", kueue.WorkloadEvicted, "True", "DeactivatedDueToAdmissionCheck")
	})
	eventually(t, "why was told", func() string { return told(t, admin, "refused", "AdmissionCheckRejected") })
	activate(t, admin, "refused", true)
	eventually(
		t,
		"activated again, it is asked about again",
		func() string { return reservedOnly(t, "refused") },
	)
	answer(t, admin, "refused", kueue.CheckStateReady)
	eventually(t, "it runs", func() string { return jobRuns(t, "refused", 1) })
	awaitEmpty(t, "blue")
}

// activate sets spec.active of a job's Workload.
func activate(t *testing.T, admin client.Client, owner string, active bool) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		w := itsWorkload(t, "blue", owner)
		w.Spec.Active = &active
		return admin.Update(t.Context(), w)
	})
	if err != nil {
		t.Fatal(err)
	}
}

const limitedJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue, %s}}
spec:
  template:
    spec:
      %s
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - {name: c, image: busybox, command: [sleep, "6000"], resources: {limits: {nvidia.com/gpu: 1}}}
`

func TestMaximumExecutionTime(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	create(t, admin, fmt.Sprintf(limitedJob, "brief", "kueue.x-k8s.io/max-exec-time-seconds: '2'", ""), "blue")
	eventually(t, "it runs", func() string { return jobRuns(t, "brief", 1) })
	eventually(
		t,
		"its time is over",
		func() string { return gone(t, admin, "brief", "DeactivatedDueToMaximumExecutionTimeExceeded") },
	)
	awaitEmpty(t, "blue")
}

// TestHang: a pod lives on and takes no step any more. What it said is kept before its job is stopped and begins anew.
func TestHang(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	const states = "a: b}, annotations: {mlbatch.dev/progress-every: 5s, mlbatch.dev/progress-first: 5m, mlbatch.dev/on-hang: Restart"
	create(t, admin, fmt.Sprintf(limitedJob, "hanging", states, ""), "blue")
	eventually(t, "it runs", func() string { return jobRuns(t, "hanging", 1) })
	first := pods(t, "blue", "hanging")[0]
	for _, step := range []string{"1", "2"} {
		act(t, admin, &first, map[string]string{kueue.StepAnnotation: step})
	}
	eventually(t, "it is stopped and runs again", func() string {
		shown := typed[why.Details](t, "alice", "show", "blue/hanging")
		if shown.Attempts == nil || len(shown.Attempts.Attempts.Attempts) < 2 {
			return "it has not hung yet: " + shown.Progress
		}
		return jobRuns(t, "hanging", 1)
	})
	hung := typed[why.Details](t, "alice", "show", "blue/hanging").Attempts.Attempts.Attempts[0]
	if hung.Category != string(core.CategoryHang) {
		t.Errorf("its first attempt is %+v", hung)
	}
	var kept past.JobEvidenceList
	if err := user(
		t,
		"alice",
	).List(t.Context(), &kept, client.InNamespace("blue")); err != nil ||
		len(kept.Items) != 1 {
		t.Fatalf("kept is %+v (%v)", kept.Items, err)
	}
	if e := &kept.Items[0]; e.CreationTimestamp.After(hung.End.Time) || e.Ranks[0].Pod != first.Name ||
		e.Ranks[0].Step == nil || *e.Ranks[0].Step != 2 || e.Ranks[0].Log == "" {
		t.Errorf("kept is %+v, it was stopped at %s", e, hung.End)
	}
	typing(t, "alice", "rank 0: pod "+first.Name, "logs", "blue/hanging", "--evidence")
	awaitEmpty(t, "blue")
}

// gone is "" once a job was evicted for a reason, and has neither pods nor quota.
func gone(t *testing.T, admin client.Client, owner, reason string) string {
	t.Helper()
	if n := len(pods(t, "blue", owner)); n > 0 {
		return fmt.Sprintf("%d pods are left", n)
	}
	if w := workloadOf(t, "blue", owner); w == nil || w.Status.Admission != nil {
		return "it has its quota still"
	}
	return is(t, admin, owner, kueue.WorkloadEvicted, "True", reason)
}

func TestDeactivatedAndBack(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	create(t, admin, fmt.Sprintf(limitedJob, "pausing", "a: b", ""), "blue")
	eventually(t, "it runs", func() string { return jobRuns(t, "pausing", 1) })
	activate(t, admin, "pausing", false)
	eventually(t, "it stops", func() string { return gone(t, admin, "pausing", "Deactivated") })
	activate(t, admin, "pausing", true)
	eventually(t, "it runs again", func() string { return jobRuns(t, "pausing", 1) })
	awaitEmpty(t, "blue")
}

const impatient = `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: 2s
  requeuingStrategy: {backoffLimitCount: 1, backoffBaseSeconds: 1}
objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: 3s}}
`

// ownCluster starts a cluster with a configuration of its own.
func ownCluster(t *testing.T, configuration string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	another(t, "--config", file)
}

// another starts a cluster with arguments of its own. It is the cluster of the test until it
// ends.
func another(t *testing.T, args ...string) {
	t.Helper()
	shared := cluster
	own, err := shared.Another(t.Context(), os.Stderr, append(args, "--time-scale", timeScale)...)
	if err != nil {
		t.Fatal(err)
	}
	cluster = own
	t.Cleanup(func() {
		cluster = shared
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// Jobs whose pods do not come up make room for others, come back, and are given
// up in the end. This needs a controller with short patience.
func TestPodsReadyTimeout(t *testing.T) {
	ownCluster(t, impatient)
	admin := user(t, "")
	create(t, admin, fmt.Sprintf(limitedJob, "good", "a: b", ""), "blue")
	eventually(
		t,
		"pods that come up are seen",
		func() string { return is(t, admin, "good", kueue.WorkloadPodsReady, "True", kueue.ReasonStarted) },
	)
	// Nothing will ever open the gate of their pods.
	create(
		t,
		admin,
		fmt.Sprintf(limitedJob, "stuck", "a: b", "schedulingGates: [{name: example.com/shut}]"),
		"blue",
	)
	create(
		t,
		admin,
		wrap(
			`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {spec: {schedulingGates: [{name: example.com/shut}], restartPolicy: Never,
		terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`,
		),
		"blue",
	)
	for name, o := range map[string]client.Object{"stuck": &batchv1.Job{}, "wrapped": &aw.AppWrapper{}} {
		eventually(
			t,
			name+" makes room",
			func() string { return told(t, admin, name, "EvictedDueToPodsReadyTimeoutDueToWaitForStart") },
		)
		eventually(t, name+" comes back", func() string { return told(t, admin, name, "BackoffFinished") })
		eventually(
			t,
			name+" is given up",
			func() string { return told(t, admin, name, "EvictedDueToDeactivatedDueToRequeuingLimitExceeded") },
		)
		eventually(t, name+" is deleted after its time, and nothing of it is left", func() string {
			if err := admin.Get(
				t.Context(),
				client.ObjectKey{Namespace: "blue", Name: name},
				o,
			); !apierrors.IsNotFound(
				err,
			) {
				return fmt.Sprintf("the job is still there: %v", err)
			}
			if n := len(pods(t, "blue", name)); n > 0 {
				return fmt.Sprintf("%d pods are left", n)
			}
			return ""
		})
	}
	// A group that is admitted with its first pod, and whose others never come.
	create(
		t,
		admin,
		`{apiVersion: v1, kind: Pod, metadata: {name: lone-0, labels: {kueue.x-k8s.io/queue-name: default-queue, kueue.x-k8s.io/pod-group-name: lone},
		annotations: {kueue.x-k8s.io/pod-group-total-count: "3", kueue.x-k8s.io/pod-group-fast-admission: "true"}},
		spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, resources: {limits: {nvidia.com/gpu: 1}}}]}}`,
		"blue",
	)
	lone := func() string {
		var w kueue.Workload
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "lone"}, &w)
		switch {
		case apierrors.IsNotFound(err):
			return "gone"
		case err != nil:
			return err.Error()
		case w.Status.Admission == nil:
			return "waits"
		}
		return fmt.Sprintf("holds the quota of %d", ptr.Deref(w.Status.Admission.PodSetAssignments[0].Count, 0))
	}
	eventually(
		t,
		"a group is admitted with its first pod",
		func() string { return strings.TrimPrefix(lone(), "holds the quota of 3") },
	)
	eventually(t, "it gives all of it back", func() string { return strings.TrimPrefix(lone(), "gone") })
	if d := jobRuns(t, "good", 1); d != "" {
		t.Errorf("the good job suffers: %s", d)
	}
}
