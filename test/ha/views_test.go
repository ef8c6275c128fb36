package ha

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Views are asked of the API server, which passes the question on to whichever controller its Service leads to.
// One that stands by tells the same as the one that decides, the place in the line too; each answer says by whom
// it is, and as of when.
func TestEveryReplicaAnswersAndSaysWhichItIs(t *testing.T) {
	p := newPlane(t)
	decides := p.begin().ready()
	p.eventually("the first one decides", func() error { return leads(decides) })
	p.views.spare(decides.order)
	standsBy := p.begin().ready()
	p.furnish(8, 8)
	// Without it no pod may be made: jobs would be put on hold and let go again while they are looked at.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "default"}}
	if err := p.admin.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	p.job("first", 8)
	p.eventually("it has what there is", func() error { return p.reserved(1, metav1.ConditionTrue) })
	p.job("second", 8)
	p.eventually("the other one waits", func() error { return p.reserved(1, metav1.ConditionFalse) })

	known := scheme.New()
	if err := view.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	viewer, err := client.New(p.config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	// told is what a controller answers; it is not asked for by name, but has to be the one that is meant.
	told := func(by *replica) (out view.Job) {
		t.Helper()
		p.eventually(by.name+" answers", func() error {
			var list view.JobViewList
			asked := time.Now().Truncate(time.Second) // as answers have it
			if err := viewer.List(t.Context(), &list, client.InNamespace(team)); err != nil {
				return err
			}
			switch at := list.At.Time; {
			case list.Replica != by.name:
				return fmt.Errorf("%s did", list.Replica)
			case at.Before(asked) || at.After(time.Now()):
				return fmt.Errorf("it says as of %s, and was asked at %s", at, asked)
			}
			for _, v := range list.Items {
				if out = v.Job; out.Name == "second" && out.Position != nil {
					return nil
				}
			}
			return fmt.Errorf("it tells of %+v", list.Items)
		})
		return out
	}
	one := told(standsBy)
	if leads(standsBy) == nil {
		t.Fatal("the second one leads")
	}
	p.views.add(decides.order)
	standsBy.signal(syscall.SIGKILL)
	other := told(decides)
	if one.State != view.Waiting || one.State != other.State || one.Message != other.Message ||
		*one.Position != 1 || *other.Position != 1 {
		t.Errorf("one tells %+v, the other %+v", one, other)
	}
}

// job makes a Job of one pod with GPUs.
func (p *plane) job(name string, gpus int64) {
	p.Helper()
	has := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: team,
			Name:      name,
			Labels:    map[string]string{kueue.QueueNameLabel: queue},
		},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{
				{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: has, Limits: has}},
			},
		}}},
	}
	p.eventually("create "+name, func() error { return p.admin.Create(p.Context(), j.DeepCopy()) })
}

// reserved reports whether so many Workloads of the team have quota, or were told why they have none.
func (p *plane) reserved(n int, is metav1.ConditionStatus) error {
	var all kueue.WorkloadList
	if err := p.admin.List(p.Context(), &all, client.InNamespace(team)); err != nil {
		return err
	}
	for i := range all.Items {
		if apimeta.IsStatusConditionPresentAndEqual(
			all.Items[i].Status.Conditions,
			kueue.WorkloadQuotaReserved,
			is,
		) {
			n--
		}
	}
	if n != 0 {
		return fmt.Errorf("not so for %d of %d", n, len(all.Items))
	}
	return nil
}
