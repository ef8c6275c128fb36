package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// TestCorpusOfPods applies what people write of Kubernetes' own kinds twice, as alice, and
// in her queue: each comes to its end, or serves, and leaves nothing when it is deleted.
func TestCorpusOfPods(t *testing.T) {
	installCorpusRuntimes(t)
	byKind := map[string][]corpus.Manifest{}
	for _, m := range append(corpus.Kubernetes(), corpus.AppWrappers()...) {
		if !m.Privileged { // the namespace is a team's
			byKind[m.Kind] = append(byKind[m.Kind], m)
		}
	}
	for _, kind := range []string{"Pod", "Job", "CronJob", "Deployment", "StatefulSet", "ReplicaSet", "AppWrapper"} {
		t.Run(kind, func(t *testing.T) { tryAll(t, byKind[kind]) })
	}
}

// tryAll tries manifests of one kind side by side.
func tryAll(t *testing.T, all []corpus.Manifest) {
	t.Helper()
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	eventually(t, "the claim of the kind before is gone, which its pods kept", func() string {
		err := alice.Get(
			t.Context(),
			client.ObjectKey{Namespace: "blue", Name: "corpus"},
			&corev1.PersistentVolumeClaim{},
		)
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there (%v)", err)
		}
		return ""
	})
	create(
		t,
		alice,
		"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: corpus}\nspec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 50Gi}}}\n",
		"blue",
	)
	made := map[string]*unstructured.Unstructured{}
	for _, m := range all {
		o := twice(t, alice, m)
		if o == nil {
			continue
		}
		made[m.Name] = o
		if m.Kind == "CronJob" {
			made[m.Name] = runNow(t, alice, o)
			t.Cleanup(func() { _ = alice.Delete(withoutCancel(t), o) })
		}
	}
	ended := map[string]bool{}
	eventually(t, "all come to their ends", func() string {
		open := ""
		for _, m := range all {
			o := made[m.Name]
			if o == nil || ended[m.Name] {
				continue
			}
			if err := alice.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				return err.Error()
			}
			switch got := comesTo(o); got {
			case m.Ends:
				ended[m.Name] = true
			case "":
				open = fmt.Sprintf(
					"%d of %d have ended, and not %s %s: %v",
					len(ended),
					len(made),
					m.Kind,
					m.Name,
					o.Object["status"],
				)
			case "Running": // on its way
				open = m.Kind + " " + m.Name + " runs"
			default:
				t.Fatalf("%s %s: %s, want %s: %v", m.Kind, m.Name, got, m.Ends, o.Object["status"])
			}
		}
		return open
	})
	for _, o := range made {
		if err := alice.Delete(
			t.Context(),
			o,
			client.PropagationPolicy(metav1.DeletePropagationBackground),
		); client.IgnoreNotFound(
			err,
		) != nil {
			t.Error(err)
		}
	}
	awaitEmpty(t, "blue")
	eventually(t, "nothing of theirs is left", func() string {
		var left corev1.PodList
		if err := alice.List(t.Context(), &left, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		if n := len(left.Items); n > 0 {
			return fmt.Sprintf(
				"%d pods are, the first is %s with finalizers %v",
				n,
				left.Items[0].Name,
				left.Items[0].Finalizers,
			)
		}
		return ""
	})
}

// Nodes that a platform sets apart by labels and a taint are used by what selects and
// tolerates them, queued or not, and by nothing else.
func TestPodsOfANodePool(t *testing.T) {
	admin := lab(
		t,
		"ai-tools",
		map[corev1.ResourceName]string{"cpu": "100", "memory": "100Gi", "nvidia.com/gpu": "8"},
		"default-queue",
	)
	withoutPods(t, admin, "ai-tools")
	setApart(t, admin, "node-0")
	const spec = `tolerations: [{key: nvidia.com/gpu, operator: Equal, value: "true", effect: NoSchedule}], nodeSelector: {pool: ai}, containers: [{name: main, image: train, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: 1}}}]`
	affinity := strings.Replace(
		spec,
		"nodeSelector: {pool: ai}",
		"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [ai]}]}]}}}",
		1,
	)
	elsewhere := `containers: [{name: main, image: train, command: [sleep, "1000000"]}]`
	want := map[string]bool{} // by name: whether it runs there
	for mark, labels := range map[string]string{"queued": "kueue.x-k8s.io/queue-name: default-queue", "free": "a: b"} {
		for name, spec := range map[string]string{"selects": spec, "likes": affinity, "neither": elsewhere} {
			name = "pod-" + name + "-" + mark
			create(
				t,
				admin,
				fmt.Sprintf(
					"{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {%s}}, spec: {%s}}",
					name,
					labels,
					spec,
				),
				"ai-tools",
			)
			want[name] = !strings.Contains(name, "neither")
		}
		create(
			t,
			admin,
			fmt.Sprintf(
				"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web-%s, labels: {%s}}, spec: {selector: {matchLabels: {app: %s}}, template: {metadata: {labels: {app: %s}}, spec: {%s}}}}",
				mark,
				labels,
				mark,
				mark,
				spec,
			),
			"ai-tools",
		)
		create(
			t,
			admin,
			fmt.Sprintf(
				"{apiVersion: batch/v1, kind: Job, metadata: {name: job-%s, labels: {%s}}, spec: {template: {spec: {restartPolicy: Never, %s}}}}",
				mark,
				labels,
				spec,
			),
			"ai-tools",
		)
	}
	eventually(t, "all run where they should", func() string {
		all := named(t, "ai-tools", "")
		if len(all) != 10 {
			return fmt.Sprintf("%d pods", len(all))
		}
		for _, p := range all {
			there, known := want[p.Name]
			if there = there || !known; p.Status.Phase != corev1.PodRunning || (p.Spec.NodeName == "node-0") != there {
				return fmt.Sprintf("%s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
			}
		}
		return ""
	})
}

// setApart gives a node a label and a taint for as long as a test runs.
func setApart(t *testing.T, admin client.Client, name string) {
	t.Helper()
	change := func(to func(*corev1.Node)) {
		n := &corev1.Node{}
		if err := admin.Get(withoutCancel(t), client.ObjectKey{Name: name}, n); err != nil {
			t.Fatal(err)
		}
		was := n.DeepCopy()
		to(n)
		if err := admin.Patch(withoutCancel(t), n, client.StrategicMergeFrom(was)); err != nil {
			t.Fatal(err)
		}
	}
	taint := corev1.Taint{Key: "nvidia.com/gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	change(func(n *corev1.Node) {
		metav1.SetMetaDataLabel(&n.ObjectMeta, "pool", "ai")
		n.Spec.Taints = append(n.Spec.Taints, taint)
	})
	t.Cleanup(func() {
		change(func(n *corev1.Node) {
			delete(n.Labels, "pool")
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(o corev1.Taint) bool { return o == taint })
		})
	})
}

// twice applies a manifest with a queue, again, and returns what is there then.
func twice(t *testing.T, c client.Client, m corpus.Manifest) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(m.Text), &o.Object); err != nil {
		t.Fatalf("%s %s: %v\n%s", m.Kind, m.Name, err, m.Text)
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[kueue.QueueNameLabel] = "default-queue"
	o.SetLabels(labels)
	o.SetNamespace("blue")
	if o.GetName() == "" {
		if err := c.Create(t.Context(), o); err != nil {
			t.Errorf("%s %s: %v", m.Kind, m.Name, err)
			return nil
		}
		return o
	}
	for _, time := range []string{"first", "second"} {
		if err := c.Apply(
			t.Context(),
			client.ApplyConfigurationFromUnstructured(o.DeepCopy()),
			client.FieldOwner("alice"),
		); err != nil {
			t.Errorf("%s %s, the %s time: %v\n%s", m.Kind, m.Name, time, err, m.Text)
			return nil
		}
	}
	return o
}

// runNow makes a Job of a CronJob, as kubectl create job --from does.
func runNow(t *testing.T, c client.Client, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	var cron batchv1.CronJob
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), &cron); err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   cron.Namespace,
			Name:        cron.Name + "-now",
			Labels:      cron.Spec.JobTemplate.Labels,
			Annotations: map[string]string{"cronjob.kubernetes.io/instantiate": "manual"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(&cron, batchv1.SchemeGroupVersion.WithKind("CronJob")),
			},
		},
		Spec: cron.Spec.JobTemplate.Spec,
	}
	if err := c.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"})
	out.SetNamespace(job.Namespace)
	out.SetName(job.Name)
	return out
}

// comesTo is the end of an object of the corpus, or what it has come to instead.
func comesTo(o *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	switch o.GetKind() {
	case "Pod":
		if phase == "Succeeded" || phase == "Failed" {
			return phase
		}
		return ""
	case "AppWrapper":
		if phase == "Succeeded" || phase == "Failed" || phase == "Running" {
			return phase
		}
		return ""
	case "Job":
		return endOf(o)
	}
	want, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	ready, _, _ := unstructured.NestedInt64(o.Object, "status", "readyReplicas")
	if _, seen, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); seen && want == ready {
		return "Ready"
	}
	return ""
}
