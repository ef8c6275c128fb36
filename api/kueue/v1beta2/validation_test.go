package v1beta2_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// finding is an error without the value it is about.
type finding struct {
	Field string
	Type  field.ErrorType
}

func findings(errs field.ErrorList) []finding {
	var out []finding
	for _, e := range errs {
		out = append(out, finding{e.Field, e.Type})
	}
	return out
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

func quota(name, nominal string, change ...func(*v1beta2.ResourceQuota)) v1beta2.ResourceQuota {
	q := v1beta2.ResourceQuota{Name: corev1.ResourceName(name), NominalQuota: resource.MustParse(nominal)}
	for _, c := range change {
		c(&q)
	}
	return q
}

func borrow(s string) func(*v1beta2.ResourceQuota) {
	return func(q *v1beta2.ResourceQuota) { q.BorrowingLimit = quantity(s) }
}

func lend(s string) func(*v1beta2.ResourceQuota) {
	return func(q *v1beta2.ResourceQuota) { q.LendingLimit = quantity(s) }
}

func flavor(name string, quotas ...v1beta2.ResourceQuota) v1beta2.FlavorQuotas {
	return v1beta2.FlavorQuotas{Name: v1beta2.ResourceFlavorReference(name), Resources: quotas}
}

// group covers the resources of its first flavor.
func group(flavors ...v1beta2.FlavorQuotas) v1beta2.ResourceGroup {
	g := v1beta2.ResourceGroup{Flavors: flavors}
	for _, q := range flavors[0].Resources {
		g.CoveredResources = append(g.CoveredResources, q.Name)
	}
	return g
}

func queue(cohort string, groups ...v1beta2.ResourceGroup) *v1beta2.ClusterQueue {
	return &v1beta2.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: "blue-cluster-queue"},
		Spec:       v1beta2.ClusterQueueSpec{CohortName: v1beta2.CohortReference(cohort), ResourceGroups: groups},
	}
}

func with(cq *v1beta2.ClusterQueue, change func(*v1beta2.ClusterQueueSpec)) *v1beta2.ClusterQueue {
	change(&cq.Spec)
	return cq
}

func TestValidateClusterQueue(t *testing.T) {
	const (
		quota0 = "spec.resourceGroups[0].flavors[0].resources[0]."
		policy = "spec.concurrentAdmissionPolicy"
		last   = policy + ".migration.constraints.lastAcceptableFlavorName"
	)
	cases := map[string]struct {
		why  string
		cq   *v1beta2.ClusterQueue
		want []finding
	}{
		"Good": {
			why: "the queue of the tutorial",
			cq: queue(
				"default-cohort",
				group(
					flavor("default-flavor", quota("cpu", "224"), quota("nvidia.com/gpu", "8", borrow("0"), lend("8"))),
				),
			),
		},
		"Empty": {
			why: "a queue without quota can still borrow",
			cq:  queue("default-cohort"),
		},
		"NegativeQuota": {
			why:  "no one owns less than nothing",
			cq:   queue("", group(flavor("f", quota("cpu", "-1")))),
			want: []finding{{quota0 + "nominalQuota", field.ErrorTypeInvalid}},
		},
		"NegativeLimits": {
			why: "limits are amounts too",
			cq:  queue("c", group(flavor("f", quota("cpu", "1", borrow("-1"), lend("-1"))))),
			want: []finding{
				{quota0 + "borrowingLimit", field.ErrorTypeInvalid},
				{quota0 + "lendingLimit", field.ErrorTypeInvalid},
			},
		},
		"LendsMoreThanItHas": {
			why:  "lendingLimit over nominal would promise what is not there",
			cq:   queue("c", group(flavor("f", quota("cpu", "1", lend("1001m"))))),
			want: []finding{{quota0 + "lendingLimit", field.ErrorTypeInvalid}},
		},
		"LimitsWithoutCohort": {
			why: "there is no one to borrow from or lend to",
			cq:  queue("", group(flavor("f", quota("cpu", "1", borrow("1"), lend("1"))))),
			want: []finding{
				{quota0 + "borrowingLimit", field.ErrorTypeInvalid},
				{quota0 + "lendingLimit", field.ErrorTypeInvalid},
			},
		},
		"FlavorMissesResource": {
			why: "two flavors of one group with different resources",
			cq: queue("", group(
				flavor(
					"f",
					quota("cpu", "1"),
					quota("memory", "1"),
				),
				flavor("g", quota("cpu", "1"), quota("pods", "1")),
			)),
			want: []finding{{"spec.resourceGroups[0].flavors[1].resources", field.ErrorTypeInvalid}},
		},
		"FlavorInOtherOrder": {
			why: "the order is part of the agreement",
			cq: queue("", group(
				flavor(
					"f",
					quota("cpu", "1"),
					quota("memory", "1"),
				),
				flavor("g", quota("memory", "1"), quota("cpu", "1")),
			)),
			want: []finding{{"spec.resourceGroups[0].flavors[1].resources", field.ErrorTypeInvalid}},
		},
		"ResourceTwice": {
			why:  "a resource is counted in one group",
			cq:   queue("", group(flavor("f", quota("cpu", "1"))), group(flavor("g", quota("cpu", "1")))),
			want: []finding{{"spec.resourceGroups[1].coveredResources[0]", field.ErrorTypeDuplicate}},
		},
		"FlavorTwice": {
			why:  "a flavor is in one group",
			cq:   queue("", group(flavor("f", quota("cpu", "1"))), group(flavor("f", quota("memory", "1")))),
			want: []finding{{"spec.resourceGroups[1].flavors[0].name", field.ErrorTypeDuplicate}},
		},
		"ResourceName": {
			why:  "a resource is named like a label",
			cq:   queue("", group(flavor("f", quota("a b", "1")))),
			want: []finding{{"spec.resourceGroups[0].coveredResources[0]", field.ErrorTypeInvalid}},
		},
		"Selector": {
			why: "a selector that cannot be read would select no one knows what",
			cq: with(queue(""), func(s *v1beta2.ClusterQueueSpec) {
				s.NamespaceSelector = &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}},
				}
			}),
			want: []finding{{"spec.namespaceSelector.matchExpressions[0].operator", field.ErrorTypeInvalid}},
		},
		"BorrowWithoutReclaim": {
			why: "a queue that may preempt while borrowing must be able to reclaim",
			cq: with(queue("c"), func(s *v1beta2.ClusterQueueSpec) {
				s.Preemption = &v1beta2.ClusterQueuePreemption{
					BorrowWithinCohort: &v1beta2.BorrowWithinCohort{Policy: v1beta2.BorrowWithinCohortPolicyLowerPriority},
				}
			}),
			want: []finding{{"spec.preemption.borrowWithinCohort.policy", field.ErrorTypeInvalid}},
		},
		"CheckOnForeignFlavor": {
			why: "a check can apply to flavors of the queue only",
			cq: with(queue("", group(flavor("f", quota("cpu", "1")))), func(s *v1beta2.ClusterQueueSpec) {
				s.AdmissionChecksStrategy = &v1beta2.AdmissionChecksStrategy{
					AdmissionChecks: []v1beta2.AdmissionCheckStrategyRule{
						{Name: "check", OnFlavors: []v1beta2.ResourceFlavorReference{"f", "g"}},
					},
				}
			}),
			want: []finding{
				{"spec.admissionChecksStrategy.admissionChecks[0].onFlavors[1]", field.ErrorTypeNotSupported},
			},
		},
		"NegativeWeight": {
			why: "a share cannot be negative",
			cq: with(
				queue("c"),
				func(s *v1beta2.ClusterQueueSpec) { s.FairSharing = &v1beta2.FairSharing{Weight: quantity("-1")} },
			),
			want: []finding{{"spec.fairSharing.weight", field.ErrorTypeInvalid}},
		},
		"TinyWeight": {
			why: "dividing by almost nothing overflows",
			cq: with(
				queue("c"),
				func(s *v1beta2.ClusterQueueSpec) { s.FairSharing = &v1beta2.FairSharing{Weight: quantity("1n")} },
			),
			want: []finding{{"spec.fairSharing.weight", field.ErrorTypeInvalid}},
		},
		"ConcurrentAdmission": {
			why: "variants differ in one group's flavor and cannot block each other",
			cq: with(queue(""), func(s *v1beta2.ClusterQueueSpec) {
				s.QueueingStrategy = v1beta2.StrictFIFO
				s.ConcurrentAdmissionPolicy = &v1beta2.ConcurrentAdmissionPolicy{
					Migration: v1beta2.ConcurrentAdmissionMigration{
						Mode:        v1beta2.RetainFirstAdmission,
						Constraints: &v1beta2.ConcurrentAdmissionConstraints{LastAcceptableFlavorName: "f"},
					},
				}
			}),
			want: []finding{
				{policy, field.ErrorTypeForbidden},
				{policy, field.ErrorTypeForbidden},
				{last, field.ErrorTypeForbidden},
				{last, field.ErrorTypeNotSupported},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, findings(v1beta2.ValidateClusterQueue(tc.cq))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func cohort(name, parent string, groups ...v1beta2.ResourceGroup) *v1beta2.Cohort {
	return &v1beta2.Cohort{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1beta2.CohortSpec{ParentName: v1beta2.CohortReference(parent), ResourceGroups: groups},
	}
}

func TestValidateCohort(t *testing.T) {
	type parents = map[v1beta2.CohortReference]v1beta2.CohortReference
	cases := map[string]struct {
		why     string
		cohort  *v1beta2.Cohort
		parents parents
		want    string // in the only message; "" for none
	}{
		"Root":         {why: "a root has no parent", cohort: cohort("a", "")},
		"NoSuchParent": {why: "a cohort need not be an object", cohort: cohort("a", "b")},
		"Self":         {why: "a cohort is not its own parent", cohort: cohort("a", "a"), want: "a -> a"},
		"Cycle": {
			why: "lending would go round in circles", cohort: cohort("a", "b"),
			parents: parents{"b": "c", "c": "a"}, want: "a -> b -> c -> a",
		},
		"WasElsewhere": {
			why: "the parent it had before counts no longer", cohort: cohort("a", "c"),
			parents: parents{"a": "b", "b": "c"},
		},
		"ForeignCycle": {
			why: "a cycle among others is not this cohort's fault, and may not hang us", cohort: cohort("a", "b"),
			parents: parents{"b": "c", "c": "b"},
		},
		"LendsMore": {
			why:    "a cohort also lends what its members have",
			cohort: cohort("a", "b", group(flavor("f", quota("cpu", "1", lend("5"))))),
		},
		"LimitWithoutParent": {
			why:    "a root has no one to lend to",
			cohort: cohort("a", "", group(flavor("f", quota("cpu", "1", lend("1"))))),
			want:   "set spec.parentName or remove lendingLimit",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs := v1beta2.ValidateCohort(tc.cohort, tc.parents)
			if tc.want == "" && len(errs) > 0 ||
				tc.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Detail, tc.want)) {
				t.Errorf("%s: got %v, want %q", tc.why, errs, tc.want)
			}
		})
	}
}

func TestValidateOthers(t *testing.T) {
	labels := map[string]string{"pool": "h100"}
	cases := map[string]struct {
		why  string
		errs field.ErrorList
		want []finding
	}{
		"QueueWithoutClusterQueue": {
			why:  "it would lead nowhere",
			errs: v1beta2.ValidateLocalQueue(&v1beta2.LocalQueue{}),
			want: []finding{{"spec.clusterQueue", field.ErrorTypeRequired}},
		},
		"QueueMoved": {
			why: "its workloads hold quota of the old one",
			errs: v1beta2.ValidateLocalQueueUpdate(
				&v1beta2.LocalQueue{
					Spec: v1beta2.LocalQueueSpec{ClusterQueue: "a"},
				},
				&v1beta2.LocalQueue{Spec: v1beta2.LocalQueueSpec{ClusterQueue: "b"}},
			),
			want: []finding{{"spec.clusterQueue", field.ErrorTypeInvalid}},
		},
		"Flavor": {
			why: "labels, taints and tolerations of real nodes",
			errs: v1beta2.ValidateResourceFlavor(&v1beta2.ResourceFlavor{Spec: v1beta2.ResourceFlavorSpec{
				NodeLabels: labels,
				NodeTaints: []corev1.Taint{{Key: "gpu", Effect: "NoSchedule"}, {Key: "gpu", Effect: "NoExecute"}},
				Tolerations: []corev1.Toleration{
					{Operator: "Exists"},
				},
				TopologyName: ptr.To[v1beta2.TopologyReference]("t"),
			}}),
		},
		"FlavorBad": {
			why: "no node could be like that",
			errs: v1beta2.ValidateResourceFlavor(&v1beta2.ResourceFlavor{Spec: v1beta2.ResourceFlavorSpec{
				NodeTaints: []corev1.Taint{
					{Key: "gpu", Effect: "NoSchedule"},
					{Key: "gpu", Effect: "NoSchedule", Value: "x"},
				},
				Tolerations:  []corev1.Toleration{{Key: "a b"}},
				TopologyName: ptr.To[v1beta2.TopologyReference]("t"),
			}}),
			want: []finding{
				{"spec.nodeTaints[1]", field.ErrorTypeDuplicate},
				{"spec.tolerations[0].key", field.ErrorTypeInvalid},
				{"spec.nodeLabels", field.ErrorTypeRequired},
			},
		},
		"ConcurrencyPolicyAdded": {
			why: "waiting workloads were made for the old policy",
			errs: v1beta2.ValidateClusterQueueUpdate(queue("", group(flavor("f", quota("cpu", "1")))),
				with(queue("", group(flavor("f", quota("cpu", "1")))), func(s *v1beta2.ClusterQueueSpec) {
					s.ConcurrentAdmissionPolicy = &v1beta2.ConcurrentAdmissionPolicy{
						Migration: v1beta2.ConcurrentAdmissionMigration{Mode: v1beta2.TryPreferredFlavors},
					}
				})),
			want: []finding{{"spec.concurrentAdmissionPolicy", field.ErrorTypeForbidden}},
		},
		"WorkloadEmpty": {
			why:  "there is nothing to admit",
			errs: v1beta2.ValidateWorkload(&v1beta2.Workload{}),
			want: []finding{{"spec.podSets", field.ErrorTypeRequired}},
		},
		"WorkloadBad": {
			why: "requests that cannot be counted",
			errs: v1beta2.ValidateWorkload(&v1beta2.Workload{Spec: v1beta2.WorkloadSpec{PodSets: []v1beta2.PodSet{{
				Name: "main", Count: 1, MinCount: ptr.To[int32](2),
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b c"}},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{"cpu": resource.MustParse("-1"), "pods": resource.MustParse("1")},
					}}}},
				},
			}}}}),
			want: []finding{
				{"spec.podSets[0].minCount", field.ErrorTypeInvalid},
				{"spec.podSets[0].template.metadata.labels", field.ErrorTypeInvalid},
				{"spec.podSets[0].template.spec.containers[0].resources.requests[cpu]", field.ErrorTypeInvalid},
				{"spec.podSets[0].template.spec.containers[0].resources.requests[pods]", field.ErrorTypeForbidden},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, findings(tc.errs)); diff != "" {
				t.Errorf("%s (-want +got):\n%s\n%v", tc.why, diff, tc.errs)
			}
		})
	}
}
