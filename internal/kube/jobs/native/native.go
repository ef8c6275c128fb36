// Package native lists the kinds of jobs that mlbatch queues by themselves and in
// AppWrappers. The AppWrapper is the kind that wraps them; package kinds puts both
// together.
package native

import (
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jaxjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/mpijob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/paddlejob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayservice"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/tfjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/xgboostjob"
)

// All are the kinds, in the order in which people are told of them.
func All() jobs.Kinds {
	return jobs.Kinds{
		job.Kind(),
		jobset.Kind(),
		pytorchjob.Kind(),
		tfjob.Kind(),
		xgboostjob.Kind(),
		paddlejob.Kind(),
		jaxjob.Kind(),
		mpijob.Kind(),
		raycluster.Kind(),
		rayjob.Kind(),
		rayservice.Kind(),
		trainjob.Kind(),
	}
}
