package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

const (
	// newEvidence is for how long evidence is kept whatever becomes of its job: a job that has just ended may not be
	// recorded yet.
	newEvidence = time.Hour
	// mostEvidence is how many JobEvidences a namespace has at most, the newest: each is some hundred kilobytes.
	mostEvidence = 32
)

// pruneEvidence deletes JobEvidences of jobs that are neither there nor recorded any more, and of each
// namespace the oldest of too many.
func (r *reconciler) pruneEvidence(ctx context.Context) error {
	var all metav1.PartialObjectMetadataList
	all.SetGroupVersionKind(api.GroupVersion.WithKind("JobEvidenceList"))
	if err := r.Live.List(ctx, &all); err != nil {
		return fmt.Errorf("list JobEvidences: %w", err)
	}
	byNamespace := map[string][]metav1.PartialObjectMetadata{}
	for i := range all.Items {
		byNamespace[all.Items[i].Namespace] = append(byNamespace[all.Items[i].Namespace], all.Items[i])
	}
	var errs []error
	for namespace, some := range byNamespace { // each by itself
		known, err := r.knownJobs(ctx, namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, e := range outdatedEvidence(some, known, r.Clock.Now()) {
			o := &api.JobEvidence{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}}
			if err := r.Client.Delete(ctx, o, client.Preconditions{UID: &e.UID}); client.IgnoreNotFound(err) != nil {
				errs = append(errs, fmt.Errorf("delete JobEvidence %s/%s: %w", e.Namespace, e.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// outdatedEvidence are those of a namespace that are not kept, of which the jobs that are known have Workloads with
// such UIDs.
func outdatedEvidence(
	all []metav1.PartialObjectMetadata,
	known map[types.UID]bool,
	now time.Time,
) []metav1.PartialObjectMetadata {
	all = slices.SortedFunc(slices.Values(all), func(a, b metav1.PartialObjectMetadata) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var out []metav1.PartialObjectMetadata
	kept := 0
	for i := range all {
		e := &all[i]
		of := types.UID(e.Labels[api.WorkloadUIDLabel])
		if kept >= mostEvidence || !known[of] && now.Sub(e.CreationTimestamp.Time) >= newEvidence {
			out = append(out, *e)
			continue
		}
		kept++
	}
	return out
}

// knownJobs are the UIDs of the Workloads of jobs of a namespace that are there or recorded.
func (r *reconciler) knownJobs(ctx context.Context, namespace string) (map[types.UID]bool, error) {
	known := map[types.UID]bool{}
	var workloads kueue.WorkloadList
	if err := r.Client.List(
		ctx,
		&workloads,
		client.InNamespace(namespace),
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list workloads of %s: %w", namespace, err)
	}
	for i := range workloads.Items {
		known[workloads.Items[i].UID] = true
	}
	pages, err := r.pages(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for n := range pages {
		page, err := r.page(ctx, pages, n+1)
		if err != nil {
			return nil, err
		}
		for i := range page.GetRecords() {
			known[page.Records[i].UID] = true
		}
	}
	return known, nil
}
