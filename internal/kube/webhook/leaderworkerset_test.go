package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

const (
	setController = "system:serviceaccount:kube-system:statefulset-controller"
	identifyPods  = "/mutate--v1-pod-leaderworkerset"
	validateSet   = "/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
)

// memberText is a worker as its StatefulSet makes it.
const memberText = `
apiVersion: v1
kind: Pod
metadata:
  name: llm-1-2
  namespace: blue
  labels: {kueue.x-k8s.io/queue-name: default-queue, leaderworkerset.sigs.k8s.io/name: llm}
  annotations:
    mlbatch.dev/leader-worker-set: "true"
    mlbatch.dev/user: alice
    leaderworkerset.sigs.k8s.io/leader-name: llm-1
    leaderworkerset.sigs.k8s.io/size: "3"
    leaderworkerset.sigs.k8s.io/subdomainPolicy: UniquePerReplica
    leaderworkerset.sigs.k8s.io/exclusive-topology: rack
    kueue.x-k8s.io/pod-suspending-parent: leaderworkerset.x-k8s.io/leaderworkerset
    kueue.x-k8s.io/role-hash: worker
spec:
  unknownField: stays
  initContainers: [{name: i, image: i}]
  containers: [{name: c, image: i, unknownField: stays, env: [{name: HEAD, value: $(LWS_LEADER_ADDRESS)}, {name: LWS_GROUP_SIZE, value: "9"}]}]
`

// A pod of a set is told its place, and then held in the pod set that its template names.
func TestPodOfALeaderWorkerSet(t *testing.T) {
	handlers := serve(t, nil, world()...)
	r := send(t, handlers, ask{path: identifyPods, user: setController, new: memberText})
	if !r.Allowed {
		t.Fatal(r.Message)
	}
	p := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil {
		t.Fatal(err)
	}
	if p.Labels["leaderworkerset.sigs.k8s.io/group-index"] != "1" ||
		p.Labels["leaderworkerset.sigs.k8s.io/worker-index"] != "2" ||
		!strings.HasPrefix(p.Labels[v1beta2.PodGroupNameLabel], "leaderworkerset-llm-1-") ||
		p.Spec.Subdomain != "llm-1" ||
		p.Spec.Affinity == nil {
		t.Errorf("labels %v, subdomain %q, affinity %v", p.Labels, p.Spec.Subdomain, p.Spec.Affinity)
	}
	if _, noted := p.Annotations["mlbatch.dev/user"]; p.Labels["mlbatch.dev/user"] != "alice" || noted {
		t.Errorf(
			"the user is in the annotations %v and the labels %v: pods are selected by the label",
			p.Annotations,
			p.Labels,
		)
	}
	place := []corev1.EnvVar{
		{Name: "LWS_LEADER_ADDRESS", Value: "llm-1.llm-1.blue"},
		{Name: "LWS_GROUP_SIZE", Value: "3"},
		{Name: "LWS_WORKER_INDEX", Value: "2"},
	}
	if diff := cmp.Diff(
		append(place, corev1.EnvVar{Name: "HEAD", Value: "$(LWS_LEADER_ADDRESS)"}),
		p.Spec.Containers[0].Env,
	); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(place, p.Spec.InitContainers[0].Env); diff != "" {
		t.Errorf("of the init container (-want +got):\n%s", diff)
	}
	if spec, _ := r.Object["spec"].(map[string]any); spec["unknownField"] != "stays" {
		t.Error("a field that is not known is gone")
	}
	for user, want := range map[string]string{setController: "worker", "alice": ""} {
		held := send(t, handlers, ask{path: mutatePod, user: user, new: memberText})
		is := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(held.Object, is); err != nil {
			t.Fatal(err)
		}
		if got := is.Annotations[v1beta2.RoleHashAnnotation]; want != "" && got != want ||
			want == "" && got == "worker" {
			t.Errorf("written by %s it is of the pod set %q: a user could take another's places", user, got)
		}
	}
	other := send(
		t,
		handlers,
		ask{path: identifyPods, user: setController, new: podText("blue", queueLabel, "", "", "")},
	)
	before := send(
		t,
		handlers,
		ask{path: identifyPods, user: setController, new: podText("blue", queueLabel, "", "", "")},
	)
	if !other.Allowed || !cmp.Equal(other.Object, before.Object) {
		t.Errorf("a pod of no set: %+v", other)
	}
}

// setText is a set with lines for its labels, its spec and the workers' template.
func setText(labels, spec, template string) string {
	return strings.NewReplacer("LABELS", labels, "SPEC", spec, "TEMPLATE", template).Replace(`
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llm, namespace: blue, labels: {LABELS}}
spec:
  SPEC
  leaderWorkerTemplate: {size: 2, leaderTemplate: {spec: {containers: [{name: c, image: i}]}}, workerTemplate: {TEMPLATE spec: {containers: [{name: c, image: i}]}}}
`)
}

// What is wrong with a set is told with field and cure, by whoever it is written.
func TestValidateLeaderWorkerSet(t *testing.T) {
	const workload = "metadata: {annotations: {" + workloadNote + "}},"
	right := setText(queueLabel, "", "")
	reviews{
		"right": {why: "nothing is wrong", ask: ask{path: validateSet, new: right}},
		"none": {
			why: "it has no groups yet",
			ask: ask{path: validateSet, new: setText(queueLabel, "replicas: 0", "")},
		},
		"less than none": {
			why:    "the schema is not the only guard",
			ask:    ask{path: validateSet, new: setText(queueLabel, "replicas: -1", "")},
			refuse: []string{"spec.replicas"},
		},
		"forged Workload": {
			why:    "its pods would run outside of the quota",
			ask:    ask{path: validateSet, new: setText(queueLabel, "", workload)},
			refuse: []string{"spec.leaderWorkerTemplate.workerTemplate.metadata.annotations[kueue.x-k8s.io/workload]"},
		},
		"takes the Workload": {
			why:    "they would be counted no more",
			ask:    ask{path: validateSet, old: setText("", "", workload), new: setText("", "", "")},
			refuse: []string{"kueue.x-k8s.io/workload"},
		},
		"finalizers": {
			why:    "they would keep pods",
			ask:    ask{path: validateSet, new: setText(queueLabel, "", "metadata: {finalizers: [a.b/c]},")},
			refuse: []string{"workerTemplate.metadata.finalizers"},
		},
		"a node": {
			why: "the scheduler chooses",
			ask: ask{
				path: validateSet,
				new:  strings.Replace(right, "leaderTemplate: {spec: {", "leaderTemplate: {spec: {nodeName: n, ", 1),
			},
			refuse: []string{"leaderTemplate.spec.nodeName"},
		},
		"keeps others off": {
			why: "pods of other teams would find no node",
			ask: ask{
				path: validateSet,
				new: strings.Replace(
					right,
					"leaderTemplate: {spec: {",
					"leaderTemplate: {spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/os, namespaceSelector: {}}]}}, ",
					1,
				),
			},
			refuse: []string{"leaderTemplate.spec.affinity.podAntiAffinity"},
		},
		"system priority": {
			why: "that is not for tenants",
			ask: ask{
				path: validateSet,
				new: strings.Replace(
					right,
					"leaderTemplate: {spec: {",
					"leaderTemplate: {spec: {priorityClassName: system-node-critical, ",
					1,
				),
			},
			refuse: []string{"leaderTemplate.spec.priorityClassName"},
		},
		"no queue's name": {
			why:    "there can be none like it",
			ask:    ask{path: validateSet, new: setText("kueue.x-k8s.io/queue-name: A_B", "", "")},
			refuse: []string{"queue-name"},
		},
		"another queue": {
			why:    "its pods wait in the first",
			ask:    ask{path: validateSet, old: right, new: setText("kueue.x-k8s.io/queue-name: q", "", "")},
			refuse: []string{"scale to 0 first"},
		},
		"another template": {
			why: "its groups are replaced",
			ask: ask{path: validateSet, old: right, new: strings.Replace(right, "image: i", "image: j", 1)},
		},
	}.run(t, world()...)
	for name, tc := range map[string]struct {
		text       string
		frameworks []string
		warned     bool
	}{
		"no queue":  {text: setText("", "", ""), warned: true},
		"a queue":   {text: right},
		"left be":   {text: setText("", "replicas: -1", ""), frameworks: []string{"batch/job"}},
		"elsewhere": {text: strings.Replace(setText("", "", ""), "namespace: blue", "namespace: lab", 1)},
		"apart":     {text: strings.Replace(right, "namespace: blue", "namespace: blue, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}", 1), warned: true},
		"scheduler": {text: strings.Replace(right, "leaderTemplate: {spec: {", "leaderTemplate: {spec: {schedulerName: volcano, ", 1), warned: true},
		"ours":      {text: strings.Replace(right, "leaderTemplate: {spec: {", "leaderTemplate: {spec: {schedulerName: mlbatch-scheduler, ", 1)},
		"together":  {text: setText(queueLabel, "", "metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: rack}},")},
	} {
		r := send(
			t,
			serveWith(t, webhook.Options{Frameworks: tc.frameworks}, nil, nil, world()...),
			ask{path: validateSet, new: tc.text},
		)
		if !r.Allowed || (len(r.Warnings) > 0) != tc.warned {
			t.Errorf("%s: %v %s, warnings %v", name, r.Allowed, r.Message, r.Warnings)
		}
	}
}

// TestPodsOfLeaderWorkerSetsAreTried: a pod of each template, with the volumes that a StatefulSet
// gives it; a change of a set, which runs, is not.
func TestPodsOfLeaderWorkerSetsAreTried(t *testing.T) {
	c := cluster(t, nil, nil, world()...)
	var tried []string
	c.Trial = interceptor.NewClient(c.Live.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			u, _ := o.(*unstructured.Unstructured)
			volumes, _, _ := unstructured.NestedSlice(u.Object, "spec", "volumes")
			tried = append(tried, fmt.Sprint(u.GetKind(), " ", u.GetGenerateName(), " ", len(volumes)))
			if len(tried) > 1 {
				return nil
			}
			return apierrors.NewForbidden(
				schema.GroupResource{Resource: "pods"},
				"",
				errors.New("violates PodSecurity"),
			)
		},
	})
	text := strings.Replace(
		setText(queueLabel, "", ""),
		"{size: 2,",
		"{size: 2, volumeClaimTemplates: [{metadata: {name: data}, spec: {}}],",
		1,
	)
	h := handle(t, c, webhook.Options{})
	r := send(t, h, ask{path: validateSet, new: text})
	if w := strings.Join(
		r.Warnings,
		"",
	); !r.Allowed || !strings.Contains(w, "spec.leaderWorkerTemplate.leaderTemplate: as things are now") ||
		!strings.Contains(w, "PodSecurity") {
		t.Errorf("%v, %s: %s", r.Allowed, r.Message, w)
	}
	if len(tried) != 2 || !strings.HasPrefix(tried[0], "Pod ") || !strings.HasSuffix(tried[1], " 1") {
		t.Errorf("tried %q", tried)
	}
	send(t, h, ask{path: validateSet, old: text, new: strings.Replace(text, "image: i", "image: j", 1)})
	if len(tried) != 2 {
		t.Errorf("a change is tried: %q", tried)
	}
}
