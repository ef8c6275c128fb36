package e2e_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/autoscaling"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// A job of a queue with the provisioning-request check starts when the
// provisioner of nodes says that they are there; here that is the test.
func TestProvisioningRequest(t *testing.T) {
	s := scheme.New()
	if err := autoscaling.AddToScheme("v1")(s); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.RESTConfig(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	onDemand(t, c)
	create(t, c, `
apiVersion: batch/v1
kind: Job
metadata:
  name: burst
  labels: {kueue.x-k8s.io/queue-name: on-demand}
  annotations: {provreq.kueue.x-k8s.io/Zone: b}
spec:
  parallelism: 2
  completions: 2
  template: {spec: `+fmt.Sprintf(podSpec, "Never")+`}`, "on-demand")

	first := request(t, c, "1")
	got := []any{first.Spec.ProvisioningClassName, first.Spec.Parameters, first.Spec.PodSets[0].Count}
	if diff := cmp.Diff(
		[]any{"queued", map[string]autoscaling.Parameter{"Zone": "b"}, int32(2)},
		got,
	); diff != "" {
		t.Errorf("what it asks for (-want +got):\n%s", diff)
	}
	var template corev1.PodTemplate
	if err := c.Get(
		t.Context(),
		client.ObjectKey{Namespace: "on-demand", Name: first.Spec.PodSets[0].PodTemplateRef.Name},
		&template,
	); err != nil {
		t.Error(err)
	}
	if n := len(pods(t, "on-demand", "")); n > 0 {
		t.Errorf("%d pods exist before their nodes", n)
	}
	say(t, c, first, autoscaling.Failed, nil)

	second := request(t, c, "2") // the quota was given back and is reserved again
	eventually(
		t,
		"the first request goes",
		func() string { return notFound(c.Get(t.Context(), client.ObjectKeyFromObject(first), first)) },
	)
	eventually(
		t,
		"its template goes",
		func() string { return notFound(c.Get(t.Context(), client.ObjectKeyFromObject(&template), &template)) },
	)
	say(t, c, second, autoscaling.Provisioned, map[string]autoscaling.Detail{"System": "linux"})

	eventually(t, "both pods run, tied to their nodes", func() string {
		running := 0
		for _, p := range pods(t, "on-demand", "burst") {
			if p.Status.Phase == corev1.PodRunning && p.Annotations[autoscaling.ConsumeAnnotation] == second.Name &&
				p.Annotations[autoscaling.ClassAnnotation] == "queued" && p.Spec.NodeSelector["kubernetes.io/os"] == "linux" {
				running++
			}
		}
		if running != 2 {
			return fmt.Sprintf("%d do; the workload is %+v", running, itsWorkload(t, "on-demand", "burst").Status)
		}
		return ""
	})
	awaitEmpty(t, "on-demand")
	eventually(
		t,
		"nothing is asked for any more",
		func() string { return notFound(c.Get(t.Context(), client.ObjectKeyFromObject(second), second)) },
	)
}

// onDemand makes a queue whose nodes are made on demand.
func onDemand(t *testing.T, c client.Client) {
	t.Helper()
	for _, manifest := range []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: on-demand}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ProvisioningRequestConfig, metadata: {name: on-demand}, spec: {provisioningClassName: queued,
  retryStrategy: {backoffBaseSeconds: 1}, podSetUpdates: {nodeSelector: [{key: kubernetes.io/os, valueFromProvisioningClassDetail: System}]}}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: on-demand}, spec: {controllerName: kueue.x-k8s.io/provisioning-request,
  parameters: {apiGroup: kueue.x-k8s.io, kind: ProvisioningRequestConfig, name: on-demand}}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: on-demand}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: on-demand}, spec: {namespaceSelector: {},
  admissionChecksStrategy: {admissionChecks: [{name: on-demand}]},
  resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: on-demand, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]}]}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: on-demand, namespace: on-demand}, spec: {clusterQueue: on-demand}}`,
	} {
		o, err := tryCreate(t, c, manifest, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
	}
	eventually(t, "the queue becomes active", func() string {
		var q kueue.ClusterQueue
		if err := c.Get(t.Context(), client.ObjectKey{Name: "on-demand"}, &q); err != nil {
			return err.Error()
		}
		if !apimeta.IsStatusConditionTrue(q.Status.Conditions, kueue.ClusterQueueActive) {
			return fmt.Sprintf("%+v", q.Status.Conditions)
		}
		return ""
	})
}

// request waits for the request of one attempt.
func request(t *testing.T, c client.Client, attempt string) *autoscaling.ProvisioningRequest {
	t.Helper()
	var out autoscaling.ProvisioningRequest
	eventually(t, "nodes are asked for, attempt "+attempt, func() string {
		w := workloadOf(t, "on-demand", "burst")
		if w == nil {
			return "no workload"
		}
		err := c.Get(
			t.Context(),
			client.ObjectKey{Namespace: "on-demand", Name: w.Name + "-on-demand-" + attempt},
			&out,
		)
		if err != nil {
			return fmt.Sprintf("%v; the workload is %+v", err, w.Status)
		}
		return ""
	})
	return &out
}

// say sets a condition of a request.
func say(
	t *testing.T,
	c client.Client,
	r *autoscaling.ProvisioningRequest,
	condition string,
	details map[string]autoscaling.Detail,
) {
	t.Helper()
	apimeta.SetStatusCondition(
		&r.Status.Conditions,
		metav1.Condition{
			Type:    condition,
			Status:  metav1.ConditionTrue,
			Reason:  "Test",
			Message: "the test says so",
		},
	)
	r.Status.ProvisioningClassDetails = details
	if err := c.Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func notFound(err error) string {
	switch {
	case apierrors.IsNotFound(err):
		return ""
	case err != nil:
		return err.Error()
	}
	return "it is still there"
}
