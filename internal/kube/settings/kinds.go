package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// Modes reads what is done with kinds of jobs, as people type it: names of frameworks or of
// kinds, and modes in any case.
func Modes(typed map[string]string) (map[string]v1beta2.KindMode, error) {
	out := map[string]v1beta2.KindMode{}
	for _, name := range slices.Sorted(maps.Keys(typed)) {
		framework := frameworkOf(name)
		if framework == "" {
			return nil, fmt.Errorf(
				"--kinds %s: there is no such kind: use one of %s",
				name,
				strings.Join(v1beta2.FrameworkNames(), ", "),
			)
		}
		modes := []v1beta2.KindMode{v1beta2.RunKind, v1beta2.QueueKind, v1beta2.IgnoreKind}
		i := slices.IndexFunc(
			modes,
			func(m v1beta2.KindMode) bool { return strings.EqualFold(string(m), typed[name]) },
		)
		if i < 0 {
			return nil, fmt.Errorf("--kinds %s=%s: must be run, queue or ignore", name, typed[name])
		}
		out[framework] = modes[i]
	}
	return out, nil
}

// frameworkOf finds a framework by its name or that of its kind; "" if there is none.
func frameworkOf(name string) string {
	name = strings.ToLower(name)
	for _, f := range v1beta2.FrameworkNames() {
		if last := f[strings.LastIndex(f, "/")+1:]; name == f || name == last || name == last+"s" {
			return f
		}
	}
	return ""
}

// onlyQueued are the kinds that are queued and run whatever a configuration says: nothing else
// would start them.
func onlyQueued() jobs.Kinds {
	return kinds.All().Where(func(k *jobs.Kind) bool { return k.Queueing.OnlyQueued })
}

// kindsOf are the kinds of jobs that are queued, by the names of their frameworks, nil for all of
// ours; kinds whose objects controllers of others queue; and kinds that are queued and run by
// controllers of others.
func kindsOf(
	i *v1beta2.Integrations,
) (ours []string, external []schema.GroupVersionKind, elsewhere []string) {
	ours = slices.Clone(i.Frameworks)
	if len(ours) == 0 {
		ours = known()
	}
	ignored := map[string]bool{}
	for _, name := range i.ExternalFrameworks {
		gvk, _ := schema.ParseKindArg(name) // it is valid
		if slices.ContainsFunc(onlyQueued(), func(k jobs.Kind) bool { return k.GroupKind() == gvk.GroupKind() }) {
			continue
		}
		external = append(external, *gvk)
		for _, k := range kinds.All() {
			if k.GroupKind() == gvk.GroupKind() && !slices.Contains(i.Frameworks, k.Naming.Framework) {
				ignored[k.Naming.Framework] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Modes)) {
		ignored[name] = i.Modes[name] == v1beta2.IgnoreKind
		switch i.Modes[name] {
		case v1beta2.QueueKind:
			elsewhere = append(elsewhere, name)
			ours = append(ours, name)
		case v1beta2.RunKind:
			ours = append(ours, name)
		case v1beta2.IgnoreKind:
		}
	}
	ours = append(
		slices.DeleteFunc(ours, func(name string) bool { return ignored[name] }),
		onlyQueued().Frameworks()...)
	slices.Sort(ours)
	if ours = slices.Compact(ours); slices.Equal(ours, known()) {
		ours = nil
	}
	return ours, external, elsewhere
}

// known are the frameworks that mlbatch queues, in the order of the alphabet.
func known() []string {
	out := append(kinds.All().Frameworks(), serving.Frameworks()...)
	slices.Sort(out)
	return out
}

// refusedModes are modes that a kind cannot have.
func refusedModes(modes map[string]v1beta2.KindMode) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("integrations", "modes")
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		mode := modes[name]
		switch {
		case slices.Contains(onlyQueued().Frameworks(), name) && mode != v1beta2.RunKind:
			errs = append(
				errs,
				field.Invalid(at.Key(name), mode, "nothing else than mlbatch starts them: take it out"),
			)
		case mode == v1beta2.QueueKind && !canQueue(name):
			errs = append(
				errs,
				field.Invalid(
					at.Key(name),
					mode,
					"mlbatch makes nothing of them itself: use Run, which queues them, or Ignore",
				),
			)
		}
	}
	return errs
}

// canQueue reports whether there are jobs of a kind which mlbatch runs, and could leave to
// another controller.
func canQueue(framework string) bool {
	operated := kinds.All().Where(func(k *jobs.Kind) bool { return k.Running.Operator != nil })
	return serving.GroupedKind(framework) != nil || slices.Contains(operated.Frameworks(), framework) ||
		!slices.Contains(known(), framework)
}

// unknownKinds tells of frameworks that are named and that mlbatch does not queue.
func unknownKinds(i *v1beta2.Integrations) []Notice {
	const why = "has no effect: mlbatch does not queue this kind of job yet; those that are created directly run outside the queues, those in AppWrappers are queued"
	var out []Notice
	at := field.NewPath("integrations")
	for n, name := range i.Frameworks {
		if !slices.Contains(known(), name) {
			out = append(out, Notice{Path: at.Child("frameworks").Index(n).String(), Text: name + " " + why})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Modes)) {
		if !slices.Contains(known(), name) && i.Modes[name] != v1beta2.IgnoreKind {
			out = append(out, Notice{Path: at.Child("modes").Key(name).String(), Text: why})
		}
	}
	return out
}
