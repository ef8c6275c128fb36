package admission

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// Which class says how important a job is.
func TestPriority(t *testing.T) {
	pc := func(name string, value int32, isDefault bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{
			ObjectMeta:    metav1.ObjectMeta{Name: name},
			Value:         value,
			GlobalDefault: isDefault,
		}
	}
	all := []client.Object{
		pc("low", 1, false),
		pc("usual", 5, true),
		pc("old-usual", 4, true),
		pc("high", 10, false),
	}
	of := func(name string) *kueue.PriorityClassRef {
		return &kueue.PriorityClassRef{
			Group: kueue.PodPriorityClassGroup,
			Kind:  kueue.PodPriorityClassKind,
			Name:  name,
		}
	}
	urgent := &kueue.PriorityClassRef{
		Group: kueue.WorkloadPriorityClassGroup,
		Kind:  kueue.WorkloadPriorityClassKind,
		Name:  "urgent",
	}
	tests := map[string]struct {
		why     string
		objects []client.Object
		label   string
		pods    string
		want    Priority
	}{
		"nothing said, no classes": {"0 is what Kubernetes takes", nil, "", "", Priority{Value: new(int32(0))}},
		"nothing said": {
			"the default, the highest if there are two",
			all,
			"",
			"",
			Priority{Value: new(int32(5)), Class: of("usual")},
		},
		"pods say": {
			"their class",
			all,
			"",
			"low",
			Priority{Value: new(int32(1)), Class: of("low")},
		},
		"pods say nonsense": {
			"the webhook refuses that where it can",
			all,
			"",
			"none",
			Priority{Value: new(int32(0))},
		},
		"the job says": {
			"before what pods say",
			append(all, &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 99}),
			"urgent",
			"low",
			Priority{Value: new(int32(99)), Class: urgent},
		},
		"the job says nonsense": {
			"it waits for the class, and counts as its pods meanwhile",
			all,
			"urgent",
			"high",
			Priority{Value: new(int32(10)), Class: of("high"), Awaited: "urgent"},
		},
		"and so do its pods": {
			"it waits for the class",
			all,
			"urgent",
			"none",
			Priority{Value: new(int32(0)), Awaited: "urgent"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{}
			if tc.label != "" {
				metav1.SetMetaDataLabel(&j.ObjectMeta, kueue.PriorityClassLabel, tc.label)
			}
			var sets []kueue.PodSet
			if tc.pods != "" {
				sets = make([]kueue.PodSet, 2)
				sets[0].Template.Spec.PriorityClassName = tc.pods
			}
			got, err := PriorityOf(
				t.Context(),
				fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(tc.objects...).Build(),
				j,
				sets,
			)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

// A class that cannot be read is no class that is missing: the job is looked at again.
func TestPriorityUnknown(t *testing.T) {
	lost := func(kind client.Object) client.Reader {
		return fake.NewClientBuilder().WithScheme(scheme.New()).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if reflect.TypeOf(obj) == reflect.TypeOf(kind) {
					return errors.New("connection refused")
				}
				return c.Get(ctx, key, obj, opts...)
			},
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errors.New("connection refused")
			},
		}).Build()
	}
	urgent := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{kueue.PriorityClassLabel: "urgent"}},
	}
	if _, err := PriorityOf(t.Context(), lost(&kueue.WorkloadPriorityClass{}), urgent, nil); err == nil {
		t.Error("a WorkloadPriorityClass that cannot be read counts as missing")
	}
	if _, err := PriorityOf(t.Context(), lost(nil), &batchv1.Job{}, nil); err == nil {
		t.Error("PriorityClasses that cannot be listed count as missing")
	}
}
