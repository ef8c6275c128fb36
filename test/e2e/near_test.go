package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

const blockLabel = "example.com/block"

// blocks puts the first two racks of a cluster of three into block a, the third into block b, and has pods hold two of the
// four nodes of the second: of two gangs of three nodes that need a rack each, one has no place in block a until these go.
func blocks(t *testing.T) (holders []string) {
	t.Helper()
	admin := user(t, "")
	var all corev1.NodeList
	if err := admin.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var racks []string
	block := map[string]string{}
	for i := range all.Items {
		n := &all.Items[i]
		rack := n.Labels[simulatedRack]
		if block[rack] == "" {
			racks = append(racks, rack)
			block[rack] = []string{"a", "a", "b"}[len(racks)-1]
		}
		patch := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, blockLabel, block[rack])
		if err := admin.Patch(
			t.Context(),
			n,
			client.RawPatch("application/merge-patch+json", []byte(patch)),
		); err != nil {
			t.Fatal(err)
		}
	}
	if len(racks) != 3 {
		t.Fatalf("there are racks %v", racks)
	}
	for i := range 2 {
		name := fmt.Sprintf("holder-%d", i)
		create(
			t,
			admin,
			queuedPod(name, 8, 1000000, "", "", fmt.Sprintf("nodeSelector: {%s: %s}", simulatedRack, racks[1])),
			"blue",
		)
		holders = append(holders, name)
	}
	eventually(t, "a rack of block a is half full", inState(t, "blue", "holder", 2, 0))
	return holders
}

// groupWaits says whether the Workload of a group of pods waits for a reason that has all these words.
func groupWaits(t *testing.T, group string, words ...string) func() string {
	t.Helper()
	return func() string {
		w := groupOf(t, "blue", group)
		if w == nil {
			return "it has no Workload"
		}
		c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved)
		if c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Sprintf("QuotaReserved is %v", c)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Sprintf("%q does not say %q", c.Message, word)
			}
		}
		return ""
	}
}

// runIn waits until so many pods whose names begin so run, in one domain of a label, which it returns.
func runIn(t *testing.T, owner string, n int, label string) (in string) {
	t.Helper()
	eventually(t, owner+" runs in one domain of "+label, func() string {
		domains, running := map[string]bool{}, 0
		for _, p := range podsCalled(t, owner) {
			if p.Status.Phase != corev1.PodRunning {
				continue
			}
			var node corev1.Node
			if err := user(t, "").Get(t.Context(), client.ObjectKey{Name: p.Spec.NodeName}, &node); err != nil {
				return err.Error()
			}
			in = node.Labels[label]
			domains[in] = true
			running++
		}
		if running != n || len(domains) != 1 {
			return fmt.Sprintf("%d pods run, in %v", running, domains)
		}
		return ""
	})
	return in
}

// deleted deletes pods of a namespace.
func deleted(t *testing.T, c client.Client, names ...string) {
	t.Helper()
	for _, name := range names {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}
		if err := c.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRacksWithinABlock: pods that need a rack each are in one block if their PodGroup, or their Job, asks for that; the
// other block has a rack for them and gets none.
func TestRacksWithinABlock(t *testing.T) {
	withNativeGangs(t)
	alice, holders := user(t, "alice"), blocks(t)
	create(t, alice, `{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: stages}, spec: {
		schedulingPolicy: {gang: {minCount: 6}}, schedulingConstraints: {topology: [{key: `+blockLabel+`}]}}}`, "blue")
	for i := range 6 {
		gpus := 8 - i/3 // pods of two roles
		create(t, alice, queuedPod(
			fmt.Sprintf("stages-%d-%d", i/3, i),
			gpus,
			1000000,
			"",
			"kueue.x-k8s.io/podset-required-topology: "+simulatedRack,
			"schedulingGroup: {podGroupName: stages}",
		), "blue")
	}
	eventually(
		t,
		"no block has a rack for each of them",
		groupWaits(t, "stages", "no "+simulatedRack, "in "+blockLabel),
	)
	deleted(t, user(t, ""), holders...)
	first, second := runIn(t, "stages-0", 3, simulatedRack), runIn(t, "stages-1", 3, simulatedRack)
	if in := runIn(t, "stages", 6, blockLabel); in != "a" || first == second {
		t.Errorf("they are in block %s, racks %s and %s", in, first, second)
	}
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: near, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
		parallelism: 4, completions: 4, scheduling: {schedulingConstraints: {topology: [{key: ` + blockLabel + `}]}},
		template: {metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: ` + simulatedRack + `}},
			spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
			{name: c, image: busybox, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`
	create(t, alice, job, "blue")
	if in := runIn(t, "near", 4, blockLabel); in != "b" {
		t.Errorf("the Job is in block %s, which has no rack for it", in)
	}
}

// TestPodGroupsOfKAI: groups within a PodGroup of KAI Scheduler, which a tenant writes, are each in a domain of their own,
// within that of the group around them. What contradicts itself is told by its field, and may be mended. PodGroups of other
// namespaces say nothing.
func TestPodGroupsOfKAI(t *testing.T) {
	another(t, "--nodes", "12", "--racks", "3")
	admin, alice := user(t, ""), user(t, "alice")
	havePodGroups(t, "scheduling.run.ai", "v2alpha2")
	holders := blocks(t)
	spec := func(topology string) string {
		return `{minMember: 6, topologyConstraint: {topology: fabric}, subGroups: [
			{name: model, topologyConstraint: {requiredTopologyLevel: ` + blockLabel + `}},
			{name: prefill, parent: model, minMember: 3, topologyConstraint: {topology: ` + topology + `, requiredTopologyLevel: ` + simulatedRack + `}},
			{name: decode, parent: model, minMember: 3, topologyConstraint: {requiredTopologyLevel: ` + simulatedRack + `}}]}`
	}
	group := func(spec string) string {
		return "{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: serve}, spec: " + spec + "}"
	}
	create(t, admin, group("{minMember: 1}"), "red")
	member := func(name, within string) {
		create(
			t,
			alice,
			queuedPod(name, 8, 1000000, "kai.scheduler/subgroup-name: "+within, "pod-group-name: serve", ""),
			"blue",
		)
	}
	for i := range 3 {
		member(fmt.Sprintf("serve-prefill-%d", i), "prefill")
		member(fmt.Sprintf("serve-decode-%d", i), "decode")
	}
	says := func(words ...string) func() string {
		return func() string {
			var all corev1.EventList
			if err := admin.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
				return err.Error()
			}
			for _, e := range all.Items {
				found := e.Reason == "GroupMismatch"
				for _, word := range words {
					found = found && strings.Contains(e.Message, word)
				}
				if found {
					return ""
				}
			}
			return "nothing is said"
		}
	}
	eventually(t, "there is none in their namespace", says("there is no PodGroup serve"))
	create(t, alice, group(spec("other")), "blue")
	eventually(t, "two Topologies contradict each other", says(
		"spec.subGroups[prefill].topologyConstraint.topology",
		"other",
		"spec.topologyConstraint.topology",
		"fabric",
	))
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(
		schema.GroupVersionKind{Group: "scheduling.run.ai", Version: "v2alpha2", Kind: "PodGroup"},
	)
	o.SetNamespace("blue")
	o.SetName("serve")
	if err := alice.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	create(t, alice, group(spec("fabric")), "blue")
	eventually(
		t,
		"no block has a rack for each of them",
		groupWaits(t, "serve", "no "+simulatedRack, "in "+blockLabel),
	)
	deleted(t, admin, holders...)
	first, second := runIn(t, "serve-prefill", 3, simulatedRack), runIn(t, "serve-decode", 3, simulatedRack)
	if in := runIn(t, "serve", 6, blockLabel); in != "a" || first == second {
		t.Errorf("they are in block %s, racks %s and %s", in, first, second)
	}
	eventually(t, "and that is told where KAI Scheduler tells it", func() string {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err.Error()
		}
		running, _, _ := unstructured.NestedInt64(o.Object, "status", "running")
		all, _, _ := unstructured.NestedSlice(o.Object, "status", "schedulingConditions")
		if running != 6 || strings.Contains(fmt.Sprint(all), "status:True") {
			return fmt.Sprint(o.Object["status"])
		}
		return ""
	})
	member("serve-prefill-more", "prefill")
	if in := runIn(t, "serve-prefill", 4, simulatedRack); in != first {
		t.Errorf("prefill is in rack %s, and one that comes later in %s", first, in)
	}
}

// TestPartsOfGroupsInRacks: each part of a group of a LeaderWorkerSet is in one rack, the leader with its workers, where it
// asks for that; and a group that wants a rack for itself waits, with the reason, if none holds it.
func TestPartsOfGroupsInRacks(t *testing.T) {
	another(t, "--nodes", "12", "--racks", "3")
	alice := user(t, "alice")
	set := func(name, level string, size int, more string) string {
		const pod = `{spec: {terminationGracePeriodSeconds: 0, containers: [
			{name: c, image: busybox, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: 8}}}]}}`
		return fmt.Sprintf(
			`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: %s, %s,
			annotations: {leaderworkerset.sigs.k8s.io/%s: %s}}, spec: {replicas: 1,
			leaderWorkerTemplate: {size: %d, leaderTemplate: %s, workerTemplate: %s%s}}}`,
			name,
			inDefaultQueue,
			level,
			simulatedRack,
			size,
			pod,
			pod,
			more,
		)
	}
	create(t, alice, set("wide", "exclusive-topology", 5, ""), "blue")
	eventually(t, "no rack holds five nodes", groupWaits(t, "leaderworkerset-wide-0", "no "+simulatedRack))
	create(
		t,
		alice,
		set("parts", "subgroup-exclusive-topology", 9, ", subGroupPolicy: {subGroupSize: 3}"),
		"blue",
	)
	racks := map[string]string{}
	eventually(t, "each part is in a rack of its own", func() string {
		clear(racks)
		running := 0
		for _, p := range podsCalled(t, "parts") {
			if p.Status.Phase != corev1.PodRunning {
				continue
			}
			var node corev1.Node
			if err := user(t, "").Get(t.Context(), client.ObjectKey{Name: p.Spec.NodeName}, &node); err != nil {
				return err.Error()
			}
			running++
			part, rack := p.Labels["leaderworkerset.sigs.k8s.io/subgroup-index"], node.Labels[simulatedRack]
			if was, known := racks[part]; known && was != rack {
				return fmt.Sprintf("part %s is in %s and in %s", part, was, rack)
			}
			racks[part] = rack
		}
		if running != 9 || len(racks) != 3 {
			return fmt.Sprintf("%d pods run, parts are in %v", running, racks)
		}
		return ""
	})
}
