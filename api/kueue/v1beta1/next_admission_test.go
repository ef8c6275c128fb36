package v1beta1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// TestNextAdmissionIsNoAnnotation: whoever may write a Workload may write the annotation that keeps what only v1beta2 has,
// and must not have places held by it; a program that reads and writes v1beta1 loses nothing.
func TestNextAdmissionIsNoAnnotation(t *testing.T) {
	forged := &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1beta1.OnlyV1beta2Annotation: `{"nextAdmission":{"observedGeneration":0,"admission":{"clusterQueue":"q"}}}`,
	}}}
	var out v1beta2.Workload
	if err := forged.ConvertTo(&out); err != nil || out.Status.NextAdmission != nil {
		t.Errorf("%v, %+v", err, out.Status.NextAdmission)
	}
	hub := &v1beta2.Workload{Status: v1beta2.WorkloadStatus{
		NextAdmission: &v1beta2.NextAdmission{
			ObservedGeneration: 3, Admission: v1beta2.Admission{ClusterQueue: "q"},
		},
	}}
	var spoke v1beta1.Workload
	var back v1beta2.Workload
	if err := spoke.ConvertFrom(hub); err != nil {
		t.Fatal(err)
	}
	if err := spoke.ConvertTo(&back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hub.Status, back.Status); diff != "" {
		t.Error(diff)
	}
}
