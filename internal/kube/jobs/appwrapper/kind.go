package appwrapper

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Kind is all that there is to know of AppWrappers.
func Kind() jobs.Kind {
	return jobs.Kind{
		Adapter: Adapter{},
		Naming: jobs.Naming{
			Resource:    "appwrappers",
			ShortNames:  []string{"aw"},
			Framework:   "workload.codeflare.dev/appwrapper",
			AddToScheme: aw.AddToScheme,
		},
		Queueing: jobs.Queueing{
			OnlyQueued:  true,
			Wraps:       foreign(),
			Basis:       basis(),
			SuspendPath: []string{"spec", "suspend"},
			Suspended:   jobs.Of(func(w *aw.AppWrapper) bool { return w.Spec.Suspend }),
			Components:  made,
			Resets:      jobs.Of(func(w *aw.AppWrapper) int32 { return w.Status.Retries }),
		},
		Running: jobs.Running{
			RunsJobs:  true,
			Retries:   true,
			Finalizer: aw.AppWrapperFinalizer,
		},
		Admission: jobs.Admission{
			TeamsCreate:    true,
			Bulk:           "spec.components",
			Validate:       jobs.Of(Validate),
			ValidateChange: jobs.OfBoth(ValidateUpdate),
			Admits:         jobs.OfBoth(admits),
			Keep: jobs.Keeping(
				func(was, is *aw.AppWrapper, _ []kueue.PodSet) *aw.AppWrapper { return Keep(was, is) },
			),
			Warnings:    warnings,
			UserLabel:   aw.AppWrapperUserLabel,
			UserIDLabel: aw.AppWrapperUserIDLabel,
			Fixed: "object.spec.?managedBy.orValue('') != oldObject.spec.?managedBy.orValue('') || " +
				"object.spec.components.map(c, [c.template, c.?podSets.orValue([])]) != oldObject.spec.components.map(c, [c.template, c.?podSets.orValue([])])",
		},
	}
}

// made are the objects that the components become.
func made(o jobs.Object, schedulers jobs.Schedulers) ([]jobs.Component, error) {
	w, err := cast(o)
	if err != nil {
		return nil, err
	}
	components, errs := parse(w)
	out := make([]jobs.Component, len(components))
	for i, c := range components {
		one := jobs.Component{
			GVK:  c.GVK,
			Name: c.Name,
			Path: field.NewPath("spec", "components").Index(i).Child("template"),
		}
		if object, err := Inject(w, c, nil, InjectOptions{Schedulers: schedulers}); err == nil {
			one.Object = object
		}
		for _, ps := range c.PodSets {
			pods := jobs.ComponentPods{
				PodTemplate: jobs.PodTemplate{Path: beside(one.Path, ps.Path).String(), Template: &ps.Template},
			}
			if one.Object != nil {
				pods.Pod = PodAt(one.Object, ps.Path)
			}
			one.Pods = append(one.Pods, pods)
		}
		out[i] = one
	}
	if len(errs) > 0 {
		return out, errs.ToAggregate()
	}
	return out, nil
}

// admits tells who starts an AppWrapper or says where its pods go that this is not
// for them. Anyone may suspend one.
func admits(was, is *aw.AppWrapper) string {
	samePlaces := slices.EqualFunc(
		was.Spec.Components,
		is.Spec.Components,
		func(a, b aw.AppWrapperComponent) bool {
			return equality.Semantic.DeepEqual(a.PodSetInfos, b.PodSetInfos)
		},
	)
	if samePlaces && (!was.Spec.Suspend || is.Spec.Suspend) {
		return ""
	}
	return "suspend is set to false and podSetInfos are filled in when the job is admitted: leave both as they are"
}

// warnings are about annotations that cannot be read.
func warnings(o jobs.Object, p lifecycle.Policy) []string {
	_, malformed := ParsePolicy(p, o.GetAnnotations())
	var out []string
	for _, m := range malformed {
		out = append(out, m.String())
	}
	if w, err := cast(o); err == nil {
		out = append(out, corrections(w)...)
	}
	return out
}
