package convert_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func TestTaken(t *testing.T) {
	owned := func(kind, uid string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "u-x", Controller: new(true)}},
			Labels:          map[string]string{kueue.JobUIDLabel: uid},
		}
	}
	for name, c := range map[string]struct {
		meta     metav1.ObjectMeta
		reserved bool
		pods     int
		want     string
	}{
		"MadeForNobody":       {},
		"AndReserved":         {reserved: true},
		"ItsOwn":              {meta: owned("Job", "u-x"), pods: 3},
		"MadeForItByItsOwner": {meta: metav1.ObjectMeta{Labels: map[string]string{kueue.JobUIDLabel: "u-x"}}},
		"OfAGroup":            {meta: metav1.ObjectMeta{Annotations: map[string]string{kueue.IsGroupWorkloadAnnotation: "true"}}, want: "is that of a group of pods"},
		"OfAnotherJob":        {meta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "JobSet", Name: "o", UID: "u-y", Controller: new(true)}}}, want: "belongs to JobSet o"},
		"LeftByAnotherJob":    {meta: metav1.ObjectMeta{Labels: map[string]string{kueue.JobUIDLabel: "u-y"}}, reserved: true, want: "was made for another job"},
		"WithPods":            {pods: 1, want: "has pods"},
		"OfItsOwnGroup":       {meta: metav1.ObjectMeta{Annotations: map[string]string{kueue.IsGroupWorkloadAnnotation: "true"}, Labels: map[string]string{kueue.JobUIDLabel: "u-x"}}, want: "is that of a group of pods"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &kueue.Workload{ObjectMeta: c.meta}
			if c.reserved {
				w.Status.Admission = &kueue.Admission{}
			}
			if got := convert.Taken(w, "u-x", c.pods); got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}
