package migrate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/finding"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func deployment(namespace, name, image string, replicas int32) Program {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas = &replicas
	d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
	for _, k := range MLBatch.parts() {
		if k.is(&d) {
			return Program{part: k, Deployment: d}
		}
	}
	return Program{Deployment: d}
}

// kueueCluster is a cluster with one queue of 8 GPUs on one node, as Kueue leaves it.
func kueueCluster() *Picture {
	gpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)}
	}
	q := kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "blue"}, Spec: kueue.ClusterQueueSpec{
		NamespaceSelector: &metav1.LabelSelector{},
		ResourceGroups: []kueue.ResourceGroup{
			{CoveredResources: []corev1.ResourceName{"nvidia.com/gpu"}, Flavors: []kueue.FlavorQuotas{
				{
					Name:      "default",
					Resources: []kueue.ResourceQuota{{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("8")}},
				},
			}},
		},
	}}
	q.Status.FlavorsReservation = []kueue.FlavorUsage{
		{
			Name:      "default",
			Resources: []kueue.ResourceUsage{{Name: "nvidia.com/gpu", Total: resource.MustParse("4")}},
		},
	}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{
			"nvidia.com/gpu": resource.MustParse("8"),
			"pods":           resource.MustParse("110"),
			"cpu":            resource.MustParse("8"),
		},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	job := func(name string, n int32, each string, created int) kueue.Workload {
		w := kueue.Workload{ObjectMeta: metav1.ObjectMeta{
			Namespace:         "blue",
			Name:              "job-" + name,
			UID:               types.UID("w-" + name),
			ResourceVersion:   "7",
			CreationTimestamp: metav1.NewTime(now.Add(time.Duration(created) * time.Minute)),
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID(name), Controller: new(true)},
			},
		}}
		w.Spec.QueueName = "q"
		w.Spec.PodSets = []kueue.PodSet{
			{
				Name:  "main",
				Count: n,
				Template: corev1.PodTemplateSpec{
					Spec: corev1.PodSpec{
						Containers: []corev1.Container{
							{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: gpus(each)}},
						},
					},
				},
			},
		}
		return w
	}
	running := job("running", 2, "2", -60)
	running.Status.Admission = &kueue.Admission{
		ClusterQueue: "blue",
		PodSetAssignments: []kueue.PodSetAssignment{
			{
				Name:          "main",
				Count:         new(int32(2)),
				Flavors:       map[corev1.ResourceName]kueue.ResourceFlavorReference{"nvidia.com/gpu": "default"},
				ResourceUsage: gpus("4"),
			},
		},
	}
	for _, c := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
		running.Status.Conditions = append(
			running.Status.Conditions,
			metav1.Condition{
				Type:               c,
				Status:             metav1.ConditionTrue,
				Reason:             c,
				LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
			},
		)
	}
	done := job("done", 1, "8", -90)
	done.Status.Conditions = []metav1.Condition{
		{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: kueue.ReasonSucceeded},
	}
	held := job("held", 1, "1", -50)
	held.Spec.Active = new(false)
	p := &Picture{
		System: Kueue,
		Now:    now,
		Programs: []Program{
			deployment("kueue-system", "kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.20.0", 1),
		},
		Configuration: "a",
		Flavors:       []kueue.ResourceFlavor{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}},
		Queues:        []kueue.ClusterQueue{q},
		LocalQueues: []kueue.LocalQueue{
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "q"},
				Spec:       kueue.LocalQueueSpec{ClusterQueue: "blue"},
			},
		},
		Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}},
		Nodes:      []corev1.Node{node},
		Workloads:  []kueue.Workload{running, job("big", 1, "6", -40), job("small", 1, "4", -30), done, held},
	}
	for _, name := range []string{"running-0", "running-1"} {
		p.Pods = append(p.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue",
				Name:      name,
				UID:       types.UID(name),
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "batch/v1", Kind: "Job", Name: "running", UID: "running", Controller: new(true)},
				},
			},
			Spec: corev1.PodSpec{
				NodeName:      "n",
				SchedulerName: "default-scheduler",
				Containers: []corev1.Container{
					{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: gpus("2")}},
				},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	return p
}

func readNothing(string, string) (Policy, []string, error) { return Policy{}, nil, nil }

// Who would start is what the engine decides, with what runs in its place: the first in line does
// not fit beside it, and the next does.
func TestSurveyTellsWhoStarts(t *testing.T) {
	r := kueueCluster().Survey(readNothing)
	if len(r.Starts) != 1 || r.Starts[0].Workload != "blue/job-small" || r.Starts[0].Job != "Job/small" ||
		len(r.Evicts) != 0 {
		t.Errorf("starts %v, evicts %v; want small to start, and nobody to go", r.Starts, r.Evicts)
	}
	if want := (Counts{Running: 1, Waiting: 2, Held: 1, Finished: 1, Pods: 2, Unmarked: 2}); r.Counts != want {
		t.Errorf("counts %+v, want %+v", r.Counts, want)
	}
	if len(r.Quota) != 1 || r.Quota[0].Before != "4" || r.Quota[0].After != "4" {
		t.Errorf("quota %v, want 4 before and after", r.Quota)
	}
	if len(r.Findings) != 0 {
		t.Errorf("findings: %v", r.Findings)
	}
}

func TestFindings(t *testing.T) {
	for name, tc := range map[string]struct {
		why    string
		change func(*Picture)
		weight finding.Severity
		about  string
		says   string
	}{
		"no configuration": {"nobody knows what was set", func(p *Picture) { p.Configuration = "" }, finding.Warning, "configuration", "was not found"},
		"an operator": {"it starts what was stopped", func(p *Picture) {
			p.Programs[0].Deployment.OwnerReferences = []metav1.OwnerReference{{Kind: "ClusterServiceVersion", Name: "rhods", Controller: new(true)}}
		}, finding.Error, "deployment/kueue-system/kueue-controller-manager", "belongs to ClusterServiceVersion rhods"},
		"Argo CD": {"it does so, too", func(p *Picture) {
			p.Programs[0].Deployment.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "x"}
		}, finding.Error, "deployment/kueue-system/kueue-controller-manager", "Argo CD"},
		"two": {"which of them decides is not known", func(p *Picture) {
			p.Programs = append(p.Programs, deployment("other", "kueue-controller-manager", "", 1))
		}, finding.Error, "Kueue", "several"},
		"jobs elsewhere": {"nobody would bring back how they end", func(p *Picture) { p.Workloads[0].Status.ClusterName = new("worker") }, finding.Error, "MultiKueue", "blue/job-running"},
		"a queue that sends jobs": {"none is sent", func(p *Picture) {
			p.Checks = []kueue.AdmissionCheck{{ObjectMeta: metav1.ObjectMeta{Name: "mk"}, Spec: kueue.AdmissionCheckSpec{ControllerName: "kueue.x-k8s.io/multikueue"}}}
			p.Queues[0].Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: "mk"}}}
		}, finding.Warning, "clusterqueue/blue", "MultiKueue"},
		"an unknown kind that runs": {"nobody would give back its quota", func(p *Picture) {
			p.Workloads[0].OwnerReferences[0].APIVersion, p.Workloads[0].OwnerReferences[0].Kind = "sparkoperator.k8s.io/v1beta2", "SparkApplication"
		}, finding.Error, "SparkApplication.sparkoperator.k8s.io/v1beta2", "blue/running"},
		"an unknown kind that waits": {"it never starts", func(p *Picture) {
			p.Workloads[1].OwnerReferences[0].APIVersion, p.Workloads[1].OwnerReferences[0].Kind = "sparkoperator.k8s.io/v1beta2", "SparkApplication"
		}, finding.Warning, "SparkApplication.sparkoperator.k8s.io/v1beta2", "wait and do not start"},
		"slices": {"one of several would be kept", func(p *Picture) {
			p.Workloads[0].Annotations = map[string]string{kueue.WorkloadSliceNameAnnotation: "x"}
		}, finding.Error, "elastic jobs", "blue/job-running"},
		"other books": {"it is about quota", func(p *Picture) { p.Queues[0].Status.FlavorsReservation = nil }, finding.Warning, "clusterqueue/blue", "has given 0 of nvidia.com/gpu"},
		"stopped queue": {"what it would evict", func(p *Picture) {
			p.Queues[0].Spec.StopPolicy = new(kueue.StopPolicyHoldAndDrain)
		}, finding.Error, "Job/running", "would evict it: ClusterQueueStopped"},
		"stored long ago": {"it is rewritten", func(p *Picture) {
			p.Definitions = []apiextensionsv1.CustomResourceDefinition{{ObjectMeta: metav1.ObjectMeta{Name: "workloads.kueue.x-k8s.io"}, Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1beta1", "v1beta2"}}}}
		}, finding.Note, "stored versions", "workloads.kueue.x-k8s.io"},
		"Helm": {"uninstalling it deletes everything", func(p *Picture) {
			p.Programs[0].Deployment.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		}, finding.Note, "deployment/kueue-system/kueue-controller-manager", "would delete the definitions"},
		"KubeRay at work": {"it names pods in its own way", func(p *Picture) {
			p.Programs, p.RayClusters = append(p.Programs, deployment("ray", "kuberay-operator", "", 1)), 2
		}, finding.Note, "deployment/ray/kuberay-operator", "2 RayClusters"},
		"a scheduler at work": {"pods made anew name it", func(p *Picture) {
			p.Programs = append(p.Programs, deployment("s", "sakkara-scheduler", "", 1))
			p.Pods[0].Spec.SchedulerName = "sakkara-scheduler"
		}, finding.Note, "deployment/s/sakkara-scheduler", "1 pods"},
		"AppWrapper settings": {"flags say it here", func(p *Picture) {
			p.WrapperConfiguration = "appwrapper: {slackQueueName: rest, defaultQueueName: dq, faultTolerance: {retryLimit: 9}}"
		}, finding.Warning, "AppWrapper configuration", "slackQueueName is rest"},
	} {
		t.Run(name, func(t *testing.T) {
			p := kueueCluster()
			tc.change(p)
			found := p.Survey(readNothing).Findings
			if !slices.ContainsFunc(found, func(f finding.Finding) bool {
				return f.Severity == tc.weight && f.Object == tc.about && strings.Contains(f.Message, tc.says)
			}) {
				t.Errorf("%s: want %s about %s that says %q, got %+v", tc.why, tc.weight, tc.about, tc.says, found)
			}
		})
	}
}

// A configuration that is refused is told of; what has no effect in it, too.
func TestConfigurationIsRead(t *testing.T) {
	p := kueueCluster()
	p.ConfigurationName = "ConfigMap kueue-system/kueue-manager-config"
	r := p.Survey(func(string, string) (Policy, []string, error) {
		return Policy{}, nil, errors.New("multiKueue: take it out")
	})
	if len(r.Findings) != 1 || r.Findings[0].Severity != finding.Warning ||
		!strings.Contains(r.Findings[0].Message, "multiKueue: take it out") {
		t.Errorf("findings %+v", r.Findings)
	}
	r = p.Survey(func(string, string) (Policy, []string, error) {
		return Policy{}, []string{"queueVisibility: has no effect"}, nil
	})
	if len(r.Findings) != 1 || r.Findings[0].Severity != finding.Note ||
		r.Findings[0].Object != p.ConfigurationName {
		t.Errorf("findings %+v", r.Findings)
	}
}

// A stopped program leads as long as its lease lasts.
func TestLeads(t *testing.T) {
	lease := func(name, namespace, holder string, ago time.Duration) coordinationv1.Lease {
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       &holder,
				LeaseDurationSeconds: new(int32(15)),
				RenewTime:            &metav1.MicroTime{Time: now.Add(-ago)},
			},
		}
	}
	for name, tc := range map[string]struct {
		lease coordinationv1.Lease
		want  bool
	}{
		"its own":                           {lease("any", "kueue-system", "kueue-controller-manager-abc_123", time.Second), true},
		"expired":                           {lease("any", "kueue-system", "kueue-controller-manager-abc_123", time.Minute), false},
		"given back":                        {lease(kueueLease, "kueue-system", "", time.Second), false},
		"of another":                        {lease("any", "kueue-system", "other_123", time.Second), false},
		"one that runs outside the cluster": {lease(kueueLease, "elsewhere", "laptop_1", time.Second), true},
	} {
		p := kueueCluster()
		p.Leases = []coordinationv1.Lease{tc.lease}
		if got := p.leads(p.Programs[0]) != nil; got != tc.want {
			t.Errorf("%s: leads is %v, want %v", name, got, tc.want)
		}
	}
}

// Pods of jobs with quota are marked, of what runs below an AppWrapper as well; pods that say it
// already, that have ended or are of others are not.
func TestMarks(t *testing.T) {
	p := kueueCluster()
	p.Pods[0].Annotations = map[string]string{kueue.WorkloadAnnotation: "job-running"}
	p.Pods[0].Labels = map[string]string{kueue.PodSetLabel: "main"}
	inner := p.Pods[1].DeepCopy()
	inner.Name, inner.UID, inner.OwnerReferences[0].UID = "inner", "inner", "part"
	ended := p.Pods[1].DeepCopy()
	ended.Name, ended.UID, ended.Status.Phase = "ended", "ended", corev1.PodSucceeded
	other := p.Pods[1].DeepCopy()
	other.Name, other.UID, other.OwnerReferences[0].UID = "other", "other", "nobody"
	waits := p.Pods[1].DeepCopy()
	waits.Name, waits.UID, waits.OwnerReferences[0].UID = "waits", "waits", "big"
	p.parents = map[types.UID]types.UID{"part": "running"}
	p.Pods = append(p.Pods, *inner, *ended, *other, *waits)
	var got []string
	for _, m := range p.marks() {
		got = append(got, m.Pod.Name+" of "+m.Workload+" as "+m.PodSet)
	}
	if want := []string{
		"inner of job-running as main",
		"running-1 of job-running as main",
	}; !slices.Equal(
		got,
		want,
	) {
		t.Errorf("marks %v, want %v", got, want)
	}
}
