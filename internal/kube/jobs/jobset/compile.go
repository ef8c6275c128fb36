package jobset

import (
	"fmt"
	"regexp"
	"time"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// compile makes the plan of a JobSet.
func compile(js *api.JobSet) (*jobs.Plan, error) {
	r := read(js)
	if errs := check(r); len(errs) > 0 {
		return nil, fmt.Errorf("plan JobSet %s/%s: %w", js.Namespace, js.Name, errs.ToAggregate())
	}
	s := &r.js.Spec
	p := &jobs.Plan{
		Plan: podplan.Plan{Suspended: suspended(js), CleanUp: podplan.RemoveRunning, Success: r.success()},
	}
	if n := s.TTLSecondsAfterFinished; n != nil {
		p.TTL = new(time.Duration(*n) * time.Second)
	}
	onFailure := podplan.FailJob
	if f := s.FailurePolicy; f != nil {
		onFailure, p.Retries, p.Together = podplan.RestartJob, &f.MaxRestarts, f.RestartStrategy == api.BlockingRecreate
		p.Rules, p.Own = rules(f), true
	}
	p.InPlace = r.inPlace()
	for i := range r.roles {
		x := &r.roles[i]
		p.Roles = append(p.Roles, podplan.Role{
			Name: podSet(x.Name), Count: x.count, Holds: true, Rank: int32(x.first), //nolint:gosec // check bounds it
			Member: r.member(x) + "{index}", OnFailure: onFailure, After: r.after(i),
		})
		p.Make = append(p.Make, r.make(x))
		p.Where = append(p.Where, fmt.Sprintf("spec.replicatedJobs[%d].template", i))
	}
	return p, nil
}

// after are the roles that come before one.
func (r *reading) after(i int) []podplan.Dependency {
	var out []podplan.Dependency
	if r.js.Spec.StartupPolicy.StartupPolicyOrder == api.InOrder {
		for j := range r.roles[:i] { // all of them, since one may have no Jobs
			out = append(out, podplan.Dependency{Role: podSet(r.roles[j].Name)})
		}
	}
	for _, d := range r.roles[i].DependsOn {
		out = append(out, podplan.Dependency{Role: podSet(d.Name), Done: d.Status == api.DependencyComplete})
	}
	return out
}

// success is when a JobSet has succeeded: by its policy, and in any case when all Jobs
// have.
func (r *reading) success() podplan.Success {
	policy, all := r.js.Spec.SuccessPolicy, []string(nil)
	for i := range r.roles {
		all = append(all, podSet(r.roles[i].Name))
	}
	term := podplan.Term{Roles: podSets(policy.TargetReplicatedJobs)}
	if len(term.Roles) == 0 {
		term.Roles = all
	}
	if policy.Operator == api.OperatorAny {
		term.AtLeast = 1
	}
	if len(policy.TargetReplicatedJobs) == 0 && term.AtLeast == 0 {
		return podplan.Success{term}
	}
	return podplan.Success{term, {Roles: all}}
}

func podSets(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, podSet(n))
	}
	return out
}

// rules are what follows certain failures.
func rules(f *api.FailurePolicy) []podplan.Rule {
	var out []podplan.Rule
	for i := range f.Rules {
		x := &f.Rules[i]
		rule := podplan.Rule{Name: x.Name, Roles: podSets(x.TargetReplicatedJobs), Reasons: x.OnJobFailureReasons}
		for _, m := range x.OnJobFailureMessagePatterns {
			if re, err := regexp.Compile(m); err == nil { // check refuses others
				rule.Messages = append(rule.Messages, re)
			}
		}
		rule.Then, rule.Free = then(x.Action)
		out = append(out, rule)
	}
	return out
}

func then(a api.FailurePolicyAction) (then podplan.OnFailure, free bool) {
	switch a {
	case api.RestartJobSet:
		return podplan.RestartJob, false
	case api.RestartJobSetAndIgnoreMaxRestarts:
		return podplan.RestartJob, true
	case api.RestartJob:
		return podplan.Replace, false
	case api.RestartJobAndIgnoreMaxRestarts:
		return podplan.Replace, true
	case api.FailJobSet:
	}
	return podplan.FailJob, false
}
