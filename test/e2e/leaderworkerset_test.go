package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// servingSet is a LeaderWorkerSet whose groups are a leader with a GPU and two workers
// with one each.
func servingSet(name string, replicas int, more string) string {
	pod := `{spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: 1}}}]}}`
	return fmt.Sprintf(`
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: %s, %s}
spec:
  replicas: %d
  %s
  leaderWorkerTemplate: {size: 3, leaderTemplate: %s, workerTemplate: %s}
`, name, inDefaultQueue, replicas, more, pod, pod)
}

// setsLab is a namespace with quota for so many GPUs, without sets in the end.
func setsLab(t *testing.T, namespace, gpus string) client.Client {
	t.Helper()
	admin := lab(t, namespace, map[corev1.ResourceName]string{"nvidia.com/gpu": gpus}, "default-queue")
	withoutPods(t, admin, namespace)
	t.Cleanup(
		func() { _ = admin.DeleteAllOf(withoutCancel(t), &api.LeaderWorkerSet{}, client.InNamespace(namespace)) },
	)
	return admin
}

func changeSet(t *testing.T, c client.Client, namespace, name, patch string) {
	t.Helper()
	l := &api.LeaderWorkerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Patch(t.Context(), l, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// groupsReady is a check of a set: how many groups there are, are ready and are updated.
func groupsReady(tb testing.TB, namespace, name string, counts [3]int32, holds string) func() string {
	tb.Helper()
	return func() string {
		var l api.LeaderWorkerSet
		if err := user(
			tb,
			"",
		).Get(tb.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &l); err != nil {
			return err.Error()
		}
		s := l.Status
		if [3]int32{s.Replicas, s.ReadyReplicas, s.UpdatedReplicas} != counts ||
			s.ObservedGeneration != l.Generation {
			return fmt.Sprintf("status %+v", s)
		}
		if !slices.ContainsFunc(
			s.Conditions,
			func(c metav1.Condition) bool { return c.Type == holds && c.Status == metav1.ConditionTrue },
		) {
			return fmt.Sprintf("not %s: %+v", holds, s.Conditions)
		}
		return ""
	}
}

// uids are those of the pods whose names begin in some way.
func uids(t testing.TB, namespace, prefix string) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, p := range named(t, namespace, prefix) {
		out[p.Name] = p.UID
	}
	return out
}

// Groups start as a whole, each when there is quota for it, are scaled, and leave
// nothing.
func TestLeaderWorkerSetGroupsAreAdmittedOneByOne(t *testing.T) {
	admin := setsLab(t, "groups", "4") // one group and a bit
	create(t, admin, servingSet("llm", 2, ""), "groups")
	eventually(t, "the first group runs, the second is held", inState(t, "groups", "llm", 3, 3))
	eventually(t, "one group is ready", groupsReady(t, "groups", "llm", [3]int32{2, 1, 2}, "Progressing"))
	for _, p := range named(t, "groups", "llm-0") {
		if p.Status.Phase != corev1.PodRunning {
			t.Errorf("%s is %s: a group is one", p.Name, p.Status.Phase)
		}
	}
	worker := named(t, "groups", "llm-0-2")[0]
	want := map[string]string{
		"LWS_LEADER_ADDRESS": "llm-0.llm.groups",
		"LWS_GROUP_SIZE":     "3",
		"LWS_WORKER_INDEX":   "2",
	}
	for _, v := range worker.Spec.Containers[0].Env {
		if want[v.Name] != v.Value {
			t.Errorf("%s=%s, want %s", v.Name, v.Value, want[v.Name])
		}
		delete(want, v.Name)
	}
	if len(want) > 0 || worker.Labels[api.WorkerIndexLabel] != "2" ||
		worker.Labels[api.GroupIndexLabel] != "0" ||
		worker.Spec.Subdomain != "llm" {
		t.Errorf("%s lacks %v, labels %v, subdomain %s", worker.Name, want, worker.Labels, worker.Spec.Subdomain)
	}
	changeSet(t, admin, "groups", "llm", `{"spec":{"replicas":1}}`)
	eventually(t, "one group is left", inState(t, "groups", "llm", 3, 0))
	eventually(t, "and serves", groupsReady(t, "groups", "llm", [3]int32{1, 1, 1}, "Available"))
	eventually(t, "with its quota only", reserved(t, "groups", 3))
	changeSet(t, admin, "groups", "llm", `{"spec":{"replicas":3}}`)
	eventually(t, "two more wait", inState(t, "groups", "llm", 3, 6))
	if err := admin.Delete(
		t.Context(),
		&api.LeaderWorkerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "groups", Name: "llm"}},
	); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		w := groupOf(t, "groups", fmt.Sprintf("leaderworkerset-llm-%d-", i))
		if w != nil {
			eventually(t, "nothing is left", nothingLeft(t, "groups", "llm", w.Name))
		}
	}
	eventually(t, "nothing is left that was made for it", func() string {
		for _, list := range []client.ObjectList{&appsv1.StatefulSetList{}, &corev1.ServiceList{}, &appsv1.ControllerRevisionList{}} {
			if err := admin.List(t.Context(), list, client.InNamespace("groups")); err != nil {
				return err.Error()
			}
			switch l := list.(type) {
			case *appsv1.StatefulSetList:
				if len(l.Items) > 0 {
					return "StatefulSet " + l.Items[0].Name
				}
			case *corev1.ServiceList:
				if len(l.Items) > 0 {
					return "Service " + l.Items[0].Name
				}
			case *appsv1.ControllerRevisionList:
				if len(l.Items) > 0 {
					return "ControllerRevision " + l.Items[0].Name
				}
			}
		}
		return ""
	})
	eventually(t, "nothing holds quota", reserved(t, "groups", 0))
}

// A group of which a pod goes is made anew as a whole, with the quota that it had.
func TestLeaderWorkerSetGroupIsRecreated(t *testing.T) {
	admin := setsLab(t, "restarts", "6")
	create(t, admin, servingSet("llm", 2, ""), "restarts")
	eventually(t, "both groups serve", groupsReady(t, "restarts", "llm", [3]int32{2, 2, 2}, "Available"))
	eventually(t, "a group that is complete is known as one", func() string {
		var set appsv1.StatefulSet
		if err := admin.Get(
			t.Context(),
			client.ObjectKey{Namespace: "restarts", Name: "llm-1"},
			&set,
		); err != nil ||
			set.Annotations["mlbatch.dev/members"] == "" {
			return fmt.Sprintf("%v, annotations %v", err, set.Annotations)
		}
		return ""
	})
	before, workload := uids(t, "restarts", "llm"), groupOf(t, "restarts", "leaderworkerset-llm-1-").UID
	if err := admin.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "restarts", Name: "llm-1-1"}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all of its group are new", func() string {
		for name, uid := range uids(t, "restarts", "llm-1") {
			if before[name] == uid {
				return name + " is as it was"
			}
		}
		return inState(t, "restarts", "llm", 6, 0)()
	})
	for name, uid := range uids(t, "restarts", "llm-0") {
		if before[name] != uid {
			t.Errorf("%s of the other group is new", name)
		}
	}
	if w := groupOf(t, "restarts", "leaderworkerset-llm-1-"); w == nil || w.UID != workload {
		t.Errorf("the group has lost its quota meanwhile: %v", w)
	}
}

// Groups are replaced one after the other. What asks for other quota is queued anew.
func TestLeaderWorkerSetIsUpdated(t *testing.T) {
	admin := setsLab(t, "updates", "6")
	create(t, admin, servingSet("llm", 2, ""), "updates")
	eventually(t, "both groups serve", groupsReady(t, "updates", "llm", [3]int32{2, 2, 2}, "Available"))
	before := groupOf(t, "updates", "leaderworkerset-llm-0-").UID
	pod := `{"spec":{"terminationGracePeriodSeconds":0,"containers":[{"name":"c","image":"busybox:%s","command":["sleep","1000000"],"resources":{"limits":{"nvidia.com/gpu":"%d"}}}]}}`
	update := func(image string, gpus int) {
		t.Helper()
		changeSet(
			t,
			admin,
			"updates",
			"llm",
			fmt.Sprintf(`{"spec":{"leaderWorkerTemplate":{"workerTemplate":`+pod+`}}}`, image, gpus),
		)
	}
	have := func(image string) func() string {
		return func() string {
			for _, p := range named(t, "updates", "llm") {
				if strings.Count(p.Name, "-") == 2 && p.Spec.Containers[0].Image != image {
					return p.Name + " has " + p.Spec.Containers[0].Image
				}
			}
			return groupsReady(t, "updates", "llm", [3]int32{2, 2, 2}, "Available")()
		}
	}
	update("2", 1)
	serves := func() string {
		var l api.LeaderWorkerSet
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "updates", Name: "llm"}, &l); err != nil {
			return err.Error()
		}
		if l.Status.ReadyReplicas < 1 {
			return "no group serves"
		}
		return ""
	}
	always(t, "one group serves meanwhile", serves, have("busybox:2"))
	if w := groupOf(t, "updates", "leaderworkerset-llm-0-"); w == nil || w.UID != before {
		t.Errorf("another image asks for no other quota: %v", w)
	}
	update("3", 2) // five GPUs a group, of six
	eventually(t, "there is quota for one group only", inState(t, "updates", "llm", 3, 3))
	eventually(t, "and it waits as a whole", reserved(t, "updates", 3))
}

// Whoever made a set, or another object whose pods are queued, learns why none of them is there,
// before anything of it is in a queue.
func TestWhatMakesNoPodsIsListedWithItsReason(t *testing.T) {
	admin := setsLab(t, "podless", "4")
	create(
		t,
		admin,
		`{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: "0"}}}`,
		"podless",
	)
	eventually(t, "the ResourceQuota counts", func() string {
		var q corev1.ResourceQuota
		if err := admin.Get(
			t.Context(),
			client.ObjectKey{Namespace: "podless", Name: "none"},
			&q,
		); err != nil ||
			len(q.Status.Hard) == 0 {
			return fmt.Sprintf("%v, %v", q.Status.Hard, err)
		}
		return ""
	})
	create(t, admin, servingSet("llm", 1, ""), "podless")
	create(
		t,
		admin,
		`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, `+inDefaultQueue+`}, spec: {replicas: 1, serviceName: db, selector: {matchLabels: {app: db}},
  template: {metadata: {labels: {app: db}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, command: [sleep, "1000000"]}]}}}}`,
		"podless",
	)
	t.Cleanup(
		func() { _ = admin.DeleteAllOf(withoutCancel(t), &appsv1.StatefulSet{}, client.InNamespace("podless")) },
	)
	says := func(wants []string, args ...string) func() string {
		return func() string {
			out, err := cluster.Run(t.Context(), args...)
			out = strings.Join(strings.Fields(out), " ")
			for _, want := range wants {
				if err != nil || !strings.Contains(out, want) {
					return fmt.Sprintf("%v, no %q in %s", err, want, out)
				}
			}
			return ""
		}
	}
	eventually(t, "the set says why itself", func() string {
		var l api.LeaderWorkerSet
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "podless", Name: "llm"}, &l); err != nil {
			return err.Error()
		}
		for _, c := range l.Status.Conditions {
			if c.Type == api.Progressing && strings.Contains(c.Message, "exceeded quota") {
				return ""
			}
		}
		return fmt.Sprintf("%+v", l.Status.Conditions)
	})
	eventually(
		t,
		"ps lists both",
		says(
			[]string{"llm LeaderWorkerSet", "db StatefulSet", "could not be made"},
			"ps",
			"-n",
			"podless",
			"-o",
			"wide",
		),
	)
	for _, name := range []string{"lws/llm", "sts/db"} {
		eventually(
			t,
			"why tells the reason",
			says([]string{"could not be made", "exceeded quota"}, "why", name, "-n", "podless"),
		)
	}
	if err := admin.Delete(
		t.Context(),
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "podless", Name: "none"}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(
		t,
		"once it may, it serves, and says no more of it",
		groupsReady(t, "podless", "llm", [3]int32{1, 1, 1}, "Available"),
	)
}

// What is wrong is told with field and cure.
func TestBadLeaderWorkerSets(t *testing.T) {
	alice := user(t, "alice")
	for want, manifest := range map[string]string{
		"rollingUpdateConfiguration.maxUnavailable": servingSet("x", 1, "rolloutStrategy: {rollingUpdateConfiguration: {maxUnavailable: 0, maxSurge: 0}}"),
		"metadata.name":                servingSet(strings.Repeat("x", 60), 1, ""),
		"kueue.x-k8s.io/workload":      strings.Replace(servingSet("x", 1, ""), "leaderTemplate: {", "leaderTemplate: {metadata: {annotations: {kueue.x-k8s.io/workload: w}}, ", 1),
		"leaderTemplate.spec.nodeName": strings.Replace(servingSet("x", 1, ""), "leaderTemplate: {spec: {", "leaderTemplate: {spec: {nodeName: n, ", 1),
		"spec.replicas":                servingSet("x", -1, ""),
	} {
		_, err := tryCreate(t, alice, manifest, "blue")
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Every manifest of the corpus is applied twice, is Available one day, and leaves
// nothing.
func TestCorpusOfLeaderWorkerSets(t *testing.T) {
	awaitEmpty(t, "blue")
	alice, admin := user(t, "alice"), user(t, "")
	racksAndVolumes(t)
	for _, m := range corpus.Sets() {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(m.Text), &o.Object); err != nil {
			t.Fatal(err)
		}
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[kueue.QueueNameLabel] = "default-queue"
		o.SetLabels(labels)
		o.SetNamespace("blue")
		if o.GetName() == "" {
			if err := alice.Create(t.Context(), o); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		} else {
			for _, time := range []string{"first", "second"} {
				same := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
				if err := alice.Apply(t.Context(), same, client.FieldOwner("alice")); err != nil {
					t.Errorf("%s, the %s time: %v", m.Name, time, err)
				}
			}
		}
		name := o.GetName()
		eventually(t, m.Name+" serves", groupsReady(t, "blue", name, allOf(t, name), api.Available))
		if got := len(named(t, "blue", name)); got != m.Pods {
			t.Errorf("%s: %d pods, want %d", m.Name, got, m.Pods)
		}
		if m.Name == "exclusive" {
			inOneRack(t, name)
		}
		if err := alice.Delete(t.Context(), o); err != nil {
			t.Error(err)
		}
		eventually(t, m.Name+" is gone", func() string {
			var sets appsv1.StatefulSetList
			if err := admin.List(t.Context(), &sets, client.InNamespace("blue")); err != nil || len(sets.Items) > 0 {
				return fmt.Sprintf("%v, %d StatefulSets", err, len(sets.Items))
			}
			if left := named(t, "blue", name); len(left) > 0 {
				return fmt.Sprintf("%d pods", len(left))
			}
			return ""
		})
	}
	awaitEmpty(t, "blue")
}

// inOneRack: all pods of a group that has its rack for itself are on one node, which is one.
func inOneRack(t *testing.T, name string) {
	t.Helper()
	racks := map[string]bool{}
	for _, p := range named(t, "blue", name) {
		racks[p.Spec.NodeName] = true
		if a := p.Spec.Affinity; a == nil || a.PodAntiAffinity == nil ||
			len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 ||
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.TopologyKey != "rack" {
			t.Errorf("pod %s does not keep others away: %+v", p.Name, a)
		}
	}
	if len(racks) != 1 {
		t.Errorf("its pods are in the racks %v", racks)
	}
}

// racksAndVolumes are what sets of the corpus ask for: each node is a rack of its own, and
// there is a class of volumes called fast.
func racksAndVolumes(t *testing.T) {
	t.Helper()
	admin := user(t, "")
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "fast"},
		Provisioner: "mlbatch.dev/simulated",
	}
	if err := admin.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	var nodes corev1.NodeList
	if err := admin.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	label := func(ctx context.Context, node *corev1.Node, rack string) error {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"rack":%s}}}`, rack)
		return admin.Patch(ctx, node.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	}
	for i := range nodes.Items {
		if err := label(t.Context(), &nodes.Items[i], strconv.Quote(nodes.Items[i].Name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.Background()
		err := errors.Join(
			admin.Delete(ctx, class),
			admin.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace("blue")),
		)
		for i := range nodes.Items {
			err = errors.Join(err, label(ctx, &nodes.Items[i], "null"))
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// allOf are the counters of a set that serves.
func allOf(t *testing.T, name string) [3]int32 {
	t.Helper()
	var l api.LeaderWorkerSet
	if err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, &l); err != nil {
		t.Fatal(err)
	}
	return [3]int32{*l.Spec.Replicas, *l.Spec.Replicas, *l.Spec.Replicas}
}

// A pod of a group that goes while no controller runs takes its group with it all the
// same, once one runs.
func TestLeaderWorkerSetSurvivesTheController(t *testing.T) {
	admin := setsLab(t, "setkilled", "3")
	create(t, admin, servingSet("llm", 1, ""), "setkilled")
	eventually(t, "the group is complete", func() string {
		var set appsv1.StatefulSet
		if err := admin.Get(
			t.Context(),
			client.ObjectKey{Namespace: "setkilled", Name: "llm-0"},
			&set,
		); err != nil ||
			set.Annotations["mlbatch.dev/members"] == "" {
			return fmt.Sprintf("%v, annotations %v", err, set.Annotations)
		}
		return groupsReady(t, "setkilled", "llm", [3]int32{1, 1, 1}, api.Available)()
	})
	before := uids(t, "setkilled", "llm")
	killController(t)
	if err := admin.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "setkilled", Name: "llm-0-1"}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all of the group are new", func() string {
		for name, uid := range uids(t, "setkilled", "llm") {
			if before[name] == uid {
				return name + " is as it was"
			}
		}
		return inState(t, "setkilled", "llm", 3, 0)()
	})
	eventually(t, "and serve", groupsReady(t, "setkilled", "llm", [3]int32{1, 1, 1}, api.Available))
}

// In an AppWrapper all groups are counted with it and start with it.
func TestLeaderWorkerSetInAnAppWrapper(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	name := create(t, alice, wrap(servingSet("llm", 2, "")), "blue")
	eventually(t, "it runs", inPhase(t, "Running", "blue", name))
	eventually(t, "both groups serve", groupsReady(t, "blue", "llm", [3]int32{2, 2, 2}, api.Available))
	if w := groupOf(t, "blue", "leaderworkerset-"); w != nil {
		t.Errorf("a group is queued besides: %s", w.Name)
	}
	worker := named(t, "blue", "llm-1-2")[0]
	if worker.Labels[api.GroupIndexLabel] != "1" ||
		!slices.ContainsFunc(
			worker.Spec.Containers[0].Env,
			func(v corev1.EnvVar) bool { return v.Name == api.WorkerIndexVariable && v.Value == "2" },
		) {
		t.Errorf("%s does not know its place: %v", worker.Name, worker.Labels)
	}
	if err := alice.Delete(t.Context(), wrapper(t, "blue", name)); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, "blue")
}
