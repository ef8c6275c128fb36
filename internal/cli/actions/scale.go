package actions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Scale gives a job, or a role of it, another number of pods. A job that runs and would have to
// stop for that is changed only if stop says so.
func (a *Actor) Scale( //nolint:revive // a fact
	ctx context.Context,
	t *Target,
	role string,
	n int64,
	stop bool,
) (*Result, error) {
	root := t.Object()
	j := t.Facts()
	switch {
	case root == nil:
		return nil, fmt.Errorf("you may not read the object of %s, which says its size", t.title())
	case t.Set == nil && (j.Stage == view.Ended || j.Stage == view.Finished):
		return nil, fmt.Errorf("%s has ended (%s): submit it again with another size", t.title(), j.State)
	case t.group():
		return nil, fmt.Errorf(
			"%s says in annotations of its pods how many there are: cancel it and submit it with another size",
			t.title(),
		)
	}
	gvk, err := apiutil.GVKForObject(root, a.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("scale %s: %w", t.title(), err)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	if err := a.Client.Get(ctx, client.ObjectKeyFromObject(root), o); err != nil {
		return nil, fmt.Errorf("read %s: %w", t.title(), err)
	}
	before := o.DeepCopy()
	size, err := resize(o, t.Asked.Kind, role, n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.title(), err)
	}
	if n == 0 && !size.empties {
		return nil, fmt.Errorf(
			"%s cannot have 0 %s: mlbatch hold %s --stop stops it and keeps it, mlbatch cancel %s ends it",
			t.title(),
			size.of,
			t.name(),
			t.name(),
		)
	}
	if size.was == n {
		return a.result(t, Unchanged, "%s has %s already.", t.title(), size), nil
	}
	if size.restarts && !size.within(t.Workload, n) && t.Workload != nil && t.Workload.Status.Admission != nil &&
		!stop {
		return nil, fmt.Errorf(
			"%s has quota for its size: with another one it is stopped and queued anew. --stop says that you mean it; what it did since it last saved its state is lost",
			t.title(),
		)
	}
	if a.DryRun != Client {
		options := []client.PatchOption{}
		if a.DryRun == Server {
			options = append(options, client.DryRunAll)
		}
		if err := a.Client.Patch(
			ctx,
			o,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
			options...); err != nil {
			return nil, fmt.Errorf("scale %s: %w", t.title(), err)
		}
	}
	kept := ""
	if size.keeps && n < size.was && t.Workload != nil && t.Workload.Status.Admission != nil {
		kept = " It gives back the quota of the others once they are gone, and queues anew if it grows again."
	}
	was := size.was
	size.was = n
	return a.result(t, "scaled", "%s has %s now, %d before.%s", t.title(), size, was, kept), nil
}

// size is how large something is.
type size struct {
	was int64
	// of what, such as "replicas of worker".
	of string
	// restarts says that a job with quota is stopped for another size.
	restarts bool
	// keeps says that a job that shrinks keeps running.
	keeps bool
	// empties says that there may be none of it.
	empties bool
}

// within reports whether a Workload has quota for a size.
func (s size) within(w *kueue.Workload, n int64) bool {
	if !s.keeps || w == nil || w.Status.Admission == nil || len(w.Status.Admission.PodSetAssignments) != 1 {
		return false
	}
	return n <= int64(convert.Left(w)[w.Status.Admission.PodSetAssignments[0].Name])
}

// String is such as "3 replicas of worker".
func (s size) String() string { return fmt.Sprintf("%d %s", s.was, s.of) }

// resize changes the size in an object, and returns the one that it had. The error says why it
// cannot be changed and what can be done.
func resize(o *unstructured.Unstructured, kind view.Kind, role string, n int64) (size, error) {
	copies := func(of string) (size, error) {
		s, err := replicas(o.Object, role, n, of, "spec", "replicas")
		s.empties = true
		return s, err
	}
	if gather.Grouped(kind) != nil {
		return copies("groups")
	}
	switch kind { //nolint:exhaustive // others are kinds with roles, or have no size
	case view.KindDeployment, StatefulSet, ReplicaSet:
		return copies("replicas")
	case view.KindJob:
		return resizeJob(o.Object, role, n, "spec")
	case "TrainJob":
		s, err := replicas(o.Object, role, n, "nodes", "spec", "trainer", "numNodes")
		s.restarts = true
		return s, err
	case "JobSet":
		return resizeMember(o.Object, role, n, "name", resizeRole, "spec", "replicatedJobs")
	case "RayCluster":
		return resizeMember(o.Object, role, n, "groupName", resizeGroup, "spec", "workerGroupSpecs")
	case "RayService":
		return resizeMember(
			o.Object,
			role,
			n,
			"groupName",
			resizeGroup,
			"spec",
			"rayClusterConfig",
			"workerGroupSpecs",
		)
	case "RayJob":
		return resizeMember(
			o.Object,
			role,
			n,
			"groupName",
			resizeGroup,
			"spec",
			"rayClusterSpec",
			"workerGroupSpecs",
		)
	case view.KindAppWrapper:
		return size{}, errors.New(
			"it was counted with what it wraps, which does not change: cancel it and submit it with another size",
		)
	case view.KindPod:
		return size{}, errors.New("it is one pod")
	case CronJob:
		return size{}, errors.New(
			"it makes Jobs, whose size is in its template: kubectl edit cronjob changes it for the next ones",
		)
	}
	return resizeRoles(o.Object, role, n)
}

// replicas sets a number that is the size of the whole.
func replicas(o map[string]any, role string, n int64, of string, path ...string) (size, error) {
	if role != "" {
		return size{}, fmt.Errorf("--role %s: its pods have one size for all", role)
	}
	was, found, err := number(o, path...)
	if err != nil {
		return size{}, err
	}
	if !found {
		was = 1
	}
	return size{was: was, of: of}, unstructured.SetNestedField(o, n, path...)
}

// number reads a number that is in an object as one of several types.
func number(o map[string]any, path ...string) (n int64, found bool, err error) {
	v, found, err := unstructured.NestedFieldNoCopy(o, path...)
	if err != nil || !found {
		return 0, false, err
	}
	switch v := v.(type) {
	case int64:
		return v, true, nil
	case float64:
		return int64(v), true, nil
	}
	return 0, false, fmt.Errorf("%s is no number", strings.Join(path, "."))
}

// resizeJob sets the parallelism of a Job's spec; an Indexed Job whose completions are as many
// gets as many of them, too.
func resizeJob(o map[string]any, role string, n int64, path ...string) (size, error) {
	at := func(name string) []string { return append(slices.Clone(path), name) }
	s, err := replicas(o, role, n, "pods at a time", at("parallelism")...)
	if err != nil {
		return size{}, err
	}
	s.restarts, s.keeps = n > s.was, true // a smaller one keeps what it has
	mode, _, _ := unstructured.NestedString(o, at("completionMode")...)
	completions, found, err := number(o, at("completions")...)
	if err == nil && found && mode == "Indexed" && completions == s.was {
		s.of = "indexes"
		err = unstructured.SetNestedField(o, n, at("completions")...)
	}
	return s, err
}

// resizeMember resizes the member of a list whose name, in the field by, is the role; without
// one, the only member.
func resizeMember(
	o map[string]any,
	role string,
	n int64,
	by string,
	change func(map[string]any, int64) (size, error),
	path ...string,
) (size, error) {
	list, _, err := unstructured.NestedSlice(o, path...)
	if err != nil {
		return size{}, err
	}
	var names []string
	at := -1
	for i := range list {
		m, _ := list[i].(map[string]any)
		name, _, _ := unstructured.NestedString(m, by)
		names = append(names, name)
		if name == role || role == "" && len(list) == 1 {
			at = i
		}
	}
	if at < 0 {
		return size{}, whichRole(role, names)
	}
	m, _ := list[at].(map[string]any)
	s, err := change(m, n)
	if err != nil {
		return size{}, err
	}
	s.of += " of " + names[at]
	return s, unstructured.SetNestedSlice(o, list, path...)
}

// whichRole asks for a role that there is.
func whichRole(role string, names []string) error {
	switch {
	case len(names) == 0:
		return errors.New("it has no role whose size could change")
	case role == "":
		return fmt.Errorf("say with --role which of its roles is meant: %s", strings.Join(names, ", "))
	}
	return fmt.Errorf("--role %s: its roles are %s", role, strings.Join(names, ", "))
}

// resizeRole is for a role of a JobSet.
func resizeRole(m map[string]any, n int64) (size, error) {
	if jobs, found, err := number(m, "replicas"); err != nil || found && jobs > 1 {
		return size{}, fmt.Errorf(
			"it has %d Jobs of this role, and their number cannot change: cancel it and submit it with another size",
			jobs,
		)
	}
	return resizeJob(m, "", n, "template", "spec")
}

// resizeGroup is for a group of workers of a Ray cluster.
func resizeGroup(m map[string]any, n int64) (size, error) {
	s, err := replicas(m, "", n, "replicas", "replicas")
	if err != nil {
		return size{}, err
	}
	s.restarts, s.keeps, s.empties = n > s.was, true, true
	for _, limit := range []struct {
		field string
		below bool
	}{{"minReplicas", true}, {"maxReplicas", false}} {
		has, found, err := number(m, limit.field)
		if err != nil {
			return size{}, err
		}
		if found && (limit.below && n < has || !limit.below && n > has) {
			return size{}, fmt.Errorf("%d replicas are beyond its %s, which is %d", n, limit.field, has)
		}
	}
	return s, nil
}

// resizeRoles is for training jobs, whose roles are in a field called ...ReplicaSpecs; without a
// name, that of workers is meant.
func resizeRoles(o map[string]any, role string, n int64) (size, error) {
	spec, _, err := unstructured.NestedMap(o, "spec")
	if err != nil {
		return size{}, err
	}
	for field := range spec { // there is one
		if !strings.HasSuffix(field, "ReplicaSpecs") {
			continue
		}
		roles, _, err := unstructured.NestedMap(o, "spec", field)
		if err != nil {
			return size{}, err
		}
		var names []string
		for name := range roles {
			if strings.EqualFold(name, role) || role == "" && strings.EqualFold(name, "worker") {
				s, err := replicas(o, "", n, "replicas of "+name, "spec", field, name, "replicas")
				s.restarts, s.keeps, s.empties = n > s.was, true, true
				return s, err
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return size{}, whichRole(role, names)
	}
	return size{}, errors.New("it has no size that could change")
}
