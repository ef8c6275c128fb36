package doctor_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/check"
	"github.com/mlbatch/mlbatch/internal/cli/doctor"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view"
)

func now() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func active(reason string) []metav1.Condition {
	status := metav1.ConditionFalse
	if reason == kueue.ReasonReady {
		status = metav1.ConditionTrue
	}
	return []metav1.Condition{
		{Type: kueue.ClusterQueueActive, Status: status, Reason: reason, Message: "because"},
	}
}

// queue has 4 GPUs and takes back what it lends.
func queue(name string) kueue.ClusterQueue {
	return kueue.ClusterQueue{
		ObjectMeta: meta("", name), Status: kueue.ClusterQueueStatus{Conditions: active(kueue.ReasonReady)},
		Spec: kueue.ClusterQueueSpec{
			CohortName: "all", NamespaceSelector: &metav1.LabelSelector{},
			Preemption: &kueue.ClusterQueuePreemption{ReclaimWithinCohort: kueue.PreemptionPolicyAny},
			ResourceGroups: []kueue.ResourceGroup{
				{
					CoveredResources: []corev1.ResourceName{"nvidia.com/gpu"},
					Flavors: []kueue.FlavorQuotas{
						{
							Name:      "f",
							Resources: []kueue.ResourceQuota{{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("4")}},
						},
					},
				},
			},
		},
	}
}

func local(namespace, name, queue string) kueue.LocalQueue {
	return kueue.LocalQueue{
		ObjectMeta: meta(namespace, name),
		Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(queue)},
	}
}

func team(name string) corev1.Namespace {
	n := corev1.Namespace{ObjectMeta: meta("", name)}
	n.Labels = map[string]string{kueue.TeamNamespaceLabel: "true"}
	return n
}

func definition(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: meta("", "clusterqueues.kueue.x-k8s.io")}
	for _, v := range versions {
		d.Spec.Versions = append(
			d.Spec.Versions,
			apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Served: true},
		)
	}
	return d
}

// trainJobs is a definition that keeps what mlbatch records, or one of others.
func trainJobs( //nolint:revive // flag-parameter: whose definition it is
	records bool,
) *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: meta("", "trainjobs.trainer.kubeflow.org")}
	d.Spec.Names.Kind = "TrainJob"
	status := apiextensionsv1.JSONSchemaProps{
		Type:       "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"conditions": {Type: "array"}},
	}
	if records {
		status.Properties["runtime"] = apiextensionsv1.JSONSchemaProps{Type: "object"}
	}
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v1alpha1", Served: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type:       "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"status": status},
			},
		}},
	}
	return d
}

// registered is the registration of the visibility API, available or not.
func registered(available string) unstructured.Unstructured {
	o := unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Available", "status": available, "message": "endpoints are missing"},
	}}}}
	o.SetName("v1beta2.visibility.kueue.x-k8s.io")
	return o
}

// led has a program installed, of which the last sign of a leader is so old.
func led(f *doctor.Facts, program, holder string, ago time.Duration) {
	f.Deployments = []appsv1.Deployment{{ObjectMeta: meta("mlbatch-system", program)}}
	f.Leases = []coordinationv1.Lease{
		{ObjectMeta: meta("mlbatch-system", program), Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: now().Add(-ago)},
		}},
	}
}

// authority is one that ends then, in PEM.
func authority(ends time.Time) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	of := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             ends.Add(-24 * time.Hour),
		NotAfter:              ends,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// converts has the versions of a definition converted by who has a certificate of an authority.
func converts(f *doctor.Facts, text string, authority []byte) {
	f.Definitions[0].Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{
			Service: &apiextensionsv1.ServiceReference{Name: "x"}, CABundle: append([]byte(text), authority...),
		}},
	}
}

// healthy is a cluster in which nothing is wrong.
func healthy() *doctor.Facts {
	has := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "pods": resource.MustParse("100")}
	node := corev1.Node{
		ObjectMeta: meta("", "n"),
		Status: corev1.NodeStatus{
			Allocatable: has,
			Capacity:    has,
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}},
		},
	}
	node.Labels = map[string]string{}
	low, usual := schedulingv1.PriorityClass{
		ObjectMeta: meta("", "high"),
		Value:      10,
	}, schedulingv1.PriorityClass{
		ObjectMeta:    meta("", "usual"),
		Value:         5,
		GlobalDefault: true,
	}
	return &doctor.Facts{
		Cluster: check.Cluster{
			Nodes: []corev1.Node{
				node,
			},
			Queues: []kueue.ClusterQueue{queue("blue-cluster-queue"), queue("red-cluster-queue")},
			LocalQueues: []kueue.LocalQueue{
				local("blue", "default-queue", "blue-cluster-queue"),
				local("red", "default-queue", "red-cluster-queue"),
			},
			Flavors: []kueue.ResourceFlavor{{ObjectMeta: meta("", "f")}},
			Slack:   "slack",
		},
		Namespaces: []corev1.Namespace{team("blue"), team("red"), {ObjectMeta: meta("", "other")}},
		Classes: []schedulingv1.PriorityClass{
			low,
			usual,
			{ObjectMeta: meta("", "system-node-critical"), Value: 2000001000},
		},
		Mutating: []admissionv1.MutatingWebhookConfiguration{
			{ObjectMeta: meta("", "mlbatch-mutating-webhook"), Webhooks: []admissionv1.MutatingWebhook{{}}},
		},
		Validating: []admissionv1.ValidatingWebhookConfiguration{
			{ObjectMeta: meta("", "mlbatch-validating-webhook"), Webhooks: []admissionv1.ValidatingWebhook{{}}},
		},
		Wanted: []*apiextensionsv1.CustomResourceDefinition{
			definition("v1beta1", "v1beta2"),
		},
		Definitions: []apiextensionsv1.CustomResourceDefinition{*definition("v1beta1", "v1beta2")},
		Now:         now(),
	}
}

// fault is something wrong, and what has to be found.
type fault struct {
	why  string
	harm func(f *doctor.Facts)
	// want are RULE OBJECT, in order; cure is part of that of the first.
	want []string
	cure string
}

func faults() map[string]fault {
	blue := "clusterqueue/blue-cluster-queue"
	quota := func(f *doctor.Facts) *kueue.ResourceQuota {
		return &f.Queues[0].Spec.ResourceGroups[0].Flavors[0].Resources[0]
	}
	return map[string]fault{
		"healthy": {"nothing is made up", func(*doctor.Facts) {}, nil, ""},
		"no CRD": {
			"",
			func(f *doctor.Facts) { f.Definitions = nil },
			[]string{"definition-missing customresourcedefinition/clusterqueues.kueue.x-k8s.io"},
			"mlbatch install",
		},
		"old CRD": {
			"of an older program",
			func(f *doctor.Facts) { f.Definitions[0] = *definition("v1beta1") },
			[]string{"definition-missing customresourcedefinition/clusterqueues.kueue.x-k8s.io"},
			"",
		},
		"another's CRD": {
			"it drops what it does not know, and jobs depend on nothing of that",
			func(f *doctor.Facts) {
				f.Wanted, f.Definitions = append(f.Wanted, trainJobs(true)), append(f.Definitions, *trainJobs(false))
			},
			nil,
			"",
		},
		"stale": {
			"no namespace can be deleted",
			func(f *doctor.Facts) { f.APIServices = []unstructured.Unstructured{registered("False")} },
			[]string{"discovery-stale apiservice/v1beta2.visibility.kueue.x-k8s.io"},
			"kubectl delete apiservice v1beta2.visibility.kueue.x-k8s.io",
		},
		"fresh": {
			"it is answered",
			func(f *doctor.Facts) { f.APIServices = []unstructured.Unstructured{registered("True")} },
			nil,
			"",
		},
		"no webhook": {
			"jobs run unqueued",
			func(f *doctor.Facts) { f.Mutating = nil },
			[]string{"webhook-missing mutatingwebhookconfiguration/mlbatch-mutating-webhook"},
			"",
		},
		"no checks": {
			"nonsense is stored",
			func(f *doctor.Facts) { f.Validating[0].Webhooks = nil },
			[]string{"webhook-missing validatingwebhookconfiguration/mlbatch-validating-webhook"},
			"",
		},
		"silent": {
			"",
			func(f *doctor.Facts) { f.Silent = errors.New("503") },
			[]string{"controller-silent controller"},
			"mlbatch status",
		},
		"no answer": {"an expired certificate, no endpoints, another port", func(f *doctor.Facts) {
			f.Trial = &doctor.Trial{Namespace: "blue", Webhook: "mjob.mlbatch.dev", Unanswered: "x509: expired"}
		}, []string{"webhook-silent webhook/mjob.mlbatch.dev"}, "mlbatch status"},
		"not held": {
			"it is passed over, or leaves out what it should not",
			func(f *doctor.Facts) { f.Trial = &doctor.Trial{Namespace: "blue", Unheld: true} },
			[]string{"webhook-silent namespace/blue"},
			"mlbatch status",
		},
		"no leader": {
			"those that stand by answer as a leader does",
			func(f *doctor.Facts) { led(f, "mlbatch-controller", "a_1", 2*time.Minute) },
			[]string{"leader-missing lease/mlbatch-controller in mlbatch-system"},
			"kubectl logs -n mlbatch-system deploy/mlbatch-controller",
		},
		"nobody schedules": {
			"given back, and taken by nobody",
			func(f *doctor.Facts) { led(f, "mlbatch-scheduler", "", 2*time.Minute) },
			[]string{"leader-missing lease/mlbatch-scheduler in mlbatch-system"},
			"",
		},
		"led": {
			"the last sign is as old as the clocks differ",
			func(f *doctor.Facts) { led(f, "mlbatch-controller", "a_1", 50*time.Second) },
			nil,
			"",
		},
		"scheduler taken out": {
			"its lease is left",
			func(f *doctor.Facts) { led(f, "mlbatch-scheduler", "", 48*time.Hour); f.Deployments = nil },
			nil,
			"",
		},
		"no authority": {"a certificate without one is that of anybody", func(f *doctor.Facts) {
			f.Mutating[0].Webhooks[0].ClientConfig.Service = &admissionv1.ServiceReference{Name: "x"}
		}, []string{"webhook-untrusted mutatingwebhookconfiguration/mlbatch-mutating-webhook"}, "kubectl get pods -n mlbatch-system"},
		"authority of the machine": {"an address with a certificate that everybody trusts", func(f *doctor.Facts) {
			f.Mutating[0].Webhooks[0].ClientConfig.URL = new("https://example.com")
		}, nil, ""},
		"authority ended": {"nothing is written any more", func(f *doctor.Facts) {
			f.Validating[0].Webhooks[0].ClientConfig.CABundle = authority(now().Add(-time.Hour))
		}, []string{"webhook-untrusted validatingwebhookconfiguration/mlbatch-validating-webhook"}, "cert-manager"},
		"authority renewed": {"the old one is kept beside the new one for a while", func(f *doctor.Facts) {
			f.Validating[0].Webhooks[0].ClientConfig.CABundle = append(
				authority(now().Add(-time.Hour)),
				authority(now().Add(time.Hour))...)
		}, nil, ""},
		"authority is none": {"somebody wrote something else", func(f *doctor.Facts) {
			converts(f, "kueue", nil)
		}, []string{"webhook-untrusted customresourcedefinition/clusterqueues.kueue.x-k8s.io"}, ""},
		"conversion's authority ended": {"old versions cannot be read", func(f *doctor.Facts) {
			converts(f, "", authority(now().Add(-time.Hour)))
		}, []string{"webhook-untrusted customresourcedefinition/clusterqueues.kueue.x-k8s.io"}, ""},
		"conversion of another's kind": {"it is not ours", func(f *doctor.Facts) {
			converts(f, "kueue", nil)
			other := f.Definitions[0]
			other.Name = "others.example.com"
			f.Definitions = []apiextensionsv1.CustomResourceDefinition{*definition("v1beta1", "v1beta2"), other}
		}, nil, ""},
		"held": {"all is well", func(f *doctor.Facts) { f.Trial = &doctor.Trial{Namespace: "blue"} }, nil, ""},
		"kueue": {"both decide", func(f *doctor.Facts) {
			f.Deployments = []appsv1.Deployment{{ObjectMeta: meta("kueue-system", "kueue-controller-manager")}}
		}, []string{"other-manager deployment/kueue-controller-manager in kueue-system"}, "kubectl scale deployment kueue-controller-manager -n kueue-system --replicas=0"},
		"kueue off": {"it does nothing", func(f *doctor.Facts) {
			f.Deployments = []appsv1.Deployment{
				{
					ObjectMeta: meta("kueue-system", "kueue-controller-manager"),
					Spec:       appsv1.DeploymentSpec{Replicas: new(int32(0))},
				},
			}
		}, nil, ""},
		"kueue's hook": {"left behind, it refuses jobs", func(f *doctor.Facts) {
			f.Mutating = append(
				f.Mutating,
				admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta("", "kueue-mutating-webhook-configuration")},
			)
		}, []string{"other-manager mutatingwebhookconfiguration/kueue-mutating-webhook-configuration"}, "kubectl delete"},
		"refused pods": {
			"jobs of a namespace are told of together, and those that ended not",
			func(f *doctor.Facts) {
				refused := func(name string, ended bool) kueue.Workload {
					w := kueue.Workload{ObjectMeta: meta("blue", name), Spec: kueue.WorkloadSpec{QueueName: "default-queue"}}
					w.Annotations = map[string]string{
						kueue.PodsRefusedAnnotation: "pods \"x\" is forbidden: violates PodSecurity",
					}
					w.Status.Conditions = []metav1.Condition{{Type: kueue.WorkloadQuotaReserved, Status: "False"}}
					if ended {
						w.Status.Conditions = append(
							w.Status.Conditions,
							metav1.Condition{Type: kueue.WorkloadFinished, Status: "True"},
						)
					}
					return w
				}
				f.Workloads = []kueue.Workload{refused("b", false), refused("a", false), refused("c", true)}
			},
			[]string{"pods-refused namespace/blue"},
			"mlbatch why blue/a",
		},
		"no image": {
			"pods of a namespace are told of together, and not those that ended, run, or are nobody's",
			func(f *doctor.Facts) {
				pod := func(name string, phase corev1.PodPhase, state, last corev1.ContainerState) corev1.Pod {
					p := corev1.Pod{
						ObjectMeta: meta("blue", name),
						Status: corev1.PodStatus{
							Phase:             phase,
							ContainerStatuses: []corev1.ContainerStatus{{State: state, LastTerminationState: last}},
						},
					}
					p.Annotations = map[string]string{kueue.WorkloadAnnotation: "w"}
					return p
				}
				none := corev1.ContainerState{}
				pull := corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"},
				}
				again := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
				broken := corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{Reason: "StartError", Message: "exec: x"},
				}
				f.Pods = []corev1.Pod{
					pod(
						"d",
						corev1.PodRunning,
						again,
						broken,
					),
					pod("c", corev1.PodPending, pull, none),
					pod("e", corev1.PodFailed, broken, none),
					pod(
						"f",
						corev1.PodRunning,
						corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
						none,
					),
					pod("g", corev1.PodPending, pull, none),
				}
				f.Pods[4].Annotations = nil
			},
			[]string{"pods-not-started namespace/blue"},
			"mlbatch why blue/c",
		},
		"unseen": {"no controller took it up", func(f *doctor.Facts) {
			w := kueue.Workload{ObjectMeta: meta("blue", "w"), Spec: kueue.WorkloadSpec{QueueName: "default-queue"}}
			w.CreationTimestamp = metav1.NewTime(now().Add(-2 * time.Minute))
			f.Workloads = []kueue.Workload{w}
		}, []string{"workload-unseen workload/blue/w"}, "mlbatch status"},
		"new": {"it may yet be looked at", func(f *doctor.Facts) {
			w := kueue.Workload{ObjectMeta: meta("blue", "w"), Spec: kueue.WorkloadSpec{QueueName: "default-queue"}}
			w.CreationTimestamp = metav1.NewTime(now().Add(-time.Second))
			f.Workloads = []kueue.Workload{w}
		}, nil, ""},
		"flavor missing": {"a typo", func(f *doctor.Facts) {
			f.Flavors = nil
			f.Queues = f.Queues[:1]
			f.Queues[0].Status.Conditions = active(kueue.ReasonFlavorNotFound)
			f.LocalQueues, f.Namespaces = f.LocalQueues[:1], f.Namespaces[:1]
		}, []string{"queue-inactive " + blue}, "mlbatch flavor create f"},
		"inactive": {
			"for another reason",
			func(f *doctor.Facts) { f.Queues[0].Status.Conditions = active(kueue.ReasonTopologyNotFound) },
			[]string{"queue-inactive " + blue},
			"describe clusterqueue blue",
		},
		"zero": {"nothing fits ever", func(f *doctor.Facts) {
			quota(f).NominalQuota = resource.MustParse("0")
			quota(f).BorrowingLimit = new(resource.MustParse("0"))
		}, []string{"queue-without-quota " + blue}, "mlbatch queue edit blue-cluster-queue --quota nvidia.com/gpu=8"},
		"borrows": {
			"it has what others lend",
			func(f *doctor.Facts) { quota(f).NominalQuota = resource.MustParse("0") },
			nil,
			"",
		},
		"no groups": {
			"",
			func(f *doctor.Facts) { f.Queues[0].Spec.ResourceGroups = nil },
			[]string{"queue-without-quota " + blue},
			"--flavor FLAVOR",
		},
		"closed": {
			"left out is none",
			func(f *doctor.Facts) { f.Queues[0].Spec.NamespaceSelector = nil },
			[]string{"queue-without-namespaces " + blue},
			`{"spec":{"namespaceSelector":{}}}`,
		},
		"empty flavor": {
			"a typo in a label",
			func(f *doctor.Facts) { f.Flavors[0].Spec.NodeLabels = map[string]string{"pool": "h10"} },
			[]string{"flavor-without-nodes resourceflavor/f", "over-quota flavor f, nvidia.com/gpu"},
			"kubectl label node NODE pool=h10",
		},
		"on demand": {"its nodes come", func(f *doctor.Facts) {
			f.Flavors[0].Spec.NodeLabels = map[string]string{"pool": "h10"}
			f.Flavors[0].Annotations = map[string]string{kueue.NodesOnDemandAnnotation: "true"}
		}, nil, ""},
		"nowhere": {
			"",
			func(f *doctor.Facts) { f.LocalQueues = append(f.LocalQueues, local("blue", "x", "gone")) },
			[]string{"localqueue-leads-nowhere localqueue/x in blue"},
			"mlbatch queue create gone",
		},
		"not allowed": {
			"",
			func(f *doctor.Facts) { f.Queues[0].Spec.NamespaceSelector.MatchLabels = map[string]string{"a": "b"} },
			[]string{"localqueue-not-allowed localqueue/default-queue in blue"},
			"kubectl label namespace blue --overwrite a=b",
		},
		"no queue": {
			"",
			func(f *doctor.Facts) { f.Namespaces = append(f.Namespaces, team("green")) },
			[]string{"team-without-queue namespace/green"},
			"mlbatch team create green",
		},
		"half a team": {"its quota is there", func(f *doctor.Facts) {
			f.Namespaces = append(f.Namespaces, team("green"))
			f.Queues = append(f.Queues, queue("green-cluster-queue"))
			f.Nodes = append(f.Nodes, f.Nodes[0])
		}, []string{"team-without-queue namespace/green", "queue-unreachable clusterqueue/green-cluster-queue"}, "mlbatch queue create default-queue -n green --clusterqueue green-cluster-queue"},
		"no default": {
			"jobs that name none wait",
			func(f *doctor.Facts) { f.LocalQueues[0].Name = "fast" },
			[]string{"team-without-default namespace/blue"},
			"mlbatch queue create default-queue -n blue --clusterqueue blue-cluster-queue",
		},
		"check": {"", func(f *doctor.Facts) {
			f.Checks = []kueue.AdmissionCheck{{ObjectMeta: meta("", "budget")}, {ObjectMeta: meta("", "unused")}}
			f.Queues[0].Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{
				AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: "budget"}},
			}
		}, []string{"check-inactive admissioncheck/budget"}, ""},
		"stopped": {"", func(f *doctor.Facts) {
			f.Queues[0].Spec.StopPolicy = new(kueue.StopPolicyHold)
			f.Queues[0].Status.Conditions = active(kueue.ReasonStopped)
		}, []string{"queue-stopped " + blue}, "mlbatch queue resume blue-cluster-queue"},
		"local stopped": {
			"",
			func(f *doctor.Facts) { f.LocalQueues[0].Spec.StopPolicy = new(kueue.StopPolicyHoldAndDrain) },
			[]string{"queue-stopped localqueue/default-queue in blue"},
			"mlbatch queue resume default-queue -n blue",
		},
		"lent": {
			"Kueue's default",
			func(f *doctor.Facts) { f.Queues[0].Spec.Preemption = nil },
			[]string{"lent-for-ever " + blue},
			"--reclaim-within-cohort Any",
		},
		"lends nothing": {"then nothing is gone", func(f *doctor.Facts) {
			f.Queues[0].Spec.Preemption = nil
			quota(f).LendingLimit = new(resource.MustParse("0"))
		}, nil, ""},
		"not borrowed": {"the only other may not", func(f *doctor.Facts) {
			f.Queues[0].Spec.Preemption = nil
			f.Queues[1].Spec.ResourceGroups[0].Flavors[0].Resources[0].BorrowingLimit = new(resource.MustParse("0"))
		}, nil, ""},
		"lent above": {"cohorts in cohorts lend to each other", func(f *doctor.Facts) {
			f.Queues[0].Spec.Preemption, f.Queues[0].Spec.CohortName = nil, "part"
			f.Cohorts = []kueue.Cohort{{ObjectMeta: meta("", "part"), Spec: kueue.CohortSpec{ParentName: "all"}}}
		}, []string{"lent-for-ever " + blue}, ""},
		"weight": {"", func(f *doctor.Facts) {
			f.Queues[0].Spec.FairSharing = &kueue.FairSharing{Weight: new(resource.MustParse("0"))}
		}, []string{"weight-zero " + blue}, "mlbatch queue edit blue-cluster-queue --weight 1"},
		"weight, nobody shares": {"it says nothing as long as fair sharing is off", func(f *doctor.Facts) {
			f.Queues[0].Spec.FairSharing = &kueue.FairSharing{Weight: new(resource.MustParse("2"))}
		}, []string{"weight-ignored " + blue}, "fairSharing.enable"},
		"weight, shares counted": {"", func(f *doctor.Facts) {
			f.Queues[0].Spec.FairSharing = &kueue.FairSharing{Weight: new(resource.MustParse("2"))}
			f.Queues[1].Status.FairSharing = &kueue.FairSharingStatus{}
		}, nil, ""},
		"weight, queue just made": {"its share may not have been written yet", func(f *doctor.Facts) {
			f.Queues[0].Spec.FairSharing = &kueue.FairSharing{Weight: new(resource.MustParse("2"))}
			f.Queues[0].CreationTimestamp = metav1.NewTime(f.Now.Add(-time.Second))
		}, nil, ""},
		"usual weight": {"it is what those have that name none", func(f *doctor.Facts) {
			f.Queues[0].Spec.FairSharing = &kueue.FairSharing{Weight: new(resource.MustParse("1"))}
		}, nil, ""},
		"local weight": {"", func(f *doctor.Facts) {
			f.LocalQueues[0].Spec.FairSharing = &kueue.FairSharing{Weight: new(resource.MustParse("0"))}
		}, []string{"weight-zero localqueue/default-queue in blue"}, "kubectl patch localqueue"},
		"forgetful": {"kueue#11134: silently off", func(f *doctor.Facts) {
			f.Queues[0].Spec.AdmissionScope = &kueue.AdmissionScope{
				AdmissionMode: kueue.UsageBasedAdmissionFairSharing,
			}
		}, []string{"usage-not-remembered " + blue}, "admissionFairSharing"},
		"remembers": {"", func(f *doctor.Facts) {
			f.Queues[0].Spec.AdmissionScope = &kueue.AdmissionScope{
				AdmissionMode: kueue.UsageBasedAdmissionFairSharing,
			}
			f.LocalQueues[0].Status.FairSharing = &kueue.LocalQueueFairSharingStatus{
				AdmissionFairSharingStatus: &kueue.AdmissionFairSharingStatus{},
			}
		}, nil, ""},
		"priority": {
			"everybody is high",
			func(f *doctor.Facts) { f.Classes[1].Value = 10 },
			[]string{"default-priority-highest priorityclass/usual"},
			"globalDefault",
		},
		"one priority": {
			"there is no other to be told from",
			func(f *doctor.Facts) { f.Classes = f.Classes[1:] },
			nil,
			"",
		},
		"job": {"it waits for ever", func(f *doctor.Facts) {
			f.Workloads = []kueue.Workload{
				{
					ObjectMeta: meta("blue", "w"),
					Spec:       kueue.WorkloadSpec{QueueName: "typo"},
					Status: kueue.WorkloadStatus{
						Conditions: []metav1.Condition{{Type: kueue.WorkloadQuotaReserved, Status: "False"}},
					},
				},
			}
		}, []string{"no-queue workload blue/w"}, "mlbatch queue create"},
		"over quota": {
			"",
			func(f *doctor.Facts) { quota(f).NominalQuota = resource.MustParse("40") },
			[]string{"over-quota flavor f, nvidia.com/gpu"},
			"mlbatch queue edit",
		},
		"drained": {"", func(f *doctor.Facts) {
			f.Nodes[0].Spec.Unschedulable = true
			f.Nodes[0].Annotations = map[string]string{
				view.DrainAnnotation: `{"by":"root","reason":"fan","at":"2026-01-01T11:59:00Z"}`,
			}
			f.Nodes = append(f.Nodes, *healthy().Nodes[0].DeepCopy())
			f.Nodes[1].Name = "m"
		}, []string{"node-out node/n"}, "mlbatch undrain n"},
		"outside": {"", func(f *doctor.Facts) {
			f.Pods = []corev1.Pod{
				{
					ObjectMeta: meta("other", "p"),
					Spec: corev1.PodSpec{
						NodeName: "n",
						Containers: []corev1.Container{
							{
								Resources: corev1.ResourceRequirements{
									Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
								},
							},
						},
					},
					Status: corev1.PodStatus{Phase: corev1.PodRunning},
				},
			}
		}, []string{"gpus-outside pod other/p"}, "--adopt"},
		"unused": {"", func(f *doctor.Facts) {
			f.Flavors = append(f.Flavors, kueue.ResourceFlavor{ObjectMeta: meta("", "old")})
		}, []string{"flavor-unused resourceflavor/old"}, "mlbatch flavor delete old"},
		"slack": {"nobody submits to it, and that is meant", func(f *doctor.Facts) {
			q := queue("slack")
			q.Spec.ResourceGroups[0].Flavors[0].Resources[0].NominalQuota = resource.MustParse("0")
			f.Queues = append(f.Queues, q)
		}, nil, ""},
	}
}

// TestFaultsAreFound, each by its rule with a cure, and nothing else.
func TestFaultsAreFound(t *testing.T) {
	hit := map[string]bool{}
	for name, tc := range faults() {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			tc.harm(f)
			findings := doctor.Diagnose(f)
			var got []string
			for _, x := range findings {
				got = append(got, x.Rule+" "+x.Object)
				hit[x.Rule] = true
				if x.Cure == "" || x.Message == "" {
					t.Errorf("%+v says too little", x)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Fatalf("found %q, want %q: %s", got, tc.want, tc.why)
			}
			if len(findings) > 0 && !strings.Contains(findings[0].Cure, tc.cure) {
				t.Errorf("cure %q, want %q", findings[0].Cure, tc.cure)
			}
		})
	}
	for _, r := range doctor.Rules() {
		if !hit[r.Name] {
			t.Errorf("no fault is found by %s", r.Name)
		}
	}
}

// TestAJobIsTried: what the API server says of it is what is known of webhooks, and no more.
func TestAJobIsTried(t *testing.T) {
	l := local("blue", "fast", "blue-cluster-queue")
	for name, tc := range map[string]struct {
		why   string
		queue bool
		hold  bool
		err   error
		want  string
	}{
		"held":        {"the webhook answered", true, true, nil, "{Namespace:blue Webhook: Unanswered: Unheld:false}"},
		"not held":    {"it was not asked", true, false, nil, "{Namespace:blue Webhook: Unanswered: Unheld:true}"},
		"unreachable": {"its service has no endpoints", true, false, apierrors.NewInternalError(errors.New(`failed calling webhook "mjob.kb.io": failed to call webhook: no endpoints available`)), "{Namespace:blue Webhook:mjob.kb.io Unanswered:failed to call webhook: no endpoints available Unheld:false}"},
		"broken":      {"something else of the API server", true, false, apierrors.NewInternalError(errors.New("etcd")), "none"},
		"forbidden":   {"who may not create jobs does not know", true, false, apierrors.NewForbidden(schema.GroupResource{}, "", nil), "none"},
		"refused":     {"the webhook of others, or ours, answered", true, false, apierrors.NewBadRequest("admission webhook denied the request"), "none"},
		"no queue":    {"there is nothing to try with", false, false, nil, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(scheme.New())
			if tc.queue {
				b = b.WithObjects(&l)
			}
			f, err := doctor.Take(
				t.Context(),
				b.Build(),
				doctor.Asks{Now: now(), Try: func(_ context.Context, o client.Object) error {
					job := o.(*batchv1.Job)
					if job.Namespace != "blue" || job.Labels[kueue.QueueNameLabel] != "fast" {
						t.Errorf("tried %s with %v", job.Namespace, job.Labels)
					}
					if tc.hold {
						job.Spec.Suspend = new(true)
					}
					return tc.err
				}},
			)
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			if f.Trial != nil {
				got = fmt.Sprintf("%+v", *f.Trial)
			}
			if got != tc.want {
				t.Errorf("%s, want %s: %s", got, tc.want, tc.why)
			}
		})
	}
}

// TestWhatIsUnreadIsNotJudged: what a user may not read is not told to be missing.
func TestWhatIsUnreadIsNotJudged(t *testing.T) {
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.New()).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
		},
	})
	f, err := doctor.Take(
		t.Context(),
		c,
		doctor.Asks{
			Wanted:     healthy().Wanted,
			Now:        now(),
			Controller: func(context.Context, string) error { return errors.New("down") },
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if found := doctor.Diagnose(f); len(found) > 0 || len(f.Unread) != 16 || !f.Blind() {
		t.Errorf("%+v, unread %v", found, f.Unread)
	}
}

// TestWhoMayNotAskIsNotToldOfSilence: a controller that is not allowed to answer somebody may well run.
func TestWhoMayNotAskIsNotToldOfSilence(t *testing.T) {
	q := &kueue.ClusterQueue{ObjectMeta: meta("", "q")}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(q).Build()
	api := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }),
	)
	t.Cleanup(api.Close)
	f, err := doctor.Take(
		t.Context(),
		c,
		doctor.Asks{
			Wanted: healthy().Wanted,
			Now:    now(),
			Controller: func(ctx context.Context, queue string) error {
				_, err := cli.Controller{Config: &rest.Config{Host: api.URL}}.Pending(ctx, "", queue)
				return err
			},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if f.Silent != nil || !slices.Contains(f.Unread, "pendingworkloads") {
		t.Errorf("it is said that %v, and of what is unread %v", f.Silent, f.Unread)
	}
}

// TestWorstFirst, and what counts as at least so bad.
func TestWorstFirst(t *testing.T) {
	f := healthy()
	f.Flavors = append(f.Flavors, kueue.ResourceFlavor{ObjectMeta: meta("", "old")})
	f.Queues[1].Spec.StopPolicy = new(kueue.StopPolicyHold)
	f.Queues[0].Spec.NamespaceSelector = nil
	found := doctor.Diagnose(f)
	var got []string
	for _, x := range found {
		got = append(got, string(x.Severity))
	}
	if want := []string{"error", "warning", "note"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if found[1].Severity.AtLeast(finding.Error) || !found[1].Severity.AtLeast(finding.Warning) ||
		!found[1].Severity.AtLeast(finding.Note) {
		t.Error("a warning is as bad as a warning, and worse than a note")
	}
	if got := doctor.Sum(found); got != "1 error, 1 warning, 1 note." {
		t.Error(got)
	}
	var out bytes.Buffer
	if err := doctor.Print(
		&out,
		&finding.Finding{
			Severity: finding.Error,
			Object:   "x/y",
			Message:  "says \x1b[31m this",
			Cure:     "kubectl get",
		},
		cli.Style{Width: 20, Kubectl: "mlbatch kubectl"},
	); err != nil {
		t.Fatal(err)
	}
	if want := "ERROR x/y: says\n  \\x1b[31m this\n  -> mlbatch kubectl get\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestManyEqualFindingsAreOne: what is the same of a thousand nodes is said once, with how many they
// are; few, and others in between, are told one by one.
func TestManyEqualFindingsAreOne(t *testing.T) {
	var all []finding.Finding
	for i := range 1000 {
		all = append(
			all,
			finding.Finding{
				Rule:     "node-out",
				Severity: finding.Warning,
				Object:   fmt.Sprintf("node/n%03d", i),
				Message:  fmt.Sprintf("not ready for %ds", i),
				Cure:     fmt.Sprintf("kubectl uncordon n%03d", i),
			},
		)
		if i < 3 {
			all = append(
				all,
				finding.Finding{
					Rule:     "queue-stopped",
					Severity: finding.Warning,
					Object:   fmt.Sprintf("clusterqueue/q%d", i),
					Message:  "stopped",
					Cure:     "resume",
				},
			)
		}
	}
	var got []string
	for _, x := range doctor.Together(all) {
		got = append(got, x.Object+": "+x.Message+" -> "+x.Cure)
	}
	want := []string{
		"1000 nodes (n000, n001, n002, n003, n004 and 995 more): not ready for 0s -> kubectl uncordon n000; the same for each of the others, which -o json lists",
		"clusterqueue/q0: stopped -> resume",
		"clusterqueue/q1: stopped -> resume",
		"clusterqueue/q2: stopped -> resume",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var pods []finding.Finding
	for i := range 4 {
		pods = append(
			pods,
			finding.Finding{
				Rule:     "gpus-outside",
				Severity: finding.Note,
				Object:   fmt.Sprintf("pod ns-%d/p", i),
				Message:  "has 1 GPU",
				Cure:     "give",
			},
		)
	}
	if got := doctor.Together(
		pods,
	); len(got) != 1 ||
		got[0].Object != "4 pods (ns-0/p, ns-1/p, ns-2/p, ns-3/p)" {
		t.Errorf("pods of several namespaces are one: %+v", got)
	}
	if doctor.Sum(all) != "1003 warnings." {
		t.Errorf("all are counted: %s", doctor.Sum(all))
	}
}

// TestPolicies: what applies, with what is not said.
func TestPolicies(t *testing.T) {
	f := healthy()
	f.Queues[0].Spec = kueue.ClusterQueueSpec{}
	got := f.Policies()
	if want := "{blue-cluster-queue  BestEffortFIFO   Never   1 }"; fmt.Sprint(got[0]) != want {
		t.Errorf("%q, want %q", fmt.Sprint(got[0]), want)
	}
	if want := "{red-cluster-queue all BestEffortFIFO all all Never Any Never 1 }"; fmt.Sprint( //nolint:dupword // columns
		got[1],
	) != want {
		t.Errorf("%q, want %q", fmt.Sprint(got[1]), want)
	}
}

// TestPrinted is what is read in terminals of three widths.
func TestPrinted(t *testing.T) {
	f := healthy()
	f.Flavors = append(f.Flavors, kueue.ResourceFlavor{ObjectMeta: meta("", "old")})
	f.Queues[1].Spec.StopPolicy = new(kueue.StopPolicyHold)
	f.Queues[0].Spec.NamespaceSelector = nil
	f.Queues[0].Spec.Preemption = nil
	f.Queues[0].Spec.FairSharing = &kueue.FairSharing{Weight: new(resource.MustParse("0"))}
	f.Silent = errors.New("the server is currently unable to handle the request")
	for _, width := range []int{60, 80, 140} {
		var findings, policies, rules bytes.Buffer
		found := doctor.Diagnose(f)
		for i := range found {
			if err := doctor.Print(&findings, &found[i], cli.Style{Width: width, Kubectl: "kubectl"}); err != nil {
				t.Fatal(err)
			}
		}
		findings.WriteString(doctor.Sum(found) + "\n")
		layout := cli.Layout{Width: width}
		if err := errors.Join(
			cli.PrintTable(&policies, doctor.PolicyColumns(), f.Policies(), layout),
			cli.PrintTable(&rules, doctor.RuleColumns(), doctor.Rules(), layout),
		); err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]string{"findings": findings.String(), "policies": policies.String(), "rules": rules.String()} {
			testkit.Golden(t, fmt.Sprintf("testdata/%s-%d.txt", name, width), got)
		}
	}
}

// TestRulesAreDocumented: people look up what they are told.
func TestRulesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "judge.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, found := strings.Cut(string(page), "\n## Is it set up well?\n")
	if !found {
		t.Fatal("docs/judge.md has no chapter about the set-up")
	}
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	for _, r := range doctor.Rules() {
		if !strings.Contains(chapter, "`"+r.Name+"`") || r.Asks == "" {
			t.Errorf("docs/judge.md does not name %s", r.Name)
		}
	}
}

// Who asks about the installation is told whether it works, and not what teams and administrators
// have set up in it.
func TestRulesOfTheInstallation(t *testing.T) {
	of := map[string]bool{}
	for _, r := range doctor.Rules() {
		of[r.Name] = doctor.OfInstallation(r.Name)
	}
	for name, want := range map[string]bool{
		"controller-silent": true, "webhook-silent": true, "definition-missing": true, "leader-missing": true,
		"localqueue-leads-nowhere": false, "team-without-queue": false, "queue-without-namespaces": false, "flavor-without-nodes": false, "check-inactive": false,
	} {
		if is, known := of[name]; !known || is != want {
			t.Errorf("%s: of the installation %t, known %t", name, is, known)
		}
	}
}
