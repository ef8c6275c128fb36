package upgrade

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/migrate"
)

const coscheduling = "scheduler-plugins-scheduler"

// raw is an object as it is in a component.
func raw(t *testing.T, o any) runtime.RawExtension {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

// innerJob is a Job in an AppWrapper.
func innerJob(name string, pods int32, each int64) *batchv1.Job {
	j := job(name, pods, each, false)
	j.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	j.Namespace, j.Labels = "", nil
	j.Spec.Suspend = nil
	j.Spec.Template.Spec.SchedulerName = coscheduling
	return j
}

// wrapper is an AppWrapper as its controller leaves it in a phase.
func wrapper(
	t *testing.T,
	name string,
	phase aw.AppWrapperPhase,
	inner any,
	status aw.AppWrapperComponentStatus,
	conditions ...metav1.Condition,
) *aw.AppWrapper {
	t.Helper()
	w := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: name, Labels: map[string]string{kueue.QueueNameLabel: "queue"},
		Annotations: map[string]string{"workload.codeflare.dev.appwrapper/retryPausePeriodDuration": "1s"},
	}}
	w.Spec.Components = []aw.AppWrapperComponent{{Template: raw(t, inner)}}
	w.Spec.Suspend = phase == aw.AppWrapperSuspended
	if !w.Spec.Suspend {
		w.Finalizers = []string{aw.AppWrapperFinalizer}
		w.Spec.Components[0].PodSetInfos = make([]aw.AppWrapperPodSetInfo, len(status.PodSets))
	}
	w.Status.Phase, w.Status.ComponentStatus, w.Status.Conditions = phase, []aw.AppWrapperComponentStatus{
		status,
	}, conditions
	return w
}

func is(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{
		Type:               kind,
		Status:             status,
		Reason:             reason,
		Message:            reason,
		LastTransitionTime: metav1.Now(),
	}
}

// old1 writes a Workload in v1beta1, which is what Kueue 0.10 knows.
func (p *plain) old1(w *kueue.Workload) {
	p.t.Helper()
	var old v1beta1.Workload
	if err := old.ConvertFrom(w); err != nil {
		p.t.Fatal(err)
	}
	status := old.Status
	p.put(&old)
	old.Status = status
	p.say(&old)
}

func (p *plain) putWrapper(w *aw.AppWrapper) {
	p.t.Helper()
	status := w.Status
	p.put(w)
	w.Status = status
	p.say(w)
}

// mlbatchCluster makes what MLBatch's parts leave: Kueue 0.10, which knows v1beta1 only and names
// pod sets as AppWrapper 0.30 does, and 24 GPUs of which 9 are given.
func mlbatchCluster(t *testing.T) *plain {
	t.Helper()
	p := begin(t)
	p.define(
		true,
		kueue.GroupVersion.Group,
		aw.GroupVersion.Group,
		"kubeflow.org",
		"ray.io",
		"scheduling.x-k8s.io",
	)
	p.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "scheduler-plugins"}}) // mlbatch-system is there
	p.put(
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
	)
	var q v1beta1.ClusterQueue
	if err := q.ConvertFrom(clusterQueue("blue", 16)); err != nil {
		t.Fatal(err)
	}
	var lq v1beta1.LocalQueue
	if err := lq.ConvertFrom(
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "queue"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "blue"},
		},
	); err != nil {
		t.Fatal(err)
	}
	p.put(
		&v1beta1.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "default-flavor"}},
		&q,
		&lq,
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "mlbatch-system", Name: "kueue-manager-config"},
			Data: map[string]string{
				"controller_manager_config.yaml": "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nmanageJobsWithoutQueueName: true\nmanagedJobsNamespaceSelector: {matchLabels: {mlbatch-team-namespace: \"true\"}}\n",
			},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "mlbatch-system", Name: "appwrapper-operator-config"},
			Data: map[string]string{
				"config.yaml": "appwrapper: {schedulerName: " + coscheduling + ", slackQueueName: slack-cluster-queue, defaultQueueName: default-queue, userRBACAdmissionCheck: false}\n",
			},
		},
	)
	for _, text := range []string{
		"{apiVersion: kueue.x-k8s.io/v1alpha1, kind: Topology, metadata: {name: racks}, spec: {levels: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}}",
		"{apiVersion: kueue.x-k8s.io/v1alpha1, kind: Cohort, metadata: {name: child}, spec: {parent: root}}",
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		p.put(u)
	}
	jobStatus := func(name string, n int32) aw.AppWrapperComponentStatus {
		return aw.AppWrapperComponentStatus{
			Name:       name,
			Kind:       "Job",
			APIVersion: "batch/v1",
			PodSets:    []aw.AppWrapperPodSet{{Path: "template.spec.template", Replicas: &n}},
		}
	}
	runs := []metav1.Condition{
		is(
			aw.QuotaReserved,
			metav1.ConditionTrue,
			"Resuming",
		),
		is(aw.ResourcesDeployed, metav1.ConditionTrue, "Resuming"),
		is(
			aw.PodsReady,
			metav1.ConditionTrue,
			"SufficientPodsReady",
		),
		is(aw.Unhealthy, metav1.ConditionFalse, "FoundNoFailedPods"),
	}
	resets := []metav1.Condition{
		is(
			aw.QuotaReserved,
			metav1.ConditionTrue,
			"Resuming",
		),
		is(aw.ResourcesDeployed, metav1.ConditionTrue, "Resuming"),
		is(
			aw.PodsReady,
			metav1.ConditionFalse,
			"InsufficientPodsReady",
		),
		is(aw.Unhealthy, metav1.ConditionTrue, "FoundFailedPods"),
	}
	failed := []metav1.Condition{
		is(
			aw.QuotaReserved,
			metav1.ConditionFalse,
			"Failed",
		),
		is(aw.ResourcesDeployed, metav1.ConditionFalse, "Failed"),
		is(aw.Unhealthy, metav1.ConditionTrue, "FailedComponent"),
	}
	queued := func(w *aw.AppWrapper, sets ...kueue.PodSet) *kueue.Workload {
		return workload(
			"appwrapper-"+w.Name,
			owned("workload.codeflare.dev/v1beta2", "AppWrapper", w),
			"blue",
			sets...)
	}
	// Running, with a Job.
	a := wrapper(t, "runs", aw.AppWrapperRunning, innerJob("runs", 2, 2), jobStatus("runs", 2), runs...)
	p.putWrapper(a)
	inner := innerJob("runs", 2, 2)
	inner.Namespace, inner.OwnerReferences, inner.Labels = "blue", owned(
		"workload.codeflare.dev/v1beta2",
		"AppWrapper",
		a,
	), map[string]string{
		aw.AppWrapperLabel: "runs",
	}
	inner.Spec.Template.Labels = map[string]string{aw.AppWrapperLabel: "runs"}
	p.put(inner)
	w := queued(a, podSet("runs-0-0", 2, inner.Spec.Template.Spec))
	given(w, "blue")
	p.old1(w)
	// Running, with a PyTorchJob, whose pods the training operator made.
	trains(t, p, runs)
	// Being reset, with nothing left to delete.
	a = wrapper(t, "resets", aw.AppWrapperResetting, innerJob("resets", 1, 2), jobStatus("resets", 1), resets...)
	a.Status.Retries = 1
	p.putWrapper(a)
	w = queued(a, podSet("resets-0-0", 1, innerJob("resets", 1, 2).Spec.Template.Spec))
	given(w, "blue")
	p.old1(w)
	// Waiting.
	a = wrapper(t, "waits", aw.AppWrapperSuspended, innerJob("waits", 1, 2), jobStatus("waits", 1))
	p.putWrapper(a)
	w = queued(a, podSet("waits-0-0", 1, innerJob("waits", 1, 2).Spec.Template.Spec))
	condition(w, kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", "waits")
	p.old1(w)
	// Failed for good.
	a = wrapper(t, "failed", aw.AppWrapperFailed, innerJob("failed", 1, 2), jobStatus("failed", 1), failed...)
	a.Status.Retries = 3
	p.putWrapper(a)
	w = queued(a, podSet("failed-0-0", 1, innerJob("failed", 1, 2).Spec.Template.Spec))
	condition(w, kueue.WorkloadFinished, metav1.ConditionTrue, kueue.ReasonFailed, "AppWrapper failed")
	p.old1(w)

	p.place("blue", "node-0", 4)
	p.operator(
		"mlbatch-system",
		"kueue-controller-manager",
		"registry.k8s.io/kueue/kueue:v0.10.2",
		"kueue-webhook-service",
		about("kueue.x-k8s.io", "clusterqueues"),
		about("kueue.x-k8s.io", "workloads"),
		about("kubeflow.org", "pytorchjobs"),
	)
	p.operator(
		"mlbatch-system",
		"appwrapper-controller-manager",
		"quay.io/ibm/appwrapper:v0.30.0",
		"appwrapper-webhook-service",
		about("workload.codeflare.dev", "appwrappers"),
	)
	p.operator(
		"mlbatch-system",
		"training-operator",
		"kubeflow/training-operator:v1-855e096",
		"training-operator",
	)
	p.operator("mlbatch-system", "kuberay-operator", "quay.io/kuberay/operator:v1.1.0", "")
	p.operator("scheduler-plugins", coscheduling, "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.28.9", "")
	p.operator(
		"scheduler-plugins",
		"scheduler-plugins-controller",
		"registry.k8s.io/scheduler-plugins/controller:v0.28.9",
		"",
	)
	return p
}

// trains makes an AppWrapper around a PyTorchJob, and its pods as the training operator does.
func trains(t *testing.T, p *plain, conditions []metav1.Condition) {
	t.Helper()
	spec := podSpec(1, coscheduling)
	spec.Containers[0].Name = "pytorch"
	replica := map[string]any{
		"replicas":      1,
		"restartPolicy": "Never",
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{aw.AppWrapperLabel: "trains"}},
			"spec":     spec,
		},
	}
	text := map[string]any{
		"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": map[string]any{"name": "trains"},
		"spec": map[string]any{"pytorchReplicaSpecs": map[string]any{"Master": replica, "Worker": replica}},
	}
	a := wrapper(
		t,
		"trains",
		aw.AppWrapperRunning,
		text,
		aw.AppWrapperComponentStatus{
			Name:       "trains",
			Kind:       "PyTorchJob",
			APIVersion: "kubeflow.org/v1",
			PodSets: []aw.AppWrapperPodSet{
				{
					Path:     "template.spec.pytorchReplicaSpecs.Master.template",
					Replicas: new(int32(1)),
				},
				{Path: "template.spec.pytorchReplicaSpecs.Worker.template", Replicas: new(int32(1))},
			},
		},
		conditions...)
	p.putWrapper(a)
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(a.Spec.Components[0].Template.Raw, &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetNamespace("blue")
	u.SetOwnerReferences(owned("workload.codeflare.dev/v1beta2", "AppWrapper", a))
	u.SetLabels(map[string]string{aw.AppWrapperLabel: "trains"})
	p.put(u)
	now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	u.Object["status"] = map[string]any{
		"startTime": now,
		"replicaStatuses": map[string]any{
			"Master": map[string]any{"active": int64(1)},
			"Worker": map[string]any{"active": int64(1)},
		},
		"conditions": []any{
			map[string]any{
				"type":               "Created",
				"status":             "True",
				"reason":             "PyTorchJobCreated",
				"message":            "PyTorchJob trains is created.",
				"lastUpdateTime":     now,
				"lastTransitionTime": now,
			},
			map[string]any{
				"type":               "Running",
				"status":             "True",
				"reason":             "PyTorchJobRunning",
				"message":            "PyTorchJob trains is running.",
				"lastUpdateTime":     now,
				"lastTransitionTime": now,
			},
		},
	}
	p.say(u)
	for _, role := range []string{"master", "worker"} {
		p.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace:       "blue",
			Name:            "trains-" + role + "-0",
			OwnerReferences: owned("kubeflow.org/v1", "PyTorchJob", u),
			Labels: map[string]string{
				aw.AppWrapperLabel:                    "trains",
				"training.kubeflow.org/job-name":      "trains",
				"training.kubeflow.org/operator-name": "pytorchjob-controller",
				"training.kubeflow.org/replica-type":  role,
				"training.kubeflow.org/replica-index": "0",
			},
		}, Spec: spec})
	}
	w := workload(
		"appwrapper-trains",
		owned("workload.codeflare.dev/v1beta2", "AppWrapper", a),
		"blue",
		podSet("trains-0-0", 1, spec),
		podSet("trains-0-1", 1, spec),
	)
	given(w, "blue")
	p.old1(w)
}

// The parts of MLBatch are taken over by an import that is killed after each write.
// AppWrappers go on in their phases, without a reset that was not begun before.
func TestImportMLBatch(t *testing.T) {
	p := mlbatchCluster(t)
	before := p.uids("blue")
	p.unchanged("a dry run", func() {
		r, err := p.imports("mlbatch", "--dry-run")
		if err != nil {
			t.Fatal(err)
		}
		if r.Counts != (migrate.Counts{Running: 3, Waiting: 1, Finished: 1, Pods: 4, Unmarked: 4, Wrappers: 5, Resetting: 1}) {
			t.Errorf("counts: %+v", r.Counts)
		}
		if len(r.Starts) != 1 || r.Starts[0].Job != "AppWrapper/waits" || len(r.Evicts) != 0 {
			t.Errorf("starts %v, evicts %v", r.Starts, r.Evicts)
		}
	})
	if out := p.killed(migrate.MLBatch); !strings.Contains(out.Next, "mlbatch install") {
		t.Errorf("next: %q", out.Next)
	}
	for name, want := range map[string]int32{"kueue-controller-manager": 0, "appwrapper-controller-manager": 0, "training-operator": 0, "kuberay-operator": 0, coscheduling: 1} {
		var all appsv1.DeploymentList
		if err := p.c.List(
			t.Context(),
			&all,
			client.MatchingFields{"metadata.name": name},
		); err != nil || len(all.Items) != 1 ||
			*all.Items[0].Spec.Replicas != want {
			t.Errorf("%s: want %d replicas, %v", name, want, err)
		}
	}
	if now := p.uids("blue"); !maps.Equal(before, now) {
		t.Errorf("pods were %v and are %v", before, now)
	}
	p.up()
	if out, err := p.imports("mlbatch", "--yes"); err != nil || out.Next != "" || len(out.Did) == 0 {
		t.Fatalf("after the installation: did %v, next %q, %v", out.Did, out.Next, err)
	}
	p.stored("v1beta2")
	var cohort kueue.Cohort
	var racks kueue.Topology
	if err := errors.Join(
		p.c.Get(t.Context(), types.NamespacedName{Name: "child"}, &cohort),
		p.c.Get(t.Context(), types.NamespacedName{Name: "racks"}, &racks),
	); err != nil || cohort.Spec.ParentName != "root" ||
		len(racks.Spec.Levels) != 2 {
		t.Errorf("what was stored in v1alpha1 is %+v and %+v: %v", cohort.Spec, racks.Spec, err)
	}
	p.phases(
		map[string]string{
			"runs":   "Running 0",
			"trains": "Running 0",
			"resets": "Running 1",
			"waits":  "Running 0",
			"failed": "Failed 3",
		},
	)
	p.same(before)
	// A pod that its Job makes again is counted with the AppWrapper, and not held as a job of its own.
	var lost string
	for name := range before {
		if strings.HasPrefix(name, "runs-") {
			lost = name
		}
	}
	if err := p.c.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: lost}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod takes its place", func() string {
		n := 0
		for name, pod := range p.pods("blue") {
			if !strings.HasPrefix(name, "runs-") || name == lost {
				continue
			}
			n++
			if len(pod.Spec.SchedulingGates) != 0 || pod.Annotations[kueue.WorkloadAnnotation] != "appwrapper-runs" ||
				pod.Labels[kueue.PodSetLabel] != "runs-0" {
				return fmt.Sprintf(
					"%s: gates %v, annotations %v, labels %v",
					name,
					pod.Spec.SchedulingGates,
					pod.Annotations,
					pod.Labels,
				)
			}
		}
		if n != 2 {
			return fmt.Sprintf("%d pods", n)
		}
		return ""
	})
}

// phases waits until AppWrappers are in phases, with so many retries.
func (p *plain) phases(want map[string]string) {
	p.t.Helper()
	eventually(p.t, "AppWrappers are in their phases", func() string {
		got := map[string]string{}
		var all aw.AppWrapperList
		if err := p.c.List(p.t.Context(), &all, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		for _, w := range all.Items {
			got[w.Name] = fmt.Sprintf("%s %d", w.Status.Phase, w.Status.Retries)
			if c := apimeta.FindStatusCondition(
				w.Status.Conditions,
				aw.Unhealthy,
			); c != nil &&
				c.Status == metav1.ConditionTrue {
				got[w.Name] += ""
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Sprintf("%v, want %v", got, want)
		}
		return ""
	})
}

// same checks that pods which ran run, and that none of their jobs has more.
func (p *plain) same(before map[string]types.UID) {
	p.t.Helper()
	now := p.pods("blue")
	for name, uid := range before {
		if now[name].UID != uid || now[name].Status.Phase != corev1.PodRunning ||
			now[name].DeletionTimestamp != nil {
			p.t.Errorf("pod %s is %s in phase %s, was %s", name, now[name].UID, now[name].Status.Phase, uid)
		}
	}
	for name := range now {
		if _, had := before[name]; !had &&
			slices.ContainsFunc(
				[]string{"runs-", "trains-"},
				func(s string) bool { return strings.HasPrefix(name, s) },
			) {
			p.t.Errorf("pod %s was made", name)
		}
	}
}
