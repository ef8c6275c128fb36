package admission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// TestGroupMapsAreReadOnceForAll: the ConfigMaps of a namespace are read once for all jobs that wait for one, some
// hundred of them at most, and no more of each than can say something of a group.
func TestGroupMapsAreReadOnceForAll(t *testing.T) {
	maps := []client.Object{}
	for i := range 300 {
		maps = append(maps, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue", Name: fmt.Sprintf("m-%03d", i), Labels: map[string]string{sakkara.GroupLabel: ""},
			},
			Data:       map[string]string{"name": fmt.Sprint("g", i), "constraints": strings.Repeat("x", 1<<17)},
			BinaryData: map[string][]byte{"more": make([]byte, 1<<10)},
		})
	}
	reads := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(maps...).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
			reads++
			return c.List(ctx, l, o...)
		},
	})
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e6, 0))
	g := admission.SakkaraGroups{Client: c, Live: c, Shared: &admission.SakkaraMaps{Clock: clock}}
	for range 10 {
		all, err := g.List(t.Context(), "blue")
		if err != nil || len(all) != 256 {
			t.Fatalf("%d ConfigMaps, %v", len(all), err)
		}
		if n := len(all[0].Data["constraints"]); n > 1<<16 || all[0].BinaryData != nil {
			t.Fatalf("%d bytes of a value are kept", n)
		}
		if _, wrong := admission.OneOf(all, "g299"); !strings.Contains(wrong, "first 256") {
			t.Fatalf("what is beyond is told as %q", wrong)
		}
	}
	once := reads
	clock.SetTime(clock.Now().Add(5 * time.Second))
	if _, err := g.List(t.Context(), "blue"); err != nil || reads != 2*once {
		t.Errorf("ten jobs read %d times, and %d times after some seconds, %v", once, reads-once, err)
	}
}

// TestGroupOfAJobThatRunsOn: the group of a job that was evicted, and runs on to save what it has done, is lost once that time
// is over.
func TestGroupOfAJobThatRunsOn(t *testing.T) {
	w := &kueue.Workload{Status: kueue.WorkloadStatus{Admission: &kueue.Admission{}}}
	is := func(kind string, status metav1.ConditionStatus) {
		apimeta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: "Because", LastTransitionTime: metav1.NewTime(time.Unix(1000, 0)),
		})
	}
	is(kueue.WorkloadAdmitted, metav1.ConditionTrue)
	is(kueue.WorkloadEvicted, metav1.ConditionTrue)
	is(kueue.WorkloadStopNotice, metav1.ConditionTrue)
	if got, some := admission.SakkaraOutcomeOf(w, nil, 0); some {
		t.Errorf("its pods run, and its group is told %+v", got)
	}
	is(kueue.WorkloadStopNotice, metav1.ConditionFalse)
	if got, some := admission.SakkaraOutcomeOf(w, nil, 0); !some || !got.Lost {
		t.Errorf("its pods are stopped, and its group is told %v, %+v", some, got)
	}
}
