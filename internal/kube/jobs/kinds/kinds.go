// Package kinds lists the kinds of jobs that mlbatch queues: those of package native,
// and the AppWrapper around them. Whatever has to be done for each of them is a loop
// over the list; what they are is said in their own folders.
package kinds

import (
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/native"
)

// All are the kinds, in the order in which people are told of them.
func All() jobs.Kinds {
	return append(jobs.Kinds{appwrapper.Kind()}, native.All()...)
}
