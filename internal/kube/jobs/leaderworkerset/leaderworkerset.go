// Package leaderworkerset knows LeaderWorkerSets: groups of a leader and its workers
// that serve together. It says what a group is made of, what each of its pods has to
// know, what the groups ask for, and what has to be done next for one set (Next). It
// reads nothing and writes nothing.
//
// The pods are made by StatefulSets, as people know it: one of the leaders, and one for
// the workers of each leader. Each group is queued as one pod group that never ends, by
// what the pods carry (see package pod); the set itself is never suspended.
package leaderworkerset

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Framework is the kind's name in configurations, and the mark on its pods.
const Framework = "leaderworkerset.x-k8s.io/leaderworkerset"

// Resource is what the API server calls such sets.
const Resource = "leaderworkersets"

// Image is what images of another controller for the kind end with.
const Image = "lws/lws"

// GVK is the kind.
func GVK() schema.GroupVersionKind { return api.GroupVersion.WithKind(api.Kind) }

// Ours is "true" on pods that mlbatch runs for a set, whoever else there is: an annotation,
// since people compare the labels of templates with labels that they know. Until an earlier
// program's template is changed it is a label.
const Ours = "mlbatch.dev/leader-worker-set"

// Roles are the pod sets of a group.
const (
	roleMain   = "main"
	roleLeader = "leader"
	roleWorker = "worker"
)

// Replicas is how many groups a set has.
func Replicas(l *api.LeaderWorkerSet) int32 { return ptr.Deref(l.Spec.Replicas, 1) }

// Template is what the groups of a set are made of. Groups with another one are
// replaced; it is kept as long as there are groups of it.
type Template struct {
	Leader       *corev1.PodTemplateSpec   `json:"leader,omitempty"`
	Worker       corev1.PodTemplateSpec    `json:"worker"`
	Size         int32                     `json:"size"`
	SubGroup     *api.SubGroupPolicy       `json:"subGroup,omitempty"`
	Volumes      []api.VolumeClaimTemplate `json:"volumes,omitempty"`
	OwnSubdomain bool                      `json:"ownSubdomain,omitempty"`
	// Exclusive and SubGroupExclusive are topologies.
	Exclusive         string `json:"exclusive,omitempty"`
	SubGroupExclusive string `json:"subGroupExclusive,omitempty"`
	// Queueing are the labels of the set by which its groups are queued.
	Queueing map[string]string `json:"queueing,omitempty"`

	// key is what the template is called by: see Hash.
	key string
}

// Of is the template of a set as it is now.
func Of(l *api.LeaderWorkerSet) *Template {
	spec := l.DeepCopy().Spec.LeaderWorkerTemplate
	t := &Template{
		Leader:            spec.LeaderTemplate,
		Worker:            spec.WorkerTemplate,
		Size:              ptr.Deref(spec.Size, 1),
		SubGroup:          spec.SubGroupPolicy,
		Volumes:           spec.VolumeClaimTemplates,
		Exclusive:         l.Annotations[api.ExclusiveTopologyAnnotation],
		SubGroupExclusive: l.Annotations[api.SubGroupExclusiveTopologyAnnotation],
	}
	if n := l.Spec.NetworkConfig; n != nil {
		t.OwnSubdomain = n.SubdomainPolicy == api.UniqueSubdomainPerReplica
	}
	for _, key := range []string{kueue.QueueNameLabel, kueue.PriorityClassLabel} {
		if v := l.Labels[key]; v != "" {
			if t.Queueing == nil {
				t.Queueing = map[string]string{}
			}
			t.Queueing[key] = v
		}
	}
	t.key = t.fingerprint()
	if t.Queueing == nil && t.Exclusive == "" && t.SubGroupExclusive == "" {
		t.key = revisionKey(l)
	}
	return t
}

// hashLength is the length of a template's fingerprint.
const hashLength = 10

func fingerprint(text string, length int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:length]
}

// leader is the template of the leader.
func (t *Template) leader() *corev1.PodTemplateSpec {
	if t.Leader != nil {
		return t.Leader
	}
	return &t.Worker
}

// part reports whether the pods are those of a job that is queued as a whole: an
// AppWrapper has put the name of its Workload into the templates.
func (t *Template) part() bool {
	return t.leader().Annotations[kueue.WorkloadAnnotation] != "" ||
		t.Worker.Annotations[kueue.WorkloadAnnotation] != ""
}

// Part is that of a set.
func Part(l *api.LeaderWorkerSet) bool { return Of(l).part() }

// roles are the names of the pod sets of leader and workers.
func (t *Template) roles() (leader, worker string) {
	if t.Leader == nil {
		return roleMain, roleMain
	}
	return roleLeader, roleWorker
}

// shape is the fingerprint of what a group asks for, which is planned in parts or is not.
func (t *Template) shape(parted bool) string { //nolint:revive // a fact about the group
	says := []string{
		jobs.Fingerprint(&t.leader().Spec),
		jobs.Fingerprint(&t.Worker.Spec),
		strconv.Itoa(int(t.Size)),
		t.Queueing[kueue.QueueNameLabel],
	}
	if parted {
		says = append(says, fmt.Sprint(t.cut(), t.SubGroupExclusive))
	}
	return fingerprint(strings.Join(says, " "), hashLength)
}

// PodSets are what one group asks for, which is planned in parts or is not. key is the one of its pods (GroupKeyLabel).
func (t *Template) PodSets(name string, index int32, key string, parted bool) []kueue.PodSet {
	leader, worker := t.roles()
	set := func(role string, like *corev1.PodTemplateSpec, count int32) kueue.PodSet {
		out := *like.DeepCopy()
		out.Labels, out.Annotations = merged(
			out.Labels,
			map[string]string{api.NameLabel: name, api.GroupIndexLabel: strconv.Itoa(int(index))},
		), merged(
			out.Annotations,
			map[string]string{jobs.GroupShapeAnnotation: t.shape(parted)},
		)
		if t.Exclusive != "" { // as its pods insist on it
			out.Labels[api.GroupKeyLabel] = key
			out.Spec.Affinity = exclusive{t.Exclusive, api.GroupKeyLabel, key, true, false}.of(out.Spec.Affinity)
		}
		return kueue.PodSet{Name: kueue.PodSetReference(role), Count: count, Template: out}
	}
	switch {
	case parted:
		return t.partedSets(set)
	case t.Leader == nil:
		return []kueue.PodSet{set(leader, &t.Worker, t.Size)}
	case t.Size == 1:
		return []kueue.PodSet{set(leader, t.Leader, 1)}
	}
	return []kueue.PodSet{set(leader, t.Leader, 1), set(worker, &t.Worker, t.Size-1)}
}

// Later are the pod sets whose pods may come once the leader is ready only.
func (t *Template) Later(parted bool) string {
	var later []string
	for _, ps := range t.PodSets("", 0, "", parted) {
		if ps.Name != roleLeader && ps.Name != roleMain {
			later = append(later, string(ps.Name))
		}
	}
	return strings.Join(later, ",")
}

// merged is a map with further entries, which win.
func merged(in map[string]string, more ...map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, in)
	for _, m := range more {
		maps.Copy(out, m)
	}
	return out
}

// GroupName names the pod group of a group, and its Workload.
func GroupName(name string, index int32) string {
	const prefix, longest, hash = "leaderworkerset-", 63, 5
	leader := fmt.Sprintf("%s-%d", name, index)
	out := prefix + leader
	if len(out) > longest-hash-1 {
		out = strings.TrimRight(out[:longest-hash-1], ".-")
	}
	return out + "-" + fingerprint(leader, hash)
}

// IndexOf is the group of a pod, or of a template of a Workload of ours; false if it says
// none.
func IndexOf(labels map[string]string) (name string, index int32, ok bool) {
	n, err := strconv.ParseInt(labels[api.GroupIndexLabel], 10, 32)
	name = labels[api.NameLabel]
	return name, int32(n), err == nil && n >= 0 && name != ""
}

// subdomain names the headless Service that the pods of a group have their names in.
func (t *Template) subdomain(name string, index int32) string {
	if t.OwnSubdomain {
		return fmt.Sprintf("%s-%d", name, index)
	}
	return name
}

// restartPolicy is that of a set.
func restartPolicy(l *api.LeaderWorkerSet) api.RestartPolicy {
	p := cmp.Or(l.Spec.LeaderWorkerTemplate.RestartPolicy, api.RecreateGroupOnPodRestart)
	if p == api.DefaultRestart {
		return api.NoRestart
	}
	return p
}
