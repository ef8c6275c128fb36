package gang

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// How long members of a gang hold nodes for the others. A planned gang has its
// room reserved by the engine, so something is wrong if it does not fill it at
// once.
const (
	plannedWait  = 10 * time.Second
	podGroupWait = 300 * time.Second
)

// KeyOf names the gang of a pod: its Workload, else its PodGroup. A job wrapped
// with a PodGroup of its own follows its Workload.
func KeyOf(pod *corev1.Pod) (Key, bool) {
	if w := convert.WorkloadOf(pod); w.Name != "" {
		return Key{KindWorkload, w.Namespace, w.Name}, true
	}
	return GroupOf(pod)
}

// GroupOf names the PodGroup that a pod carries the label of.
func GroupOf(pod *corev1.Pod) (Key, bool) {
	if name := podgroup.Named(pod.Labels); name != "" {
		return Key{KindPodGroup, pod.Namespace, name}, true
	}
	return Key{}, false
}

// SetOf names the pod set of a pod. PodGroups have one set without a name; a
// pod that names none belongs to a Workload's only set.
func SetOf(g Gang, p *corev1.Pod) string {
	if g.Key.Kind == KindPodGroup {
		return ""
	}
	if name := convert.PodSetOf(p); name != "" || len(g.Sets) != 1 {
		return name
	}
	return g.Sets[0].Name
}

// Read tells how far a pod of a gang has come; ok is false for pods that hold nothing and
// will not. Whether one that is Pending waits for the reader is for the reader to say.
func Read(g Gang, p *corev1.Pod) (m Member, ok bool) {
	m = Member{
		UID:     p.UID,
		Name:    p.Name,
		Set:     SetOf(g, p),
		Node:    p.Spec.NodeName,
		Created: p.CreationTimestamp.Time,
		Rank:    -1,
	}
	if s, known := g.Find(m.Set); known {
		m.Rank = s.Ranks.Of(p.Labels)
	}
	state := convert.PodState(p)
	switch {
	case state.Deleting && state.HoldsPlace():
		m.State = Leaving
	case state.Deleting:
		return Member{}, false
	case p.Status.Phase == corev1.PodSucceeded:
		m.State = Succeeded
	case p.Status.Phase == corev1.PodFailed:
		m.State = Failed
	case p.Spec.NodeName != "":
		m.State = Bound
	}
	if o := metav1.GetControllerOf(p); o != nil {
		m.OneByOne = o.Kind == "StatefulSet"
	}
	m.OneByOne = m.OneByOne || p.Annotations[kueue.PodGroupFastAdmissionAnnotation] == "true"
	return m, true
}

// FromWorkload reads the plan of a Workload.
func FromWorkload(w *kueue.Workload) Gang {
	g := Gang{
		Key:      Key{KindWorkload, w.Namespace, w.Name},
		Since:    w.CreationTimestamp.Time,
		Admitted: convert.Admitted(w),
		Ends:     ends(w),
		Wait:     plannedWait,
	}
	if c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAdmitted); c != nil {
		g.AdmittedAt = c.LastTransitionTime.Time
	}
	a := convert.Admission(w.Status.Admission)
	if a == nil {
		return g
	}
	done, later, fewer := convert.Done(w), convert.Later(w), convert.Fewer(w)
	for _, ps := range a.PodSets {
		s := Set{
			Name:      ps.Name,
			Count:     int(ps.Count),
			Reclaimed: int(done[ps.Name]),
			Once:      convert.EndsOnce(w),
			Later:     slices.Contains(later, ps.Name),
			Places:    ps.Places,
			Ranks:     ranks(w, ps.Name),
		}
		if asked, is := fewer[ps.Name]; is {
			s.Unasked = max(0, s.Count-int(asked)-s.Reclaimed) // those whose quota was given back are among Reclaimed
		}
		g.Sets = append(g.Sets, s)
	}
	return g
}

// ranks says by which labels the pods of a set tell their ranks.
func ranks(w *kueue.Workload, set string) Ranks {
	at := slices.IndexFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool { return string(ps.Name) == set })
	if at < 0 || w.Spec.PodSets[at].TopologyRequest == nil {
		return Ranks{}
	}
	ps, t := &w.Spec.PodSets[at], w.Spec.PodSets[at].TopologyRequest
	out := Ranks{Label: ptr.Deref(t.PodIndexLabel, "")}
	if groups := ptr.Deref(t.SubGroupCount, 0); groups > 0 && ptr.Deref(t.SubGroupIndexLabel, "") != "" {
		if ps.Count%groups != 0 {
			return Ranks{}
		}
		out.SubGroup, out.Size = *t.SubGroupIndexLabel, int(ps.Count/groups)
	}
	return out
}

// ends says why no pod of a Workload starts any more: its quota is given back as soon as those that
// it has are gone, and one that came after that would run without.
func ends(w *kueue.Workload) string {
	const stays = ": its pods do not start"
	switch {
	case w.DeletionTimestamp != nil:
		return "is being deleted" + stays
	case convert.Finished(w):
		return "has ended" + stays
	case w.Status.Admission != nil && convert.Evicted(w):
		return "is evicted" + stays
	}
	return ""
}

// FromPodGroup reads a PodGroup.
func FromPodGroup(p *podgroup.PodGroup) Gang {
	g := Gang{
		Key:        Key{KindPodGroup, p.Namespace, p.Name},
		Since:      p.CreationTimestamp.Time,
		Admitted:   true,
		AdmittedAt: p.CreationTimestamp.Time,
		Wait:       podGroupWait,
		Sets:       []Set{{Count: max(1, int(p.Spec.MinMember))}},
	}
	if s := p.Spec.ScheduleTimeoutSeconds; s != nil && *s > 0 {
		g.Wait = time.Duration(*s) * time.Second
	}
	return g
}
