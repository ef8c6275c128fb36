package livetest

import (
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// Somebody takes the webhooks away, so that people can work while nobody answers. What teams
// may not do, they still may not.
func TestPoliciesHoldWithoutWebhooks(t *testing.T) {
	x := begin(t)
	x.create(
		x.admin,
		"{apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {mlbatch-team-namespace: 'true'}}}",
	)
	x.create(x.admin, "{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}")
	for _, namespace := range []string{"blue", "elsewhere"} { // no controller of Kubernetes runs that would
		x.create(
			x.admin,
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: "+namespace+"}}",
		)
	}
	x.create(
		x.admin,
		"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: default-priority}, value: 5}",
	)
	x.create(x.admin, queueOfTeam)
	x.create(
		x.admin,
		"{apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: default-queue, namespace: blue}, spec: {clusterQueue: blue-cluster-queue}}",
	)
	x.bind()
	jobs, operator := x.account("kube-system", "job-controller"), x.account("kubeflow", "training-operator")
	cronjobs := x.account("kube-system", "cronjob-controller")

	// While the webhooks answer, all that they let pass is let pass.
	held := x.create(
		x.alice,
		"{apiVersion: v1, kind: Pod, metadata: {name: held, namespace: blue}, spec: {containers: [{name: c, image: x}]}}",
	)
	running := x.create(x.alice, strings.Replace(bareJob, "generateName: j-", "name: running", 1))
	x.create(
		x.alice,
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: blue}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}",
	)
	untold := x.create(
		jobs,
		strings.Replace(
			of("untold", "annotations: {kueue.x-k8s.io/workload: w}, "+ownedBy("Job")),
			"spec: {",
			"spec: {schedulingGates: [{name: kueue.x-k8s.io/topology}], ",
			1,
		),
	)
	counted := x.create(
		jobs,
		of("counted", "annotations: {kueue.x-k8s.io/workload: w}, labels: {a: b}, "+ownedBy("Job")),
	)

	for _, o := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhook.MutatingName}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhook.ValidatingName}},
	} {
		if err := x.admin.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	// A pod outside the namespaces of teams tells when: the webhooks hold it, no policy is about it.
	x.eventually("nobody asks the webhooks", func() error {
		p := x.parse(
			"{apiVersion: v1, kind: Pod, metadata: {generateName: probe-, namespace: elsewhere, labels: {kueue.x-k8s.io/queue-name: q}}, spec: {containers: [{name: c, image: x}]}}",
		)
		if err := x.admin.Create(t.Context(), p); err != nil {
			return err
		}
		if gates, _, _ := unstructured.NestedSlice(p.Object, "spec", "schedulingGates"); len(gates) > 0 {
			return errors.New("the webhooks held it")
		}
		return nil
	})

	const gate = "schedulingGates: [{name: kueue.x-k8s.io/admission}], "
	const mine = "kueue.x-k8s.io/managed: 'true', mlbatch.dev/user: alice"
	pod := func(metadata, spec string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {generateName: p-, namespace: blue, " + metadata + "}, spec: {" + spec + "containers: [{name: c, image: x}]}}"
	}
	deployment := func(template string) string {
		return "{apiVersion: apps/v1, kind: Deployment, metadata: {generateName: d-, namespace: blue}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {" + template + "}, spec: {containers: [{name: c, image: x}]}}}}"
	}
	job := func(metadata, suspend, template string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {generateName: j-, namespace: blue, " + metadata + "}, spec: {suspend: " + suspend + ", template: {metadata: {" + template + "}, spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}"
	}
	cron := func(suspend, template string) string {
		return "{apiVersion: batch/v1, kind: CronJob, metadata: {generateName: c-, namespace: blue}, spec: {schedule: '* * * * *', jobTemplate: {spec: {suspend: " + suspend + ", template: {metadata: {" + template + "}, spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}}}"
	}
	const admitted = "labels: {a: b}, annotations: {kueue.x-k8s.io/workload: w}"
	for name, c := range map[string]struct {
		by       client.Client
		manifest string
		says     string // "" is that it is accepted
	}{
		"a Job that says that it is a deep test of a node": {
			x.admin, job("labels: {mlbatch.dev/deep-test: 'true'}", "true", ""), "made by mlbatch's controller only",
		},
		"one that says so in its annotation": {
			x.admin, job("annotations: {mlbatch.dev/deep-test: '{}'}", "true", ""), "made by mlbatch's controller only",
		},
		"a pod that nothing holds":                       {x.alice, pod("", ""), "not held"},
		"a pod with a gate of another":                   {x.alice, pod("labels: {"+mine+"}", "schedulingGates: [{name: example.com/mine}], "), "not held"},
		"a gated pod that no controller would let go":    {x.alice, pod("", gate), "not held"},
		"a pod on a node":                                {x.alice, pod("labels: {"+mine+"}", "nodeName: node-0, "), "the scheduler chooses"},
		"a pod that says that it was admitted":           {x.alice, pod("labels: {"+mine+"}, annotations: {kueue.x-k8s.io/workload: w}", gate), "it was admitted"},
		"the same with the label of a pod set":           {x.alice, pod("labels: {"+mine+", kueue.x-k8s.io/podset: main}", gate), "it was admitted"},
		"a pod that says that a Job made it":             {x.alice, pod("annotations: {kueue.x-k8s.io/workload: w}, "+ownedBy("Job"), ""), "not held"},
		"a pod that says that a DaemonSet made it":       {x.alice, pod(ownedBy("DaemonSet"), ""), "not held"},
		"a pod under the name of our controllers":        {client.WithFieldOwner(x.alice, webhook.FieldOwner), pod("", ""), "not held"},
		"a mirror of a pod of a kubelet":                 {x.alice, pod("annotations: {kubernetes.io/config.mirror: x}", "nodeName: node-0, "), "the scheduler chooses"},
		"a held pod of hers":                             {x.alice, pod("labels: {"+mine+"}", gate), ""},
		"a held pod of another user":                     {x.alice, pod("labels: {kueue.x-k8s.io/managed: 'true', mlbatch.dev/user: bob}", gate), "who submitted"},
		"a held pod of another user, and of hers":        {x.alice, pod("labels: {kueue.x-k8s.io/managed: 'true', mlbatch.dev/user: bob}, annotations: {mlbatch.dev/user: alice}", gate), "who submitted"},
		"a pod of a Job that was admitted":               {jobs, pod("annotations: {kueue.x-k8s.io/workload: w}, "+ownedBy("Job"), ""), ""},
		"a pod of a DaemonSet":                           {jobs, pod(ownedBy("DaemonSet"), ""), ""},
		"a pod of a Job that nothing queued":             {jobs, pod(ownedBy("Job"), ""), "not held"},
		"a pod of the job of an operator":                {operator, pod("labels: {mlbatch.dev/user: alice}, annotations: {kueue.x-k8s.io/workload: w}", ""), ""},
		"a pod of an operator that nothing queued":       {operator, pod("", ""), "not held"},
		"an administrator's pod":                         {x.admin, pod("", ""), ""},
		"a Deployment of pods that say so":               {x.alice, deployment(admitted), "spec.template"},
		"a Deployment":                                   {x.alice, deployment("labels: {a: b}"), ""},
		"a Job that runs at once, of pods that say so":   {x.alice, job("", "false", admitted), "spec.template"},
		"a Job of another user":                          {x.alice, job("labels: {mlbatch.dev/user: bob}", "true", ""), "who submitted"},
		"a Job that was stopped, as it was stored":       {x.alice, job("labels: {mlbatch.dev/user: alice}", "true", admitted), ""},
		"a Job of a CronJob, as its template is":         {cronjobs, job("labels: {mlbatch.dev/user: bob}", "false", ""), ""},
		"a CronJob of pods that say so":                  {x.alice, cron("false", admitted), "jobTemplate"},
		"a CronJob":                                      {x.alice, cron("false", "labels: {a: b}"), ""},
		"an AppWrapper of another user, with a name too": {x.alice, strings.Replace(wrappedJob, "generateName: aw-, ", "generateName: aw-, annotations: {mlbatch.dev/user: 'oidc:bob'}, ", 1), "who submitted"},
	} {
		err := c.by.Create(t.Context(), x.parse(c.manifest))
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s is refused: %v", name, err)
		case c.says != "":
			x.refused(name, err, c.says)
		}
	}

	patch := func(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }
	for name, c := range map[string]struct {
		by          client.Client
		of          client.Object
		patch, says string
	}{
		"a pod that waits is let go":              {x.alice, held, `{"spec": {"schedulingGates": null}}`, "schedulingGates"},
		"a pod that waits is let go by another":   {operator, held, `{"spec": {"schedulingGates": null}}`, "schedulingGates"},
		"a pod loses what it is kept by":          {x.alice, held, `{"metadata": {"finalizers": null}}`, "finalizer"},
		"a pod says that it was admitted":         {x.alice, held, `{"metadata": {"annotations": {"kueue.x-k8s.io/workload": "w"}}}`, "admission wrote"},
		"a pod joins a group":                     {x.alice, held, `{"metadata": {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}}`, "counted"},
		"a pod is of another user":                {x.alice, held, `{"metadata": {"labels": {"mlbatch.dev/user": "bob"}}}`, "denied request"}, // by two policies, in any order
		"a pod is of nobody":                      {x.alice, held, `{"metadata": {"labels": {"mlbatch.dev/user": null}}}`, "denied request"},  // by two policies, in any order
		"a pod that waits goes to another queue":  {x.alice, held, `{"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}}`, ""},
		"a pod of a job goes where it likes":      {x.alice, untold, `{"spec": {"schedulingGates": null}}`, "kueue.x-k8s.io/topology"},
		"a pod of a job is forgotten":             {x.alice, counted, `{"metadata": {"ownerReferences": null}}`, "controller of the job"},
		"a pod of a job loses a label":            {x.alice, counted, `{"metadata": {"labels": {"a": null}}}`, "controller of the job"},
		"a pod of a job counts for another":       {x.alice, counted, `{"metadata": {"annotations": {"kueue.x-k8s.io/workload": "v"}}}`, "admission wrote"},
		"a pod of a job gets a label":             {x.alice, counted, `{"metadata": {"labels": {"c": "d"}}}`, ""},
		"a Job is of another user":                {x.alice, running, `{"metadata": {"labels": {"mlbatch.dev/user": "bob"}}}`, "who submitted"},
		"a Job is of nobody":                      {x.alice, running, `{"metadata": {"labels": {"mlbatch.dev/user": null}}}`, "who submitted"},
		"a Job gets a label":                      {x.alice, running, `{"metadata": {"labels": {"c": "d"}}}`, ""},
		"a Job runs, of pods that were admitted":  {x.alice, running, `{"spec": {"suspend": false, "template": {"metadata": {"annotations": {"kueue.x-k8s.io/workload": "w"}}}}}`, "spec.template"},
		"an administrator lets a waiting pod run": {x.admin, x.create(x.alice, pod("labels: {"+mine+"}", gate)), `{"spec": {"schedulingGates": null}}`, ""},
	} {
		err := c.by.Patch(t.Context(), c.of.DeepCopyObject().(client.Object), patch(c.patch))
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s is refused: %v", name, err)
		case c.says != "":
			x.refused(name, err, c.says)
		}
	}
	if err := jobs.Patch(
		t.Context(),
		counted.DeepCopy(),
		patch(`{"metadata": {"ownerReferences": null}}`),
	); err != nil {
		t.Errorf("a controller does not let a pod go: %v", err)
	}
	if err := x.admin.Patch(
		t.Context(),
		running.DeepCopy(),
		patch(`{"metadata": {"labels": {"mlbatch.dev/user": "bob"}}}`),
	); err != nil {
		t.Errorf("an administrator cannot say who submitted it: %v", err)
	}
	var all corev1.PodList
	if err := x.admin.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	if err := x.admin.Get(
		t.Context(),
		client.ObjectKeyFromObject(running),
		&batchv1.Job{},
	); err != nil ||
		len(all.Items) < 5 {
		t.Errorf("%d pods, and the Job: %v: too little was tried", len(all.Items), err)
	}
}

func ownedBy(kind string) string {
	version := map[string]string{"Job": "batch/v1", "DaemonSet": "apps/v1"}[kind]
	return "ownerReferences: [{apiVersion: " + version + ", kind: " + kind + ", name: o, uid: u, controller: true}]"
}

func of(name, metadata string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: blue, " + metadata + "}, spec: {containers: [{name: c, image: x}]}}"
}

// account is a client of a service account that may do anything but decide on admission, as
// the controllers of Kubernetes and operators may.
func (x *cluster) account(namespace, name string) client.Client {
	x.t.Helper()
	rule := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{
			rule("", "pods"),
			rule("batch", "jobs", "jobs/finalizers", "cronjobs/finalizers"),
			rule("apps", "daemonsets/finalizers"),
		},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := x.admin.Create(x.t.Context(), o); err != nil {
			x.t.Fatal(err)
		}
	}
	c := connect(x.t, x.config, "system:serviceaccount:"+namespace+":"+name)
	x.eventually(name+" has its rights", func() error {
		return c.List(x.t.Context(), &corev1.PodList{}, client.InNamespace("blue"))
	})
	return c
}
