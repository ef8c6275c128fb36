package leaderworkerset

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

func ownedBy(o metav1.Object, apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{
		{
			APIVersion:         apiVersion,
			Kind:               kind,
			Name:               o.GetName(),
			UID:                o.GetUID(),
			Controller:         new(true),
			BlockOwnerDeletion: new(true),
		},
	}
}

// leaders is the StatefulSet of the leaders.
func leaders(l *api.LeaderWorkerSet, t *Template, replicas, partition int32) *appsv1.StatefulSet {
	role, _ := t.roles()
	s := t.statefulSet(l, t.leader(), role, t.parted())
	s.Name, s.OwnerReferences = l.Name, ownedBy(l, GVK().GroupVersion().String(), api.Kind)
	s.Annotations = map[string]string{api.ReplicasAnnotation: strconv.Itoa(int(Replicas(l)))}
	s.Spec.Template.Labels[api.WorkerIndexLabel] = "0"
	s.Spec.Replicas = &replicas
	s.Spec.ServiceName = l.Name
	s.Spec.Selector = &metav1.LabelSelector{
		MatchLabels: map[string]string{api.NameLabel: l.Name, api.WorkerIndexLabel: "0"},
	}
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
		Type:          appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition},
	}
	return s
}

// workers is the StatefulSet of the workers of a leader. It goes with its leader.
func workers(l *api.LeaderWorkerSet, t *Template, leader *corev1.Pod, index int32) *appsv1.StatefulSet {
	_, role := t.roles()
	s := t.statefulSet(l, &t.Worker, role, t.parted() && isParted(leader))
	s.Name, s.OwnerReferences = leader.Name, ownedBy(leader, "v1", "Pod")
	own := map[string]string{
		api.NameLabel:       l.Name,
		api.GroupIndexLabel: strconv.Itoa(int(index)),
		api.GroupKeyLabel:   groupKey(l.Namespace, leader.Name),
	}
	s.Labels = merged(s.Labels, own)
	s.Spec.Template.Labels = merged(s.Spec.Template.Labels, own)
	delete(s.Spec.Template.Labels, api.WorkerIndexLabel)
	s.Spec.Template.Annotations[api.LeaderNameAnnotation] = leader.Name
	s.Spec.Replicas = new(t.Size - 1)
	s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
	s.Spec.ServiceName = t.subdomain(l.Name, index)
	s.Spec.Selector = &metav1.LabelSelector{MatchLabels: own}
	return s
}

// statefulSet is what both have in common.
func (t *Template) statefulSet( //nolint:revive // a fact about the group
	l *api.LeaderWorkerSet,
	like *corev1.PodTemplateSpec,
	role string,
	parted bool,
) *appsv1.StatefulSet {
	hash := t.Hash()
	template := *like.DeepCopy()
	template.Labels = merged(template.Labels, map[string]string{api.NameLabel: l.Name, api.RevisionLabel: hash})
	template.Annotations = merged(template.Annotations, t.notes(), map[string]string{Ours: "true"})
	jobs.NoteUser(&template.ObjectMeta, jobs.User(nil, l))
	if !t.part() {
		template.Labels = merged(template.Labels, t.Queueing)
		template.Annotations = merged(template.Annotations, map[string]string{
			kueue.PodSuspendingParentAnnotation: Framework,
			kueue.RoleHashAnnotation:            role,
			jobs.GroupShapeAnnotation:           t.shape(parted),
			kueue.PodGroupTotalCountAnnotation: strconv.Itoa(
				int(t.Size),
			),
			kueue.PodGroupFastAdmissionAnnotation: "true",
			kueue.PodGroupServingAnnotation:       "true",
			kueue.PodGroupPodIndexLabelAnnotation: api.WorkerIndexLabel,
		})
		if parted {
			template.Annotations[Parted] = "true"
		}
	}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.Namespace,
			Labels:    map[string]string{api.NameLabel: l.Name, api.RevisionLabel: hash},
		},
		Spec: appsv1.StatefulSetSpec{
			PodManagementPolicy:                  appsv1.ParallelPodManagement,
			Template:                             template,
			VolumeClaimTemplates:                 t.claims(),
			PersistentVolumeClaimRetentionPolicy: l.Spec.LeaderWorkerTemplate.PersistentVolumeClaimRetentionPolicy.DeepCopy(),
		},
	}
}

// notes are the annotations by which a pod finds its place in its group.
func (t *Template) notes() map[string]string {
	out := map[string]string{api.SizeAnnotation: strconv.Itoa(int(t.Size))}
	if t.OwnSubdomain {
		out[api.SubdomainPolicyAnnotation] = string(api.UniqueSubdomainPerReplica)
	}
	if p := t.SubGroup; p != nil && p.SubGroupSize != nil {
		out[api.SubGroupSizeAnnotation] = strconv.Itoa(int(*p.SubGroupSize))
		if p.Type == api.LeaderExcluded {
			out[api.SubGroupPolicyAnnotation] = string(p.Type)
		}
	}
	if len(askForTPUs(&t.leader().Spec)) > 0 {
		out[api.LeaderTPUsAnnotation] = "true"
	}
	for key, v := range map[string]string{api.ExclusiveTopologyAnnotation: t.Exclusive, api.SubGroupExclusiveTopologyAnnotation: t.SubGroupExclusive} {
		if v != "" {
			out[key] = v
		}
	}
	return out
}

// claims are the volumes of which each pod gets its own.
func (t *Template) claims() []corev1.PersistentVolumeClaim {
	var out []corev1.PersistentVolumeClaim
	for _, v := range t.Volumes {
		out = append(out, corev1.PersistentVolumeClaim{ObjectMeta: v.ObjectMeta, Spec: v.Spec})
	}
	return out
}

// sharedService is the headless Service of all pods of a set.
func sharedService(l *api.LeaderWorkerSet) *corev1.Service {
	s := service(l, l.Name, map[string]string{api.NameLabel: l.Name})
	s.OwnerReferences = ownedBy(l, GVK().GroupVersion().String(), api.Kind)
	return s
}

// groupService is that of a group with a subdomain of its own.
func groupService(l *api.LeaderWorkerSet, leader *corev1.Pod, index int32) *corev1.Service {
	s := service(
		l,
		leader.Name,
		map[string]string{api.NameLabel: l.Name, api.GroupIndexLabel: strconv.Itoa(int(index))},
	)
	s.OwnerReferences = ownedBy(leader, "v1", "Pod")
	return s
}

func service(l *api.LeaderWorkerSet, name string, selects map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.Namespace,
			Name:      name,
			Labels:    map[string]string{api.NameLabel: l.Name},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 selects,
		},
	}
}

// partitionOf is that of a StatefulSet.
func partitionOf(s *appsv1.StatefulSet) int32 {
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil {
		return ptr.Deref(u.Partition, 0)
	}
	return 0
}
