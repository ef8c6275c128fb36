package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/local/names"
)

// simulatedRack is the label of racks of mlbatch up.
const simulatedRack = "cloud.provider.com/topology-rack"

// withNativeGangs starts a cluster of 3 racks of 4 nodes of 8 GPUs, whose Kubernetes has gangs of its own.
func withNativeGangs(t *testing.T) {
	t.Helper()
	another(
		t,
		"--nodes", "12", "--racks", "3",
		"--kube-feature-gates",
		"GenericWorkload=true,TopologyAwareWorkloadScheduling=true,WorkloadWithJob=true,CompositePodGroup=true",
		"--kube-runtime-config", "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
	)
}

// ofNativeGroup says that so many pods whose names begin with that of their owner name one PodGroup, which their job has.
func ofNativeGroup(t *testing.T, owner string, n int) func() string {
	t.Helper()
	return func() string {
		pods, groups := podsCalled(t, owner), map[string]bool{}
		for _, p := range pods {
			name := ""
			if g := p.Spec.SchedulingGroup; g != nil {
				name = *g.PodGroupName
			}
			groups[name] = true
		}
		if len(pods) != n || len(groups) != 1 || groups[""] {
			return fmt.Sprintf("%d pods are in %v", len(pods), groups)
		}
		return ""
	}
}

// nativeGroup creates a PodGroup of a gang in one rack.
func nativeGroup(t *testing.T, c client.Client, name string, least int) {
	t.Helper()
	create(
		t,
		c,
		fmt.Sprintf(`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: %s}, spec: {
		schedulingPolicy: {gang: {minCount: %d}}, schedulingConstraints: {topology: [{key: %s}]}}}`,
			name, least, simulatedRack),
		"blue",
	)
}

// nativePods creates pods of a PodGroup, of so many GPUs each.
func nativePods(t *testing.T, c client.Client, group string, n, gpus int) {
	t.Helper()
	for i := range n {
		create(t, c, queuedPod(fmt.Sprintf("%s-%d", group, i), gpus, 1000000, "", "",
			"schedulingGroup: {podGroupName: "+group+"}"), "blue")
	}
}

// nativelyScheduled says what a PodGroup, the one whose name begins so, has in its condition.
func nativelyScheduled(
	t *testing.T,
	prefix string,
	status metav1.ConditionStatus,
	reason, words string,
) func() string {
	t.Helper()
	return func() string {
		var all schedulingv1beta1.PodGroupList
		if err := user(t, "").List(t.Context(), &all, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		for i := range all.Items {
			g := &all.Items[i]
			if !strings.HasPrefix(g.Name, prefix) {
				continue
			}
			c := apimeta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
			if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, words) {
				return fmt.Sprintf("its condition is %+v", c)
			}
			return ""
		}
		return "there is no such PodGroup"
	}
}

// podsCalled are the pods whose names begin with that of their owner.
func podsCalled(t *testing.T, owner string) []corev1.Pod {
	t.Helper()
	var all corev1.PodList
	if err := user(t, "").List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, owner+"-") })
}

// TestNativeGangs: pods that name a PodGroup of Kubernetes start together in the rack that it asks for, and the PodGroup
// says so, or why not; so does that of a Job with spec.scheduling. What it says may change as long as they wait.
func TestNativeGangs(t *testing.T) {
	withNativeGangs(t)
	admin, alice := user(t, ""), user(t, "alice")
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

	nativeGroup(t, alice, "train", 8)
	nativePods(t, alice, "train", 7, 2)
	eventually(t, "it says that a pod is missing",
		nativelyScheduled(t, "train", no, "Unschedulable", "all of its 8 pods"))
	create(
		t,
		alice,
		queuedPod("train-last", 2, 1000000, "", "", "schedulingGroup: {podGroupName: train}"),
		"blue",
	)
	rack := runIn(t, "train", 8, simulatedRack)
	eventually(t, "it says that they have their nodes", nativelyScheduled(t, "train", yes, "Scheduled", "8"))
	create(
		t,
		alice,
		queuedPod("train-more", 2, 1000000, "", "", "schedulingGroup: {podGroupName: train}"),
		"blue",
	)
	if more := runIn(t, "train", 9, simulatedRack); more != rack {
		t.Errorf("the gang is in %s, and one that comes later in %s", rack, more)
	}

	nativeGroup(t, alice, "large", 5)
	nativePods(t, alice, "large", 5, 8)
	eventually(t, "it says that no rack can hold it",
		nativelyScheduled(t, "large", no, "Unschedulable", "no "+simulatedRack))
	if err := alice.Patch(
		t.Context(),
		&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "large"}},
		client.RawPatch(
			"application/merge-patch+json",
			[]byte(`{"spec":{"schedulingPolicy":{"gang":{"minCount":4}}}}`),
		),
	); err != nil {
		t.Fatal(err)
	}
	runIn(t, "large", 4, simulatedRack)
	eventually(t, "four are enough", nativelyScheduled(t, "large", yes, "Scheduled", "4"))

	job := `{apiVersion: batch/v1, kind: Job, metadata: {name: %[1]s, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
		parallelism: %[2]d, completions: %[2]d, scheduling: {schedulingPolicy: {gang: {}}, schedulingConstraints: {topology: [{key: ` + simulatedRack + `}]}},
		template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
			{name: c, image: busybox, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`
	create(t, alice, fmt.Sprintf(job, "wide", 5), "blue")
	eventually(t, "the PodGroup of a Job says that no rack can hold it",
		nativelyScheduled(t, "wide-", no, "Unschedulable", "no "+simulatedRack))
	create(t, alice, fmt.Sprintf(job, "near", 3), "blue")
	runIn(t, "near", 3, simulatedRack)
	eventually(t, "the PodGroup of a Job says that they have their nodes",
		nativelyScheduled(t, "near-", yes, "Scheduled", "3"))
	for _, p := range podsCalled(t, "near") {
		if p.Spec.SchedulingGroup == nil || p.Labels["kueue.x-k8s.io/managed"] != "" {
			t.Errorf("pod %s of a queued Job is in group %v, and is queued by itself", p.Name, p.Spec.SchedulingGroup)
		}
	}

	t.Run("composite", func(t *testing.T) { compositeGang(t, alice) })

	back, err := cluster.Kill(t.Context(), "controller")
	if err == nil {
		err = back(context.WithoutCancel(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train-0"}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was scheduled once stays so", nativelyScheduled(t, "train", yes, "Scheduled", "8"))
}

// compositeGang: pods of two PodGroups start together by the CompositePodGroup around both, though they came before it, each
// in a rack of its own, and all of these say so. A circle is refused.
func compositeGang(t *testing.T, alice client.Client) {
	t.Helper()
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	const ref = "workloadRef: {workloadName: serve, templateName: t}"
	part := func(name, parent string, least int) {
		t.Helper()
		create(
			t,
			alice,
			fmt.Sprintf(`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: %s}, spec: {
			parentCompositePodGroupName: %s, %s, schedulingPolicy: {gang: {minCount: %d}}, schedulingConstraints: {topology: [{key: %s}]}}}`,
				name, parent, ref, least, simulatedRack),
			"blue",
		)
	}
	outer := func(name, more string, groups int) {
		t.Helper()
		create(
			t,
			alice,
			fmt.Sprintf(
				`{apiVersion: scheduling.k8s.io/v1alpha3, kind: CompositePodGroup, metadata: {name: %s}, spec: {
			%s%s, schedulingPolicy: {gang: {minGroupCount: %d}}}}`,
				name,
				more,
				ref,
				groups,
			),
			"blue",
		)
	}
	nativePods(t, alice, "prefill", 2, 1)
	nativePods(t, alice, "decode", 3, 1)
	part("prefill", "serve", 2)
	part("decode", "serve", 3)
	eventually(t, "it says what is missing",
		nativelyScheduled(t, "prefill", no, "Unschedulable", "no such CompositePodGroup"))
	outer("serve", "", 2)
	runIn(t, "prefill", 2, simulatedRack)
	runIn(t, "decode", 3, simulatedRack)
	eventually(
		t,
		"its PodGroups say that they have their nodes",
		nativelyScheduled(t, "decode", yes, "Scheduled", "3"),
	)
	eventually(t, "and so does it", func() string {
		var g schedulingv1alpha3.CompositePodGroup
		if err := alice.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "serve"}, &g); err != nil {
			return err.Error()
		}
		if !apimeta.IsStatusConditionTrue(g.Status.Conditions, "CompositePodGroupInitiallyScheduled") {
			return fmt.Sprintf("its conditions are %+v", g.Status.Conditions)
		}
		return ""
	})
	var w kueue.Workload
	if err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "serve"}, &w); err != nil ||
		len(w.Spec.PodSets) != 2 {
		t.Errorf("its Workload has the pod sets %v, %v", w.Spec.PodSets, err)
	}

	outer("ring-a", "parentCompositePodGroupName: ring-b, ", 1)
	outer("ring-b", "parentCompositePodGroupName: ring-a, ", 1)
	part("round", "ring-a", 1)
	tries := 0
	eventually(t, "pods of a circle are refused", func() string { // once the webhook has seen it
		tries++
		pod := queuedPod(
			fmt.Sprintf("round-%d", tries),
			1,
			1000000,
			"",
			"",
			"schedulingGroup: {podGroupName: round}",
		)
		if _, err := tryCreate(t, alice, pod, "blue"); err == nil || !strings.Contains(err.Error(), "circle") {
			return fmt.Sprintf("it is answered with %v", err)
		}
		return ""
	})
}

// TestPodGroupsAreWritten: where that is asked for, each gang has a PodGroup of Kubernetes that its pods name, whoever makes
// them. It says how the job stands and goes with it; nobody confuses mlbatch by it, and what users made is left alone.
func TestPodGroupsAreWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const asked = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nintegrations: {writePodGroups: true}\n"
	if err := os.WriteFile(file, []byte(asked), 0o600); err != nil {
		t.Fatal(err)
	}
	another(
		t,
		"--config", file, "--nodes", "12", "--racks", "3",
		"--kube-feature-gates", "GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
		"--kube-runtime-config", "scheduling.k8s.io/v1beta1=true",
	)
	alice, controller := user(t, "alice"), user(t, names.ControllerUser)
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	const pods = `spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
		{name: %s, image: busybox, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: %d}}}]}`
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
		parallelism: %[2]d, completions: %[2]d, template: {metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: ` + simulatedRack + `}}, %[3]s}}}`

	create(t, alice, fmt.Sprintf(job, "wide", 5, fmt.Sprintf(pods, "c", 8)), "blue")
	eventually(t, "the PodGroup says why the job waits",
		nativelyScheduled(t, "job-wide-", no, "Unschedulable", "no "+simulatedRack))
	create(t, alice, fmt.Sprintf(job, "near", 3, fmt.Sprintf(pods, "c", 8)), "blue")
	runIn(t, "near", 3, simulatedRack)
	eventually(t, "pods that Kubernetes makes name it", ofNativeGroup(t, "near", 3))
	eventually(t, "it says that they have their nodes", nativelyScheduled(t, "job-near-", yes, "Scheduled", "3"))
	g := nativeGroupCalled(t, "job-near-")
	if g.Spec.SchedulingConstraints == nil || g.Spec.SchedulingConstraints.Topology[0].Key != simulatedRack {
		t.Errorf("its constraints are %+v", g.Spec.SchedulingConstraints)
	}

	create(
		t,
		alice,
		fmt.Sprintf(
			`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: torch, labels: {kueue.x-k8s.io/queue-name: default-queue}},
		spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: {%[1]s}}, Worker: {replicas: 2, template: {%[1]s}}}}}`,
			fmt.Sprintf(pods, "pytorch", 1),
		),
		"blue",
	)
	create(
		t,
		alice,
		`{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: wrap, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {components: [
		{template: {apiVersion: batch/v1, kind: Job, metadata: {name: wrapped}, spec: {parallelism: 2, completions: 2, template: {`+
			fmt.Sprintf(
				pods,
				"c",
				1,
			)+`}}}}]}}`,
		"blue",
	)
	for owner, n := range map[string]int{"torch": 3, "wrapped": 2} {
		eventually(t, "all pods of "+owner+" name one", ofNativeGroup(t, owner, n))
	}

	nativeGroup(t, alice, "pair", 7)
	for _, name := range []string{"pair-0", "pair-1"} {
		create(t, alice, queuedPod(name, 1, 1000000, "kueue.x-k8s.io/pod-group-name: pair",
			`kueue.x-k8s.io/pod-group-total-count: "2"`, ""), "blue")
	}
	runIn(t, "pair", 2, simulatedRack)
	if g := nativeGroupCalled(
		t,
		"pair",
	); len(g.OwnerReferences) > 0 ||
		g.Spec.SchedulingPolicy.Gang.MinCount != 7 {
		t.Errorf("a user's PodGroup of a group's name was taken over: %+v", g)
	}
	smaller := client.RawPatch(
		"application/merge-patch+json",
		[]byte(`{"spec":{"schedulingPolicy":{"gang":{"minCount":1}}}}`),
	)
	if err := controller.Patch(t.Context(), nativeGroupCalled(t, "pair"), smaller); err == nil ||
		!strings.Contains(err.Error(), "PodGroups of Workloads only") {
		t.Errorf("the controller changes PodGroups of users: %v", err)
	}

	if err := alice.Patch(t.Context(), nativeGroupCalled(t, "job-near-"), smaller); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what a user changes is put right", func() string {
		if n := nativeGroupCalled(t, "job-near-").Spec.SchedulingPolicy.Gang.MinCount; n != 3 {
			return fmt.Sprintf("its minCount is %d", n)
		}
		return ""
	})
	create(
		t,
		alice,
		queuedPod("stranger", 1, 1000000, "", "", "schedulingGroup: {podGroupName: "+g.Name+"}"),
		"blue",
	)
	eventually(t, "a pod that is not of the job is told that it cannot join", func() string {
		var all corev1.EventList
		if err := alice.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == "stranger" && e.Reason == "GroupMismatch"
		}) {
			return "there is no such event"
		}
		return ""
	})

	near := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "near"}}
	if err := alice.Delete(
		t.Context(),
		near,
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	); err != nil {
		t.Fatal(err)
	}
	if err := alice.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "stranger"}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes with the job", func() string {
		if g := nativeGroupCalled(t, "job-near-"); g != nil {
			return "it is there still"
		}
		return ""
	})
}

// nativeGroupCalled is the PodGroup whose name begins so, nil if there is none.
func nativeGroupCalled(t *testing.T, prefix string) *schedulingv1beta1.PodGroup {
	t.Helper()
	var all schedulingv1beta1.PodGroupList
	if err := user(t, "").List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(
		all.Items,
		func(g schedulingv1beta1.PodGroup) bool { return strings.HasPrefix(g.Name, prefix) },
	)
	if i < 0 {
		return nil
	}
	return &all.Items[i]
}
