package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
)

// Of each reason that a job can wait for here one piece of advice is taken from the
// answer, and followed as the user or the administrator would: the job runs.
func TestAdviceIsFollowed(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin, alice := user(t, ""), user(t, "alice")
	patch := func(o client.Object, merge string) {
		t.Helper()
		if err := admin.Patch(
			withoutCancel(t),
			o,
			client.RawPatch(types.MergePatchType, []byte(merge)),
		); err != nil {
			t.Fatal(err)
		}
	}
	stopAll := func(p kueue.StopPolicy) {
		patch(
			&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "blue-cluster-queue"}},
			fmt.Sprintf(`{"spec":{"stopPolicy":%q}}`, p),
		)
	}
	stop := func(p kueue.StopPolicy) {
		patch(
			&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "default-queue"}},
			fmt.Sprintf(`{"spec":{"stopPolicy":%q}}`, p),
		)
	}
	cordon := func(node string, on bool) {
		patch(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
			fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on),
		)
	}
	activate := func(name string, active bool) {
		w := itsWorkload(t, "blue", name)
		edit(t, admin, w, func(w *kueue.Workload) { w.Spec.Active = new(active) })
	}
	taint := func(taints string) {
		patch(
			&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "default-flavor"}},
			`{"spec":{"nodeTaints":`+taints+`}}`,
		)
	}
	const gated = kueue.AdmissionGatedByAnnotation
	with := func(manifest, metadata string) string {
		return strings.Replace(manifest, "metadata: {name: x}", "metadata: {name: x, "+metadata+"}", 1)
	}
	labelled := func(queue string) string {
		return with(gang("x", 1, 1, 6000), "labels: {kueue.x-k8s.io/queue-name: "+queue+"}")
	}
	choosy := strings.Replace(
		gang("x", 1, 1, 6000),
		"restartPolicy",
		"nodeSelector: {example.com/disk: fast}\n            restartPolicy",
		1,
	)
	t.Cleanup(func() {
		taint("null")
		cordon("node-0", false)
		stop(kueue.StopPolicyNone)
		stopAll(kueue.StopPolicyNone)
	})
	remove := func(name string) {
		t.Helper()
		if err := alice.Delete(
			t.Context(),
			wrapper(t, "blue", name),
			client.PropagationPolicy("Background"),
		); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" is gone", func() string {
			if err := alice.Get(
				t.Context(),
				client.ObjectKey{Namespace: "blue", Name: name},
				&aw.AppWrapper{},
			); !apierrors.IsNotFound(
				err,
			) {
				return fmt.Sprint("it is there still: ", err)
			}
			return ""
		})
	}
	for _, c := range []struct {
		code, kind string
		// waits brings about that job x waits, follow does what the advice says.
		waits  func()
		follow func(visibility.Advice)
	}{
		{
			"ExceedsMaxQuota", "FewerPods",
			func() { create(t, alice, gang("x", 100, 8, 6000), "blue") },
			func(a visibility.Advice) { remove("x"); create(t, alice, gang("x", int(a.Count), 8, 6000), "blue") },
		},
		{
			"TopologyPlacementFailed", "SmallerPods",
			func() { create(t, alice, gang("x", 1, 9, 6000), "blue") },
			func(a visibility.Advice) {
				remove("x")
				create(t, alice, gang("x", 1, int(a.Amount.Value()), 6000), "blue")
			},
		},
		{
			"WaitingForQuota TopologyPlacementFailed", "WaitFor",
			func() {
				create(t, alice, gang("before", 3, 8, 6000), "blue")
				eventually(t, "all is taken", inPhase(t, "Running", "blue", "before"))
				create(t, alice, gang("x", 3, 8, 6000), "blue")
			},
			func(a visibility.Advice) {
				_, name, _ := strings.Cut(a.Workloads[0].Job, "/")
				remove(name)
			},
		},
		{
			"OnHold", "Release",
			func() {
				stop(kueue.StopPolicyHold)
				create(t, alice, gang("x", 1, 1, 6000), "blue")
				eventually(t, "it waits", waits(t, "blue", "x", "stopped"))
				activate("x", false)
				stop(kueue.StopPolicyNone)
			},
			func(visibility.Advice) { activate("x", true) },
		},
		{
			"Suspended", "ResumeLocal",
			func() {
				stop(kueue.StopPolicyHold)
				create(t, alice, gang("x", 1, 1, 6000), "blue")
			},
			func(visibility.Advice) { stop(kueue.StopPolicyNone) },
		},
		{
			"Suspended", "ResumeQueue",
			func() {
				stopAll(kueue.StopPolicyHold)
				create(t, alice, gang("x", 1, 1, 6000), "blue")
			},
			func(visibility.Advice) { stopAll(kueue.StopPolicyNone) },
		},
		{
			"AdmissionGated", "OpenGate",
			func() {
				create(t, alice, with(gang("x", 1, 1, 6000), "annotations: {"+gated+": example.com/a}"), "blue")
			},
			func(visibility.Advice) {
				edit(t, alice, wrapper(t, "blue", "x"), func(w *aw.AppWrapper) { delete(w.Annotations, gated) })
			},
		},
		{
			"TopologyPlacementFailed", "Uncordon",
			func() {
				cordon("node-0", true)
				create(t, alice, gang("x", 3, 5, 6000), "blue")
			},
			func(a visibility.Advice) {
				for _, node := range a.Nodes {
					cordon(node, false)
				}
			},
		},
		{
			"WaitingForPreemptedWorkloads", "AwaitLeaving",
			func() {
				slow := strings.Replace(gang("before", 3, 8, 6000), "terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 60", 1)
				slow = strings.Replace(slow, "template:\n          spec:", "template:\n          metadata: {annotations: {mlbatch.dev/stop-after: 15s}}\n          spec:", 1)
				create(t, alice, slow, "blue")
				eventually(t, "all is taken", inPhase(t, "Running", "blue", "before"))
				create(t, alice, strings.Replace(gang("x", 1, 8, 6000), "restartPolicy", "priorityClassName: high-priority\n            restartPolicy", 1), "blue")
			},
			func(visibility.Advice) {}, // there is nothing to do
		},
		{
			"NoMatchingFlavor", "Tolerate",
			func() {
				taint(`[{"key":"lab","effect":"NoSchedule"}]`)
				create(t, alice, gang("x", 1, 1, 6000), "blue")
			},
			func(visibility.Advice) {
				remove("x")
				create(t, alice, strings.Replace(gang("x", 1, 1, 6000), "restartPolicy", "tolerations: [{key: lab, operator: Exists}]\n            restartPolicy", 1), "blue")
			},
		},
		{
			"TopologyPlacementFailed", "DropSelector",
			func() { create(t, alice, choosy, "blue") },
			func(visibility.Advice) { remove("x"); create(t, alice, gang("x", 1, 1, 6000), "blue") },
		},
		{
			"WaitingForQuota TopologyPlacementFailed", "RaisePriority",
			func() {
				create(t, alice, gang("before", 3, 8, 6000), "blue")
				eventually(t, "all is taken", inPhase(t, "Running", "blue", "before"))
				create(t, alice, gang("x", 1, 8, 6000), "blue")
			},
			func(a visibility.Advice) {
				remove("x")
				create(t, alice, strings.Replace(gang("x", 1, 8, 6000), "restartPolicy", "priorityClassName: "+a.PriorityClasses[0]+"\n            restartPolicy", 1), "blue")
			},
		},
		{
			"Misconfigured", "OtherQueue",
			func() { create(t, alice, labelled("nowhere"), "blue") },
			func(a visibility.Advice) { remove("x"); create(t, alice, labelled(a.Queue), "blue") },
		},
	} {
		c.waits()
		c.follow(advised(t, c.code, c.kind))
		eventually(t, c.code+": after "+c.kind+" it runs", inPhase(t, "Running", "blue", "x"))
		remove("x")
		switch c.kind {
		case "RaisePriority", "AwaitLeaving":
			remove("before") // it was stopped, and runs again
		case "Tolerate":
			taint("null")
		}
		awaitEmpty(t, "blue")
	}
}

// advised waits until alice is advised something about blue/x, which waits for one of the reasons.
func advised(t *testing.T, reasons, kind string) (advice visibility.Advice) {
	t.Helper()
	eventually(t, reasons+": "+kind+" is advised", func() string {
		e, text := whyAs(t, "alice", "blue/x")
		if e.Answer == nil || !slices.Contains(strings.Fields(reasons), e.Answer.Reason) {
			return text
		}
		i := slices.IndexFunc(e.Answer.Advice, func(a visibility.Advice) bool { return a.Kind == kind })
		if i < 0 {
			return text
		}
		advice = e.Answer.Advice[i]
		return ""
	})
	return advice
}

// Where jobs are admitted one by one, each once the pods of those before are ready, a job that waits
// for that is told for whom, and starts when these end. This needs a controller that does so.
func TestAdviceWhereOthersComeUpFirst(t *testing.T) {
	ownCluster(t, `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {timeout: 1h, blockAdmission: true}
`)
	admin := user(t, "")
	// Nothing will ever open the gate of its pod.
	create(
		t,
		admin,
		fmt.Sprintf(limitedJob, "before", "a: b", "schedulingGates: [{name: example.com/shut}]"),
		"blue",
	)
	eventually(t, "it has its quota", func() string {
		if w := workloadOf(t, "blue", "before"); w == nil || w.Status.Admission == nil {
			return fmt.Sprintf("%+v", w)
		}
		return ""
	})
	create(t, admin, fmt.Sprintf(limitedJob, "x", "a: b", ""), "blue")
	advice := advised(t, "WaitingForPodsReady", "WaitFor")
	if len(advice.Workloads) != 1 || advice.Workloads[0].Job != "Job/before" {
		t.Fatalf("it waits for %+v", advice.Workloads)
	}
	before := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "before"}}
	if err := admin.Delete(t.Context(), before, client.PropagationPolicy("Background")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "then it runs", func() string { return jobRuns(t, "x", 1) })
}
