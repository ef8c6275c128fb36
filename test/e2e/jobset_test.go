package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// podOfSet is a template of a pod that runs so long, with further annotations.
func podOfSet(d string, more ...string) string {
	command := ""
	if d == "forever" { // for real nodes
		command = `command: [sleep, "1000000"], `
	}
	return fmt.Sprintf(
		"template: {metadata: {annotations: {%s}}, spec: {terminationGracePeriodSeconds: 0, restartPolicy: Never, containers: [{name: c, image: busybox, %sresources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}}]}}",
		strings.Join(append([]string{"mlbatch.dev/run-for: " + d}, more...), ", "),
		command,
	)
}

func jobSetManifest(name, spec string) string {
	return fmt.Sprintf(
		"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {%s}}",
		name,
		spec,
	)
}

func jobSet(t testing.TB, name string) *api.JobSet {
	t.Helper()
	js := &api.JobSet{}
	if err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, js); err != nil {
		t.Fatal(err)
	}
	return js
}

// jobSetSays waits for a condition of a JobSet, for a reason if there is one.
func jobSetSays(tb testing.TB, name, condition, reason string) func() string {
	tb.Helper()
	return func() string {
		js := jobSet(tb, name)
		c := apimeta.FindStatusCondition(js.Status.Conditions, condition)
		if c == nil || c.Status != metav1.ConditionTrue || reason != "" && c.Reason != reason {
			return fmt.Sprintf("it says %+v", js.Status.Conditions)
		}
		return ""
	}
}

// jobsOf are the Jobs of a JobSet, found as people find them.
func jobsOf(t testing.TB, name string) []batchv1.Job {
	t.Helper()
	var all batchv1.JobList
	if err := user(
		t,
		"",
	).List(t.Context(), &all, client.InNamespace("blue"), client.MatchingLabels{"jobset.sigs.k8s.io/jobset-name": name}); err != nil {
		t.Fatal(err)
	}
	return all.Items
}

func podsOfSet(t testing.TB, name string) []corev1.Pod {
	t.Helper()
	var all corev1.PodList
	if err := user(
		t,
		"",
	).List(t.Context(), &all, client.InNamespace("blue"), client.MatchingLabels{"jobset.sigs.k8s.io/jobset-name": name}); err != nil {
		t.Fatal(err)
	}
	return all.Items
}

func setRuns(tb testing.TB, name string, n int) func() string {
	tb.Helper()
	return func() string {
		running := 0
		for _, p := range podsOfSet(tb, name) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running++
			}
		}
		if running != n {
			return fmt.Sprintf("%d of %d pods run", running, n)
		}
		return ""
	}
}

// TestJobSet: a leader, and workers that wait for it. All have the names and labels by which
// they are found, they run where the plan says, the leader ends with the workers, and nothing
// is left of the JobSet when it is deleted.
func TestJobSet(t *testing.T) {
	awaitEmpty(t, "blue")
	manifest := jobSetManifest(
		"set",
		"coordinator: {replicatedJob: leader}, successPolicy: {operator: All, targetReplicatedJobs: [workers]}, replicatedJobs: [{name: leader, template: {spec: {"+podOfSet(
			"forever",
		)+
			"}}}, {name: workers, replicas: 2, dependsOn: [{name: leader, status: Ready}], template: {spec: {parallelism: 2, completions: 2, "+podOfSet(
			"60s",
		)+"}}}]",
	)
	for _, again := range []string{"first", "second"} {
		if out, err := kubectl(t, "alice", manifest, "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("the %s time: %v\n%s", again, err, out)
		}
	}
	eventually(t, "all of its pods run", setRuns(t, "set", 5))
	w := itsWorkload(t, "blue", "set")
	for _, p := range podsOfSet(t, "set") {
		role := p.Labels["jobset.sigs.k8s.io/replicatedjob-name"]
		host := fmt.Sprintf(
			"set-%s-%s-%s",
			role,
			p.Labels["jobset.sigs.k8s.io/job-index"],
			p.Labels["batch.kubernetes.io/job-completion-index"],
		)
		if p.Spec.Hostname != host || p.Spec.Subdomain != "set" ||
			p.Annotations["jobset.sigs.k8s.io/coordinator"] != "set-leader-0-0.set" {
			t.Errorf(
				"pod %s is %s.%s, and its coordinator %s",
				p.Name,
				p.Spec.Hostname,
				p.Spec.Subdomain,
				p.Annotations["jobset.sigs.k8s.io/coordinator"],
			)
		}
		if p.Annotations[kueue.WorkloadAnnotation] != w.Name || p.Labels[kueue.PodSetLabel] != role {
			t.Errorf("pod %s does not say whose it is: %v %v", p.Name, p.Annotations, p.Labels)
		}
	}
	var service corev1.Service
	if err := user(
		t,
		"",
	).Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "set"}, &service); err != nil ||
		service.Spec.ClusterIP != "None" {
		t.Errorf("its service is %+v, %v", service.Spec, err)
	}
	eventually(t, "it is told how far each role is", func() string {
		s := jobSet(t, "set").Status.ReplicatedJobsStatus
		want := []api.ReplicatedJobStatus{
			{Name: "leader", Ready: 1, Active: 1},
			{Name: "workers", Ready: 2, Active: 2},
		}
		if !equality.Semantic.DeepEqual(s, want) {
			return fmt.Sprint(s)
		}
		return ""
	})
	eventually(t, "it succeeds", jobSetSays(t, "set", "Completed", "AllJobsCompleted"))
	eventually(t, "the leader is gone, and its Workload finished", func() string {
		if n := len(jobsOf(t, "set")); n != 2 {
			return fmt.Sprintf("it has %d Jobs", n)
		}
		if w := workloadOf(t, "blue", "set"); w == nil || !isFinished(w) {
			return "its Workload is not"
		}
		return ""
	})
	if out, err := kubectl(t, "alice", manifest, "delete", "-n", "blue"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "nothing is left", func() string {
		err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "set"}, &service)
		if n := len(
			jobsOf(t, "set"),
		) + len(
			podsOfSet(t, "set"),
		); n > 0 || workloadOf(t, "blue", "set") != nil ||
			err == nil {
			return fmt.Sprintf("%d Jobs and pods, service: %v", n, err)
		}
		return ""
	})
}

// TestJobSetBeginsAnew: all Jobs are made anew when one fails, as often as the policy says and
// no oftener, and rules say otherwise.
func TestJobSetBeginsAnew(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	two := func(policy, bad string) string {
		return policy + "replicatedJobs: [{name: good, template: {spec: {" + podOfSet(
			"60s",
		) + "}}}, {name: bad, template: {spec: {backoffLimit: 0, " + bad + "}}}]"
	}
	once := podOfSet("10s", `mlbatch.dev/fail-first: "1"`)
	fails := podOfSet("10s", `mlbatch.dev/exit-code: "1"`)
	create(
		t,
		alice,
		jobSetManifest("mends", two("failurePolicy: {maxRestarts: 3, restartStrategy: BlockingRecreate}, ", once)),
		"blue",
	)
	create(t, alice, jobSetManifest("broken", two("failurePolicy: {maxRestarts: 1}, ", fails)), "blue")
	create(
		t,
		alice,
		jobSetManifest(
			"final",
			two(
				"failurePolicy: {maxRestarts: 3, rules: [{action: FailJobSet, targetReplicatedJobs: [bad]}]}, ",
				fails,
			),
		),
		"blue",
	)
	create(t, alice, jobSetManifest("once", two("", fails)), "blue")
	eventually(t, "it succeeds the second time", jobSetSays(t, "mends", "Completed", ""))
	if s := jobSet(
		t,
		"mends",
	).Status; s.Restarts != 1 || s.RestartsCountTowardsMax != 1 ||
		s.TerminalState != "Completed" {
		t.Errorf("%+v", s)
	}
	for _, j := range jobsOf(t, "mends") {
		if j.Labels["jobset.sigs.k8s.io/restart-attempt"] != "1" ||
			j.Spec.Template.Labels["jobset.sigs.k8s.io/restart-attempt"] != "1" {
			t.Errorf("%s is of attempt %s", j.Name, j.Labels["jobset.sigs.k8s.io/restart-attempt"])
		}
	}
	if c := apimeta.FindStatusCondition(
		jobSet(t, "mends").Status.Conditions,
		"RestartingJobSet",
	); c == nil ||
		c.Status != metav1.ConditionFalse {
		t.Errorf("it says of its restart %+v", c)
	}
	eventually(t, "it fails after its restart", jobSetSays(t, "broken", "Failed", "ReachedMaxRestarts"))
	eventually(
		t,
		"a rule says that it is final",
		jobSetSays(t, "final", "Failed", "FailJobSetFailurePolicyAction"),
	)
	eventually(t, "it has no policy", jobSetSays(t, "once", "Failed", "FailedJobs"))
	for name, want := range map[string]int32{"broken": 1, "final": 0, "once": 0} {
		if got := jobSet(t, name).Status.Restarts; got != want {
			t.Errorf("%s began anew %d times, want %d", name, got, want)
		}
	}
	awaitEmpty(t, "blue")
}

// TestJobSetIsEvicted: its Jobs stay, suspended and without pods, before its quota is given
// back; what is complete stays so, and the rest goes on.
func TestJobSetIsEvicted(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	create(
		t,
		user(t, "alice"),
		jobSetManifest(
			"patient",
			"replicatedJobs: [{name: short, template: {spec: {"+podOfSet(
				"10s",
			)+"}}}, {name: long, replicas: 2, template: {spec: {"+podOfSet(
				"300s",
			)+"}}}]",
		),
		"blue",
	)
	eventually(t, "one of its Jobs is complete, two run", func() string {
		s := jobSet(t, "patient").Status.ReplicatedJobsStatus
		if len(s) != 2 || s[0].Succeeded != 1 {
			return fmt.Sprint(s)
		}
		return setRuns(t, "patient", 2)()
	})
	before := map[string]bool{}
	for _, j := range jobsOf(t, "patient") {
		before[string(j.UID)] = true
	}
	setActive := func(on bool) {
		t.Helper()
		w := itsWorkload(t, "blue", "patient")
		was := w.DeepCopy()
		w.Spec.Active = &on
		if err := admin.Patch(t.Context(), w, client.MergeFrom(was)); err != nil {
			t.Fatal(err)
		}
	}
	setActive(false)
	eventually(t, "it is suspended", jobSetSays(t, "patient", "Suspended", "SuspendedJobs"))
	if err := setRuns(t, "patient", 0)(); err != "" {
		t.Errorf("it says that it is suspended: %s", err)
	}
	for _, j := range jobsOf(t, "patient") {
		complete := slices.ContainsFunc(
			j.Status.Conditions,
			func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobComplete },
		)
		if !before[string(j.UID)] || !complete && !ptr.Deref(j.Spec.Suspend, false) {
			t.Errorf("%s stays, suspended: %+v", j.Name, j.Status)
		}
	}
	eventually(t, "it is queued for what is left of it", func() string {
		if done := itsWorkload(
			t,
			"blue",
			"patient",
		).Status.ReclaimablePods; len(done) == 0 ||
			done[0] != (kueue.ReclaimablePod{Name: "short", Count: 1}) {
			return fmt.Sprintf("done are %v", done)
		}
		return ""
	})
	setActive(true)
	eventually(t, "the others run again", setRuns(t, "patient", 2))
	given := map[kueue.PodSetReference]int32{}
	for _, a := range itsWorkload(t, "blue", "patient").Status.Admission.PodSetAssignments {
		given[a.Name] = *a.Count
	}
	if given["short"] != 0 || given["long"] != 2 {
		t.Errorf("it was admitted with %v", given)
	}
	eventually(t, "it succeeds", jobSetSays(t, "patient", "Completed", ""))
	for _, j := range jobsOf(t, "patient") {
		if !before[string(j.UID)] {
			t.Errorf("%s was made anew", j.Name)
		}
	}
	awaitEmpty(t, "blue")
}

// TestJobSetIsResized: one that grows is queued for its new size before it has a pod more, and
// goes on with the Jobs that it has; one that shrinks does so as it runs.
func TestJobSetIsResized(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	create(
		t,
		alice,
		jobSetManifest(
			"elastic",
			"replicatedJobs: [{name: workers, template: {spec: {parallelism: 2, completions: 2, "+podOfSet(
				"6000s",
			)+"}}}]",
		),
		"blue",
	)
	eventually(t, "two pods run", setRuns(t, "elastic", 2))
	first := jobsOf(t, "elastic")[0].UID
	resize := func(n int32) {
		t.Helper()
		js := jobSet(t, "elastic")
		was := js.DeepCopy()
		s := &js.Spec.ReplicatedJobs[0].Template.Spec
		s.Parallelism, s.Completions = &n, &n
		if err := alice.Patch(t.Context(), js, client.MergeFrom(was)); err != nil {
			t.Fatal(err)
		}
	}
	given := func(n int32) func() string {
		return func() string {
			w := workloadOf(t, "blue", "elastic")
			if w == nil || w.Status.Admission == nil || *w.Status.Admission.PodSetAssignments[0].Count != n {
				return fmt.Sprintf("its Workload is %+v", w)
			}
			return setRuns(t, "elastic", int(n))()
		}
	}
	resize(3)
	eventually(t, "three pods were admitted and run", given(3))
	resize(100)
	eventually(t, "it waits for more than there is", func() string {
		if w := workloadOf(
			t,
			"blue",
			"elastic",
		); w == nil || w.Status.Admission != nil ||
			w.Spec.PodSets[0].Count != 100 {
			return fmt.Sprintf("its Workload is %+v", w)
		}
		return setRuns(t, "elastic", 0)()
	})
	resize(3)
	eventually(t, "three pods run again", given(3))
	resize(1)
	eventually(t, "one pod runs", setRuns(t, "elastic", 1))
	if all := jobsOf(t, "elastic"); len(all) != 1 || all[0].UID != first || *all[0].Spec.Completions != 1 {
		t.Errorf("its Jobs are %+v", all)
	}
	awaitEmpty(t, "blue")
}

// TestJobSetInAppWrapper: a wrapped JobSet has succeeded when it says so, although its
// leader never does.
func TestJobSetInAppWrapper(t *testing.T) {
	awaitEmpty(t, "blue")
	inner := strings.Replace(
		jobSetManifest(
			"inner",
			"successPolicy: {operator: All, targetReplicatedJobs: [workers]}, replicatedJobs: [{name: leader, template: {spec: {"+podOfSet(
				"forever",
			)+
				"}}}, {name: workers, dependsOn: [{name: leader, status: Ready}], template: {spec: {parallelism: 2, completions: 2, "+podOfSet(
				"60s",
			)+"}}}]",
		),
		", labels: {kueue.x-k8s.io/queue-name: default-queue}",
		"",
		1,
	)
	create(t, user(t, "alice"), wrap(inner), "blue")
	eventually(t, "all its pods run", setRuns(t, "inner", 3))
	eventually(t, "it succeeds", inPhase(t, string(aw.AppWrapperSucceeded), "blue", "wrapped"))
	awaitEmpty(t, "blue")
}

// TestJobSetsThatAreRefused: what is wrong is told at its field, with what would be right.
func TestJobSetsThatAreRefused(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	pod := podOfSet("1s")
	for name, tc := range map[string]struct{ manifest, want string }{
		"no image":         {jobSetManifest("x", "replicatedJobs: [{name: a, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}]"), "spec.replicatedJobs[0].template.spec.template.spec.containers[0].image: Required value"},
		"order":            {jobSetManifest("x", "replicatedJobs: [{name: a, dependsOn: [{name: b, status: Ready}], template: {spec: {"+pod+"}}}, {name: b, template: {spec: {"+pod+"}}}]"), "put b before a"},
		"long name":        {jobSetManifest(strings.Repeat("x", 50), "replicatedJobs: [{name: workers, template: {spec: {"+pod+"}}}]"), "use a shorter name"},
		"restart in place": {jobSetManifest("x", "failurePolicy: {restartStrategy: InPlaceRestart}, replicatedJobs: [{name: a, template: {spec: {"+pod+"}}}]"), "needs an agent in each pod"},
	} {
		if _, err := tryCreate(
			t,
			alice,
			tc.manifest,
			"blue",
		); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	create(
		t,
		alice,
		jobSetManifest("fixed", "replicatedJobs: [{name: a, template: {spec: {"+podOfSet("forever")+"}}}]"),
		"blue",
	)
	js := jobSet(t, "fixed")
	was := js.DeepCopy()
	js.Spec.ReplicatedJobs[0].Replicas = new(int32(3))
	if err := alice.Patch(
		t.Context(),
		js,
		client.MergeFrom(was),
	); err == nil ||
		!strings.Contains(err.Error(), "spec.replicatedJobs: Forbidden") {
		t.Errorf("it becomes larger: %v", err)
	}
	awaitEmpty(t, "blue")
}

// TestMembersAreGuarded: a tenant cannot run pods with what was given to a JobSet, neither by
// a Job that says it is one of its own, before or after the JobSet has made it, nor by changing
// one that is; and none runs while the JobSet may not.
func TestMembersAreGuarded(t *testing.T) {
	awaitEmpty(t, "blue")
	alice, admin := user(t, "alice"), user(t, "")
	create(
		t,
		alice,
		jobSetManifest(
			"set",
			"replicatedJobs: [{name: a, template: {spec: {parallelism: 2, completions: 2, "+podOfSet("forever")+"}}}]",
		),
		"blue",
	)
	eventually(t, "its pods run", setRuns(t, "set", 2))
	js := jobSet(t, "set")
	owner := fmt.Sprintf(
		"ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: set, uid: %s, controller: true}]",
		js.UID,
	)
	forged := func(name, metadata string) string {
		return fmt.Sprintf(
			"{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}%s}, spec: {parallelism: 9, completions: 9, %s}}",
			name,
			metadata,
			podOfSet("forever"),
		)
	}
	const refused = "only the controller of JobSet set makes what belongs to it"
	if _, err := tryCreate(
		t,
		alice,
		forged("set-a-1", ", "+owner),
		"blue",
	); err == nil ||
		!strings.Contains(err.Error(), refused) {
		t.Errorf("alice makes a member: %v", err)
	}
	create(
		t,
		alice,
		strings.Replace(forged("hers", ""), "spec: {parallelism", "spec: {suspend: true, parallelism", 1),
		"blue",
	)
	hers := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "hers"}}
	adopt := fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","name":"set","uid":%q,"controller":true}]}}`,
		js.UID,
	)
	if err := alice.Patch(
		t.Context(),
		hers,
		client.RawPatch(types.MergePatchType, []byte(adopt)),
	); err == nil ||
		!strings.Contains(err.Error(), refused) {
		t.Errorf("alice makes her Job a member: %v", err)
	}
	if err := client.IgnoreNotFound(
		alice.Delete(t.Context(), hers, client.PropagationPolicy(metav1.DeletePropagationBackground)),
	); err != nil {
		t.Fatal(err)
	}
	member := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "set-a-0"}}
	if err := alice.Patch(
		t.Context(),
		member,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"parallelism":9,"completions":9}}`)),
	); err == nil ||
		!strings.Contains(err.Error(), "it is a part of JobSet set") {
		t.Errorf("alice makes a member larger: %v", err)
	}

	w := itsWorkload(t, "blue", "set")
	if err := admin.Patch(
		t.Context(),
		w,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"active":false}}`)),
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it stops", setRuns(t, "set", 0))
	eventually(t, "its Job is held", func() string {
		if jobs := jobsOf(t, "set"); len(jobs) != 1 || jobs[0].Spec.Suspend == nil || !*jobs[0].Spec.Suspend {
			return fmt.Sprintf("%d Jobs", len(jobs))
		}
		return ""
	})
	// Whether she is refused or overruled, nothing of it runs for longer than it takes to say so.
	_ = alice.Patch(
		t.Context(),
		member,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`)),
	)
	eventually(t, "its Job is held again", func() string {
		if jobs := jobsOf(t, "set"); len(jobs) != 1 || jobs[0].Spec.Suspend == nil || !*jobs[0].Spec.Suspend {
			return "it is free"
		}
		return ""
	})
	eventually(t, "none of its pods runs", func() string {
		for _, p := range podsOfSet(t, "set") {
			if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				return p.Name + " runs"
			}
		}
		return ""
	})
	awaitEmpty(t, "blue")
}

// TestJobSetVolumes: a volume of a JobSet is mounted, and goes with it unless it is to stay.
func TestJobSetVolumes(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	aVolume(t, "first")
	aVolume(t, "second")
	const claim = `spec: {storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`
	mounts := strings.Replace(
		podOfSet("10s"),
		"image: busybox,",
		"image: busybox, volumeMounts: [{name: goes, mountPath: /a}, {name: stays, mountPath: /b}],",
		1,
	)
	create(
		t,
		user(t, "alice"),
		jobSetManifest(
			"set",
			"volumeClaimPolicies: [{templates: [{metadata: {name: goes}, "+claim+"}]}, {templates: [{metadata: {name: stays}, "+claim+
				"}], retentionPolicy: {whenDeleted: Retain}}], replicatedJobs: [{name: a, template: {spec: {"+mounts+"}}}]",
		),
		"blue",
	)
	eventually(t, "it succeeds", jobSetSays(t, "set", "Completed", ""))
	awaitEmpty(t, "blue")
	eventually(t, "one volume is left", func() string {
		var claims corev1.PersistentVolumeClaimList
		if err := admin.List(t.Context(), &claims, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		if len(claims.Items) != 1 || claims.Items[0].Name != "stays-set" {
			return fmt.Sprintf("%d are", len(claims.Items))
		}
		return ""
	})
	if err := admin.DeleteAllOf(
		t.Context(),
		&corev1.PersistentVolumeClaim{},
		client.InNamespace("blue"),
	); err != nil {
		t.Fatal(err)
	}
}

// aVolume is one that claims can have.
func aVolume(t testing.TB, name string) {
	t.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{
			corev1.ResourceStorage: resource.MustParse("1Gi"),
		},
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"},
		},
	}}
	admin := user(t, "")
	if err := admin.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(context.Background(), v) })
}
