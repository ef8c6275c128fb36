package appwrapper

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Adapter translates AppWrappers; the zero value is ready.
type Adapter struct{}

var _ jobs.Adapter = Adapter{}

// GVK is workload.codeflare.dev/v1beta2 AppWrapper.
func (Adapter) GVK() schema.GroupVersionKind { return aw.GroupVersion.WithKind(aw.AppWrapperKind) }

// New returns an empty AppWrapper.
func (Adapter) New() jobs.Object { return &aw.AppWrapper{} }

// Ours reports whether an AppWrapper is left to this controller.
func Ours(w *aw.AppWrapper) bool {
	return w.Spec.ManagedBy == nil || *w.Spec.ManagedBy == aw.AppWrapperControllerName
}

// Ours implements jobs.Adapter.
func (Adapter) Ours(o jobs.Object) bool {
	w, ok := o.(*aw.AppWrapper)
	return ok && Ours(w)
}

// Read extracts the facts of an AppWrapper.
func (Adapter) Read(o jobs.Object) (jobs.Facts, error) {
	w, err := cast(o)
	if err != nil {
		return jobs.Facts{}, err
	}
	components, err := Components(w)
	if err != nil {
		return jobs.Facts{}, fmt.Errorf("read AppWrapper %s/%s: %w", w.Namespace, w.Name, err)
	}
	facts := jobs.Facts{
		Indexes:   map[kueue.PodSetReference]string{},
		Suspended: w.Spec.Suspend,
		Active:    active(w),
		Ready:     meta.IsStatusConditionTrue(w.Status.Conditions, aw.PodsReady),
		Finished:  finished(w),
	}
	facts.EndsOnce = !slices.ContainsFunc(
		components,
		func(c Component) bool { return len(c.PodSets) > 0 && !c.endsOnce() },
	)
	for _, c := range components {
		first := len(facts.PodSets)
		for _, ps := range c.PodSets {
			if c.waits(ps.Path) {
				facts.Later = append(facts.Later, ps.Name)
			}
			facts.PodSets = append(facts.PodSets, kueue.PodSet{
				Name: kueue.PodSetReference(ps.Name), Count: ps.Count, Template: ps.Template,
				TopologyRequest: topologyRequest(ps),
			})
			// Where pods are numbered in subgroups, one number says nothing.
			if index := optional(ps.Annotations, aw.TASPodIndexLabelAnnotation); index != nil &&
				ps.Annotations[aw.TASSubGroupIndexLabelAnnotation] == "" {
				facts.Indexes[kueue.PodSetReference(ps.Name)] = *index
			}
		}
		of, sets := c.annotations(), facts.PodSets[first:]
		group := fmt.Sprintf("component-%d", c.Index)
		within := jobs.Outer{Required: c.level(), Group: group}
		if len(c.PodSets) > 0 {
			within.Index = c.PodSets[0].Annotations[aw.TASPodIndexLabelAnnotation]
		}
		within.Around(sets)
		jobs.NearAsPartSays(of, sets, group)
		facts.ComputeDomain = append(facts.ComputeDomain, jobs.AsksComputeDomain(of, sets)...)
	}
	return facts, nil
}

// active reports whether pods may exist. Besides the condition, which is
// written before the first pod and withdrawn after the last (P10), an
// AppWrapper that may start at any moment counts.
func active(w *aw.AppWrapper) bool {
	if meta.IsStatusConditionTrue(w.Status.Conditions, aw.QuotaReserved) {
		return true
	}
	switch w.Status.Phase {
	case aw.AppWrapperEmpty, aw.AppWrapperSuspended, aw.AppWrapperSuspending:
		// What is left while it is being suspended may be objects that others keep:
		// none of them makes pods once the condition is withdrawn.
		return !w.Spec.Suspend && w.DeletionTimestamp == nil
	case aw.AppWrapperSucceeded, aw.AppWrapperFailed, aw.AppWrapperTerminating:
		return false
	case aw.AppWrapperResuming, aw.AppWrapperRunning, aw.AppWrapperResetting:
		return true
	}
	return true
}

// Maker is what decides whether more pods of an AppWrapper may come: it makes them
// through its components, also while it is being deleted.
func (Adapter) Maker(o jobs.Object) core.MakerState {
	w, err := cast(o)
	if err != nil {
		return core.MakerState{}
	}
	return core.MakerState{Stopped: !active(w), Deleting: w.DeletionTimestamp != nil, Outlived: true}
}

var _ jobs.Parent = Adapter{}

// PartOf believes what is recorded of the components, and nothing else. What
// another controller makes of an AppWrapper of its own waits by itself.
func (Adapter) PartOf(o jobs.Object, gvk schema.GroupVersionKind, part metav1.Object) jobs.Part {
	w, err := cast(o)
	if err != nil || !Ours(w) {
		return jobs.Stranger
	}
	for i := range w.Status.ComponentStatus {
		c := &w.Status.ComponentStatus[i]
		if c.Name != part.GetName() ||
			schema.FromAPIVersionAndKind(c.APIVersion, c.Kind).GroupKind() != gvk.GroupKind() { // in whatever version
			continue
		}
		switch {
		case c.UID == part.GetUID():
			return jobs.Own
		case w.Status.Phase == aw.AppWrapperResuming:
			return jobs.Expected
		case c.UID == "" && w.Status.Phase != aw.AppWrapperSuspended && w.Status.Phase != aw.AppWrapperEmpty:
			return jobs.Own // created by an earlier version, which recorded less
		}
	}
	return jobs.Stranger
}

// finished waits until the quota is given back: pods of a failed AppWrapper may
// be kept for debugging, and those of a succeeded one may take time to go.
func finished(w *aw.AppWrapper) *jobs.Outcome {
	if meta.IsStatusConditionTrue(w.Status.Conditions, aw.QuotaReserved) {
		return nil
	}
	switch w.Status.Phase {
	case aw.AppWrapperSucceeded:
		return &jobs.Outcome{Success: true, Message: "AppWrapper finished successfully"}
	case aw.AppWrapperFailed:
		message := "AppWrapper failed"
		if c := meta.FindStatusCondition(w.Status.Conditions, aw.Unhealthy); c != nil && c.Message != "" {
			message += ": " + c.Message
		}
		return &jobs.Outcome{Message: message}
	case aw.AppWrapperEmpty, aw.AppWrapperSuspended, aw.AppWrapperResuming, aw.AppWrapperRunning,
		aw.AppWrapperResetting, aw.AppWrapperSuspending, aw.AppWrapperTerminating:
	}
	return nil
}

// Start returns the AppWrapper unsuspended, with what was assigned to its pods.
// It also brings the finalizer: the controller needs it before it creates the
// first component, and here it costs no write of its own.
func (Adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	w, err := cast(o)
	if err != nil {
		return nil, err
	}
	if !w.Spec.Suspend {
		return w, nil
	}
	components, err := Components(w)
	if err != nil {
		return nil, fmt.Errorf("start AppWrapper %s/%s: %w", w.Namespace, w.Name, err)
	}
	out := w.DeepCopy()
	for i, c := range components {
		assigned, err := begin(w, c, infos)
		if err != nil {
			return nil, fmt.Errorf("start AppWrapper %s/%s: %w", w.Namespace, w.Name, err)
		}
		out.Spec.Components[i].PodSetInfos = assigned
	}
	out.Spec.Suspend = false
	if !slices.Contains(out.Finalizers, aw.AppWrapperFinalizer) {
		out.Finalizers = append(out.Finalizers, aw.AppWrapperFinalizer)
	}
	return out, nil
}

// begin returns what a component's pods are assigned, if it can run with it.
func begin(w *aw.AppWrapper, c Component, infos []jobs.PodSetInfo) ([]aw.AppWrapperPodSetInfo, error) {
	// It was checked when it was created, if a controller was there to ask.
	if errs := countable(
		c,
		field.NewPath("spec", "components").Index(c.Index).Child("template"),
	); len(
		errs,
	) > 0 {
		return nil, errs.ToAggregate()
	}
	assigned, err := assign(c, infos)
	if err != nil {
		return nil, err
	}
	// Injecting for trial finds out here what would fail after the start.
	_, err = Inject(w, c, assigned, InjectOptions{})
	return assigned, err
}

// assign finds the infos of a component's pod sets by name. By position would
// give the second component what belongs to the first.
func assign(c Component, infos []jobs.PodSetInfo) ([]aw.AppWrapperPodSetInfo, error) {
	var out []aw.AppWrapperPodSetInfo
	for _, ps := range c.PodSets {
		at := slices.IndexFunc(infos, func(i jobs.PodSetInfo) bool { return i.Name == ps.Name })
		if at < 0 {
			return nil, fmt.Errorf("the admission has nothing for pod set %s", ps.Name)
		}
		info := infos[at]
		if info.Count != ps.Count {
			return nil, fmt.Errorf("pod set %s has %d pods, the admission is for %d", ps.Name, ps.Count, info.Count)
		}
		out = append(out, aw.AppWrapperPodSetInfo{
			Annotations: info.Annotations, Labels: info.Labels,
			NodeSelector: info.NodeSelector, Tolerations: info.Tolerations,
		})
	}
	return out, nil
}

// Stop returns the AppWrapper suspended and without what was assigned. Its
// templates never changed, so there is nothing to restore.
func (Adapter) Stop(o jobs.Object, _ []kueue.PodSet) (jobs.Object, error) {
	w, err := cast(o)
	if err != nil {
		return nil, err
	}
	out := w.DeepCopy()
	out.Spec.Suspend = true
	for i := range out.Spec.Components {
		out.Spec.Components[i].PodSetInfos = nil
	}
	return out, nil
}

func cast(o jobs.Object) (*aw.AppWrapper, error) {
	w, ok := o.(*aw.AppWrapper)
	if !ok {
		return nil, fmt.Errorf("read AppWrapper: %T is not one", o)
	}
	return w, nil
}
