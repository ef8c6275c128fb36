package job

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// definitions are what is known of the definitions of kinds whose jobs are run here: another program
// may bring its own of the same version, with no place for what has to be remembered of a job.
type definitions struct {
	mu sync.Mutex
	of map[schema.GroupVersionKind]definition
}

// definition is what is known of one.
type definition struct {
	at time.Time // when it was looked at last
	// why no job of the kind can run, "" if they can.
	why string
}

// unkept says why a job cannot run here because of a definition, its kind's or that of what it
// wraps; "" if it can. The API server is asked at most once each trialPause for all jobs of a kind.
func (r *reconciler) unkept(ctx context.Context, s *facts) string {
	switch k := r.kind; {
	case k == nil:
		return ""
	case k.Components != nil:
		return r.unkeptParts(ctx, s)
	case k.Operated == nil || !k.RunHere():
		return ""
	}
	return r.definitionOf(s, r.kind, func() error { return r.asksOf(ctx, s) })
}

// definitionOf is what is known of the definition of a kind, found out by ask if that is due.
func (r *reconciler) definitionOf(s *facts, k *jobs.Kind, ask func() error) string {
	d := &r.definitions
	d.mu.Lock()
	defer d.mu.Unlock()
	is := d.of[k.GVK()]
	if !is.at.IsZero() && s.now.Sub(is.at) < trialPause {
		return is.why
	}
	switch err := ask(); {
	case jobs.Forgotten(err):
		is = definition{s.now, jobs.NotOurs(k)}
	case err == nil || jobs.UnknownFields(err):
		is = definition{s.now, ""}
	case apierrors.IsForbidden(err):
		is.at = s.now // it says nothing about the definition, and will be no other in a moment
	default:
		return is.why // other errors say nothing about the definition
	}
	if d.of == nil {
		d.of = map[schema.GroupVersionKind]definition{}
	}
	d.of[k.GVK()] = is
	return is.why
}

// errUnknown is that nothing was found out.
var errUnknown = apierrors.NewBadRequest("it cannot be asked")

// asksOf asks with a status of this job that is not stored.
func (r *reconciler) asksOf(ctx context.Context, s *facts) error {
	k := r.kind
	plan, err := k.Operated.Compile(s.job)
	if err != nil {
		return errUnknown // its operator tells of it
	}
	m := podplan.Memory{Started: s.now}
	trial := k.Operated.Project(s.job, plan, &jobs.Standing{Memory: m, Counts: plan.Count(nil, &m), Now: s.now})
	return r.opts.Client.Status().Update(ctx, trial, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)) //nolint:wrapcheck // it is looked at
}

// parts are the kinds, of those whose jobs are run here, of what a job wraps.
type parts struct {
	generation int64
	kinds      []schema.GroupVersionKind
}

// unkeptParts is unkept for what a job wraps. Its parts are there once it runs only, so that the API
// server is asked with one that is not stored: fields that are not defined are told of before
// anything else is looked at.
func (r *reconciler) unkeptParts(ctx context.Context, s *facts) string {
	name := client.ObjectKeyFromObject(s.job)
	known := r.parts.Get(name)
	var made []jobs.Component
	read := func() {
		made, _ = r.kind.Components(s.job, jobs.Schedulers{}) // what is wrong with others is told elsewhere
	}
	if known.generation != s.job.GetGeneration() || known.generation == 0 {
		read()
		known = parts{generation: s.job.GetGeneration()}
		for i := range made {
			if k := r.opts.Kinds.Find(made[i].GVK); k != nil && k.Operated != nil && k.RunHere() {
				known.kinds = append(known.kinds, made[i].GVK)
			}
		}
		r.parts.Set(name, known)
	}
	for _, gvk := range known.kinds {
		why := r.definitionOf(s, r.opts.Kinds.Find(gvk), func() error {
			if made == nil {
				read()
			}
			return r.asksWith(ctx, made, gvk)
		})
		if why != "" {
			return why
		}
	}
	return ""
}

// asksWith asks with the first part of a kind, as if something were remembered of it.
func (r *reconciler) asksWith(ctx context.Context, made []jobs.Component, gvk schema.GroupVersionKind) error {
	for i := range made {
		if made[i].GVK != gvk || made[i].Object == nil {
			continue
		}
		trial := made[i].Object.DeepCopy()
		trial.Object["status"] = map[string]any{"recovery": map[string]any{}}
		err := r.opts.Client.Create(ctx, trial, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
		if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) {
			return nil // it was read
		}
		return err //nolint:wrapcheck // it is looked at
	}
	return errUnknown
}
