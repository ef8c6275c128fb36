package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	channelDriver = "compute-domain.nvidia.com"
	channelClass  = "compute-domain-default-channel.nvidia.com"
)

// computeDomains makes the kind ComputeDomain as far as it matters here, what NVIDIA's driver says of nodes, and two
// cliques: node-0 with node-1, and node-2.
func computeDomains(t *testing.T) {
	t.Helper()
	for name, clique := range map[string]string{"node-0": "fabric.1", "node-1": "fabric.1", "node-2": "fabric.2"} {
		patched(
			t,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			`{"metadata":{"labels":{"nvidia.com/gpu.clique":"`+clique+`"}}}`,
			`{"metadata":{"labels":{"nvidia.com/gpu.clique":null}}}`,
		)
	}
	manifests := []string{
		`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
metadata: {name: computedomains.resource.nvidia.com}, spec: {group: resource.nvidia.com, scope: Namespaced,
names: {kind: ComputeDomain, listKind: ComputeDomainList, plural: computedomains, singular: computedomain},
versions: [{name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, required: [spec], properties: {
  spec: {type: object, required: [numNodes, channel], properties: {
    numNodes: {type: integer},
    channel: {type: object, required: [resourceClaimTemplate], properties: {
      resourceClaimTemplate: {type: object, required: [name], properties: {name: {type: string}}}}}}}}}}}]}}`,
		`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: ` + channelClass + `},
spec: {selectors: [{cel: {expression: "device.driver == '` + channelDriver + `'"}}]}}`,
	}
	for _, node := range []string{"node-0", "node-1", "node-2"} {
		manifests = append(manifests, fmt.Sprintf(
			`{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %[1]s-channels}, spec: {driver: %[2]s,
nodeName: %[1]s, pool: {name: %[1]s, generation: 1, resourceSliceCount: 1}, devices: [{name: channel-0}]}}`,
			node,
			channelDriver,
		))
	}
	admin := user(t, "")
	for _, text := range manifests {
		o, err := tryCreate(t, admin, text, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(withoutCancel(t), o) })
	}
}

// domainsIn are the ComputeDomains of a namespace.
func domainsIn(t *testing.T, namespace string) []unstructured.Unstructured {
	t.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "resource.nvidia.com", Version: "v1beta1", Kind: "ComputeDomainList",
	})
	err := user(t, "").List(t.Context(), all, client.InNamespace(namespace))
	if err != nil && !apimeta.IsNoMatchError(err) &&
		!apierrors.IsNotFound(err) { // of a kind that comes in a moment
		t.Fatal(err)
	}
	return all.Items
}

// drive does what NVIDIA's driver does: it makes the claim template of each ComputeDomain of a namespace.
func drive(t *testing.T, namespace string) {
	t.Helper()
	for _, d := range domainsIn(t, namespace) {
		name, _, _ := unstructured.NestedString(d.Object, "spec", "channel", "resourceClaimTemplate", "name")
		err := user(t, "").Create(t.Context(), &resourcev1.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name,
				Labels:          map[string]string{"resource.nvidia.com/computeDomain": string(d.GetUID())},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&d, d.GroupVersionKind())},
			},
			Spec: resourcev1.ResourceClaimTemplateSpec{
				Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
					Requests: []resourcev1.DeviceRequest{{
						Name: "channel", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: channelClass},
					}},
				}},
			},
		})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// sharingJob is a Job of pods with half a node each that share memory with each other.
func sharingJob(name string, pods, seconds int) string {
	return fmt.Sprintf(
		`{apiVersion: batch/v1, kind: Job, metadata: {name: %[1]s, labels: {kueue.x-k8s.io/queue-name: default-queue},
  annotations: {mlbatch.dev/compute-domain: "true"}}, spec: {parallelism: %[2]d, completions: %[2]d, template: {spec: {
    restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
      {name: c, image: busybox, command: [sh, -c, "sleep %[3]d"], resources: {limits: {nvidia.com/gpu: 4}}}]}}}}`,
		name,
		pods,
		seconds,
	)
}

// TestJobsHaveComputeDomains: a job that asks for it starts when its ComputeDomain and the driver's claim
// template are there, in one clique; another one has no node in common with it although GPUs are free there,
// also while the controller is killed; a ComputeDomain is gone with its job.
func TestJobsHaveComputeDomains(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice := user(t, "alice")
	create(t, alice, sharingJob("early", 2, 6000), "blue")
	eventually(
		t,
		"it waits for the kind",
		waits(t, "blue", "early", "has no ComputeDomains (resource.nvidia.com/v1beta1)"),
	)
	computeDomains(t)
	eventually(t, "its ComputeDomain is made", func() string {
		if all := domainsIn(t, "blue"); len(all) != 1 || !strings.HasPrefix(all[0].GetName(), "job-early-") {
			return fmt.Sprintf("there are %d", len(all))
		}
		return ""
	})
	if all := pods(t, "blue", "early"); len(all) > 0 {
		t.Fatalf("it has %d pods before its claim template is there", len(all))
	}
	killController(t)
	driven := func(check func() string) func() string {
		return func() string { drive(t, "blue"); return check() }
	}
	eventually(t, "it runs in one clique", driven(gangOn(t, "early", "node-0", "node-1")))
	for _, p := range pods(t, "blue", "early") {
		if len(p.Spec.ResourceClaims) != 1 || len(p.Spec.Containers[0].Resources.Claims) != 1 {
			t.Errorf("pod %s has claims %v", p.Name, p.Spec.ResourceClaims)
		}
	}
	create(t, alice, sharingJob("second", 1, 6000), "blue")
	eventually(t, "it goes where no other ComputeDomain is", driven(gangOn(t, "second", "node-2")))
	create(t, alice, sharingJob("third", 2, 6000), "blue")
	eventually(t, "no node has a channel for it", waits(t, "blue", "third",
		"TopologyPlacementFailed", "no nvidia.com/gpu.clique of flavor", "must be in one"))
	out, err := cluster.Run(t.Context(), "why", "blue/third")
	if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), "2 ComputeDomain channel") {
		t.Errorf("mlbatch why: %v\n%s", err, out)
	}
	gone := func(name string) func() string {
		return func() string {
			for _, d := range domainsIn(t, "blue") {
				if strings.HasPrefix(d.GetName(), "job-"+name+"-") {
					return "there is " + d.GetName()
				}
			}
			return ""
		}
	}
	for _, name := range []string{"early", "second"} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}
		if err := alice.Delete(t.Context(), job, client.PropagationPolicy("Background")); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the third has the clique of the first", driven(gangOn(t, "third", "node-0", "node-1")))
	eventually(t, "the ComputeDomain of the first is gone", gone("early"))
	create(t, alice, sharingJob("short", 1, 1), "blue")
	eventually(t, "a job ends", driven(func() string { return jobSucceeded(t, alice, "blue", "short") }))
	eventually(t, "its ComputeDomain goes before the job does", gone("short"))
	create(
		t,
		user(t, ""),
		`{apiVersion: resource.nvidia.com/v1beta1, kind: ComputeDomain, metadata: {name: mine},
spec: {numNodes: 1, channel: {resourceClaimTemplate: {name: my-channel}}}}`,
		"blue",
	)
	text := strings.Replace(
		sharingJob("own", 1, 6000),
		"annotations: {mlbatch.dev/compute-domain: \"true\"}",
		"",
		1,
	)
	text = strings.Replace(
		text,
		"restartPolicy:",
		"resourceClaims: [{name: c, resourceClaimTemplateName: my-channel}], restartPolicy:",
		1,
	)
	create(t, alice, strings.Replace(text, "resources: {", "resources: {claims: [{name: c}], ", 1), "blue")
	eventually(t, "one with an own ComputeDomain runs beside no other", driven(gangOn(t, "own", "node-2")))
	w := workloadOf(t, "blue", "own")
	if r := w.Spec.PodSets[0].TopologyRequest; r == nil || r.Required == nil ||
		*r.Required != "nvidia.com/gpu.clique" {
		t.Errorf("its pods are near as %v says", r)
	}
}
