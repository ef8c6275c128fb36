package jobs_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// An admission that is taken out again leaves the template as its author wrote it: without the groups in which the Workload
// records what the job says of all of its pods.
func TestInjectionLeavesNoGroups(t *testing.T) {
	in := jobs.InTemplates(func(j *batchv1.Job) []jobs.Place {
		return []jobs.Place{{PodSet: "main", Template: &j.Spec.Template}}
	})
	for name, own := range map[string]map[string]string{
		"nothing":         nil,
		"a rack":          {kueue.PodSetRequiredTopologyAnnotation: "rack"},
		"a group already": {kueue.PodSetRequiredTopologyAnnotation: "rack", kueue.TopologyGroupsAnnotation: "row=mine"},
	} {
		author := &batchv1.Job{}
		author.Spec.Template.Annotations = maps.Clone(own)
		record := []kueue.PodSet{{Name: "main", Template: *author.Spec.Template.DeepCopy()}, {Name: "other"}}
		record[0].TopologyRequest = &kueue.PodSetTopologyRequest{Required: new("rack")}
		jobs.Outer{Required: "block"}.Around(record)
		if record[0].Template.Annotations[kueue.TopologyGroupsAnnotation] == own[kueue.TopologyGroupsAnnotation] {
			t.Fatalf("%s: the Workload records %v", name, record[0].Template.Annotations)
		}
		added, err := in.Add(author, []jobs.PodSetInfo{{
			Name: "main", Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var is corev1.PodTemplateSpec
		if back, typed := in.Remove(added, record).(*batchv1.Job); typed {
			is = back.Spec.Template
		}
		if diff := cmp.Diff(own, is.Annotations); diff != "" {
			t.Errorf("%s: annotations of the template (-want +got):\n%s", name, diff)
		}
	}
}
