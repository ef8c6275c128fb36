package trainjob

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
)

// change is what one entry of one of the three generations of fields changes.
type change struct {
	at *field.Path
	// targets are names of replicated jobs, with where they were written; all if there are
	// none.
	targets []target
	job     *api.Metadata
	pod     *api.Metadata
	spec    *api.PodSpecPatch
	// specAt is where spec was written.
	specAt *field.Path
}

type target struct {
	name string
	at   *field.Path
}

// changes are those of a TrainJob, in the order in which they are made: older fields first.
func changes(t *api.TrainJob) []change {
	var out []change
	for i := range t.Spec.PodSpecOverrides {
		o, at := &t.Spec.PodSpecOverrides[i], field.NewPath("spec", "podSpecOverrides").Index(i)
		out = append(out, change{at: at, targets: targets(o.TargetJobs, at), spec: &o.PodSpecPatch, specAt: at})
	}
	for i := range t.Spec.PodTemplateOverrides {
		o, at := &t.Spec.PodTemplateOverrides[i], field.NewPath("spec", "podTemplateOverrides").Index(i)
		out = append(
			out,
			change{
				at:      at,
				targets: targets(o.TargetJobs, at),
				pod:     o.Metadata,
				spec:    o.Spec,
				specAt:  at.Child("spec"),
			},
		)
	}
	for i := range t.Spec.RuntimePatches {
		p := &t.Spec.RuntimePatches[i]
		if p.TrainingRuntimeSpec == nil || p.TrainingRuntimeSpec.Template == nil ||
			p.TrainingRuntimeSpec.Template.Spec == nil {
			continue
		}
		in := field.NewPath("spec", "runtimePatches").
			Index(i).
			Child("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
		for k := range p.TrainingRuntimeSpec.Template.Spec.ReplicatedJobs {
			j, at := &p.TrainingRuntimeSpec.Template.Spec.ReplicatedJobs[k], in.Index(k)
			c := change{
				at:      at,
				targets: []target{{j.Name, at.Child("name")}},
				specAt:  at.Child("template", "spec", "template", "spec"),
			}
			if j.Template != nil {
				c.job = j.Template.Metadata
				if j.Template.Spec != nil && j.Template.Spec.Template != nil {
					c.pod, c.spec = j.Template.Spec.Template.Metadata, j.Template.Spec.Template.Spec
				}
			}
			out = append(out, c)
		}
	}
	return out
}

func targets(all []api.TargetJob, at *field.Path) []target {
	out := make([]target, len(all))
	for i := range all {
		out[i] = target{all[i].Name, at.Child("targetJobs").Index(i).Child("name")}
	}
	return out
}

// about reports whether a change is about a replicated job.
func (c *change) about(name string) bool {
	return len(c.targets) == 0 || slices.ContainsFunc(c.targets, func(t target) bool { return t.name == name })
}

// patch changes the runtime as the TrainJob says.
func (r *rendering) patch() {
	for i := range r.job.Spec.RuntimePatches {
		if p := r.job.Spec.RuntimePatches[i].TrainingRuntimeSpec; p != nil && p.Template != nil &&
			p.Template.Metadata != nil {
			r.set.Labels = merged(r.set.Labels, p.Template.Metadata.Labels)
			r.set.Annotations = merged(r.set.Annotations, p.Template.Metadata.Annotations)
		}
	}
	for _, c := range changes(r.job) {
		for i := range r.set.Spec.ReplicatedJobs {
			if j := &r.set.Spec.ReplicatedJobs[i]; c.about(j.Name) {
				c.apply(j)
			}
		}
	}
}

func (c *change) apply(j *jobset.ReplicatedJob) {
	if c.job != nil {
		j.Template.Labels = merged(j.Template.Labels, c.job.Labels)
		j.Template.Annotations = merged(j.Template.Annotations, c.job.Annotations)
	}
	t := &j.Template.Spec.Template
	if c.pod != nil {
		t.Labels = merged(t.Labels, c.pod.Labels)
		t.Annotations = merged(t.Annotations, c.pod.Annotations)
	}
	if c.spec != nil {
		applySpec(c.spec.DeepCopy(), &t.Spec)
	}
}

// applySpec changes pods. Lists of what has a name are joined, and tolerations, which have
// none, take the place of the runtime's.
func applySpec(p *api.PodSpecPatch, s *corev1.PodSpec) {
	if p.ServiceAccountName != nil {
		s.ServiceAccountName = *p.ServiceAccountName
	}
	if p.TerminationGracePeriodSeconds != nil {
		s.TerminationGracePeriodSeconds = p.TerminationGracePeriodSeconds
	}
	s.Volumes = joined(s.Volumes, p.Volumes, func(v *corev1.Volume) string { return v.Name })
	s.ImagePullSecrets = joined(
		s.ImagePullSecrets,
		p.ImagePullSecrets,
		func(v *corev1.LocalObjectReference) string { return v.Name },
	)
	s.SchedulingGates = joined(
		s.SchedulingGates,
		p.SchedulingGates,
		func(g *corev1.PodSchedulingGate) string { return g.Name },
	)
	s.NodeSelector = merged(s.NodeSelector, p.NodeSelector)
	if p.Tolerations != nil {
		s.Tolerations = p.Tolerations
	}
	if p.SecurityContext != nil {
		s.SecurityContext = podSecurity(s.SecurityContext, p.SecurityContext)
	}
	if p.Affinity != nil {
		s.Affinity = affinity(s.Affinity, p.Affinity)
	}
	applyContainers(p.InitContainers, s.InitContainers)
	applyContainers(p.Containers, s.Containers)
}

func applyContainers(patches []api.ContainerPatch, all []corev1.Container) {
	for i := range patches {
		p := &patches[i]
		for k := range all {
			c := &all[k]
			if c.Name != p.Name {
				continue
			}
			setEnv(c, p.Env...)
			c.VolumeMounts = joined(
				c.VolumeMounts,
				p.VolumeMounts,
				func(m *corev1.VolumeMount) string { return m.MountPath },
			)
			if p.SecurityContext != nil {
				c.SecurityContext = security(c.SecurityContext, p.SecurityContext)
			}
		}
	}
}

// joined adds to a list; what has the same key takes the other's place.
func joined[T any](is, more []T, key func(*T) string) []T {
	for i := range more {
		at := slices.IndexFunc(is, func(x T) bool { return key(&x) == key(&more[i]) })
		if at >= 0 {
			is[at] = more[i]
			continue
		}
		is = append(is, more[i])
	}
	return is
}

// affinity takes over the parts that are set.
func affinity(is, more *corev1.Affinity) *corev1.Affinity {
	if is == nil {
		return more
	}
	over(&is.NodeAffinity, more.NodeAffinity)
	over(&is.PodAffinity, more.PodAffinity)
	over(&is.PodAntiAffinity, more.PodAntiAffinity)
	return is
}

func over[T any](is **T, more *T) {
	if more != nil {
		*is = more
	}
}

func podSecurity(is, more *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	if is == nil {
		return more
	}
	over(&is.SELinuxOptions, more.SELinuxOptions)
	over(&is.WindowsOptions, more.WindowsOptions)
	over(&is.RunAsUser, more.RunAsUser)
	over(&is.RunAsGroup, more.RunAsGroup)
	over(&is.RunAsNonRoot, more.RunAsNonRoot)
	over(&is.FSGroup, more.FSGroup)
	over(&is.FSGroupChangePolicy, more.FSGroupChangePolicy)
	over(&is.SeccompProfile, more.SeccompProfile)
	over(&is.AppArmorProfile, more.AppArmorProfile)
	over(&is.SupplementalGroupsPolicy, more.SupplementalGroupsPolicy)
	over(&is.SELinuxChangePolicy, more.SELinuxChangePolicy)
	if more.SupplementalGroups != nil {
		is.SupplementalGroups = more.SupplementalGroups
	}
	is.Sysctls = joined(is.Sysctls, more.Sysctls, func(s *corev1.Sysctl) string { return s.Name })
	return is
}

func security(is, more *corev1.SecurityContext) *corev1.SecurityContext {
	if is == nil {
		return more
	}
	over(&is.Capabilities, more.Capabilities)
	over(&is.Privileged, more.Privileged)
	over(&is.SELinuxOptions, more.SELinuxOptions)
	over(&is.WindowsOptions, more.WindowsOptions)
	over(&is.RunAsUser, more.RunAsUser)
	over(&is.RunAsGroup, more.RunAsGroup)
	over(&is.RunAsNonRoot, more.RunAsNonRoot)
	over(&is.ReadOnlyRootFilesystem, more.ReadOnlyRootFilesystem)
	over(&is.AllowPrivilegeEscalation, more.AllowPrivilegeEscalation)
	over(&is.ProcMount, more.ProcMount)
	over(&is.SeccompProfile, more.SeccompProfile)
	over(&is.AppArmorProfile, more.AppArmorProfile)
	return is
}
