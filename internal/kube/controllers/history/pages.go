package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/mlbatch/mlbatch/api/history/v1alpha1"
)

// Retention says for how long records are kept, and how many.
type Retention struct {
	// AfterEnded is how long those of a job are kept after its end, in whole pages; 0 keeps none.
	AfterEnded time.Duration
	// PerNamespace is how many are kept in a namespace at most, in whole pages; there is one page at
	// least.
	PerNamespace int
}

// prefix begins the names of pages.
const prefix = "jobs-"

// pageName is that of the n-th page of a namespace, counted from 1. In the order of their names,
// pages are in the order in which they were written.
func pageName(n int) string { return fmt.Sprintf("%s%08d", prefix, n) }

// pageNumber is 0 of an object that is no page of ours.
func pageNumber(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, prefix))
	if err != nil || n < 1 || pageName(n) != name {
		return 0
	}
	return n
}

// sortPages orders pages from the oldest to the newest, and leaves out what is none.
func sortPages(all []metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata {
	out := slices.DeleteFunc(
		slices.Clone(all),
		func(p metav1.PartialObjectMetadata) bool { return pageNumber(p.Name) == 0 },
	)
	slices.SortFunc(out, func(a, b metav1.PartialObjectMetadata) int {
		return cmp.Compare(pageNumber(a.Name), pageNumber(b.Name))
	})
	return out
}

// outdated are the pages of a namespace, in order, that are not kept: those whose newest record is
// too old, and the oldest of too many.
func (r Retention) outdated(
	pages []metav1.PartialObjectMetadata,
	now time.Time,
) []metav1.PartialObjectMetadata {
	most := max(1, r.PerNamespace/api.MaxRecords)
	var out []metav1.PartialObjectMetadata
	for i := range pages {
		newest, err := time.Parse(time.RFC3339, pages[i].Annotations[api.NewestAnnotation])
		if len(pages)-i > most || err == nil && now.Sub(newest) >= r.AfterEnded {
			out = append(out, pages[i])
		}
	}
	return out
}

// fill puts records into the newest page, nil if there is none, or into a new one if that is full,
// and says which of them found no room. Records that are in it or in the page before are left out.
func fill(
	namespace string,
	newest, before *api.JobHistory,
	records []api.JobRecord,
	keep func(*api.JobRecord) bool,
) (page *api.JobHistory, rest []api.JobRecord) {
	known := map[types.UID]bool{}
	for _, p := range []*api.JobHistory{newest, before} {
		for i := range p.GetRecords() {
			known[p.Records[i].UID] = true
		}
	}
	records = slices.DeleteFunc(slices.Clone(records), func(r api.JobRecord) bool { return known[r.UID] })
	if len(records) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(records, func(a, b api.JobRecord) int {
		return cmp.Or(a.Ended.Compare(b.Ended.Time), cmp.Compare(a.UID, b.UID))
	})
	switch {
	case newest == nil:
		page = &api.JobHistory{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pageName(1)}}
	case len(newest.Records) >= api.MaxRecords:
		page = &api.JobHistory{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pageName(pageNumber(newest.Name) + 1)},
		}
	default:
		page = newest.DeepCopy()
		page.Records = slices.DeleteFunc(page.Records, func(r api.JobRecord) bool { return !keep(&r) })
	}
	n := min(api.MaxRecords-len(page.Records), len(records))
	page.Records = append(page.Records, records[:n]...)
	latest := slices.MaxFunc(page.Records, func(a, b api.JobRecord) int { return a.Ended.Compare(b.Ended.Time) })
	metav1.SetMetaDataAnnotation(&page.ObjectMeta, api.NewestAnnotation, latest.Ended.UTC().Format(time.RFC3339))
	return page, records[n:]
}
