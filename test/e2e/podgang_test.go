package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Pods that name a PodGroup of another scheduler get their quota together, and no sooner
// than the PodGroup is there; those that it does not count wait by themselves.
func TestPodGroupsOfOtherSchedulers(t *testing.T) {
	admin := lab(t, "gangs", map[corev1.ResourceName]string{"nvidia.com/gpu": "3"}, "default-queue")
	withoutPods(t, admin, "gangs")
	havePodGroups(t, "scheduling.volcano.sh", "v1beta1")
	havePodGroups(t, "scheduling.run.ai", "v2alpha2")
	for name, tc := range map[string]struct{ labels, notes, version string }{
		"plugins": {labels: "scheduling.x-k8s.io/pod-group: plugins", version: "scheduling.x-k8s.io/v1alpha1"},
		"volcano": {notes: "scheduling.k8s.io/group-name: volcano", version: "scheduling.volcano.sh/v1beta1"},
		"kai":     {notes: "pod-group-name: kai", version: "scheduling.run.ai/v2alpha2"},
	} {
		t.Run(name, func(t *testing.T) {
			create(t, admin, queuedPod("other", 2, 1000000, "", "", ""), "gangs")
			eventually(t, "another pod runs", inState(t, "gangs", "other", 1, 0))
			for i := range 3 {
				create(
					t,
					admin,
					queuedPod(fmt.Sprintf("%s-%d", name, i), 1, 1000000, tc.labels, tc.notes, "schedulerName: "+name),
					"gangs",
				)
			}
			eventually(t, "its pods are told what they wait for", func() string {
				var all corev1.EventList
				if err := admin.List(t.Context(), &all, client.InNamespace("gangs")); err != nil {
					return err.Error()
				}
				for _, e := range all.Items {
					if e.Reason == "GroupMismatch" && strings.Contains(e.Message, "there is no PodGroup "+name) {
						return ""
					}
				}
				return "nothing is said"
			})
			create(
				t,
				admin,
				fmt.Sprintf(
					"{apiVersion: %s, kind: PodGroup, metadata: {name: %s}, spec: {minMember: 2}}",
					tc.version,
					name,
				),
				"gangs",
			)
			always(
				t,
				"none of them runs, since there is room for one only",
				inState(t, "gangs", name, 0, 3),
				func() string {
					w := groupOf(t, "gangs", name)
					if w == nil || w.Spec.PodSets[0].Count != 2 {
						return fmt.Sprintf("the group's Workload is %v", w)
					}
					if c := apimeta.FindStatusCondition(
						w.Status.Conditions,
						kueue.WorkloadQuotaReserved,
					); c == nil ||
						c.Status != metav1.ConditionFalse {
						return fmt.Sprintf("QuotaReserved is %v", c)
					}
					return ""
				},
			)
			if err := admin.Delete(
				t.Context(),
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "gangs", Name: "other"}},
			); err != nil {
				t.Fatal(err)
			}
			eventually(t, "all run", inState(t, "gangs", name, 3, 0))
			if err := admin.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("gangs")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "nothing is left", nothingLeft(t, "gangs", name, name))
			eventually(t, "and the quota is free", reserved(t, "gangs", 0))
		})
	}
}

// havePodGroups gives the cluster PodGroups of an API group for as long as a test runs.
func havePodGroups(t *testing.T, group, version string) {
	t.Helper()
	s := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.RESTConfig(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(`
metadata: {name: podgroups.`+group+`}
spec:
  group: `+group+`
  scope: Namespaced
  names: {kind: PodGroup, listKind: PodGroupList, plural: podgroups, singular: podgroup}
  versions:
  - {name: `+version+`, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`), crd); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(withoutCancel(t), crd) })
	eventually(t, "PodGroups of "+group+" are served", func() string {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			return err.Error()
		}
		for _, o := range crd.Status.Conditions {
			if o.Type == apiextensionsv1.Established && o.Status == apiextensionsv1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprint(crd.Status.Conditions)
	})
}
