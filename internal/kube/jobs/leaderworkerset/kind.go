package leaderworkerset

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Kind is all that there is to know of LeaderWorkerSets.
func Kind() jobs.GroupedKind {
	return jobs.GroupedKind{
		GVK: GVK(), New: func() jobs.Object { return &api.LeaderWorkerSet{} },
		Resource: Resource, ShortNames: []string{"lws"}, Framework: Framework, AddToScheme: api.AddToScheme,
		NameLabel: api.NameLabel, GroupIndexLabel: api.GroupIndexLabel, PodIndexLabel: api.WorkerIndexLabel,
		Queueing: jobs.GroupQueueing{Group: IndexOf, WorkloadName: GroupName, Size: sizeOf, Kept: sizeKept},
		Running:  jobs.GroupRunning{Others: []string{Image}, Next: next},
		Admission: jobs.GroupAdmission{
			Bulk:           templatePath().String(),
			Mark:           Ours,
			Identify:       identity,
			Templates:      jobs.Of(Templates),
			Claims:         jobs.Of(claims),
			Replicas:       jobs.Of(Replicas),
			PodSets:        jobs.Of(firstGroup),
			Part:           jobs.Of(Part),
			Validate:       jobs.Of(Validate),
			ValidateChange: jobs.OfBoth(ValidateChange),
			Warnings:       jobs.Of(Warnings),
			GroupSize:      []string{"spec", "leaderWorkerTemplate", "size"},
		},
		Viewing: jobs.GroupViewing{Pods: pods, NotMade: jobs.Of(notMade)},
		Wrapped: &jobs.Wrapping{PodSets: wrappedPods, HeldBack: heldBack, Written: writeParts},
	}
}

func (t *Template) groupSize(name string, index int32, one *corev1.Pod) *jobs.GroupSize {
	parted := t.parted() && isParted(one)
	sets := t.PodSets(name, index, one.Labels[api.GroupKeyLabel], parted)
	return &jobs.GroupSize{Pods: t.Size, PodSets: sets, Later: t.Later(parted)}
}

// firstGroup is what the first group of a set asks for.
func firstGroup(l *api.LeaderWorkerSet) []kueue.PodSet {
	t := Of(l)
	return t.PodSets(l.Name, 0, groupKey(l.Namespace, l.Name+"-0"), t.parted())
}

// pods is jobs.GroupViewing.Pods.
func pods(o jobs.Object) (int32, *corev1.PodTemplateSpec) {
	l, is := o.(*api.LeaderWorkerSet)
	if !is {
		return 0, nil
	}
	t := &l.Spec.LeaderWorkerTemplate
	return Replicas(l) * ptr.Deref(t.Size, 1), &t.WorkerTemplate
}

// notMade is what the condition of its progress says of pods that could not be made.
func notMade(l *api.LeaderWorkerSet) string {
	if c := apimeta.FindStatusCondition(l.Status.Conditions, api.Progressing); c != nil {
		if why, is := strings.CutPrefix(c.Message, api.PodsNotMade); is {
			return why
		}
	}
	return ""
}

// sizeOf is jobs.GroupQueueing.Size.
func sizeOf(o jobs.Object, name string, index int32, one *corev1.Pod) (size *jobs.GroupSize, kept string) {
	hash := revisionOf(one)
	if l, is := o.(*api.LeaderWorkerSet); is {
		if t := Of(l); t.Hash() == hash {
			return t.groupSize(name, index, one), ""
		}
	}
	return nil, RevisionName(name, hash)
}

// sizeKept is jobs.GroupQueueing.Kept.
func sizeKept(
	r *appsv1.ControllerRevision,
	name string,
	index int32,
	one *corev1.Pod,
) (*jobs.GroupSize, error) {
	t, err := Recorded(r)
	if err != nil {
		return nil, err
	}
	return t.groupSize(name, index, one), nil
}

// claims are the names of the volumes of which each pod gets its own.
func claims(l *api.LeaderWorkerSet) []string {
	var out []string
	for _, v := range l.Spec.LeaderWorkerTemplate.VolumeClaimTemplates {
		out = append(out, v.Name)
	}
	return out
}

// identity is jobs.GroupAdmission.Identify.
func identity(p *corev1.Pod, namespace string) *jobs.PodIdentity {
	id := Identify(p, namespace)
	if id == nil {
		return nil
	}
	return &jobs.PodIdentity{
		Labels: id.Labels, Role: id.Role, Subdomain: id.Subdomain, Affinity: id.Affinity, EnvOf: id.EnvOf,
	}
}

// next is jobs.GroupRunning.Next.
func next(g *jobs.Groups) (*jobs.GroupActions, error) {
	l, is := g.Object.(*api.LeaderWorkerSet)
	if !is {
		return &jobs.GroupActions{Is: g.Object}, nil // it has come to the wrong kind
	}
	s, err := Next(&Observed{
		Object:    l,
		Leaders:   g.Leaders,
		Sets:      g.Sets,
		Services:  g.Services,
		Pods:      g.Pods,
		Revisions: g.Revisions,
		NotMade:   g.NotMade,
		Now:       g.Now,
	})
	if err != nil {
		return nil, err
	}
	out := &jobs.GroupActions{Create: s.Create, Again: s.Again}
	if s.Leaders != nil {
		out.Change = append(out.Change, jobs.GroupChange{Was: g.Leaders, Is: s.Leaders})
	}
	changed := map[string]*appsv1.StatefulSet{}
	for _, want := range s.Workers {
		changed[want.Name] = want
	}
	for name, members := range s.Complete {
		if changed[name] == nil {
			changed[name] = g.Sets[name].DeepCopy()
		}
		metav1.SetMetaDataAnnotation(&changed[name].ObjectMeta, MembersAnnotation, members)
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		out.Change = append(out.Change, jobs.GroupChange{Was: g.Sets[name], Is: changed[name]})
	}
	for _, r := range s.Recreate {
		// The set of its workers goes first, and the new leader comes when all are gone.
		out.Delete = append(
			out.Delete,
			jobs.GroupDeletion{
				Object:    r.Leader,
				WithParts: true,
				Why:       r.Message + ": deleted its leader " + r.Leader.Name,
			},
		)
	}
	for _, p := range s.Replace {
		out.Delete = append(
			out.Delete,
			jobs.GroupDeletion{Object: p, Why: "Pod " + p.Name + " was not told its place: deleted it"},
		)
	}
	for _, old := range s.Forget {
		out.Delete = append(out.Delete, jobs.GroupDeletion{Object: old})
	}
	as := l.DeepCopy()
	as.Status = s.Status
	out.Is = as
	return out, nil
}
