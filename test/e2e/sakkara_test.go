package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sakkaraGroup is the ConfigMap of a group, as it is written for Sakkara.
func sakkaraGroup(name string, size int, constraints string) string {
	return fmt.Sprintf(
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s-group, labels: {sakkara.group: ""}}, data: {
  name: %[1]s, size: "%[2]d", priority: "0", constraints: '%[3]s'}}`, name, size, constraints)
}

// sakkaraPods makes pods of a group, of one GPU each.
func sakkaraPods(t *testing.T, c client.Client, group string, names ...string) {
	t.Helper()
	for _, name := range names {
		create(
			t,
			c,
			queuedPod(name, 1, 1000000, "sakkara.group.name: "+group, "", "schedulerName: sakkara-scheduler"),
			"blue",
		)
	}
}

// sakkaraJob is a Job whose pods are a group, of one GPU each.
func sakkaraJob(name string, pods int) string {
	return fmt.Sprintf(
		`{apiVersion: batch/v1, kind: Job, metadata: {name: %[1]s, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
  parallelism: %[2]d, completions: %[2]d, completionMode: Indexed, template: {
    metadata: {labels: {sakkara.group.name: %[1]s}}, spec: {
      schedulerName: sakkara-scheduler, restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{
        name: c, image: busybox, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`,
		name,
		pods,
	)
}

func numbered(name string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return out
}

// shares says whether the pods of a group run, so many on each of some nodes, with ranks of their own.
func shares(t *testing.T, group string, want ...int) func() string {
	t.Helper()
	return func() string {
		var all corev1.PodList
		if err := user(t, "").List(
			t.Context(), &all, client.InNamespace("blue"), client.MatchingLabels{"sakkara.group.name": group},
		); err != nil {
			return err.Error()
		}
		on, ranks := map[string]int{}, map[string]bool{}
		for _, p := range all.Items {
			if p.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("pod %s is %s", p.Name, p.Status.Phase)
			}
			on[p.Spec.NodeName]++
			ranks[p.Labels["sakkara.member.rank"]] = true
		}
		if got := slices.Sorted(maps.Values(on)); !slices.Equal(got, want) || len(ranks) != len(all.Items) {
			return fmt.Sprintf("on nodes it has %v pods, want %v, with ranks %v", got, want, ranks)
		}
		return ""
	}
}

// Groups that are written for Sakkara run as their ConfigMaps say, with ranks, and are told where they are: its own
// stories of eight pods in two racks and of six pods with two to four on a node; one whose ConfigMap comes later; a
// Job's, and one in an AppWrapper with its ConfigMap; and one that contradicts itself.
func TestGroupsOfSakkara(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	for name, rack := range map[string]string{"node-0": "small", "node-1": "large", "node-2": "large"} {
		patched(
			t,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			`{"metadata":{"labels":{"sakkara.topology.rack":"`+rack+`"}}}`,
			`{"metadata":{"labels":{"sakkara.topology.rack":null}}}`,
		)
	}
	alice, admin := user(t, "alice"), user(t, "")
	withoutPods(t, admin, "blue")
	t.Cleanup(func() {
		_ = admin.DeleteAllOf(
			withoutCancel(t),
			&corev1.ConfigMap{},
			client.InNamespace("blue"),
			client.HasLabels{"sakkara.group"},
		)
	})
	create(
		t,
		alice,
		sakkaraGroup("a", 8, `{"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}`),
		"blue",
	)
	sakkaraPods(t, alice, "a", numbered("a", 8)...)
	eventually(t, "two racks have four each", shares(t, "a", 4, 4))
	create(
		t,
		alice,
		sakkaraGroup("b", 6, `{"rack": {"type": "pack", "hard": true}, "node": {"min": 2, "max": 4}}`),
		"blue",
	)
	sakkaraPods(t, alice, "b", append(numbered("b", 5), "b-master")...)
	eventually(t, "one rack has four and two", shares(t, "b", 2, 4))
	eventually(t, "the ConfigMap is told", func() string {
		var m corev1.ConfigMap
		if err := admin.Get(t.Context(), types.NamespacedName{Namespace: "blue", Name: "b-group"}, &m); err != nil {
			return err.Error()
		}
		if m.Data["status"] != "Bound" || !strings.HasPrefix(m.Data["rank"], "[(b-master,0) (b-0,1) ") ||
			!strings.HasPrefix(m.Data["placement"], `{"root":{"large":{"node-`) {
			return fmt.Sprintf("it says %v", m.Data)
		}
		return ""
	})
	sakkaraPods(t, alice, "late", numbered("late", 2)...)
	says := func(text string) func() string {
		return func() string {
			var all corev1.EventList
			if err := admin.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
				return err.Error()
			}
			for _, e := range all.Items {
				if e.Reason == "GroupMismatch" && strings.Contains(e.Message, text) {
					return ""
				}
			}
			return "no event says " + text
		}
	}
	eventually(
		t,
		"its pods are told what they wait for",
		says(`no ConfigMap with label sakkara.group whose key name is "late"`),
	)
	create(t, alice, sakkaraGroup("late", 2, `{"node": {"type": "spread", "hard": true}}`), "blue")
	eventually(t, "it runs, one pod on a node", shares(t, "late", 1, 1))
	create(t, alice, sakkaraJob("job", 4), "blue")
	eventually(
		t,
		"a job is told what it waits for",
		says(`no ConfigMap with label sakkara.group whose key name is "job"`),
	)
	create(t, alice, sakkaraGroup("job", 4, `{"node": {"type": "spread", "partitions": 2}}`), "blue")
	eventually(t, "it runs, two pods on each of two nodes", shares(t, "job", 2, 2))
	create(t, alice, fmt.Sprintf(
		`{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: whole, labels: {kueue.x-k8s.io/queue-name: default-queue}},
		spec: {components: [{template: %s}, {template: %s}]}}`,
		sakkaraGroup("whole", 2, `{"node": {"hard": true}}`),
		sakkaraJob("whole", 2),
	), "blue")
	eventually(t, "a job with its ConfigMap beside it runs on one node", shares(t, "whole", 2))
	eventually(t, "and that is told", func() string {
		var m corev1.ConfigMap
		if err := admin.Get(
			t.Context(),
			types.NamespacedName{Namespace: "blue", Name: "whole-group"},
			&m,
		); err != nil {
			return err.Error()
		}
		if m.Data["status"] != "Bound" || !strings.Contains(m.Data["rank"], ",1)]") {
			return fmt.Sprintf("it says %v", m.Data)
		}
		return ""
	})
	create(t, alice, sakkaraGroup("odd", 3, `{"rack": {"partitions": 2}}`), "blue")
	sakkaraPods(t, alice, "odd", numbered("odd", 3)...)
	eventually(
		t,
		"what is contradictory names its key",
		says("ConfigMap odd-group: constraints.rack.partitions: 3 pods cannot be cut"),
	)
	always(t, "and does not run", inState(t, "blue", "odd", 0, 3), func() string { return "" })
}
