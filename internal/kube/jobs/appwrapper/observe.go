package appwrapper

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// Observe says what a component's object amounts to. object is nil if it does
// not exist or is not ours.
func (c Component) Observe(object *unstructured.Unstructured) lifecycle.Component {
	k, _ := kindOf(c.GVK)
	out := lifecycle.Component{
		Name:     c.Title(),
		Exists:   object != nil,
		Reports:  k.verdict != nil,
		Deputies: !k.direct && len(c.PodSets) > 0,
	}
	for _, ps := range c.PodSets {
		one := lifecycle.PodSet{Name: ps.Name, Expected: ps.Count}
		if object != nil && k.heldBack != nil {
			one.HeldBack = k.heldBack(object.Object, ps.Path)
		}
		out.PodSets = append(out.PodSets, one)
	}
	if object == nil {
		return out
	}
	out.Deleting, out.Finalizers = object.GetDeletionTimestamp() != nil, object.GetFinalizers()
	if k.verdict != nil {
		out.Verdict, out.Message = k.verdict(object.Object)
	}
	return out
}

// endsOnce reports whether no pod of the component follows one that succeeded. Of
// kinds that are not known to be so, it is not believed.
func (c Component) endsOnce() bool {
	k, _ := kindOf(c.GVK)
	return k.endsOnce != nil && k.endsOnce(c.template)
}

func always(map[string]any) bool { return true }

// oneWave reports whether a Job makes all its pods at once.
func oneWave(t map[string]any) bool {
	parallelism, pErr := number(t, 1, "spec", "parallelism")
	completions, cErr := number(t, 0, "spec", "completions")
	return pErr == nil && cErr == nil && completions <= parallelism
}

// jobSetEndsOnce reports whether the Jobs of a JobSet make all their pods at once,
// and are not made again when one of them fails.
func jobSetEndsOnce(t map[string]any) bool {
	restarts, rErr := number(t, 0, "spec", "failurePolicy", "maxRestarts")
	rules, fErr := objects(t, "spec", "failurePolicy", "rules")
	groups, gErr := objects(t, "spec", "replicatedJobs")
	return errors.Join(rErr, fErr, gErr) == nil && restarts == 0 && len(rules) == 0 &&
		!slices.ContainsFunc(groups, func(g map[string]any) bool {
			job, _, err := unstructured.NestedMap(g, "template")
			return err != nil || !oneWave(job)
		})
}

// verdictOfConditions reads kinds that end with one of two conditions.
func verdictOfConditions(good, bad string) func(map[string]any) (lifecycle.Verdict, string) {
	return func(o map[string]any) (lifecycle.Verdict, string) {
		conditions, err := objects(o, "status", "conditions")
		if err != nil {
			return lifecycle.Undecided, ""
		}
		for _, c := range conditions {
			if c["status"] != "True" {
				continue
			}
			message := cmp.Or(text(c, "message"), text(c, "reason"))
			switch c["type"] {
			case good:
				return lifecycle.Completed, message
			case bad:
				// The user's own policy said that trying again is useless (A2).
				if text(c, "reason") == "PodFailurePolicy" {
					return lifecycle.Hopeless, message
				}
				return lifecycle.Broken, message
			}
		}
		return lifecycle.Undecided, ""
	}
}

// verdictOfRayJob reads the status of a RayJob, whose cluster may be gone
// before anybody looks at its pods (A7).
func verdictOfRayJob(o map[string]any) (lifecycle.Verdict, string) {
	job, _, _ := unstructured.NestedString(o, "status", "jobStatus")
	deployment, _, _ := unstructured.NestedString(o, "status", "jobDeploymentStatus")
	message, _, _ := unstructured.NestedString(o, "status", "message")
	switch {
	case job == "SUCCEEDED":
		return lifecycle.Completed, message
	case deployment == "Failed",
		deployment == "Complete" && (job == "FAILED" || job == "STOPPED"):
		return lifecycle.Broken, cmp.Or(message, "the Ray job is "+cmp.Or(job, "FAILED"))
	}
	return lifecycle.Undecided, ""
}

// jobSetHoldsBack reports whether a JobSet waits for others of its jobs before
// it creates the one at path: those before it if the order is InOrder, and
// those it depends on (A8).
func jobSetHoldsBack(o map[string]any, path string) bool {
	groups, err := objects(o, "spec", "replicatedJobs")
	if err != nil {
		return false
	}
	self := -1
	for i := range groups {
		if strings.HasPrefix(path, fmt.Sprintf("template.spec.replicatedJobs[%d].", i)) {
			self = i
		}
	}
	if self < 0 {
		return false
	}
	order, _, _ := unstructured.NestedString(o, "spec", "startupPolicy", "startupPolicyOrder")
	if order == "InOrder" {
		for _, g := range groups[:self] {
			if !jobSetReached(o, g, "Ready") {
				return true
			}
		}
	}
	needs, err := objects(groups[self], "dependsOn")
	if err != nil {
		return false
	}
	for _, need := range needs {
		i := slices.IndexFunc(groups, func(g map[string]any) bool { return text(g, "name") == text(need, "name") })
		if i >= 0 && !jobSetReached(o, groups[i], text(need, "status")) {
			return true
		}
	}
	return false
}

// jobSetReached reports whether all jobs of a group are Ready or Complete.
func jobSetReached(o, group map[string]any, state string) bool {
	want, err := number(group, 1, "replicas")
	if err != nil {
		return false
	}
	statuses, err := objects(o, "status", "replicatedJobsStatus")
	if err != nil {
		return false
	}
	for _, s := range statuses {
		if text(s, "name") != text(group, "name") {
			continue
		}
		ready, rErr := number(s, 0, "ready")
		succeeded, sErr := number(s, 0, "succeeded")
		if rErr != nil || sErr != nil {
			return false
		}
		if state == "Complete" {
			return succeeded >= want
		}
		return ready+succeeded >= want
	}
	return want == 0
}

func text(o map[string]any, field string) string {
	s, _ := o[field].(string)
	return s
}
