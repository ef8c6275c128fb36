package job

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// add is what writes an admission into jobs of the kind, nil if their pods are made here, where
// it goes into the pods alone. Another controller makes them if the installation says so, or if
// one is seen to run.
func (r *reconciler) add(
	ctx context.Context,
) (func(jobs.Object, []jobs.PodSetInfo) (jobs.Object, error), error) {
	k := r.kind
	if k == nil || k.Running.Injection == nil {
		return nil, nil //nolint:nilnil // nothing is to be written
	}
	if k.Queueing.Mode == jobs.Queue {
		return k.Running.Injection.Add, nil
	}
	if k.Running.Operator == nil {
		return nil, nil //nolint:nilnil // as above
	}
	other, err := foreign.Find(ctx, r.opts.Client, k.Running.Operator.Others...)
	if err != nil || other == "" {
		return nil, err
	}
	return k.Running.Injection.Add, nil
}

// restoring is the adapter of a kind which takes out of a job that was stopped what its admission
// wrote into it. That is a second write: other controllers refuse changes of what still runs.
func restoring(k *jobs.Kind) jobs.Adapter {
	if k.Running.Injection == nil {
		return k.Adapter
	}
	return restores{k.Adapter, k.Running.Injection}
}

type restores struct {
	jobs.Adapter
	injection *jobs.Injection
}

// Stop implements jobs.Adapter.
func (r restores) Stop(o jobs.Object, original []kueue.PodSet) (jobs.Object, error) {
	out, err := r.Adapter.Stop(o, original)
	if err != nil || !equality.Semantic.DeepEqual(o, out) {
		return out, err
	}
	return r.injection.Remove(out, original), nil
}
