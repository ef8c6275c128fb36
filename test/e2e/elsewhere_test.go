package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// strangerAccount is who the operator of others is.
const strangerAccount = "system:serviceaccount:kubeflow:training-operator"

// stranger is a training operator as others have written it, for one job of one role: it makes pods
// of the template in the object, removes them when the job is suspended, counts them in the
// status, and knows nothing of Workloads.
type stranger struct {
	c    client.Client
	name string
}

// startStranger runs it, and the pod by which it is seen, until the test ends.
func startStranger(t *testing.T, name string) {
	t.Helper()
	admin := user(t, "")
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kubeflow"}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "training-operator"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: strangerAccount}},
		},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kubeflow", Name: "training-operator"},
			Spec: corev1.PodSpec{
				SchedulerName: corev1.DefaultSchedulerName, TerminationGracePeriodSeconds: new(int64),
				Containers: []corev1.Container{{Name: "manager", Image: "docker.io/kubeflow/training-operator:v1-8a066f9"}},
			},
		},
	} {
		if err := admin.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(context.Background(), o) })
	}
	eventually(t, "the other operator runs", func() string {
		var p corev1.Pod
		if err := admin.Get(
			t.Context(),
			client.ObjectKey{Namespace: "kubeflow", Name: "training-operator"},
			&p,
		); err != nil ||
			p.Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("%s %v", p.Status.Phase, err)
		}
		return ""
	})
	s := &stranger{user(t, strangerAccount), name}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			if err := s.look(
				ctx,
			); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) &&
				!errors.Is(err, context.Canceled) {
				t.Logf("the other operator: %v", err)
			}
			return false, nil
		})
	}()
	t.Cleanup(func() { stop(); <-done })
}

// look does what is to be done for the job.
func (s *stranger) look(ctx context.Context) error {
	var j api.PyTorchJob
	if err := s.c.Get(ctx, client.ObjectKey{Namespace: "blue", Name: s.name}, &j); err != nil {
		return err
	}
	var all corev1.PodList
	if err := s.c.List(
		ctx,
		&all,
		client.InNamespace("blue"),
		client.MatchingLabels{jobNameLabel: s.name},
	); err != nil {
		return err
	}
	worker := j.Spec.PyTorchReplicaSpecs[api.RoleWorker]
	seen := map[string]bool{}
	var active, succeeded int32
	for i := range all.Items {
		p := &all.Items[i]
		seen[p.Name] = true
		switch {
		case p.Status.Phase == corev1.PodSucceeded:
			succeeded++
		case *j.Spec.RunPolicy.Suspend:
			if err := s.c.Delete(ctx, p); err != nil {
				return err
			}
			active++
		default:
			active++
		}
	}
	for i := range int(*worker.Replicas) {
		name := s.name + "-worker-" + strconv.Itoa(i)
		if *j.Spec.RunPolicy.Suspend || seen[name] {
			continue
		}
		t := worker.Template.DeepCopy()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        name,
			Annotations: t.Annotations,
			Labels:      map[string]string{jobNameLabel: s.name},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(&j, api.GroupVersion.WithKind(api.PyTorchJobKind)),
			},
		}, Spec: t.Spec}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		maps.Copy(p.Labels, t.Labels)
		if err := s.c.Create(ctx, p); err != nil {
			return err
		}
		active++
	}
	before := j.DeepCopy()
	j.Status.ReplicaStatuses = map[api.ReplicaType]*api.ReplicaStatus{
		api.RoleWorker: {Active: active, Succeeded: succeeded},
	}
	if succeeded == *worker.Replicas && len(j.Status.Conditions) == 0 {
		now := metav1.Now()
		j.Status.Conditions = []api.JobCondition{
			{
				Type:               api.JobSucceeded,
				Status:             corev1.ConditionTrue,
				Reason:             "PyTorchJobSucceeded",
				LastTransitionTime: now,
				LastUpdateTime:     now,
			},
		}
	}
	if fmt.Sprint(before.Status) == fmt.Sprint(j.Status) {
		return nil
	}
	return s.c.Status().Update(ctx, &j)
}

// TestRunByAnotherOperator: where an operator of the same kind runs, mlbatch queues the job and
// that operator makes its pods, which are the pods of its Workload on the nodes that it was
// planned on; it can be applied again, is evicted without a trace of its admission, comes back,
// and gives its quota back when it ends.
func TestRunByAnotherOperator(t *testing.T) {
	k := trainingKinds()[0]
	k.pods = []rolePods{{"Worker", 3}}
	awaitEmpty(t, "blue", "red")
	startStranger(t, "left")
	alice := user(t, "alice")
	low := strings.ReplaceAll(
		k.manifest("left", "", "Never", runFor("1200s")),
		"nvidia.com/gpu: 1",
		"nvidia.com/gpu: 8",
	)
	low = strings.ReplaceAll(
		low,
		"terminationGracePeriodSeconds: 0",
		"terminationGracePeriodSeconds: 0\n          priorityClassName: low-priority",
	)
	job := func() *api.PyTorchJob {
		var j api.PyTorchJob
		if err := alice.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "left"}, &j); err != nil {
			t.Fatal(err)
		}
		return &j
	}
	template := func() *corev1.PodTemplateSpec { return &job().Spec.PyTorchReplicaSpecs[api.RoleWorker].Template }
	written := &api.PyTorchJob{}
	if err := yaml.Unmarshal([]byte(low), written); err != nil {
		t.Fatal(err)
	}
	author := written.Spec.PyTorchReplicaSpecs[api.RoleWorker].Template
	create(t, alice, low, "blue")
	ran := func() string {
		if why := trainingRuns(t, "left", 3)(); why != "" {
			return why
		}
		w := itsWorkload(t, "blue", "left")
		for _, p := range allPods(t, "left") {
			if p.Annotations[kueue.WorkloadAnnotation] != w.Name || p.Labels[kueue.PodSetLabel] != "worker" {
				t.Fatalf("pod %s does not say whose it is: %v %v", p.Name, p.Annotations, p.Labels)
			}
		}
		return ""
	}
	eventually(t, "its pods, which another operator made, run", ran)
	if r := remembered(t, job()); r.StartTime != nil {
		t.Errorf("mlbatch runs it as well: %+v", r)
	}
	for _, how := range rewrites()[:3] {
		if out, err := kubectl(t, "alice", low, how.args...); err != nil && how.how != "server" {
			t.Errorf("%s: %v\n%s", how.how, err, out)
		}
		if is := template(); is.Annotations[kueue.WorkloadAnnotation] == "" ||
			is.Labels[kueue.PodSetLabel] != "worker" {
			t.Errorf("written again by %s, it is %+v", how.how, is.ObjectMeta)
		}
	}
	urgent := `
apiVersion: batch/v1
kind: Job
metadata: {name: urgent, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  parallelism: 3
  completions: 3
  template:
    metadata: {annotations: {mlbatch.dev/run-for: 60s}}
    spec:
      priorityClassName: high-priority
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: busybox, resources: {limits: {nvidia.com/gpu: 2, cpu: 1, memory: 1Gi}}}]`
	create(t, alice, urgent, "blue")
	eventually(t, "the urgent job runs, and nothing of the other is left", func() string {
		others := 0 // counted before what is left: the last of that may go meanwhile
		for _, p := range pods(t, "blue", "urgent") {
			if p.Spec.NodeName != "" {
				others++
			}
		}
		if left := allPods(t, "left"); len(left) > 0 && others > 0 {
			t.Errorf("pods of both: %d and %d", len(left), others)
		}
		if others < 3 {
			return fmt.Sprintf("%d pods of it have a node", others)
		}
		return ""
	})
	eventually(t, "nothing of its admission is left in it", func() string {
		is := template()
		if fmt.Sprint(
			is.ObjectMeta,
			is.Spec.NodeSelector,
			is.Spec.Tolerations,
		) != fmt.Sprint(
			author.ObjectMeta,
			author.Spec.NodeSelector,
			author.Spec.Tolerations,
		) {
			return fmt.Sprintf("it was %+v and is %+v", author, is)
		}
		return ""
	})
	eventually(t, "it comes back", ran)
	eventually(t, "its end is the end of its Workload", func() string {
		if w := workloadOf(t, "blue", "left"); w == nil || !isFinished(w) {
			return "it is not finished"
		}
		return ""
	})
	awaitEmpty(t, "blue", "red")
}

// Where a controller of others turns out to be a tenant's, the jobs that were left to it go on at
// once: nobody else will run them.
func TestJobsLeftToAControllerThatBecomesATenants(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tools"}}
	made := func(o client.Object) {
		t.Helper()
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(withoutCancel(t), o) })
	}
	made(ns)
	made(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "training-operator"},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{Name: "manager", Image: "kubeflow/training-operator"}},
		},
	})
	eventually(t, "the other controller runs", func() string {
		var p corev1.Pod
		if err := admin.Get(
			t.Context(),
			client.ObjectKey{Namespace: ns.Name, Name: "training-operator"},
			&p,
		); err != nil ||
			p.Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("%s %v", p.Status.Phase, err)
		}
		return ""
	})
	k := trainingKinds()[0]
	k.pods = []rolePods{{"Worker", 1}}
	create(t, user(t, "alice"), k.manifest("left-alone", "", "Never", runFor("500s")), "blue")
	eventually(t, "the job is left to it", func() string {
		var events corev1.EventList
		if err := admin.List(t.Context(), &events, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(
			events.Items,
			func(e corev1.Event) bool { return e.Reason == "LeftToOther" && e.InvolvedObject.Name == "left-alone" },
		) {
			return "it is not told"
		}
		return ""
	})
	// Nothing more happens to it then: what was admitted is written into it for the other controller.
	eventually(t, "the job is let go", func() string {
		var j api.PyTorchJob
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "left-alone"}, &j); err != nil {
			return err.Error()
		}
		if j.Spec.PyTorchReplicaSpecs[api.RoleWorker].Template.Annotations[kueue.WorkloadAnnotation] == "" {
			return "nothing was written into it"
		}
		return ""
	})

	made(
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default-queue"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "blue-cluster-queue"},
		},
	)
	eventually(t, "the job runs", trainingRuns(t, "left-alone", 1))
}
