package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
)

// tour is what the tutorials of queues apply: a flavor, a cohort, a queue and its
// LocalQueue, a class, and a Job that names both. NAME makes the names unique.
func tour(version string) map[string]string {
	cohort := "cohortName"
	if version == "v1beta1" {
		cohort = "cohort"
	}
	head := "apiVersion: kueue.x-k8s.io/" + version + "\nkind: "
	return map[string]string{
		"flavor": head + "ResourceFlavor\nmetadata: {name: NAME-flavor}\n",
		"cohort": head + "Cohort\nmetadata: {name: NAME-cohort}\n",
		"queue": head + `ClusterQueue
metadata: {name: NAME-cluster-queue}
spec:
  namespaceSelector: {}
  ` + cohort + `: NAME-cohort
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: NAME-flavor
      resources: [{name: cpu, nominalQuota: 9}, {name: memory, nominalQuota: 36Gi}]
`,
		"local": head + "LocalQueue\nmetadata: {namespace: default, name: NAME-user-queue}\nspec: {clusterQueue: NAME-cluster-queue}\n",
		"class": head + "WorkloadPriorityClass\nmetadata: {name: NAME-class}\nvalue: 7\ndescription: for a test\n",
		"job": `apiVersion: batch/v1
kind: Job
metadata:
  name: NAME
  namespace: default
  labels: {kueue.x-k8s.io/queue-name: NAME-user-queue, kueue.x-k8s.io/priority-class: NAME-class}
spec:
  parallelism: 3
  completions: 3
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: dummy, image: busybox, command: [sleep, "10"], resources: {requests: {cpu: 1, memory: 200Mi}}}]
`,
	}
}

// The manifests of a tour can be applied in any order, in both versions,
// and the job runs to its end.
func TestOrderOfManifestsDoesNotMatter(t *testing.T) {
	orders := map[string]string{
		"queues first": "flavor cohort queue local class job",
		"jobs first":   "job class local queue cohort flavor",
		"mixed":        "local job queue class flavor cohort",
	}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		for name, order := range orders {
			t.Run(version+" "+name, func(t *testing.T) {
				unique := strings.ReplaceAll(name, " ", "-") + "-" + version
				parts := tour(version)
				t.Cleanup(func() {
					for _, part := range []string{"job", "local", "queue", "cohort", "flavor", "class"} {
						_, _ = kubectl(
							t,
							"",
							strings.ReplaceAll(parts[part], "NAME", unique),
							"delete",
							"--ignore-not-found",
							"--wait=false",
						)
					}
				})
				for part := range strings.FieldsSeq(order) {
					if out, err := kubectl(t, "", strings.ReplaceAll(parts[part], "NAME", unique), "apply"); err != nil {
						t.Fatalf("apply the %s: %v\n%s", part, err, out)
					}
				}
				eventually(
					t,
					"the job runs to its end",
					func() string { return jobSucceeded(t, user(t, ""), "default", unique) },
				)
				if w := itsWorkload(t, "default", unique); *w.Spec.Priority != 7 {
					t.Errorf("its priority was %d, want that of its class, 7", *w.Spec.Priority)
				}
			})
		}
	}
}

// What a job waits for is said when it is submitted and by its Workload, and
// it starts by itself once that is there.
func TestJobBeforeItsQueueSaysSo(t *testing.T) {
	const unique = "early"
	parts := tour("v1beta2")
	named := func(part string) string { return strings.ReplaceAll(parts[part], "NAME", unique) }
	t.Cleanup(func() {
		for _, part := range []string{"job", "local", "queue", "cohort", "flavor", "class"} {
			_, _ = kubectl(t, "", named(part), "delete", "--ignore-not-found", "--wait=false")
		}
	})
	out := applied(t, named("job"))
	for _, words := range []string{"until there is a LocalQueue early-user-queue in namespace default", "until there is a WorkloadPriorityClass early-class"} {
		if !strings.Contains(out, words) {
			t.Errorf("kubectl does not say %q:\n%s", words, out)
		}
	}
	eventually(
		t,
		"its Workload says that the class is missing",
		waits(t, "default", unique, "no WorkloadPriorityClass early-class"),
	)
	applied(t, named("class"))
	eventually(t, "its Workload says that the queue is missing", waits(t, "default", unique, "early-user-queue"))
	for _, part := range []string{"local", "queue", "flavor", "cohort"} {
		applied(t, named(part))
	}
	eventually(t, "it runs by itself", func() string { return jobSucceeded(t, user(t, ""), "default", unique) })
}

// What another controller manages is left wholly alone, and goes when it is
// deleted.
func TestObjectsOfOtherControllers(t *testing.T) {
	awaitEmpty(t, "blue")
	alice, admin := user(t, "alice"), user(t, "")
	foreign := strings.Replace(
		wrapperManifest(fmt.Sprintf(sleepJob, "blue", "default-priority")),
		"spec:\n",
		"spec:\n  managedBy: kueue.x-k8s.io/multikueue\n",
		1,
	)
	name := create(t, alice, foreign, "blue")
	theirs := strings.Replace(
		strings.Replace(jobManifest, "name: bare", "name: theirs", 1),
		"spec:\n",
		"spec:\n  managedBy: kueue.x-k8s.io/multikueue\n",
		1,
	)
	create(t, admin, theirs, "blue")

	// Ours is created later and runs: whatever was to happen to the others has.
	ours := create(t, alice, wrap(jobManifest), "blue")
	eventually(t, "ours runs", func() string { return runs(t, "blue", ours, 1) })
	if w := workloadOf(t, "blue", name); w != nil {
		t.Errorf("the AppWrapper has Workload %s", w.Name)
	}
	if w := workloadOf(t, "blue", "theirs"); w != nil {
		t.Errorf("the Job has Workload %s", w.Name)
	}
	if w := wrapper(t, "blue", name); w.Spec.Suspend || len(w.Finalizers) > 0 || w.Status.Phase != "" {
		t.Errorf(
			"the AppWrapper was changed: suspend %v, finalizers %v, phase %q",
			w.Spec.Suspend,
			w.Finalizers,
			w.Status.Phase,
		)
	}
	var j batchv1.Job
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "theirs"}, &j); err != nil {
		t.Fatal(err)
	}
	if *j.Spec.Suspend || len(j.Finalizers) > 0 {
		t.Errorf("the Job was changed: suspend %v, finalizers %v", *j.Spec.Suspend, j.Finalizers)
	}
	// One that has our finalizer, from the time before, goes all the same.
	w := wrapper(t, "blue", name)
	edit(t, admin, w, func(w *aw.AppWrapper) { w.Finalizers = []string{aw.AppWrapperFinalizer} })
	if err := alice.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() string {
		if err := admin.Get(
			t.Context(),
			client.ObjectKeyFromObject(w),
			&aw.AppWrapper{},
		); !apierrors.IsNotFound(
			err,
		) {
			return fmt.Sprintf("it is there: %v", err)
		}
		return ""
	})
	awaitEmpty(t, "blue")
}

// applied applies a manifest as the admin and returns all that kubectl says.
func applied(t *testing.T, manifest string) string {
	t.Helper()
	out, err := kubectl(t, "", manifest, "apply")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}
