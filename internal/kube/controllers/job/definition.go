package job

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// definition is what is known of the definition of a kind whose jobs are run here: another program
// may bring its own of the same version, with no place for what has to be remembered of a job.
type definition struct {
	mu sync.Mutex
	at time.Time // when it was looked at last
	// why no job of the kind can run, "" if they can.
	why string
}

// unkept says why no job of the kind can run here, "" if they can. It asks with a status of this job
// that is not stored, at most once each trialPause for all jobs of the kind.
func (r *reconciler) unkept(ctx context.Context, s *facts) string {
	k, d := r.kind, &r.definition
	if k == nil || k.Operated == nil || !k.RunHere() {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && s.now.Sub(d.at) < trialPause {
		return d.why
	}
	plan, err := k.Operated.Compile(s.job)
	if err != nil {
		return d.why // its operator tells of it
	}
	m := podplan.Memory{Started: s.now}
	trial := k.Operated.Project(s.job, plan, &jobs.Standing{Memory: m, Counts: plan.Count(nil, &m), Now: s.now})
	err = r.opts.Client.Status().Update(ctx, trial, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	switch {
	case jobs.Forgotten(err):
		d.at, d.why = s.now, jobs.NotOurs(k)
	case err == nil || jobs.UnknownFields(err):
		d.at, d.why = s.now, ""
	}
	return d.why // other errors say nothing about the definition
}
