package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/local/names"
	"github.com/mlbatch/mlbatch/test/rig"
)

// Threats T1 to T18 to a cluster that several teams share: docs/security.md says what stops
// each. Each is tried here as alice of team blue would, or as somebody who has less.

// typeAs types a command of mlbatch as a user and returns all that it says.
func typeAs(t *testing.T, as string, args ...string) string {
	t.Helper()
	if as != "" {
		args = append(slices.Clone(args), "--as", as)
	}
	out, err := cluster.Run(t.Context(), args...)
	if err != nil {
		out += err.Error()
	}
	return out
}

// kubectlAs types a command of kubectl as a user.
func kubectlAs(t *testing.T, as string, args ...string) string {
	t.Helper()
	return typeAs(t, "", append([]string{"kubectl", "--data-dir", cluster.Dir, "--as", as}, args...)...)
}

// holdQueue keeps team blue's queue from admitting anything until the test ends.
func holdQueue(t *testing.T) {
	t.Helper()
	admin := user(t, "")
	set := func(policy string) {
		q := &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "default-queue"}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"stopPolicy": "`+policy+`"}}`))
		if err := admin.Patch(withoutCancel(t), q, patch); err != nil {
			t.Fatal(err)
		}
	}
	set("Hold")
	t.Cleanup(func() { set("None") })
}

// onePod is the spec of a pod that has a GPU.
const onePod = `{restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 1}}}]}`

// kindsWithPods are jobs of each kind that alice may make, POD standing for the spec of
// their pods and META for what is in the metadata of their templates.
func kindsWithPods() map[string]string {
	replicas := func(kind, of, role string) string {
		return `{apiVersion: kubeflow.org/v1, kind: ` + kind + `, metadata: {generateName: t-}, spec: {` + of + `: {` + role + `: {replicas: 1, template: {metadata: {META}, spec: POD}}}}}`
	}
	return map[string]string{
		"Pod":         `{apiVersion: v1, kind: Pod, metadata: {generateName: t-, META}, spec: POD}`,
		"Job":         `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t-}, spec: {suspend: false, template: {metadata: {META}, spec: POD}}}`,
		"CronJob":     `{apiVersion: batch/v1, kind: CronJob, metadata: {generateName: t-}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {metadata: {META}, spec: POD}}}}}`,
		"Deployment":  `{apiVersion: apps/v1, kind: Deployment, metadata: {generateName: t-}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {META}, spec: ALWAYS}}}`,
		"ReplicaSet":  `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {generateName: t-}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {META}, spec: ALWAYS}}}`,
		"StatefulSet": `{apiVersion: apps/v1, kind: StatefulSet, metadata: {generateName: t-}, spec: {serviceName: s, selector: {matchLabels: {a: b}}, template: {metadata: {META}, spec: ALWAYS}}}`,
		"AppWrapper":  `{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {generateName: t-}, spec: {components: [{template: {apiVersion: batch/v1, kind: Job, metadata: {generateName: t-}, spec: {template: {metadata: {META}, spec: POD}}}}]}}`,
		"JobSet":      `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {generateName: t-}, spec: {replicatedJobs: [{name: r, template: {spec: {template: {metadata: {META}, spec: POD}}}}]}}`,
		"RayCluster":  `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {generateName: t-}, spec: {headGroupSpec: {rayStartParams: {}, template: {metadata: {META}, spec: ALWAYS}}}}`,
		"PyTorchJob":  replicas("PyTorchJob", "pytorchReplicaSpecs", "Master"),
		"MPIJob":      `{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {generateName: t-}, spec: {mpiReplicaSpecs: {Launcher: {replicas: 1, template: {metadata: {META}, spec: POD}}, Worker: {replicas: 1, template: {metadata: {META}, spec: POD}}}}}`,
	}
}

// filled is one of them with this spec and metadata.
func filled(manifest, pod, meta string) string {
	if pod == "" {
		pod = onePod
	}
	if !strings.Contains(meta, "labels:") {
		meta = strings.TrimSuffix("labels: {a: b}, "+meta, ", ")
	}
	always := strings.Replace(pod, "restartPolicy: Never, ", "", 1)
	return strings.NewReplacer("META", meta, "ALWAYS", always, "POD", pod).Replace(manifest)
}

// queued is a manifest of one line, in team blue's queue.
func queued(manifest string) string {
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		panic(err)
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[kueue.QueueNameLabel] = "default-queue"
	o.SetLabels(labels)
	out, err := yaml.Marshal(o.Object)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// deleteAll removes what a test made in blue, of all kinds.
func deleteAll(t *testing.T) {
	t.Helper()
	admin := user(t, "")
	for _, manifest := range kindsWithPods() {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(filled(manifest, "", "")), &o.Object); err != nil {
			t.Fatal(err)
		}
		if err := admin.DeleteAllOf(
			withoutCancel(t),
			&o,
			client.InNamespace("blue"),
			client.PropagationPolicy(metav1.DeletePropagationBackground),
		); client.IgnoreNotFound(
			err,
		) != nil {
			t.Error(err)
		}
	}
}

// T1: nothing of alice's runs that did not wait in her queue, whatever she says of it, and by
// whatever way she makes it. Her queue is held, so that nothing of hers may start.
func TestNothingRunsBesideTheQueue(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	holdQueue(t)
	t.Cleanup(func() { deleteAll(t) })
	alice, admin := user(t, "alice"), user(t, "")
	inPod := func(fields string) string {
		return strings.Replace(onePod, "{restartPolicy", "{"+fields+", restartPolicy", 1)
	}
	lies := map[string]struct{ pod, meta string }{
		"says nothing":          {},
		"another scheduler":     {pod: inPod("schedulerName: default-scheduler")},
		"a scheduler of nobody": {pod: inPod("schedulerName: mine")},
		"tolerates everything":  {pod: inPod("tolerations: [{operator: Exists}]")},
		"on a node":             {pod: inPod("nodeName: node-0")},
		"a gate of its own":     {pod: inPod("schedulingGates: [{name: example.com/mine}]")},
		"says it was admitted":  {meta: "annotations: {kueue.x-k8s.io/workload: w}"},
		"says where": {
			meta: "labels: {a: b, kueue.x-k8s.io/podset: main, kueue.x-k8s.io/managed: 'false', kueue.x-k8s.io/cluster-queue-name: slack-cluster-queue}",
		},
		"says that it is a mirror": {
			meta: "annotations: {kubernetes.io/config.mirror: x, kubernetes.io/config.source: file}",
		},
		"of a group that serves": {
			meta: "labels: {a: b, kueue.x-k8s.io/pod-group-name: g}, annotations: {kueue.x-k8s.io/pod-group-total-count: '1', kueue.x-k8s.io/pod-group-fast-admission: 'true', kueue.x-k8s.io/pod-group-serving: 'true'}",
		},
		"preempts": {pod: inPod("priorityClassName: high-priority")},
	}
	made := 0
	for kind, manifest := range kindsWithPods() {
		for _, lie := range lies {
			if _, err := tryCreate(t, alice, queued(filled(manifest, lie.pod, lie.meta)), "blue"); err == nil {
				made++
			} else if !saidNo(err) {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	if made < 40 {
		t.Errorf("only %d of %d objects were made: too little was tried", made, len(lies)*len(kindsWithPods()))
	}
	owned := strings.Replace(
		`{apiVersion: v1, kind: Pod, metadata: {generateName: t-, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}], annotations: {kueue.x-k8s.io/workload: w}}, spec: POD}`,
		"POD",
		onePod,
		1,
	)
	if _, err := tryCreate(
		t,
		client.WithFieldOwner(alice, "mlbatch-controller"),
		owned,
		"blue",
	); err != nil &&
		!saidNo(err) {
		t.Error(err)
	}

	// A pod that waits, and all that she can send about it.
	pod := create(
		t,
		alice,
		strings.Replace(`{apiVersion: v1, kind: Pod, metadata: {name: held}, spec: POD}`, "POD", onePod, 1),
		"blue",
	)
	held := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: pod}}
	for name, p := range map[string]client.Patch{
		"merge":     client.RawPatch(types.MergePatchType, []byte(`{"spec": {"schedulingGates": null}}`)),
		"JSON":      client.RawPatch(types.JSONPatchType, []byte(`[{"op": "remove", "path": "/spec/schedulingGates/0"}]`)),
		"strategic": client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission", "$patch": "delete"}]}}`)),
		"label":     client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"kueue.x-k8s.io/managed": null}}}`)),
		"finalizer": client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)),
		"workload":  client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"kueue.x-k8s.io/workload": "w"}}}`)),
	} {
		if err := alice.Patch(
			t.Context(),
			held.DeepCopy(),
			p,
			client.FieldOwner("mlbatch-controller"),
		); !saidNo(
			err,
		) {
			t.Errorf("alice changes a pod that waits (%s): %v", name, err)
		}
	}
	at := metav1.ObjectMeta{Namespace: "blue", Name: pod}
	forgery := client.RawPatch(
		types.MergePatchType,
		[]byte(
			`{"status": {"phase": "Running"}, "spec": {"ephemeralContainers": [{"name": "e", "image": "busybox"}]}}`,
		),
	)
	for sub, err := range map[string]error{
		"binding":             alice.SubResource("binding").Create(t.Context(), held.DeepCopy(), &corev1.Binding{ObjectMeta: at, Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"}}),
		"eviction":            alice.SubResource("eviction").Create(t.Context(), held.DeepCopy(), &policyv1.Eviction{ObjectMeta: at}),
		"status":              alice.SubResource("status").Patch(t.Context(), held.DeepCopy(), forgery),
		"ephemeralcontainers": alice.SubResource("ephemeralcontainers").Patch(t.Context(), held.DeepCopy(), forgery),
		"resize":              alice.SubResource("resize").Patch(t.Context(), held.DeepCopy(), forgery),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("alice writes %s of a pod: %v", sub, err)
		}
	}
	// Server-side apply creates what is not there, with the right to patch alone.
	forged := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2",
		"kind":       "Workload",
		"metadata":   map[string]any{"name": "forged", "namespace": "blue"},
		"spec":       map[string]any{"queueName": "default-queue"},
	}}
	if err := alice.Apply(
		t.Context(),
		client.ApplyConfigurationFromUnstructured(forged),
		client.FieldOwner("alice"),
		client.ForceOwnership,
	); !apierrors.IsForbidden(
		err,
	) {
		t.Errorf("alice makes a Workload by applying it: %v", err)
	}
	for _, other := range []string{
		`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: busybox}]}}}}`,
		`{apiVersion: v1, kind: ReplicationController, metadata: {name: d}, spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: busybox}]}}}}`,
		`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: d}, spec: {maxReplicas: 5, scaleTargetRef: {kind: Job, name: j, apiVersion: batch/v1}}}`,
		`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: d}, spec: {maxUnavailable: 0, selector: {}}}`,
		`{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: d}, revision: 1}`,
	} {
		if _, err := tryCreate(t, alice, other, "blue"); !apierrors.IsForbidden(err) {
			t.Errorf("alice makes %.60s: %v", other, err)
		}
	}

	// Pods of others are placed in the meantime, so that there was time for hers.
	create(t, admin, "{apiVersion: v1, kind: Namespace, metadata: {name: t1}}", "")
	t.Cleanup(func() {
		_ = admin.Delete(withoutCancel(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1"}})
	})
	for range 3 {
		name := create(
			t,
			admin,
			`{apiVersion: v1, kind: Pod, metadata: {generateName: clock-}, spec: {schedulerName: default-scheduler, containers: [{name: c, image: busybox, command: [sleep, "1"]}]}}`,
			"t1",
		)
		eventually(t, "a pod outside of teams is placed", func() string {
			var p corev1.Pod
			if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "t1", Name: name}, &p); err != nil {
				return err.Error()
			}
			if p.Spec.NodeName == "" {
				return "it waits"
			}
			return ""
		})
	}
	var all corev1.PodList
	if err := admin.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) < 20 {
		t.Errorf("there are only %d pods: too little was tried", len(all.Items))
	}
	for _, p := range all.Items {
		gated := slices.ContainsFunc(
			p.Spec.SchedulingGates,
			func(g corev1.PodSchedulingGate) bool { return g.Name == kueue.AdmissionGate },
		)
		if p.Spec.NodeName != "" || !gated {
			t.Errorf(
				"pod %s, of %v, is on node %q, held %v, without an admission",
				p.Name,
				metav1.GetControllerOf(&p),
				p.Spec.NodeName,
				gated,
			)
		}
	}
}

// saidNo: somebody was told no, and not that something broke.
func saidNo(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }

// T2: what alice may not make, nobody makes for her: no kind that takes templates does.
func TestNobodyActsForHer(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, admin := user(t, "alice"), user(t, "")
	before := objectsOf(t, admin, "red")
	for name, component := range map[string]string{
		"another namespace":          `{apiVersion: batch/v1, kind: Job, metadata: {name: x, namespace: red}, spec: {template: {spec: POD}}}`,
		"a namespace":                `{apiVersion: v1, kind: Namespace, metadata: {name: mine}}`,
		"a List":                     `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: red}}]}`,
		"a role for everything":      `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}`,
		"a Role":                     `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]}`,
		"an account":                 `{apiVersion: v1, kind: ServiceAccount, metadata: {name: x}}`,
		"a policy of the API server": `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: x}}`,
		"an AppWrapper":              `{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: x}, spec: {components: []}}`,
		"a Workload":                 `{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: x}, spec: {queueName: default-queue}}`,
		"a LocalQueue":               `{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: x}, spec: {clusterQueue: red-cluster-queue}}`,
		"a ResourceQuota":            `{apiVersion: v1, kind: ResourceQuota, metadata: {name: x}}`,
		"a template of pods":         `{apiVersion: v1, kind: PodTemplate, metadata: {name: x}, template: {spec: POD}}`,
		"a Binding":                  `{apiVersion: v1, kind: Binding, metadata: {name: x}, target: {kind: Node, name: node-0}}`,
		"an Event":                   `{apiVersion: v1, kind: Event, metadata: {name: x}, involvedObject: {kind: Node, name: node-0}}`,
		"a Node":                     `{apiVersion: v1, kind: Node, metadata: {name: x}}`,
		"history":                    `{apiVersion: mlbatch.dev/v1alpha1, kind: JobHistory, metadata: {name: x}}`,
		"what is remembered":         `{apiVersion: mlbatch.dev/v1alpha1, kind: JobRecovery, metadata: {name: x}}`,
		"a path for a name":          `{apiVersion: v1, kind: ConfigMap, metadata: {name: ../../red/configmaps/x}}`,
		"a kind with a subresource":  `{apiVersion: v1, kind: Pod/exec, metadata: {name: x}}`,
		"an API group with a path":   `{apiVersion: "batch/v1/namespaces/red", kind: Job, metadata: {name: x}, spec: {template: {spec: POD}}}`,
	} {
		manifest := wrapperManifest("  - template: " + strings.ReplaceAll(component, "POD", onePod) + "\n")
		if _, err := tryCreate(
			t,
			alice,
			strings.Replace(manifest, "name: bad", "generateName: bad-", 1),
			"blue",
		); !saidNo(err) &&
			!apierrors.IsBadRequest(err) {
			t.Errorf("alice wraps %s: %v", name, err)
		}
	}
	// What she asks for her pods to be, she has to be let be.
	for name, err := range map[string]error{
		"the controller": func() error {
			_, err := tryCreate(t, alice, "{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: token, annotations: {kubernetes.io/service-account.name: mlbatch-controller}}}", "mlbatch-system")
			return err
		}(),
		"a token": alice.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "default"}}, &authenticationv1.TokenRequest{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("alice becomes %s: %v", name, err)
		}
	}
	if after := objectsOf(t, admin, "red"); after != before {
		t.Errorf("in red was %s, and is %s", before, after)
	}
}

// objectsOf sums up what is in a namespace.
func objectsOf(t *testing.T, c client.Client, namespace string) string {
	t.Helper()
	var out []string
	for _, kind := range []string{"Pod", "ConfigMap", "Secret", "Service", "ServiceAccount"} {
		l := &unstructured.UnstructuredList{}
		l.SetAPIVersion("v1")
		l.SetKind(kind + "List")
		if err := c.List(t.Context(), l, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for _, o := range l.Items {
			out = append(out, kind+" "+o.GetName())
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// T3: no text of alice's makes a job another's, more important, or of another queue.
func TestLabelsGiveNothing(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	t.Cleanup(func() { deleteAll(t) })
	holdQueue(t)
	alice, admin := user(t, "alice"), user(t, "")
	create(
		t,
		admin,
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: t3-urgent}, value: 1000000}",
		"",
	)
	t.Cleanup(func() {
		_ = admin.Delete(
			withoutCancel(t),
			&kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "t3-urgent"}},
		)
	})
	lies := map[string]string{
		"mlbatch.dev/user":                              "bob",
		"workload.codeflare.dev/user":                   "bob",
		"kueue.x-k8s.io/priority-boost":                 "1000000",
		"mlbatch.dev/submitted-at":                      "2001-01-01T00:00:00Z",
		"kueue.x-k8s.io/cluster-queue-name":             "red-cluster-queue",
		"kueue.x-k8s.io/local-queue-name":               "other",
		"kueue.x-k8s.io/job-owner-name":                 "bobs",
		"mlbatch.dev/after-state":                       "Ended",
		"mlbatch.dev/held-by":                           "root",
		"mlbatch.dev/ends-once":                         "true",
		"mlbatch.dev/nodes-on-demand":                   "true",
		"mlbatch.dev/fewer-pods":                        "true",
		"mlbatch.dev/later-pod-sets":                    "x",
		"mlbatch.dev/newest-record":                     "9",
		"kueue.x-k8s.io/workload":                       "w",
		"kueue.x-k8s.io/is-group-workload":              "true",
		"kueue.x-k8s.io/concurrent-admission-parent":    "w",
		"kueue.x-k8s.io/workload-slice-replacement-for": "red/w",
		"kueue.x-k8s.io/multikueue-origin":              "x",
		"kueue.x-k8s.io/job-uid":                        "u",
	}
	var written []string
	for k, v := range lies {
		if v != "2001-01-01T00:00:00Z" && v != "red/w" {
			written = append(written, fmt.Sprintf("%s: '%s'", k, v))
		}
	}
	var noted []string
	for k, v := range lies {
		noted = append(noted, fmt.Sprintf("%s: '%s'", k, v))
	}
	all := "labels: {" + strings.Join(written, ", ") + "}, annotations: {" + strings.Join(noted, ", ") + "}"
	tried := 0
	for kind, manifest := range kindsWithPods() {
		if kind == "CronJob" {
			continue // makes its first Job in a minute; TestUserIsNotForged is about templates
		}
		lying := strings.Replace(filled(manifest, "", ""), "{generateName: t-", "{generateName: t-, "+all, 1)
		if kind == "Pod" { // its labels are those of its metadata already
			lying = `{apiVersion: v1, kind: Pod, metadata: {generateName: t-, ` + all + `}, spec: ` + onePod + `}`
		}
		o, err := tryCreate(t, alice, queued(lying), "blue")
		if err != nil {
			if !saidNo(err) {
				t.Errorf("%s: %v", kind, err)
			}
			continue
		}
		tried++
		var is unstructured.Unstructured
		is.SetGroupVersionKind(o.GroupVersionKind())
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), &is); err != nil {
			t.Fatal(err)
		}
		if got := is.GetLabels()["mlbatch.dev/user"] + is.GetAnnotations()["mlbatch.dev/user"]; got != "alice" {
			t.Errorf("a %s that says that it is bob's is of %q", kind, got)
		}
	}
	if tried < 6 {
		t.Errorf("only %d objects were made: too little was tried", tried)
	}
	var jobs []kueue.Workload
	eventually(t, "their Workloads are made", func() string {
		var l kueue.WorkloadList
		if err := admin.List(t.Context(), &l, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		if jobs = l.Items; len(jobs) < tried {
			return fmt.Sprintf("there are %d for %d objects", len(jobs), tried)
		}
		return ""
	})
	trusted := []string{
		"mlbatch.dev/after-state",
		"mlbatch.dev/held-by",
		"kueue.x-k8s.io/concurrent-admission-parent",
		"kueue.x-k8s.io/workload-slice-replacement-for",
		"kueue.x-k8s.io/multikueue-origin",
		"mlbatch.dev/newest-record",
		"kueue.x-k8s.io/priority-boost",
	}
	for _, w := range jobs {
		if w.Annotations["mlbatch.dev/user"] != "alice" {
			t.Errorf("a Workload is of %q: %v", w.Annotations["mlbatch.dev/user"], metav1.GetControllerOf(&w))
		}
		for _, key := range trusted {
			if got := w.Annotations[key] + w.Labels[key]; strings.Contains(got, lies[key]) {
				t.Errorf("the Workload of %v took %s=%s from its job", metav1.GetControllerOf(&w), key, got)
			}
		}
		if string(w.Spec.QueueName) != "default-queue" || w.Spec.Priority != nil && *w.Spec.Priority > 10 {
			t.Errorf(
				"the Workload of %v is in queue %s with priority %v",
				metav1.GetControllerOf(&w),
				w.Spec.QueueName,
				w.Spec.Priority,
			)
		}
		one := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: w.Name}}
		for _, patch := range []string{
			`{"spec": {"priority": 1000000}}`, `{"spec": {"queueName": "other"}}`, `{"spec": {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "t3-urgent"}}}`,
			`{"metadata": {"annotations": {"mlbatch.dev/user": "bob"}}}`, `{"metadata": {"annotations": {"kueue.x-k8s.io/priority-boost": "9"}}}`, `{"metadata": {"annotations": {"mlbatch.dev/after-state": "Ended"}}}`,
			`{"metadata": {"ownerReferences": null}}`, `{"metadata": {"labels": {"t3": "b"}}}`,
		} {
			if err := alice.Patch(
				t.Context(),
				one.DeepCopy(),
				client.RawPatch(types.MergePatchType, []byte(patch)),
				client.FieldOwner("mlbatch-controller"),
			); !saidNo(
				err,
			) {
				t.Errorf("alice changes a Workload, %s: %v", patch, err)
			}
		}
	}
}

// T4: no annotation, class or grace of alice's keeps her borrowing job from making way.
func TestNothingKeepsABorrowerRunning(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, bob := user(t, "alice"), user(t, "bob")
	stubborn := strings.Replace(gang("t4-stubborn", 3, 8, 6000), "metadata: {name: t4-stubborn}", `metadata:
  name: t4-stubborn
  finalizers: [example.com/stay]
  labels: {kueue.x-k8s.io/priority-class: none}
  annotations:
    cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
    kueue.x-k8s.io/priority-boost: "1000000"
    mlbatch.dev/checkpointing: "true"
    workload.codeflare.dev.appwrapper/forcefulDeletionGracePeriodDuration: 100h
    workload.codeflare.dev.appwrapper/retryLimit: "1000"`, 1)
	stubborn = strings.Replace(
		stubborn,
		"labels: {kueue.x-k8s.io/priority-class: none}\n",
		"labels: {example.com/important: \"true\"}\n",
		1,
	)
	stubborn = strings.Replace(
		stubborn,
		"terminationGracePeriodSeconds: 0",
		"terminationGracePeriodSeconds: 5",
		1,
	)
	name := create(t, alice, stubborn, "blue")
	t.Cleanup(func() {
		let := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
		if err := user(
			t,
			"",
		).Patch(withoutCancel(t), &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}, let); client.IgnoreNotFound(
			err,
		) != nil {
			t.Error(err)
		}
	})
	eventually(t, "alice has the whole cluster", inPhase(t, "Running", "blue", name))
	create(t, bob, gang("t4-owner", 1, 8, 600), "red")
	eventually(t, "bob gets what is his", inPhase(t, "Running", "red", "t4-owner"))
}

// T4: nor does what pods of alice's say of others keep those off the nodes, whatever kind of job says it.
// Kubernetes holds later pods to it, whoever they belong to.
func TestPodsKeepNobodyElseAway(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	t.Cleanup(func() { deleteAll(t) })
	alice := user(t, "alice")
	apart := func(term string) string {
		return strings.Replace(
			onePod,
			"{restartPolicy",
			"{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, "+term+"}]}}, restartPolicy",
			1,
		)
	}
	for kind, manifest := range kindsWithPods() {
		if kind == "CronJob" {
			continue // its Jobs are refused
		}
		for _, others := range []string{"namespaceSelector: {}", "labelSelector: {}, namespaces: [blue, red]"} {
			if _, err := tryCreate(
				t,
				alice,
				queued(filled(manifest, apart(others), "")),
				"blue",
			); !saidNo(err) ||
				!strings.Contains(err.Error(), "podAntiAffinity") {
				t.Errorf("a %s whose pods keep others away (%s): %v", kind, others, err)
			}
		}
	}
	// Of her own pods she may say so.
	create(
		t,
		alice,
		queued(filled(kindsWithPods()["Job"], apart("labelSelector: {matchLabels: {a: b}}"), "")),
		"blue",
	)
	create(t, user(t, "bob"), gang("t4-beside", 1, 1, 600), "red")
	eventually(t, "bob's job runs", inPhase(t, "Running", "red", "t4-beside"))
}

// may asks whether somebody may do something.
func may( //nolint:revive // what a review asks for
	t *testing.T,
	who, verb, group, resource, sub, namespace string,
) bool {
	t.Helper()
	var groups []string
	if strings.HasPrefix(who, "system:serviceaccount:") {
		groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + strings.Split(who, ":")[2]}
	}
	r := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   who,
		Groups: append(groups, "system:authenticated"),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb:        verb,
			Group:       group,
			Resource:    resource,
			Subresource: sub,
			Namespace:   namespace,
		},
	}}
	if err := user(t, "").Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r.Status.Allowed
}

// T5: nobody in a team says how a node is; and jobs that fail, or are killed, for reasons of
// their own say nothing about it.
func TestTenantsSayNothingOfNodes(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	for _, who := range []string{"alice", "system:serviceaccount:blue:default"} {
		for _, r := range []struct{ group, resource, sub, namespace string }{
			{"", "nodes", "", ""},
			{"", "nodes", "status", ""},
			{"coordination.k8s.io", "leases", "", "kube-node-lease"},
			{"", "configmaps", "", "mlbatch-system"},
			{"", "events", "", "default"},
			{"", "events", "", "blue"},
			{"", "pods", "status", "blue"},
			{"", "taints", "", ""},
			{"resource.k8s.io", "resourceslices", "", ""},
		} {
			for _, verb := range []string{"create", "update", "patch", "delete"} {
				if may(t, who, verb, r.group, r.resource, r.sub, r.namespace) {
					t.Errorf("%s may %s %s/%s in %q", who, verb, r.resource, r.sub, r.namespace)
				}
			}
		}
	}
	admin := user(t, "")
	before := nodesAsTheyAre(t, admin)
	failing := `{apiVersion: batch/v1, kind: Job, metadata: {name: t5-fails}, spec: {backoffLimit: 12, parallelism: 6, completions: 6, template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, command: [sh, -c, "exit 137"], resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`
	create(t, user(t, "alice"), queued(failing), "blue")
	eventually(t, "alice's job fails often", func() string {
		var j batchv1.Job
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "t5-fails"}, &j); err != nil {
			return err.Error()
		}
		if j.Status.Failed < 6 {
			return fmt.Sprintf("%d pods failed", j.Status.Failed)
		}
		return ""
	})
	create(t, user(t, "bob"), gang("t5-all", 3, 8, 5), "red")
	if err := user(
		t,
		"alice",
	).Delete(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "t5-fails"}}, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(
		err,
	) != nil {
		t.Error(err)
	}
	eventually(t, "bob's job runs on all nodes", inPhase(t, "Succeeded", "red", "t5-all"))
	if after := nodesAsTheyAre(t, admin); after != before {
		t.Errorf("nodes were %s and are %s", before, after)
	}
}

func nodesAsTheyAre(t *testing.T, c client.Client) string {
	t.Helper()
	var all corev1.NodeList
	if err := c.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range all.Items {
		out = append(out, fmt.Sprintf("%s %v %v", n.Name, n.Spec.Unschedulable, n.Spec.Taints))
	}
	return strings.Join(out, ", ")
}

// T6: what was used, and who waits since when, is written by the controllers alone, by their
// clock.
func TestTheLedgerIsNotTheirs(t *testing.T) {
	awaitEmpty(t, "blue")
	holdQueue(t)
	for _, who := range []string{"alice", "system:serviceaccount:blue:default"} {
		for _, r := range []struct{ group, resource, sub, namespace string }{
			{"mlbatch.dev", "jobhistories", "", "blue"},
			{"mlbatch.dev", "jobevidences", "", "blue"},
			{"mlbatch.dev", "jobrecoveries", "", "blue"},
			{"kueue.x-k8s.io", "workloads", "status", "blue"},
			{"kueue.x-k8s.io", "localqueues", "", "blue"},
			{"kueue.x-k8s.io", "localqueues", "status", "blue"},
			{"kueue.x-k8s.io", "clusterqueues", "", ""},
			{"kueue.x-k8s.io", "clusterqueues", "status", ""},
			{"kueue.x-k8s.io", "cohorts", "", ""},
			{"kueue.x-k8s.io", "resourceflavors", "", ""},
			{"kueue.x-k8s.io", "workloadpriorityclasses", "", ""},
			{"kueue.x-k8s.io", "admissionchecks", "", ""},
			{"kueue.x-k8s.io", "topologies", "", ""},
			{"", "resourcequotas", "", "blue"},
			{"", "limitranges", "", "blue"},
			{"batch", "jobs", "status", "blue"},
			{"workload.codeflare.dev", "appwrappers", "status", "blue"},
			{"jobset.x-k8s.io", "jobsets", "status", "blue"},
			{"scheduling.x-k8s.io", "podgroups", "status", "blue"},
			{"coordination.k8s.io", "leases", "", "mlbatch-system"},
			{"autoscaling.x-k8s.io", "provisioningrequests", "", "blue"},
			{"", "namespaces", "", "blue"},
			{"rbac.authorization.k8s.io", "rolebindings", "", "blue"},
		} {
			for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
				if may(t, who, verb, r.group, r.resource, r.sub, r.namespace) {
					t.Errorf("%s may %s %s/%s in %q", who, verb, r.resource, r.sub, r.namespace)
				}
			}
		}
	}
	alice := user(t, "alice")
	begun := time.Now().Add(-time.Minute)
	const old = "labels: {kueue.x-k8s.io/queue-name: default-queue}, annotations: {mlbatch.dev/submitted-at: '2001-01-01T00:00:00Z'}, creationTimestamp: '2001-01-01T00:00:00Z'"
	for _, manifest := range []string{
		`{apiVersion: batch/v1, kind: Job, metadata: {name: t6-old, ` + old + `}, spec: {template: {spec: ` + onePod + `}}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: t6-pod, ` + old + `}, spec: ` + onePod + `}`,
	} {
		create(t, alice, manifest, "blue")
	}
	relabel := client.RawPatch(
		types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"mlbatch.dev/submitted-at": "2001-01-01T00:00:00Z"}}}`),
	)
	if err := alice.Patch(
		t.Context(),
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "t6-old"}},
		relabel,
	); err != nil &&
		!saidNo(err) {
		t.Error(err)
	}
	if err := alice.Patch(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "t6-pod"}},
		relabel,
	); !saidNo(
		err,
	) {
		t.Errorf("alice says since when her pod waits: %v", err)
	}
	for _, name := range []string{"t6-old", "t6-pod"} {
		eventually(t, name+" waits since now", func() string {
			w := workloadOf(t, "blue", name)
			if w == nil {
				return "it has no Workload yet"
			}
			at := w.CreationTimestamp.Time
			if s := w.Annotations["mlbatch.dev/submitted-at"]; s != "" {
				var err error
				if at, err = time.Parse(time.RFC3339Nano, s); err != nil {
					return err.Error()
				}
			}
			if at.Before(begun) {
				t.Fatalf("it waits since %s", at)
			}
			return ""
		})
	}
}

// restarts counts how often the processes of the cluster were started again.
func restarts(t *testing.T) string {
	t.Helper()
	all, err := cluster.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range all {
		out = append(out, fmt.Sprintf("%s %d", c.Name, c.Restarts))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// T7: numbers and sizes that nobody could mean take neither the controller's memory nor
// others' time, and never so much that they come round to little.
func TestAbsurdJobsHarmNobody(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	t.Cleanup(func() { deleteAll(t) })
	alice, admin := user(t, "alice"), user(t, "")
	before, running := controllerMemory(t), restarts(t)
	const most = "2147483647"
	pod := func(resources string) string {
		return `{restartPolicy: Never, containers: [{name: c, image: busybox, resources: {requests: {` + resources + `}, limits: {` + resources + `}}}]}`
	}
	huge := strings.Repeat("x", 400<<10)
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprintf("{name: V%d, value: '%s'}", i, strings.Repeat("y", 100))
	}
	jobsOf := map[string]string{
		"Job of the most pods": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-}, spec: {completions: ` + most + `, parallelism: ` + most + `, template: {spec: ` + pod(
			"cpu: 1",
		) + `}}}`,
		"indexed Job": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-}, spec: {completionMode: Indexed, completions: 1000000000, parallelism: 100000, template: {spec: ` + pod(
			"cpu: 1m",
		) + `}}}`,
		"JobSet of JobSets": `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {generateName: t7-}, spec: {replicatedJobs: [{name: r, replicas: ` + most + `, template: {spec: {completions: ` + most + `, parallelism: ` + most + `, template: {spec: ` + pod(
			"cpu: 1",
		) + `}}}}]}}`,
		"workers of MPI": `{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {generateName: t7-}, spec: {mpiReplicaSpecs: {Launcher: {replicas: 1, template: {spec: ` + pod(
			"cpu: 1",
		) + `}}, Worker: {replicas: ` + most + `, template: {spec: ` + pod(
			"cpu: 1",
		) + `}}}}}`,
		"workers of PyTorch": `{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {generateName: t7-}, spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: {spec: ` + pod(
			"cpu: 1",
		) + `}}, Worker: {replicas: ` + most + `, template: {spec: ` + pod(
			"cpu: 1",
		) + `}}}}}`,
		"hosts of Ray": `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {generateName: t7-}, spec: {headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: c, image: x}]}}}, workerGroupSpecs: [{groupName: g, replicas: ` + most + `, maxReplicas: ` + most + `, numOfHosts: ` + most + `, rayStartParams: {}, template: {spec: {containers: [{name: c, image: x}]}}}]}}`,
		"more than 64 bits": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-}, spec: {completions: 4, parallelism: 4, template: {spec: ` + pod(
			`cpu: "9223372036854775807"`,
		) + `}}}`,
		"more memory than 64 bits": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-}, spec: {completions: 3, parallelism: 3, template: {spec: ` + pod(
			`memory: 8Ei`,
		) + `}}}`,
		"GPUs that come round to none": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-}, spec: {completions: 2, parallelism: 2, template: {spec: ` + pod(
			`nvidia.com/gpu: "9223372036854775807"`,
		) + `}}}`,
		"two containers that do": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: "9223372036854775807"}}}, {name: b, image: x, resources: {limits: {nvidia.com/gpu: "9223372036854775807"}}}]}}}}`,
		"memory in thousandths": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-}, spec: {completions: 1000000, parallelism: 1000000, template: {spec: ` + pod(
			`memory: "9223372036854775807m"`,
		) + `}}}`,
		"a huge annotation": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-, annotations: {a: "` + huge[:200<<10] + `"}}, spec: {completions: 1000000, parallelism: 1000000, template: {spec: ` + pod(
			"cpu: 1",
		) + `}}}`,
		"a huge command": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-}, spec: {completions: 1000000, parallelism: 1000000, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x, args: ["` + huge + `"]}]}}}}`,
		"many variables": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-}, spec: {completions: 1000000, parallelism: 1000000, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x, env: [` + strings.Join(
			many,
			", ",
		) + `]}]}}}}`,
		"after a thousand others": `{apiVersion: batch/v1, kind: Job, metadata: {generateName: t7-, annotations: {mlbatch.dev/after: "` + strings.TrimSuffix(
			strings.Repeat("t7-nothing,", 1000),
			",",
		) + `"}}, spec: {template: {spec: ` + pod(
			"cpu: 1",
		) + `}}}`,
		"a gang of the most":           `{apiVersion: v1, kind: Pod, metadata: {generateName: t7-, labels: {kueue.x-k8s.io/pod-group-name: t7}, annotations: {kueue.x-k8s.io/pod-group-total-count: "` + most + `"}}, spec: ` + onePod + `}`,
		"a set of the most":            `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {generateName: t7-}, spec: {replicas: 1, leaderWorkerTemplate: {size: ` + most + `, workerTemplate: {spec: {containers: [{name: c, image: x}]}}}}}`,
		"a StatefulSet of the most":    `{apiVersion: apps/v1, kind: StatefulSet, metadata: {generateName: t7-}, spec: {replicas: ` + most + `, serviceName: s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}`,
		"one in an AppWrapper":         `{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {generateName: t7-}, spec: {components: [{podSets: [{replicas: 1, path: template.spec.template}], template: {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: t7-wrapped}, spec: {replicas: ` + most + `, serviceName: s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}}]}}`,
		"sets of the most":             `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {generateName: t7-}, spec: {replicas: ` + most + `, leaderWorkerTemplate: {size: 1, workerTemplate: {spec: {containers: [{name: c, image: x}]}}}}}`,
		"a PodGroup of the most":       `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {generateName: t7-}, spec: {minMember: ` + most + `, scheduleTimeoutSeconds: ` + most + `}}`,
		"a PodGroup of less than none": `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {generateName: t7-}, spec: {minMember: -` + most + `, minResources: {cpu: "-5"}}}`,
	}
	made := 0
	for name, manifest := range jobsOf {
		switch _, err := tryCreate(t, alice, queued(manifest), "blue"); {
		case err == nil:
			made++
		case !saidNo(err) && !apierrors.IsBadRequest(err):
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Logf("%d of %d were taken", made, len(jobsOf))
	set := create(
		t,
		alice,
		`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: t7-scaled}, spec: {replicas: 0, serviceName: s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}`,
		"blue",
	)
	if out := kubectlAs(
		t,
		"alice",
		"-n",
		"blue",
		"scale",
		"statefulset",
		set,
		"--replicas",
		most,
	); !strings.Contains(
		out,
		"spec.replicas",
	) {
		t.Errorf("alice scales a StatefulSet: %s", out)
	}
	create(t, user(t, "bob"), gang("t7-bob", 1, 8, 5), "red")
	eventually(t, "bob's job runs all the same", inPhase(t, "Succeeded", "red", "t7-bob"))
	eventually(t, "each has its verdict", func() string {
		var all kueue.WorkloadList
		if err := admin.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		for _, w := range all.Items {
			if c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved); c == nil {
				return fmt.Sprintf("%v was not looked at", metav1.GetControllerOf(&w))
			} else if c.Status == metav1.ConditionTrue {
				t.Fatalf("%v got quota: %v", metav1.GetControllerOf(&w), w.Status.Admission)
			}
		}
		return ""
	})
	for _, command := range [][]string{{"ps", "-n", "blue"}, {"why", "-n", "blue"}, {"queue"}, {"top"}, {"eta", "-n", "blue"}, {"capacity"}} {
		if out := typeAs(
			t,
			"",
			command...); strings.Contains(out, "panic") ||
			strings.Contains(out, "-9223372036854775808") {
			t.Errorf("mlbatch %v: %.500s", command, out)
		}
	}
	if after := restarts(t); after != running {
		t.Errorf("processes were started again: %s, before %s", after, running)
	}
	if grown := controllerMemory(t) - before; grown > 128<<20 {
		t.Errorf("the controller grew by %d MiB", grown>>20)
	}
	all, err := cluster.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.MemoryBytes > 3<<30 {
			t.Errorf("%s takes %d MiB", c.Name, c.MemoryBytes>>20)
		}
	}
}

// lookedAt are commands that show something, for a namespace and for all.
func lookedAt(with ...string) [][]string {
	var out [][]string
	for _, command := range []string{"ps", "queue", "top", "why", "eta", "events", "hist", "capacity", "nodes", "team list", "flavor list", "doctor", "squeue", "sacct", "sinfo", "list workload", "list localqueue", "list clusterqueue"} {
		for _, flags := range with {
			out = append(out, strings.Fields(command+" "+flags))
		}
	}
	return out
}

// typeAll types commands as a user, some at the same time, since they only look, and calls check
// with what each says.
func typeAll(t *testing.T, as string, commands [][]string, check func(command, says string)) {
	t.Helper()
	said := make([]string, len(commands))
	var all errgroup.Group
	all.SetLimit(4)
	for i, args := range commands {
		all.Go(func() error {
			said[i] = typeAs(t, as, args...)
			return nil
		})
	}
	_ = all.Wait() // none fails: what a command says when it does is looked at, too
	for i, args := range commands {
		check("mlbatch "+strings.Join(args, " "), said[i])
	}
}

// T8: of bob's job alice learns that there is one, by its UID, and nothing that bob wrote.
func TestNothingIsSeenOfOthers(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, bob := user(t, "alice"), user(t, "bob")
	const secret = "sentinel"
	his := strings.NewReplacer(
		"image: busybox",
		"image: sentinel.example.com/sentinel",
		"sleep 6000",
		"sleep 6000 # sentinel",
		"metadata: {name: x-sentinel}",
		"metadata: {name: x-sentinel, labels: {example.com/project: sentinel}, annotations: {why: sentinel}}",
	).
		Replace(gang("x-sentinel", 3, 8, 6000))
	create(t, bob, his, "red")
	eventually(t, "bob's job runs", inPhase(t, "Running", "red", "x-sentinel"))
	create(t, bob, strings.ReplaceAll(his, "x-sentinel", "y-sentinel"), "red")
	eventually(t, "another one of his waits", waits(t, "red", "y-sentinel"))
	create(t, alice, gang("t8-hers", 3, 8, 6000), "blue")
	eventually(t, "hers takes its own back", func() string {
		if w := workloadOf(t, "blue", "t8-hers"); w == nil {
			return "it has no Workload"
		}
		return ""
	})
	uids := []string{
		string(itsWorkload(t, "red", "x-sentinel").UID),
		string(itsWorkload(t, "red", "y-sentinel").UID),
	}
	asked := lookedAt("", "-o json", "-A", "-n red")
	for _, uid := range uids {
		asked = append(
			asked,
			[]string{"why-not", "blue/t8-hers", uid},
			[]string{"why-not", "blue/t8-hers", uid, "-o", "json"},
		)
	}
	asked = append(
		asked,
		[]string{"why", "blue/t8-hers", "-o", "yaml"},
		[]string{"show", "blue/t8-hers"},
		[]string{"events", "blue/t8-hers"},
		[]string{"eta", "blue/t8-hers", "-o", "json"},
		[]string{"wait", "blue/t8-hers", "--timeout", "1s"},
	)
	typeAll(t, "alice", asked, func(command, says string) {
		if strings.Contains(says, secret) {
			t.Errorf("%s tells alice of bob's job: %s", command, around(says, secret))
		}
	})
	cfg := cluster.RESTConfig()
	cfg.Impersonate.UserName = "alice"
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		for _, path := range []string{
			"clusterqueues/red-cluster-queue/pendingworkloads", "clusterqueues/blue-cluster-queue/pendingworkloads", "namespaces/red/localqueues/default-queue/pendingworkloads",
			"namespaces/blue/localqueues/default-queue/pendingworkloads", "namespaces/red/workloads/x-sentinel/explanation", "namespaces/blue/localqueues/..%2f..%2f..%2fnamespaces%2fred%2flocalqueues%2fdefault-queue/pendingworkloads",
		} {
			got := fetch(t, web, http.MethodGet, cfg.Host+"/apis/visibility.kueue.x-k8s.io/"+version+"/"+path, "")
			if strings.Contains(got, secret) && !strings.Contains(path, secret) ||
				strings.Contains(got, `"items":[{`) && strings.Contains(path, "red") {
				t.Errorf("%s tells alice: %.400s", path, got)
			}
		}
	}
	for _, path := range []string{"/metrics", "/logs", "/debug/pprof/", "/apis/kueue.x-k8s.io/v1beta2/workloads", "/api/v1/pods", "/api/v1/events", "/api/v1/namespaces/red/events", "/apis/mlbatch.dev/v1alpha1/namespaces/red/jobhistories", "/apis/mlbatch.dev/v1alpha1/namespaces/red/jobevidences", "/apis/mlbatch.dev/v1alpha1/namespaces/red/jobrecoveries"} {
		if got := fetch(t, web, http.MethodGet, cfg.Host+path, ""); !strings.HasPrefix(got, "403") {
			t.Errorf("%s answers alice: %.200s", path, got)
		}
	}
}

func around(text, what string) string {
	at := strings.Index(text, what)
	return text[max(0, at-150):min(len(text), at+150)]
}

// fetch asks for something, and returns the status and the answer.
func fetch(t *testing.T, c *http.Client, method, at, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	out, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<20)) // what came is looked at
	return strconv.Itoa(resp.StatusCode) + " " + string(out)
}

// T9: no command and no API of ours reaches bob's pods for alice, nor a machine for anybody.
// There are no notifiers; whom the controller asks of itself is in kube/controllers/ray.
func TestNobodyReachesPodsOfOthers(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	bob, alice := user(t, "bob"), user(t, "alice")
	create(t, bob, gang("t9-his", 1, 1, 6000), "red")
	eventually(t, "bob's job runs", inPhase(t, "Running", "red", "t9-his"))
	eventually(t, "it has its pod", jobPods(t, "red", "t9-his", 1))
	pod := pods(t, "red", "t9-his")[0].Name
	for _, args := range [][]string{
		{"logs", "red/t9-his"},
		{"exec", "red/t9-his", "--", "id"},
		{"cp", "red/t9-his:/etc/passwd", filepath.Join(t.TempDir(), "x")},
		{"port", "red/t9-his", "8080"},
		{"show", "red/t9-his"},
		{"cancel", "red/t9-his", "--yes"},
		{"hold", "red/t9-his"},
		{"release", "red/t9-his"},
		{"requeue", "red/t9-his"},
		{"prio", "red/t9-his", "high-priority"},
		{"scale", "red/t9-his", "2"},
		{"scancel", "-n", "red", "t9-his"},
	} {
		out, err := cluster.Run(t.Context(), append(args, "--as", "alice")...)
		if err == nil {
			t.Errorf("alice types mlbatch %v: %s", args, out)
		}
	}
	for _, args := range [][]string{
		{"logs", "-n", "red", pod},
		{"exec", "-n", "red", pod, "--", "id"},
		{"attach", "-n", "red", pod},
		{"port-forward", "-n", "red", pod, ":80"},
		{"debug", "-n", "red", pod, "--image", "busybox"},
		{"get", "--raw", "/api/v1/namespaces/red/pods/" + pod + "/proxy/"},
		{"get", "--raw", "/api/v1/namespaces/blue/services/http:x:80/proxy/"},
		{"get", "--raw", "/api/v1/nodes/node-0/proxy/logs/"},
		{"get", "--raw", "/api/v1/nodes/node-0/proxy/configz"},
		{"delete", "-n", "red", "pod", pod},
		{"get", "-n", "red", "secrets"},
		{"get", "-n", "mlbatch-system", "secrets"},
		{"drain", "node-0", "--force"},
		{"cordon", "node-0"},
	} {
		if out := kubectlAs(t, "alice", args...); !strings.Contains(out, "orbidden") {
			t.Errorf("alice types kubectl %v: %s", args, out)
		}
	}
	if got := phases(t, "red", "t9-his"); got[0] != "Running" {
		t.Errorf("bob's job is %s", got[0])
	}
	if err := alice.Get(
		t.Context(),
		client.ObjectKey{Namespace: "red", Name: pod},
		&corev1.Pod{},
	); !apierrors.IsForbidden(
		err,
	) {
		t.Errorf("alice sees bob's pod: %v", err)
	}
}

// T10: other users of the machine on which "mlbatch up" runs reach its ports, and get nothing
// from them; nor does a page in the browser of whom it belongs to.
func TestPortsTellStrangersNothing(t *testing.T) {
	components, err := cluster.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	stranger := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Timeout:   30 * time.Second,
	}
	tried := 0
	for _, c := range components {
		for _, address := range listeners(t, c.PID) {
			port, err := strconv.ParseUint(address[strings.LastIndex(address, ":")+1:], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			host := fmt.Sprintf("127.0.0.1:%d", port)
			tried++
			protocol := "https"
			conn, err := tls.Dial("tcp", host, old)
			if err == nil {
				_ = conn.Close()
				t.Errorf("%s speaks TLS 1.1 on %s", c.Name, host)
			} else if strings.Contains(err.Error(), "first record does not look like a TLS handshake") {
				protocol = "http"
			}
			for _, path := range []string{"/", "/metrics", "/apis", "/api/v1/pods", "/debug/pprof/heap", "/configz", "/logs/", "/v3/kv/range", "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/blue/localqueues/default-queue/pendingworkloads", "/api/jobs/", "/pods", "/mutate-batch-v1-job"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, protocol+"://"+host+path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				req.Host, req.Header["Origin"] = "attacker.example.com", []string{"https://attacker.example.com"}
				resp, err := stranger.Do(req)
				if err != nil {
					continue // it hangs up on who shows no certificate
				}
				body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what came is looked at
				resp.Body.Close()
				for _, name := range []string{"default-queue", "blue", "alice"} {
					if strings.Contains(path, name) && resp.StatusCode >= http.StatusUnauthorized {
						continue // a refusal says what was asked for
					}
					if bytes.Contains(body, []byte(name)) {
						t.Errorf("%s on %s%s tells a stranger of %s: %s", c.Name, host, path, name, around(string(body), name))
					}
				}
				if resp.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s on %s%s lets pages of others read it", c.Name, host, path)
				}
				if protocol == "https" && resp.StatusCode == http.StatusOK && path != "/" {
					t.Errorf("%s on %s%s answers a stranger: %s", c.Name, host, path, body)
				}
			}
			asProxy := func(method, body string) string {
				return fetch(
					t,
					&http.Client{
						Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: host})},
						Timeout:   10 * time.Second,
					},
					method,
					"http://10.0.0.1:8265/api/jobs/",
					body,
				)
			}
			if protocol == "http" {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					if got := asProxy(method, `{"entrypoint": "id"}`); strings.HasPrefix(got, "200") {
						t.Errorf("%s on %s is a proxy for strangers: %.200s", c.Name, host, got)
					}
				}
			}
		}
	}
	if tried < 8 {
		t.Errorf("only %d ports were tried", tried)
	}
	// What opens the cluster is for its owner alone.
	err = filepath.WalkDir(cluster.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it went in the meantime
		}
		if info.Mode().Perm()&0o077 != 0 && !d.IsDir() &&
			(strings.Contains(path, "kubeconfig") || strings.Contains(path, "/pki/") || strings.HasSuffix(path, ".key")) &&
			!strings.HasSuffix(path, ".crt") {
			t.Errorf("others may read %s: %s", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(cluster.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data directory is %v: %v", info.Mode(), err)
	}
	// What is on a command line, everybody on the machine can read.
	for _, c := range components {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.PID))
		if err != nil {
			continue
		}
		for _, file := range []string{"controller", "scheduler"} {
			if token, err := os.ReadFile(
				filepath.Join(cluster.Dir, "pki", file+".token"),
			); err == nil &&
				bytes.Contains(line, bytes.TrimSpace(token)) {
				t.Errorf("%s has a token on its command line", c.Name)
			}
		}
	}
}

// T11: no pod of a team gets more of its node than its GPUs, whatever kind makes it.
func TestNoPodGetsItsNode(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	t.Cleanup(func() { deleteAll(t) })
	alice, bob, admin := user(t, "alice"), user(t, "bob"), user(t, "")
	inContainer := func(fields string) string { return strings.Replace(onePod, "{name: c", "{"+fields+", name: c", 1) }
	inPod := func(fields string) string {
		return strings.Replace(onePod, "{restartPolicy", "{"+fields+", restartPolicy", 1)
	}
	bad := map[string]string{
		"privileged":     inContainer("securityContext: {privileged: true}"),
		"capabilities":   inContainer("securityContext: {capabilities: {add: [SYS_ADMIN, MKNOD]}}"),
		"unmasked proc":  inContainer("securityContext: {procMount: Unmasked}"),
		"port of a node": inContainer("ports: [{containerPort: 80, hostPort: 80}]"),
		"host network":   inPod("hostNetwork: true"),
		"host processes": inPod("hostPID: true"),
		"host IPC":       inPod("hostIPC: true"),
		"host path":      inPod("volumes: [{name: v, hostPath: {path: /var/run}}]"),
		"no profile":     inPod("securityContext: {seccompProfile: {type: Unconfined}}"),
		"unsafe sysctl":  inPod("securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}"),
		"init privileged": inPod(
			"initContainers: [{name: i, image: busybox, securityContext: {privileged: true}}]",
		),
	}
	for kind, manifest := range kindsWithPods() {
		for name, spec := range bad {
			if _, err := tryCreate(t, alice, queued(filled(manifest, spec, "")), "blue"); err != nil && !saidNo(err) {
				t.Errorf("%s with %s: %v", kind, name, err)
			}
		}
	}
	// What alice's jobs borrow, though they cannot have pods, is bob's when he wants it.
	plain := create(
		t,
		bob,
		queued(
			`{apiVersion: batch/v1, kind: Job, metadata: {name: t11-plain}, spec: {template: {spec: `+strings.Replace(
				onePod,
				`"600"`,
				`"1"`,
				1,
			)+`}}}`,
		),
		"red",
	)
	eventually(
		t,
		"a job of another team that wants nothing of its node runs",
		func() string { return jobSucceeded(t, admin, "red", plain) },
	)
	var all corev1.PodList
	if err := admin.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	for _, p := range all.Items {
		if p.Spec.HostNetwork || p.Spec.HostPID || p.Spec.HostIPC ||
			slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }) {
			t.Errorf("pod %s of %v has what is its node's", p.Name, metav1.GetControllerOf(&p))
		}
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			if s := c.SecurityContext; s != nil &&
				(s.Privileged != nil && *s.Privileged || s.Capabilities != nil && len(s.Capabilities.Add) > 0 || s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount) {
				t.Errorf("pod %s of %v has a container that may do anything", p.Name, metav1.GetControllerOf(&p))
			}
		}
	}
	if n := len(all.Items); n > 200 {
		t.Errorf("%d pods were made for jobs that cannot have any", n)
	}
}

// T12: alice mounts no volume of bob's, by name, as a copy or as a path.
func TestVolumesStayInTheirTeam(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, bob, admin := user(t, "alice"), user(t, "bob"), user(t, "")
	claim := "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: t12}, spec: {accessModes: [ReadWriteMany], storageClassName: nfs-client-pokprod, resources: {requests: {storage: 1Gi}}}}"
	create(t, bob, claim, "red")
	var his corev1.PersistentVolumeClaim
	eventually(t, "bob's claim is bound", func() string {
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "red", Name: "t12"}, &his); err != nil {
			return err.Error()
		}
		if his.Status.Phase != corev1.ClaimBound {
			return string(his.Status.Phase)
		}
		return ""
	})
	create(
		t,
		alice,
		strings.Replace(claim, "spec: {", "spec: {volumeName: "+his.Spec.VolumeName+", ", 1),
		"blue",
	)
	for _, other := range []string{
		`{apiVersion: v1, kind: PersistentVolume, metadata: {name: t12}, spec: {accessModes: [ReadWriteMany], capacity: {storage: 1Gi}, hostPath: {path: /}}}`,
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: t12}, provisioner: x}`,
	} {
		if _, err := tryCreate(t, alice, other, ""); !apierrors.IsForbidden(err) {
			t.Errorf("alice makes %.60s: %v", other, err)
		}
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"claimRef": null}}`))
	if err := alice.Patch(
		t.Context(),
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: his.Spec.VolumeName}},
		patch,
	); !apierrors.IsForbidden(
		err,
	) {
		t.Errorf("alice takes bob's volume: %v", err)
	}
	job := `{apiVersion: batch/v1, kind: Job, metadata: {name: t12-reads}, spec: {template: {spec: ` + strings.Replace(
		onePod,
		"{restartPolicy",
		"{volumes: [{name: v, persistentVolumeClaim: {claimName: t12}}], restartPolicy",
		1,
	) + `}}}`
	create(t, alice, queued(job), "blue")
	create(
		t,
		alice,
		queued(
			`{apiVersion: batch/v1, kind: Job, metadata: {name: t12-else}, spec: {template: {spec: `+strings.Replace(
				onePod,
				`"600"`,
				`"1"`,
				1,
			)+`}}}`,
		),
		"blue",
	)
	eventually(
		t,
		"another job of hers runs",
		func() string { return jobSucceeded(t, admin, "blue", "t12-else") },
	)
	for _, p := range pods(t, "blue", "t12-reads") {
		if p.Spec.NodeName != "" {
			t.Errorf("a pod of alice's with bob's volume is on node %s", p.Spec.NodeName)
		}
	}
	var hers corev1.PersistentVolumeClaim
	if err := admin.Get(
		t.Context(),
		client.ObjectKey{Namespace: "blue", Name: "t12"},
		&hers,
	); err != nil ||
		hers.Status.Phase == corev1.ClaimBound {
		t.Errorf("alice's claim on bob's volume is %s: %v", hers.Status.Phase, err)
	}
}

// T13: there is no agent on nodes. The processes that there are change no node, and each reads
// Secrets and makes pods where jobs run alone.
func TestProcessesHaveNoNodes(t *testing.T) {
	for _, who := range []string{names.ControllerUser, "system:serviceaccount:mlbatch-system:mlbatch-controller", "system:serviceaccount:mlbatch-system:mlbatch-scheduler", names.SchedulerUser} {
		for _, r := range []struct{ group, resource, sub string }{
			{"", "nodes", ""},
			{"", "nodes", "status"},
			{"", "nodes", "proxy"},
			{"", "secrets", ""},
			{"", "serviceaccounts", "token"},
			{"", "serviceaccounts", ""},
			{"certificates.k8s.io", "certificatesigningrequests", ""},
			{"rbac.authorization.k8s.io", "clusterroles", ""},
			{"rbac.authorization.k8s.io", "clusterrolebindings", ""},
			{"admissionregistration.k8s.io", "validatingadmissionpolicies", ""},
			{"", "namespaces", ""},
			{"", "persistentvolumes", ""},
			{"apps", "daemonsets", ""},
			{"apiextensions.k8s.io", "customresourcedefinitions", ""},
		} {
			for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection", "impersonate", "escalate"} {
				scheduler := strings.Contains(who, "scheduler")
				if scheduler && r.resource == "persistentvolumes" {
					continue // it binds claims, as the role of Kubernetes for schedulers lets it
				}
				if may(t, who, verb, r.group, r.resource, r.sub, "") {
					t.Errorf("%s may %s %s %s/%s", who, verb, r.group, r.resource, r.sub)
				}
			}
		}
		for _, verb := range []string{"get", "list", "watch"} {
			for _, namespace := range []string{"", "kube-system", "default"} {
				if may(t, who, verb, "", "secrets", "", namespace) {
					t.Errorf("%s may %s Secrets in %q", who, verb, namespace)
				}
			}
		}
		for _, verb := range []string{"create", "get"} {
			if strings.Contains(who, "scheduler") && may(t, who, verb, "", "pods", "exec", "blue") {
				t.Errorf("%s may run commands in pods", who)
			}
		}
	}
}

// T15: what is recorded can be handed to others without what a job is: no image, command,
// variable, annotation or volume is in it. Names of jobs, queues and namespaces are, and nobody
// but its owner may read it.
func TestRecordingsHoldNoContents(t *testing.T) {
	awaitEmpty(t, "blue")
	create(t, user(t, "alice"), queued(whispering("t15")), "blue")
	eventually(t, "it was decided", func() string {
		if w := workloadOf(t, "blue", "t15"); w == nil || w.Status.Admission == nil {
			return "it was not"
		}
		return ""
	})
	flights := filepath.Join(cluster.Dir, "flights")
	if out, err := cluster.Run(t.Context(), "replay", flights); err != nil {
		t.Errorf("the recording cannot be read: %v: %s", err, out)
	}
	searchFiles(t, flights, 1)
}

// whispering is a job that holds secrets in all that is its author's.
func whispering(name string) string {
	return `{apiVersion: batch/v1, kind: Job, metadata: {name: ` + name + `, annotations: {a: hunter2-annotation}}, spec: {template: {metadata: {annotations: {b: hunter2-template}}, spec: {restartPolicy: Never,
  volumes: [{name: v, secret: {secretName: hunter2-volume, optional: true}}],
  containers: [{name: c, image: hunter2.example.com/image, workingDir: /hunter2, command: [sh, -c, "sleep 1; echo hunter2-command"], env: [{name: TOKEN, value: hunter2-env}], resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`
}

// searchFiles looks for those secrets in files, of which there have to be some.
func searchFiles(t *testing.T, dir string, least int) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		if bytes.Contains(data, []byte("hunter2")) {
			t.Errorf("%s holds %s", path, around(string(data), "hunter2"))
		}
		return nil
	})
	if err != nil || n < least {
		t.Errorf("%d files in %s: %v", n, dir, err)
	}
}

// T16: what somebody does with more rights than they have every day is written down: who, as
// whom, what and when.
func TestWhoActedIsWrittenDown(t *testing.T) {
	awaitEmpty(t, "blue")
	holdQueue(t)
	create(
		t,
		user(t, "alice"),
		queued(`{apiVersion: batch/v1, kind: Job, metadata: {name: t16}, spec: {template: {spec: `+onePod+`}}}`),
		"blue",
	)
	eventually(t, "its Workload is made", func() string {
		if workloadOf(t, "blue", "t16") == nil {
			return "it is not"
		}
		return ""
	})
	w := itsWorkload(t, "blue", "t16")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"active": false}}`))
	if err := user(t, "").Patch(t.Context(), w.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
	typeAs(t, "", "hold", "blue/t16")
	want := map[string]bool{"the administrator's patch": false, "alice's job": false}
	err := cluster.Asked(func(r rig.Request) {
		if r.User == "kubernetes-admin" && r.As == "" && r.Verb == "patch" && r.Resource == "workloads" &&
			r.Name == w.Name &&
			r.Code == http.StatusOK {
			want["the administrator's patch"] = true
		}
		if r.User == "kubernetes-admin" && r.As == "alice" && r.Verb == "create" && r.Resource == "jobs" &&
			r.Namespace == "blue" {
			want["alice's job"] = true
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, found := range want {
		if !found {
			t.Errorf("%s is not in the audit log", what)
		}
	}
}

// T17: files that were written to break what reads them are refused, soon and by name.
func TestFilesThatBreakReadersAreRefused(t *testing.T) {
	dir := t.TempDir()
	laughs := func(head string) string {
		var b strings.Builder
		b.WriteString("x0: &x0 [" + strings.TrimSuffix(strings.Repeat("lol, ", 10), ", ") + "]\n")
		for i := 1; i < 12; i++ {
			fmt.Fprintf(
				&b,
				"x%d: &x%d [%s]\n",
				i,
				i,
				strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 10), ", "),
			)
		}
		return head + b.String()
	}
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\n"
	files := map[string]string{
		"laughs":      laughs(job),
		"values":      laughs("jobName: x\n"),
		"circle":      job + "spec: &s {template: *s, a: *s}\n",
		"environment": "jobName: x\nenvironmentVariables: &e\n- {name: a, value: *e}\n",
		"deep":        job + "spec: " + strings.Repeat("{a: ", 50000) + "1" + strings.Repeat("}", 50000) + "\n",
		"flow":        strings.Repeat("[", 200000),
		"json":        strings.Repeat(`{"a":`, 200000),
		"number":      job + "spec: {parallelism: 1e400000000, completions: 99999999999999999999999999}\n",
		"nul":         "apiVersion: v1\nkind: Pod\x00\nmetadata: {name: \"\\0\"}\n",
		"path": strings.Replace(
			job,
			"name: x",
			"name: ../../../../etc/cron.d/x",
			1,
		) + "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n",
		"escape": strings.Replace(job, "name: x", `name: "\x1b[2J\x1b]0;owned\x07"`, 1),
		"script": "#!/bin/sh\n#SBATCH --nodes=99999999999999999999\n#SBATCH --array=0-4000000000\n#SBATCH --mem=9e99T\nid\n",
		"binary": string([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}) + strings.Repeat("\x00", 1<<16),
	}
	commands := [][]string{
		{"submit", "-n", "blue", "--image", "i", "--dry-run", "client", "FILE"},
		{"sbatch", "--namespace", "blue", "--image", "i", "--test-only", "FILE"},
		{"lint", "-f", "FILE"},
		{"convert", "-f", "FILE", "--to", "trainjob"},
		{"wrap", "-f", "FILE"},
		{"generate", "pytorchjob", "-f", "FILE"},
		{"simulate", "FILE"},
		{"replay", "FILE"},
		{"up", "--config", "FILE", "--data-dir", filepath.Join(dir, "up")},
		{"controller", "--config", "FILE", "--check-config"},
	}
	var all errgroup.Group
	all.SetLimit(3)
	for name, text := range files {
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range commands {
			args := slices.Clone(command)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "FILE", file)
			}
			all.Go(func() error {
				if out := ranInBounds(t, dir, args...); out != "" {
					t.Errorf("mlbatch %s with file %s: %s", strings.Join(command, " "), name, out)
				}
				return nil
			})
		}
	}
	_ = all.Wait() // none fails
	for _, outside := range []string{"/etc/cron.d/x", filepath.Join(filepath.Dir(dir), "x")} {
		if _, err := os.Stat(outside); err == nil {
			t.Errorf("%s was written", outside)
		}
	}
}

// ranInBounds types a command, which gets 2 GiB of memory and a minute, and says what is wrong
// with how it ended.
func ranInBounds(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The shell keeps its words apart; what is too much is refused, and the program panics.
	cmd := exec.CommandContext(
		ctx,
		"sh",
		append([]string{"-c", `ulimit -v 8388608 && exec "$0" "$@"`, cluster.Binary}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(
		os.Environ(),
		"GOMEMLIMIT=2GiB",
		"MLBATCH_DATA_DIR="+cluster.Dir,
		"KUBECONFIG="+filepath.Join(cluster.Dir, "kubeconfig"),
	)
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case ctx.Err() != nil:
		return "it did not end within a minute"
	case strings.Contains(text, "goroutine ") || strings.Contains(text, "panic:"):
		return fmt.Sprintf("it panics: %.800s", text)
	case strings.ContainsAny(text, "\x1b\x07"):
		return fmt.Sprintf("it passes control characters on: %q", text[:min(len(text), 300)])
	case len(text) > 1<<20:
		return fmt.Sprintf("it prints %d bytes", len(text))
	case err != nil && cmd.ProcessState.ExitCode() < 0:
		return "it was killed: " + err.Error()
	}
	return ""
}

// T18: no secret of a job is in what is shown or kept about it, by whatever command, in events,
// conditions, metrics, logs or recordings.
func TestSecretsOfJobsAreNotShown(t *testing.T) {
	awaitEmpty(t, "blue")
	alice, admin := user(t, "alice"), user(t, "")
	create(t, alice, queued(whispering("t18")), "blue")
	waiting := strings.Replace(whispering("t18-waits"), "nvidia.com/gpu: 1", "nvidia.com/gpu: 1000", 1)
	create(t, alice, queued(waiting), "blue")
	eventually(t, "one of them waits", waits(t, "blue", "t18-waits"))
	eventually(t, "the other runs", func() string {
		if w := workloadOf(t, "blue", "t18"); w == nil || w.Status.Admission == nil {
			return "it does not"
		}
		return ""
	})
	wrong := strings.NewReplacer(
		"value: hunter2-env",
		"value: hunter2-env, valueFrom: {secretKeyRef: {name: x, key: y}}",
		"t18",
		"t18-wrong",
	).
		Replace(whispering("t18"))
	if _, err := tryCreate(
		t,
		alice,
		queued(wrong),
		"blue",
	); err == nil ||
		strings.Contains(err.Error(), "hunter2-env") {
		t.Errorf("a refusal tells the secret, or there is none: %v", err)
	}
	asked := lookedAt("-n blue", "-n blue -o json")
	for _, name := range []string{"blue/t18", "blue/t18-waits"} {
		for _, command := range []string{"why", "show", "events", "eta"} {
			asked = append(asked, []string{command, name}, []string{command, name, "-o", "json"})
		}
	}
	for _, who := range []string{"", "alice"} {
		typeAll(t, who, asked, func(command, says string) {
			if strings.Contains(says, "hunter2-env") || strings.Contains(says, "hunter2-volume") {
				t.Errorf("%s shows a secret: %s", command, around(says, "hunter2"))
			}
		})
	}
	var events corev1.EventList
	if err := admin.List(t.Context(), &events, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Source.Component != "kubelet" && strings.Contains(e.Message, "hunter2-env") {
			t.Errorf("an event shows a secret: %s", e.Message)
		}
	}
	data, err := json.Marshal(itsWorkload(t, "blue", "t18").Status)
	if err != nil || bytes.Contains(data, []byte("hunter2")) {
		t.Errorf("the status of a Workload holds %s: %v", data, err)
	}
	if strings.Contains(scrape(t), "hunter2") {
		t.Error("metrics show a secret")
	}
	searchFiles(t, filepath.Join(cluster.Dir, "flights"), 1)
	for _, component := range []string{"controller", "scheduler"} {
		log, err := os.ReadFile(filepath.Join(cluster.Dir, "logs", component+".log"))
		if err != nil || regexp.MustCompile("hunter2-(env|volume|annotation|template)").Match(log) {
			t.Errorf("the log of the %s holds a secret: %v", component, err)
		}
	}
}
