package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// trainManifest is a TrainJob in the default queue.
func trainManifest(name, runtime, spec string) string {
	return fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec: {runtimeRef: {%s}, %s}
`, name, runtime, spec)
}

// trains are nodes that train for a while, a GPU each.
func trains(n int, d string) string {
	return fmt.Sprintf(
		"trainer: {numNodes: %d, command: [sh, -c, 'sleep %s'], resourcesPerNode: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}}",
		n,
		d,
	)
}

// installRuntimes installs the runtimes of the examples.
func installRuntimes(t *testing.T) {
	t.Helper()
	files, err := examples.Runtimes.ReadDir("runtimes")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := examples.Runtimes.ReadFile("runtimes/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if out, err := kubectl(t, "", string(text), "apply", "--server-side"); err != nil {
			t.Fatalf("%s: %v\n%s", f.Name(), err, out)
		}
	}
}

// trainJob reads one; nil if it is gone.
// runtimeAnnotation is where the runtime of a TrainJob is recorded.
const runtimeAnnotation = "mlbatch.dev/training-runtime"

func trainJob(t testing.TB, name string) *api.TrainJob {
	t.Helper()
	o := &api.TrainJob{}
	err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// trainSays waits for a TrainJob to have a condition.
func trainSays(tb testing.TB, name, condition string) func() string {
	tb.Helper()
	return func() string {
		o := trainJob(tb, name)
		if o == nil {
			return "it is gone"
		}
		for _, c := range o.Status.Conditions {
			if c.Type == condition && c.Status == metav1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprintf("it says %v", o.Status.Conditions)
	}
}

// setPods are the pods of a TrainJob's JobSet that have not ended.
func setPods(t testing.TB, name string) []corev1.Pod {
	t.Helper()
	var all corev1.PodList
	if err := user(
		t,
		"",
	).List(t.Context(), &all, client.InNamespace("blue"), client.MatchingLabels{jobset.JobSetNameKey: name}); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
}

func trainRuns(tb testing.TB, name string, n int) func() string {
	tb.Helper()
	return func() string {
		running := 0
		for _, p := range setPods(tb, name) {
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

// TestTrainJobs: a user applies a TrainJob of each of the runtimes that are shipped, twice; it
// waits for quota, all of its pods run and know of each other, it says that it is complete, and
// nothing is left of it when it is deleted.
func TestTrainJobs(t *testing.T) {
	installRuntimes(t)
	for _, tc := range []struct{ runtime, replicated, env string }{
		{"torch-distributed", "node", "PET_MASTER_ADDR"},
		{"jax-distributed", "node", "JAX_COORDINATOR_ADDRESS"},
		{"xgboost-distributed", "node", "DMLC_TRACKER_URI"},
		{"mpi-distributed", "launcher", "OMPI_MCA_orte_default_hostfile"},
		{"deepspeed-distributed", "launcher", "OMPI_MCA_orte_default_hostfile"},
	} {
		t.Run(tc.runtime, func(t *testing.T) {
			awaitEmpty(t, "blue")
			manifest := trainManifest("train", "name: "+tc.runtime, trains(3, "60"))
			for _, again := range []string{"first", "second"} {
				if out, err := kubectl(t, "alice", manifest, "apply", "--server-side", "-n", "blue"); err != nil {
					t.Fatalf("the %s time: %v\n%s", again, err, out)
				}
			}
			eventually(t, "all of its pods run", trainRuns(t, "train", 3))
			w := itsWorkload(t, "blue", "train")
			for _, p := range setPods(t, "train") {
				if p.Annotations[kueue.WorkloadAnnotation] != w.Name ||
					p.Labels[kueue.PodSetLabel] != p.Labels[jobset.ReplicatedJobNameKey] {
					t.Errorf("pod %s does not say whose it is: %v %v", p.Name, p.Annotations, p.Labels)
				}
				has := slices.ContainsFunc(
					p.Spec.Containers[0].Env,
					func(e corev1.EnvVar) bool { return e.Name == tc.env },
				)
				if should := p.Labels[jobset.ReplicatedJobNameKey] == tc.replicated; has != should {
					t.Errorf("pod %s is told %s: %v", p.Name, tc.env, has)
				}
			}
			eventually(t, "it is complete", trainSays(t, "train", api.TrainJobComplete))
			eventually(t, "its Workload is finished", func() string {
				if w := workloadOf(t, "blue", "train"); w == nil || !isFinished(w) {
					return "it is not"
				}
				return ""
			})
			if out, err := kubectl(t, "alice", manifest, "delete", "-n", "blue"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			eventually(t, "nothing is left", func() string { return leftOf(t, "train") })
		})
	}
}

// leftOf tells what there still is of a TrainJob.
func leftOf(t testing.TB, name string) string {
	t.Helper()
	c := user(t, "")
	var all corev1.PodList
	if err := c.List(
		t.Context(),
		&all,
		client.InNamespace("blue"),
		client.MatchingLabels{jobset.JobSetNameKey: name},
	); err != nil {
		return err.Error()
	}
	if len(all.Items) > 0 || workloadOf(t, "blue", name) != nil {
		return fmt.Sprintf("%d pods, Workload %v", len(all.Items), workloadOf(t, "blue", name))
	}
	for _, o := range []client.Object{
		&jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Name: name}}, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name + "-mpi-ssh-auth"}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-mpi-hostfile"}},
	} {
		if err := c.Get(
			t.Context(),
			client.ObjectKey{Namespace: "blue", Name: o.GetName()},
			o,
		); !apierrors.IsNotFound(
			err,
		) {
			return fmt.Sprintf("%T %s: %v", o, o.GetName(), err)
		}
	}
	return ""
}

// TestTrainingRuntimes: a team's own runtimes, and who may make which; a job that names none is
// refused, and one that is there runs as it began, whatever becomes of its runtime.
func TestTrainingRuntimes(t *testing.T) {
	awaitEmpty(t, "blue")
	installRuntimes(t)
	runtime := func(kind, env, more string) string {
		return fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: %s
metadata: {name: own}
spec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {%s containers: [{name: node, image: busybox, env: [{name: WHICH, value: %s}]}]}}}}}]}}}
`, kind, more, env)
	}
	manifest := trainManifest("own", "name: own, kind: TrainingRuntime", "suspend: true, "+trains(2, "400"))
	for _, tc := range []struct{ why, manifest, want string }{
		{"it is not there yet", manifest, "there is no TrainingRuntime of this name: create it first"},
		{"it is misspelt", trainManifest("own", "name: torch", trains(1, "1")), "torch-distributed"},
		{"those are for all", runtime("ClusterTrainingRuntime", "first", ""), "cannot"},
		{"its pods would be important", runtime("TrainingRuntime", "first", "priorityClassName: system-node-critical,"), "priorityClassName"},
		{"its pods would be elsewhere", runtime("TrainingRuntime", "first", "nodeName: node-0,"), "nodeSelector"},
		{"nor is it for one that is wrapped", wrap(manifest), "spec.components[0].template.spec.runtimeRef.name"},
		{"its pods would not be known in time", wrap(runtime("TrainingRuntime", "first", "")), "create it by itself, before the AppWrapper"},
	} {
		if out, err := kubectl(
			t,
			"alice",
			tc.manifest,
			"create",
			"-n",
			"blue",
		); err == nil ||
			!strings.Contains(out, tc.want) {
			t.Errorf("%s: %v, it said %s", tc.why, err, out)
		}
	}
	for _, text := range []string{runtime("TrainingRuntime", "first", ""), manifest} {
		if out, err := kubectl(t, "alice", text, "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	eventually(t, "it runs", trainRuns(t, "own", 2))
	if out, err := kubectl(
		t,
		"alice",
		runtime("TrainingRuntime", "second", ""),
		"apply",
		"--server-side",
		"-n",
		"blue",
	); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, p := range setPods(t, "own") {
		if e := p.Spec.Containers[0].Env; e[0].Value != "first" {
			t.Errorf("pod %s runs with %v", p.Name, e)
		}
	}
	if out, err := kubectl(
		t,
		"alice",
		runtime("TrainingRuntime", "second", ""),
		"delete",
		"-n",
		"blue",
	); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A pod that goes comes back, by the runtime that was recorded.
	gone := setPods(t, "own")[0]
	if err := user(t, "").Delete(t.Context(), &gone); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs with another pod", func() string {
		for _, p := range setPods(t, "own") {
			if p.UID == gone.UID {
				return "the old one is there"
			}
			if e := p.Spec.Containers[0].Env; e[0].Value != "first" {
				return fmt.Sprintf("pod %s runs with %v", p.Name, e)
			}
		}
		return trainRuns(t, "own", 2)()
	})
	awaitEmpty(t, "blue")
}

// TestTrainJobIsPreempted: all of its pods go before others get its quota; its JobSet is held
// meanwhile, and the job comes back as its user wrote it.
func TestTrainJobIsPreempted(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	installRuntimes(t)
	alice := user(t, "alice")
	job := func(name, class, gpus, d string) string {
		spec := strings.ReplaceAll(trains(3, d), "nvidia.com/gpu: 1", "nvidia.com/gpu: "+gpus)
		return strings.Replace(
			trainManifest(name, "name: torch-distributed", spec),
			"labels: {",
			"labels: {kueue.x-k8s.io/priority-class: "+class+", ",
			1,
		)
	}
	for name, value := range map[string]int32{"train-low": 1, "train-high": 100} {
		err := user(
			t,
			"",
		).Create(t.Context(), &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
		if client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	create(t, alice, job("patient", "train-low", "8", "400"), "blue")
	eventually(t, "it runs", trainRuns(t, "patient", 3))
	before := trainJob(t, "patient").Spec
	create(t, alice, job("urgent", "train-high", "2", "60"), "blue")
	eventually(t, "the urgent job runs, and nothing of the other", func() string {
		urgent, patient := setPods(t, "urgent"), setPods(t, "patient")
		if len(urgent) > 0 && len(patient) > 0 {
			t.Errorf("pods of both: %d and %d", len(urgent), len(patient))
		}
		return trainRuns(t, "urgent", 3)()
	})
	eventually(t, "it says so", trainSays(t, "patient", api.TrainJobSuspended))
	set := &jobset.JobSet{}
	if err := user(
		t,
		"",
	).Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "patient"}, set); err != nil ||
		!ptr.Deref(set.Spec.Suspend, false) {
		t.Errorf("its JobSet: suspended %v, %v", set.Spec.Suspend, err)
	}
	uid := set.UID
	eventually(t, "it comes back", trainRuns(t, "patient", 3))
	if err := user(
		t,
		"",
	).Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "patient"}, set); err != nil ||
		set.UID != uid {
		t.Errorf("its JobSet is another one: %v", err)
	}
	if after := trainJob(t, "patient").Spec; !equality.Semantic.DeepEqual(before, after) {
		t.Errorf("its spec was %v and is %v", before, after)
	}
	awaitEmpty(t, "blue", "red")
}

// TestTrainJobSurvivesTheController: it is killed while the JobSet is made, and while the job is
// about to end.
func TestTrainJobSurvivesTheController(t *testing.T) {
	awaitEmpty(t, "blue")
	installRuntimes(t)
	create(t, user(t, "alice"), trainManifest("hardy", "name: torch-distributed", trains(2, "60")), "blue")
	for _, when := range []struct {
		what string
		is   func() string
	}{
		{"its runtime is recorded", func() string {
			if trainJob(t, "hardy").Annotations[runtimeAnnotation] == "" {
				return "it is not"
			}
			return ""
		}},
		{"its pods run", trainRuns(t, "hardy", 2)},
	} {
		eventually(t, when.what, when.is)
		killController(t)
	}
	eventually(t, "it is complete", trainSays(t, "hardy", api.TrainJobComplete))
	awaitEmpty(t, "blue")
}

// TestCorpusOfTrainJobs applies every manifest of TrainJobs twice, sees each come to the end that it
// should, and nothing left of it when it is deleted.
func TestCorpusOfTrainJobs(t *testing.T) {
	awaitEmpty(t, "blue")
	installCorpusRuntimes(t)
	alice, ends := user(t, "alice"), map[string]string{}
	for _, m := range corpus.TrainJobs() {
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
		ends[o.GetName()] = m.Ends
	}
	eventually(t, "all come to their ends", func() string {
		open := ""
		for name, end := range ends {
			switch o := trainJob(t, name); {
			case trainSays(t, name, end)() == "":
			case o != nil && slices.ContainsFunc(o.Status.Conditions, func(c metav1.Condition) bool { return c.Type != api.TrainJobSuspended && c.Type != end }):
				t.Fatalf("%s should be %s: %v", name, end, o.Status.Conditions)
			default:
				open = name + ": " + trainSays(t, name, end)()
			}
		}
		return open
	})
	awaitEmpty(t, "blue")
	for name := range ends {
		eventually(t, "nothing is left of "+name, func() string { return leftOf(t, name) })
	}
}

// installCorpusRuntimes installs the runtimes that manifests of the corpus name, for as long as
// the test takes.
func installCorpusRuntimes(t *testing.T) {
	t.Helper()
	for _, text := range corpus.Runtimes() {
		who := "alice"
		if strings.Contains(text, "kind: "+api.ClusterTrainingRuntimeKind) {
			who = ""
		}
		if out, err := kubectl(t, who, text, "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, text)
		}
		t.Cleanup(func() { _, _ = kubectl(t, "", text, "delete", "--ignore-not-found", "-n", "blue") })
	}
}

// TestWrappedTrainJobs: what is counted of a TrainJob in an AppWrapper is its runtime as it was
// when the AppWrapper came. One that is changed before it starts, while it runs, or taken
// away, makes no other pods than those that were admitted.
func TestWrappedTrainJobs(t *testing.T) {
	awaitEmpty(t, "blue")
	const name = "wrapped-train"
	runtime := func(replicas int, role string) string {
		return fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: growing}
spec: {mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [
  {name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: busybox}]}}}}},
  {name: %s, replicas: %d, template: {spec: {template: {spec: {containers: [{name: c, image: busybox, command: [sh, -c, "sleep 400"], resources: {limits: {cpu: 1}}}]}}}}}]}}}
`, role, replicas)
	}
	stop := func(policy string) {
		t.Helper()
		out, err := kubectl(
			t,
			"",
			"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: blue-cluster-queue}",
			"patch",
			"--type=merge",
			"-p",
			`{"spec":{"stopPolicy":"`+policy+`"}}`,
		)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	apply := func(text string) {
		t.Helper()
		if out, err := kubectl(t, "alice", text, "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	stop("Hold")
	t.Cleanup(func() {
		_, _ = kubectl(
			t,
			"",
			"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: blue-cluster-queue}",
			"patch",
			"--type=merge",
			"-p",
			`{"spec":{"stopPolicy":"None"}}`,
		)
	})
	apply(runtime(1, "helper"))
	apply(wrap(trainManifest(name, "name: growing, kind: TrainingRuntime", trains(2, "400"))))
	eventually(t, "it is counted by its runtime", func() string {
		w := workloadOf(t, "blue", "wrapped")
		if w == nil {
			return "it has no Workload"
		}
		if len(w.Spec.PodSets) != 2 || w.Spec.PodSets[0].Count != 2 || w.Spec.PodSets[1].Count != 1 {
			t.Fatalf("counted are %v", w.Spec.PodSets)
		}
		return ""
	})
	apply(runtime(5, "more"))
	stop("None")
	none := func() string {
		for _, p := range setPods(t, name) {
			if r := p.Labels[jobset.ReplicatedJobNameKey]; r != "node" && r != "helper" {
				return "pod " + p.Name + " was never admitted"
			}
			if p.Labels["workload.codeflare.dev/appwrapper"] != "wrapped" {
				return "pod " + p.Name + " does not say whose it is"
			}
		}
		if n := len(setPods(t, name)); n > 3 {
			return fmt.Sprintf("%d pods", n)
		}
		return ""
	}
	always(t, "no pod that was not admitted", none, trainRuns(t, name, 3))
	if out, err := kubectl(t, "alice", runtime(5, "more"), "delete", "-n", "blue"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	gone := setPods(t, name)[0]
	if err := user(t, "").Delete(t.Context(), &gone); err != nil {
		t.Fatal(err)
	}
	always(t, "no pod that was not admitted", none, func() string {
		var all corev1.PodList // others may have ended by now
		if err := user(
			t,
			"",
		).List(t.Context(), &all, client.InNamespace("blue"), client.MatchingLabels{jobset.JobSetNameKey: name}); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(all.Items, func(p corev1.Pod) bool {
			return p.UID != gone.UID && p.GenerateName == gone.GenerateName && p.Spec.NodeName != ""
		}) {
			return "another pod does not come for " + gone.Name
		}
		return ""
	})
	eventually(t, "it succeeds by the TrainJob's own word", inPhase(t, "Succeeded", "blue", "wrapped"))
	awaitEmpty(t, "blue")
}
