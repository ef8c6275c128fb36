package appwrapper

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// Observe says what a component's object amounts to. object is nil if it does
// not exist or is not ours.
func (c Component) Observe(object *unstructured.Unstructured) lifecycle.Component {
	k, _ := kindOf(c.GVK)
	out := lifecycle.Component{
		Name:     c.Title(),
		Exists:   object != nil,
		Reports:  k.Outcome != nil,
		Deputies: !k.Direct && len(c.PodSets) > 0,
	}
	for _, ps := range c.PodSets {
		one := lifecycle.PodSet{Name: ps.Name, Expected: ps.Count}
		if object != nil && k.HeldBack != nil {
			one.HeldBack = k.HeldBack(object.Object, ps.Path)
		}
		out.PodSets = append(out.PodSets, one)
	}
	if object == nil {
		return out
	}
	out.Deleting, out.Finalizers = object.GetDeletionTimestamp() != nil, object.GetFinalizers()
	if k.Outcome != nil {
		out.Outcome, out.Message = k.Outcome(object.Object)
	}
	return out
}

// endsOnce reports whether no pod of the component follows one that succeeded. Of
// kinds that are not known to be so, it is not believed.
func (c Component) endsOnce() bool {
	k, _ := kindOf(c.GVK)
	return k.EndsOnce != nil && k.EndsOnce(c.template)
}

func always(map[string]any) bool { return true }

// jobSetEndsOnce reports whether the Jobs of a JobSet make all their pods at once,
// and are not made again when one of them fails.
func jobSetEndsOnce(t map[string]any) bool {
	restarts, rErr := jobs.Number(t, 0, "spec", "failurePolicy", "maxRestarts")
	rules, fErr := jobs.Objects(t, "spec", "failurePolicy", "rules")
	groups, gErr := jobs.Objects(t, "spec", "replicatedJobs")
	return errors.Join(rErr, fErr, gErr) == nil && restarts == 0 && len(rules) == 0 &&
		!slices.ContainsFunc(groups, func(g map[string]any) bool {
			template, _, err := unstructured.NestedMap(g, "template")
			return err != nil || !job.OneWave(template)
		})
}

// outcomeOfRayJob reads the status of a RayJob, whose cluster may be gone
// before its pods are looked at (A7).
func outcomeOfRayJob(o map[string]any) (lifecycle.Outcome, string) {
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
	groups, err := jobs.Objects(o, "spec", "replicatedJobs")
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
	needs, err := jobs.Objects(groups[self], "dependsOn")
	if err != nil {
		return false
	}
	for _, need := range needs {
		i := slices.IndexFunc(groups, func(g map[string]any) bool { return jobs.Text(g, "name") == jobs.Text(need, "name") })
		if i >= 0 && !jobSetReached(o, groups[i], jobs.Text(need, "status")) {
			return true
		}
	}
	return false
}

// jobSetReached reports whether all jobs of a group are Ready or Complete.
func jobSetReached(o, group map[string]any, state string) bool {
	want, err := jobs.Number(group, 1, "replicas")
	if err != nil {
		return false
	}
	statuses, err := jobs.Objects(o, "status", "replicatedJobsStatus")
	if err != nil {
		return false
	}
	for _, s := range statuses {
		if jobs.Text(s, "name") != jobs.Text(group, "name") {
			continue
		}
		ready, rErr := jobs.Number(s, 0, "ready")
		succeeded, sErr := jobs.Number(s, 0, "succeeded")
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
