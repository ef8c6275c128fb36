package jobset

import (
	"crypto/sha1" //nolint:gosec // a name, and the one that pods are known by
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// make returns what makes the Jobs of a role.
func (r *reading) make(x *role) jobs.Make {
	return func(m podplan.Member, kept *podplan.RetryState, admitted jobs.Admitted) (jobs.Object, error) {
		j := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Name: r.member(
					x,
				) + strconv.Itoa(
					int(m.Index),
				),
				Labels:      maps.Clone(x.Template.Labels),
				Annotations: maps.Clone(x.Template.Annotations),
			},
			Spec: *x.Template.Spec.DeepCopy(),
		}
		j.Spec.Suspend = new(false)
		t := &j.Spec.Template
		r.mark(x, j, m.Index, kept.Attempt)
		if n := max(kept.Failures+kept.Free, kept.Attempt); n > 0 {
			t.Annotations[recovery.FailuresAnnotation] = strconv.Itoa(int(n))
		}
		if *r.js.Spec.Network.EnableDNSHostnames {
			t.Spec.Subdomain = r.js.Spec.Network.Subdomain
		}
		r.mount(t)
		if admitted != nil {
			info, known := admitted[podSet(x.Name)]
			if !known {
				return nil, fmt.Errorf("its admission has no pods of role %s", x.Name)
			}
			if x.count*x.pods > info.Asked {
				return nil, jobs.ErrOutgrown
			}
			if err := info.Inject(t); err != nil {
				return nil, fmt.Errorf("pods of role %s: %w", x.Name, err)
			}
		}
		if key := r.exclusive(x); key != "" {
			t.Spec.Affinity = apart(t, key, t.Labels[api.JobKey])
		}
		return j, nil
	}
}

// mark adds labels and annotations to a Job and its pods, which say what it is.
func (r *reading) mark(x *role, j *batchv1.Job, index, attempt int32) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	marks := map[string]string{
		api.JobSetNameKey:         r.js.Name,
		api.JobSetUIDKey:          string(r.js.UID),
		api.ReplicatedJobNameKey:  x.Name,
		api.ReplicatedJobReplicas: number(int64(x.count)),
		api.GlobalReplicasKey:     number(r.jobs),
		api.JobIndexKey:           number(int64(index)),
		api.JobGlobalIndexKey:     number(x.first + int64(index)),
		api.JobKey:                jobKey(r.js.Namespace, j.Name),
		api.RestartsKey:           number(int64(attempt)),
		api.GroupNameKey:          x.GroupName,
		api.GroupReplicasKey:      number(x.groupCount),
		api.JobGroupIndexKey:      number(x.groupFirst + int64(index)),
	}
	only := map[string]string{} // what is no label
	if at := r.coordinator(); len(validation.IsValidLabelValue(at)) == 0 && at != "" {
		marks[api.CoordinatorKey] = at
	} else if at != "" {
		only[api.CoordinatorKey] = at
	}
	if key := r.exclusive(x); key != "" {
		only[api.ExclusiveKey] = key
	}
	for _, o := range []*metav1.ObjectMeta{&j.ObjectMeta, &j.Spec.Template.ObjectMeta} {
		o.Labels, o.Annotations = with(o.Labels, marks), with(with(o.Annotations, marks), only)
	}
}

func with(in, more map[string]string) map[string]string {
	if in == nil {
		in = make(map[string]string, len(more))
	}
	maps.Copy(in, more)
	return in
}

// jobKey tells Jobs of all namespaces apart, and is short enough for a label.
func jobKey(namespace, name string) string {
	sum := sha1.Sum([]byte(namespace + "/" + name)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// coordinator is where the coordinator is found, "" if there is none.
func (r *reading) coordinator() string {
	c := r.js.Spec.Coordinator
	if c == nil {
		return ""
	}
	return fmt.Sprintf(
		"%s-%s-%d-%d.%s",
		r.js.Name,
		c.ReplicatedJob,
		c.JobIndex,
		c.PodIndex,
		r.js.Spec.Network.Subdomain,
	)
}

// mount adds the volumes that are made for the JobSet to pods that mount them.
func (r *reading) mount(t *corev1.PodTemplateSpec) {
	for _, c := range r.claims() {
		if mounts(&t.Spec, c.Name) {
			t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: r.claimName(c.Name)},
			}})
		}
	}
}

// mounts reports whether a container of a pod mounts a volume of this name.
func mounts(s *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(slices.Concat(s.InitContainers, s.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == name })
	})
}

// apart is the affinity of pods that want to be near those of their Job, and away from
// those of other Jobs. Pods whose nodes are planned want it without insisting: who plans
// does not know of it, and a planned node that it refuses would keep them waiting for ever.
func apart(t *corev1.PodTemplateSpec, topology, job string) *corev1.Affinity {
	out := t.Spec.Affinity.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if out.PodAffinity == nil {
		out.PodAffinity = &corev1.PodAffinity{}
	}
	if out.PodAntiAffinity == nil {
		out.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	term := func(e ...metav1.LabelSelectorRequirement) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			TopologyKey:       topology,
			LabelSelector:     &metav1.LabelSelector{MatchExpressions: e},
			NamespaceSelector: &metav1.LabelSelector{},
		}
	}
	own := term(
		metav1.LabelSelectorRequirement{Key: api.JobKey, Operator: metav1.LabelSelectorOpIn, Values: []string{job}},
	)
	others := term(
		metav1.LabelSelectorRequirement{Key: api.JobKey, Operator: metav1.LabelSelectorOpExists},
		metav1.LabelSelectorRequirement{
			Key:      api.JobKey,
			Operator: metav1.LabelSelectorOpNotIn,
			Values:   []string{job},
		},
	)
	near, away := out.PodAffinity, out.PodAntiAffinity
	if t.Annotations[kueue.WorkloadAnnotation] != "" {
		const most = 100
		near.PreferredDuringSchedulingIgnoredDuringExecution = append(
			near.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: most, PodAffinityTerm: own},
		)
		away.PreferredDuringSchedulingIgnoredDuringExecution = append(
			away.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: most, PodAffinityTerm: others},
		)
		return out
	}
	near.RequiredDuringSchedulingIgnoredDuringExecution = append(
		near.RequiredDuringSchedulingIgnoredDuringExecution,
		own,
	)
	away.RequiredDuringSchedulingIgnoredDuringExecution = append(
		away.RequiredDuringSchedulingIgnoredDuringExecution,
		others,
	)
	return out
}
