package job

import (
	"context"
	"encoding/json"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// A job is started and stopped by what changes in it, from the version that was
// looked at. Whatever its author wrote stays as it was spelt.
func TestOnlyWhatChangesIsWritten(t *testing.T) {
	tests := map[string]struct {
		job     *batchv1.Job
		change  []func(*kueue.Workload)
		suspend bool
	}{
		"started": {job: aJob(inQueue), change: []func(*kueue.Workload){admitted}},
		"stopped": {
			job:     aJob(inQueue, func(j *batchv1.Job) { j.Spec.Suspend = new(false) }),
			change:  []func(*kueue.Workload){admitted, condition(kueue.WorkloadEvicted, kueue.ReasonPreempted)},
			suspend: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := aWorkload(append(tt.change, named("train"), ownedBy(tt.job.Name, ""))...)
			var wrote []map[string]any
			b := newBench(t, func(o *Options) {
				o.Client = interceptor.NewClient(o.Client.(client.WithWatch), interceptor.Funcs{
					Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
						if _, is := o.(*batchv1.Job); is {
							t.Error("the whole Job is written")
						}
						return c.Update(ctx, o, opts...)
					},
					Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
						if _, is := o.(*batchv1.Job); is {
							wrote = append(wrote, patchOf(t, o, p))
						}
						return c.Patch(ctx, o, p, opts...)
					},
				})
			}, tt.job, w)
			b.reconcileAll(t, client.ObjectKeyFromObject(tt.job))
			if len(wrote) == 0 {
				t.Fatal("the Job was not written")
			}
			if suspend, found, _ := unstructured.NestedBool(
				wrote[0],
				"spec",
				"suspend",
			); !found ||
				suspend != tt.suspend {
				t.Errorf("it says %v, want suspend: %v", wrote[0], tt.suspend)
			}
			if _, found, _ := unstructured.NestedString(wrote[0], "metadata", "resourceVersion"); !found {
				t.Errorf("%v holds for whatever the Job has become", wrote[0])
			}
			if _, found, _ := unstructured.NestedFieldNoCopy(
				wrote[0],
				"spec",
				"template",
				"spec",
				"containers",
			); found {
				t.Errorf("%v repeats what the author wrote", wrote[0])
			}
		})
	}
}

func patchOf(t *testing.T, o client.Object, p client.Patch) map[string]any {
	t.Helper()
	data, err := p.Data(o)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
