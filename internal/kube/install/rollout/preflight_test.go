package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/install/rollout"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// plans makes plans of values. The definitions of kinds take long to read, and depend on
// controller.kinds alone: they are read once for those without.
type plans struct{ definitions *install.Stage }

func (ps *plans) of(t *testing.T, values, version string) *rollout.Installation {
	t.Helper()
	v := install.DefaultValues(version)
	v.Image.Registry = "registry.example.com"
	if _, err := v.ReadValues("values", []byte(values)); err != nil {
		t.Fatal(err)
	}
	p := &rollout.Installation{
		Values: v,
		Release: install.Release{
			Namespace: "mlbatch-system",
			Name:      "mlbatch",
			Manager:   "mlbatch",
			Version:   version,
		},
	}
	usual := len(v.Controller.Kinds) == 0
	v.CRDs.Enabled = !usual || ps.definitions == nil
	var err error
	if p.Stages, err = install.Render(v, p.Release); err != nil {
		t.Fatal(err)
	}
	for i := range p.Stages {
		if usual && p.Stages[i].Name == install.DefinitionsStage {
			ps.definitions = &p.Stages[i]
			return p
		}
	}
	if usual {
		p.Stages = append(p.Stages, *ps.definitions)
	}
	return p
}

func deployment(namespace, name, image string, labels map[string]string) appsv1.Deployment {
	return appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}},
		},
	}
}

// mlbatchAt is an mlbatch that is installed.
func mlbatchAt(namespace, version, manager string) appsv1.Deployment {
	return deployment(namespace, "mlbatch-controller", "localhost/mlbatch:"+version, map[string]string{
		install.PartLabel:      install.App,
		install.ComponentLabel: install.ControllerComponent,
		install.VersionLabel:   version,
		install.ManagedLabel:   manager,
	})
}

func asked(name, group string) admissionregistrationv1.ValidatingWebhookConfiguration {
	return admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{Rules: []admissionregistrationv1.RuleWithOperations{
			{Rule: admissionregistrationv1.Rule{APIGroups: []string{group}}},
		}}},
	}
}

// TestPreflight: what stands in the way is found, with how bad it is and what helps; and where
// nothing does, nothing is.
func TestPreflight(t *testing.T) {
	made := &plans{}
	for name, tc := range map[string]struct {
		why, values string
		change      func(*rollout.ClusterState)
		// want is "severity check", and cure part of what helps.
		want, cure string
	}{
		"Fit":       {why: "an empty cluster", change: func(*rollout.ClusterState) {}},
		"TooOld":    {why: "1.31 refuses selectable fields", change: func(f *rollout.ClusterState) { f.Kubernetes = "v1.31.9" }, want: "error kubernetes-version", cure: "1.32"},
		"Vendor":    {why: "vendors add to versions", change: func(f *rollout.ClusterState) { f.Kubernetes = "v1.37.2-gke.100" }},
		"Earlier":   {why: "it has what mlbatch needs", change: func(f *rollout.ClusterState) { f.Kubernetes = "v1.34.2-gke.100" }, want: "note kubernetes-version", cure: "tested with 1.37"},
		"Before":    {why: "it has what mlbatch needs", change: func(f *rollout.ClusterState) { f.Kubernetes = "v1.36.1" }, want: "note kubernetes-version"},
		"Old":       {why: "nobody looked at it", change: func(f *rollout.ClusterState) { f.Kubernetes = "v1.33.1" }, want: "warning kubernetes-version", cure: "1.34 to 1.37"},
		"Untried":   {why: "a newer one may work", change: func(f *rollout.ClusterState) { f.Kubernetes = "v1.38.0" }, want: "warning kubernetes-version"},
		"Rights":    {why: "half an installation is none", change: func(f *rollout.ClusterState) { f.Denied = []string{"escalate clusterroles.rbac.authorization.k8s.io"} }, want: "error rights", cure: "cluster-admin"},
		"Elsewhere": {why: "two brains", change: add(mlbatchAt("other", "v1.0.0", "mlbatch")), want: "error mlbatch-elsewhere", cure: "--namespace other"},
		"Beside": {why: "mlbatch up runs its own; to install would take the webhooks from it", change: func(f *rollout.ClusterState) {
			c := asked(webhook.ValidatingName, "kueue.x-k8s.io")
			c.Webhooks[0].ClientConfig.URL = new("https://127.0.0.1:9443/validate")
			f.Validating = append(f.Validating, c)
		}, want: "error mlbatch-elsewhere", cure: "another cluster"},
		"ByHelm":       {why: "two owners of the same objects", change: add(mlbatchAt("mlbatch-system", "v1.0.0", "Helm")), want: "error mlbatch-elsewhere", cure: "helm upgrade"},
		"Older":        {why: "an upgrade", change: add(mlbatchAt("mlbatch-system", "v0.9.0", "mlbatch")), want: "note mlbatch-version", cure: "upgrade --check"},
		"Newer":        {why: "a downgrade may lose fields", change: add(mlbatchAt("mlbatch-system", "v1.10.0", "mlbatch")), want: "error mlbatch-version", cure: "v1.10.0"},
		"Same":         {why: "installing again is nothing", change: add(mlbatchAt("mlbatch-system", "v1.0.0", "mlbatch"))},
		"Kueue":        {why: "two brains", change: add(deployment("kueue-system", "kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.14", nil)), want: "error two-brains", cure: "mlbatch import kueue"},
		"KueueRenamed": {why: "the image tells", change: add(deployment("q", "queues", "registry.k8s.io/kueue/kueue@sha256:1", nil)), want: "error two-brains"},
		"KueueOff": {why: "nobody decides there", change: func(f *rollout.ClusterState) {
			add(scaled(deployment("kueue-system", "kueue-controller-manager", "x", nil)))(f)
		}},
		"AppWrapper":   {why: "two brains", change: add(deployment("appwrapper-system", "appwrapper-controller-manager", "quay.io/ibm/appwrapper:v1", nil)), want: "error two-brains", cure: "mlbatch import mlbatch"},
		"Coscheduling": {why: "both answer to the name", change: add(deployment("scheduler-plugins", "scheduler-plugins-scheduler", "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.32", nil)), want: "error two-schedulers", cure: "scheduler.names"},
		"NotItsName":   {why: "then it only is in the way", values: "scheduler: {names: [mlbatch-scheduler]}", change: add(deployment("s", "scheduler-plugins-scheduler", "x", nil)), want: "warning two-schedulers"},
		"Sakkara":      {why: "the same", change: add(deployment("sakkara-scheduler", "sakkara-scheduler", "x", nil)), want: "error two-schedulers"},
		"Given":        {why: "it is told where pods go", values: "{scheduler: {enabled: false}, controller: {schedulerName: sakkara}}", change: add(deployment("sakkara-scheduler", "sakkara-scheduler", "x", nil))},
		"NotGiven":     {why: "it goes on as it likes", values: "{scheduler: {enabled: false}, controller: {schedulerName: default-scheduler}}", change: add(deployment("sakkara-scheduler", "sakkara-scheduler", "x", nil)), want: "warning two-schedulers"},
		"VolcanoGiven": {why: "it is told where pods go", values: "controller: {schedulerName: volcano}", change: add(deployment("volcano-system", "volcano-scheduler", "x", nil))},
		"Volcano":      {why: "another on the same nodes", change: add(deployment("volcano-system", "volcano-scheduler", "x", nil)), want: "warning two-schedulers"},
		"Training":     {why: "both make pods", change: add(deployment("kubeflow", "training-operator", "kubeflow/training-operator:v1", nil)), want: "error other-operators", cure: "pytorchjob: queue"},
		"TrainingStays": {
			why: "unless one is told not to", values: "controller: {kinds: {pytorchjob: queue, tfjob: queue, xgboostjob: queue, paddlejob: queue, jaxjob: ignore, mpijob: ignore, mxjob: ignore}}",
			change: add(deployment("kubeflow", "training-operator", "kubeflow/training-operator:v1", nil)),
		},
		"JobSet":       {why: "both make pods", change: add(deployment("jobset-system", "jobset-controller-manager", "registry.k8s.io/jobset/jobset:v0.8", nil)), want: "error other-operators", cure: "jobset: queue"},
		"KubeRay":      {why: "both make pods", change: add(deployment("ray", "kuberay-operator", "quay.io/kuberay/operator:v1.4", nil)), want: "error other-operators", cure: "rayjob: queue"},
		"Hooks":        {why: "left behind, they refuse everything", change: hook(asked("kueue-validating-webhook-configuration", "kueue.x-k8s.io")), want: "error webhooks-of-others", cure: "kubectl delete validatingwebhookconfiguration kueue-validating-webhook-configuration"},
		"HooksOurs":    {why: "they are put right", change: hook(asked("mlbatch-validating-webhook", "kueue.x-k8s.io"))},
		"HooksOfPods":  {why: "policies about pods are the admin's", change: hook(asked("kyverno", ""))},
		"HooksOfOther": {why: "its kind is left to it", values: "controller: {kinds: {jobset: queue}}", change: hook(asked("jobset-validating", "jobset.x-k8s.io"))},
		"Stored":       {why: "the API server refuses to lose a version", change: crd("workloads.kueue.x-k8s.io", nil, "v1alpha1", "v1beta2"), want: "error stored-versions", cure: "status.storedVersions"},
		"StoredKnown":  {why: "we know it", change: crd("workloads.kueue.x-k8s.io", nil, "v1beta1")},
		"ChartKinds":   {why: "helm uninstall kueue would delete all queues", change: crd("workloads.kueue.x-k8s.io", map[string]string{"meta.helm.sh/release-name": "kueue", "meta.helm.sh/release-namespace": "ks"}, "v1beta2"), want: "warning kinds-of-charts", cure: "kubectl delete secret -n ks -l owner=helm,name=kueue"},
		"NoPrometheus": {why: "the kind is missing", values: "metrics: {serviceMonitor: {enabled: true}}", change: func(*rollout.ClusterState) {}, want: "error missing-kinds", cure: "serviceMonitor.enabled"},
		"Prometheus":   {why: "it is there", values: "metrics: {serviceMonitor: {enabled: true}}", change: func(f *rollout.ClusterState) { f.Groups = append(f.Groups, "monitoring.coreos.com") }},
		"NoCerts":      {why: "the kind is missing", values: "certManager: {enabled: true}", change: func(*rollout.ClusterState) {}, want: "error missing-kinds", cure: "certManager.enabled"},
		"Crowded":      {why: "others' pods may not come back", change: crowded(nil), want: "warning pod-security", cure: "--namespace"},
		"OwnPods":      {why: "ours may", change: crowded(map[string]string{install.PartLabel: install.App})},
		"NoClass":      {why: "pods would be refused", values: "priorityClassName: mine", change: func(*rollout.ClusterState) {}, want: "error priority-class"},
		"LocalImage":   {why: "no node can pull it", values: "image: {registry: localhost}", change: func(*rollout.ClusterState) {}, want: "note image", cure: "images import"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &rollout.ClusterState{Kubernetes: "v1.37.2", PriorityClasses: []string{"system-cluster-critical"}}
			tc.change(f)
			var got, cures []string
			for _, found := range rollout.Preflight(made.of(t, tc.values, "v1.0.0"), f) {
				if line := string(found.Severity) + " " + found.Rule; !slices.Contains(got, line) {
					got = append(got, line)
				}
				cures = append(cures, found.Cure)
				if found.Message == "" || found.Cure == "" {
					t.Errorf("%+v says nothing", found)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if !strings.Contains(strings.Join(cures, "\n"), tc.cure) {
				t.Errorf("no cure names %q: %q", tc.cure, cures)
			}
		})
	}
}

func add(d appsv1.Deployment) func(*rollout.ClusterState) {
	return func(f *rollout.ClusterState) { f.Deployments = append(f.Deployments, d) }
}

func scaled(d appsv1.Deployment) appsv1.Deployment {
	d.Spec.Replicas = new(int32)
	return d
}

func hook(c admissionregistrationv1.ValidatingWebhookConfiguration) func(*rollout.ClusterState) {
	return func(f *rollout.ClusterState) { f.Validating = append(f.Validating, c) }
}

func crd(name string, annotations map[string]string, stored ...string) func(*rollout.ClusterState) {
	return func(f *rollout.ClusterState) {
		f.Definitions = append(f.Definitions, apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Status:     apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: stored},
		})
	}
}

func crowded(labels map[string]string) func(*rollout.ClusterState) {
	return func(f *rollout.ClusterState) {
		f.Namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mlbatch-system"}}
		f.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels}}}
	}
}

func TestUnavailable(t *testing.T) {
	d := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		out := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 3},
			Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2))},
			Status: appsv1.DeploymentStatus{
				ObservedGeneration: 3,
				Replicas:           2,
				UpdatedReplicas:    2,
				AvailableReplicas:  2,
			},
		}
		change(out)
		return out
	}
	for says, change := range map[string]func(*appsv1.Deployment){
		"":                                   func(*appsv1.Deployment) {},
		"its controller has not seen it yet": func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 2 },
		"1 of 2 pods are of this version":    func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 },
		"1 of 2 pods are available":          func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 },
		"1 old pods have not ended yet":      func(d *appsv1.Deployment) { d.Status.Replicas = 3 },
		"its pods cannot be made: no such quota": func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "no such quota"}}
		},
	} {
		if got := rollout.Unavailable(d(change)); got != says {
			t.Errorf("got %q, want %q", got, says)
		}
	}
}

func TestTrouble(t *testing.T) {
	waiting := corev1.ContainerStatus{
		State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
		},
	}
	ended := corev1.ContainerStatus{
		LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "boom"},
		},
	}
	events := []corev1.Event{
		{
			InvolvedObject: corev1.ObjectReference{UID: "u"},
			Type:           corev1.EventTypeWarning,
			Reason:         "Old",
			LastTimestamp:  metav1.Unix(1, 0),
		},
		{
			InvolvedObject: corev1.ObjectReference{UID: "u"},
			Type:           corev1.EventTypeWarning,
			Reason:         "FailedMount",
			Message:        "no such ConfigMap",
			LastTimestamp:  metav1.Unix(2, 0),
		},
		{
			InvolvedObject: corev1.ObjectReference{UID: "other"},
			Type:           corev1.EventTypeWarning,
			Reason:         "Other",
			LastTimestamp:  metav1.Unix(3, 0),
		},
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		events []corev1.Event
		says   string
	}{
		"Ready":   {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}, events, ""},
		"Image":   {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting}}, nil, "ImagePullBackOff no such image"},
		"Crash":   {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended}}, nil, "it ended with 1 (Error) boom"},
		"NoNode":  {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}}, nil, "Unschedulable 0/3 nodes"},
		"Event":   {corev1.PodStatus{}, events, "FailedMount: no such ConfigMap"},
		"Unknown": {corev1.PodStatus{Phase: corev1.PodRunning}, nil, "it is Running and not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rollout.Trouble(
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: tc.status},
				tc.events,
			); got != tc.says {
				t.Errorf("got %q, want %q", got, tc.says)
			}
		})
	}
}
