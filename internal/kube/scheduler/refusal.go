package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// A planned node may refuse a pod by a rule that the engine knows nothing of: it would plan the same
// again. So such refusals are told on the pod, in a condition from which the job's controller
// takes them to the Workload, and the engine leaves these nodes out.

// settles is how long planned nodes must go on to refuse before it is told: this process may be
// behind, and see pods that are gone already.
const settles = 300 * time.Millisecond

// evens is the same for nodes that refuse a pod because others like it are not spread alike: those that make them even
// are planned, and may not have come yet.
const evens = 5 * time.Second

// between is how much time lies between two attempts to bind a pod at most: its longest back-off, and the wait for its gang.
const between = time.Minute

// patience is how long nodes that a plugin refuses must go on to.
func patience(plugin string) time.Duration {
	if plugin == names.PodTopologySpread {
		return evens
	}
	return settles
}

// counted reports whether a plugin refuses nodes by what the engine counts itself. It plans anew
// when it learns what this process has seen before.
func counted(plugin string) bool {
	return slices.Contains(
		[]string{
			names.NodeResourcesFit,
			names.NodeUnschedulable,
			names.TaintToleration,
			names.NodeName,
			GangName,
			HealthName,
			"",
		},
		plugin,
	)
}

// found is what planned nodes answered a pod in one attempt.
type found struct {
	refusals []convert.Refusal
	plugin   string // the first that refused
}

// add notes that a node takes no more than most pods of a set, if the engine does not know why.
func (f *found) add(set, node string, most int32, plugin, why string) {
	if counted(plugin) ||
		slices.ContainsFunc(f.refusals, func(r convert.Refusal) bool { return r.PodSet == set && r.Node == node }) {
		return
	}
	if f.plugin == "" {
		f.plugin = plugin
	}
	f.refusals = append(
		f.refusals,
		convert.Refusal{PodSet: set, NodeRefusal: core.NodeRefusal{Node: node, Most: most, Why: why}},
	)
}

// answered takes what planned nodes answered the pod that spoke for its gang: it is told once they
// have said so for a while, and else asked again then.
func (p *gangPlugin) answered(k gang.Key, pod *corev1.Pod, f found) {
	if p.refused == nil {
		return
	}
	switch {
	case len(f.refusals) == 0:
		p.reservations.undisputed(k)
		p.relented(pod)
	case p.reservations.disputed(k) >= patience(f.plugin):
		p.refused(pod, f)
	default:
		p.later(settles, func() { p.wake(k) })
	}
}

// relented takes back what a pod tells of nodes that refuse it, which they do not now. What is asked later than nodes are,
// and what may speak of no node, says so itself.
func (p *gangPlugin) relented(pod *corev1.Pod) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kueue.PodNodesRefused && c.Status == corev1.ConditionTrue
	})
	if i >= 0 && !slices.Contains(
		[]string{names.DefaultBinder, names.VolumeBinding, names.DynamicResources}, pod.Status.Conditions[i].Reason,
	) {
		p.refused(pod, found{})
	}
}

// disputed is for how long planned nodes have refused a gang by rules that the engine does not
// know, which they do now.
func (b *Reservations) disputed(k gang.Key) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[k]
	switch {
	case r == nil:
		return 0
	case r.disputed.IsZero():
		r.disputed = b.now()
	}
	return b.now().Sub(r.disputed)
}

// unbindable is for how long the API server has refused to bind a pod to its node, which it does now. It outlasts the
// attempts to place its gang, of which each finds that the node itself takes the pod, and not more time than lies between
// attempts.
func (b *Reservations) unbindable(k gang.Key, uid types.UID, node string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.run(k)
	u, is := r.unbindable[uid]
	if !is || u.node != node || b.now().Sub(u.last) > between {
		u = unbindable{node: node, since: b.now()}
	}
	u.last = b.now()
	if r.unbindable == nil {
		r.unbindable = map[types.UID]unbindable{}
	}
	r.unbindable[uid] = u
	return u.last.Sub(u.since)
}

// undisputed notes that they do not.
func (b *Reservations) undisputed(k gang.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[k]; r != nil {
		r.disputed = time.Time{}
	}
}

// aloneRefused is what the places of a pod that goes alone answered.
func (p *gangPlugin) aloneRefused(
	k gang.Key,
	state fwk.CycleState,
	pod *corev1.Pod,
	nodes fwk.NodeToStatusReader,
) found {
	var f found
	data, err := state.Read(allowedKey)
	if err != nil {
		return f
	}
	places, _ := data.(allowed)
	v := p.reservations.look(k)
	set := gang.SetOf(v.gang, pod)
	for _, node := range sets.List(sets.Set[string](places)) {
		s := nodes.Get(node)
		if s.IsRejected() && s.Plugin() != names.VolumeBinding &&
			s.Plugin() != names.DynamicResources { // which may speak of no node
			f.add(set, node, boundTo(v.members, set, node), s.Plugin(), s.Message())
		}
	}
	return f
}

// boundTo counts the members of a pod set that have a node.
func boundTo(members []gang.Member, set, node string) int32 {
	n := int32(0)
	for _, m := range members {
		if m.Set == set && m.Node == node && m.State != gang.Pending {
			n++
		}
	}
	return n
}

// refused has it written on a pod what planned nodes answered.
func (n *noter) refused(pod *corev1.Pod, f found) {
	n.mu.Lock()
	n.answers[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = answer{pod.UID, f}
	n.mu.Unlock()
	n.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
}

// answer is what is to be written on a pod.
type answer struct {
	uid types.UID
	found
}

// tellAnswer writes what planned nodes answered a pod, if there is something.
func (n *noter) tellAnswer(ctx context.Context, name types.NamespacedName) error {
	n.mu.Lock()
	a, is := n.answers[name]
	n.mu.Unlock()
	if !is {
		return nil
	}
	if err := n.writeAnswer(ctx, name, a); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := n.answers[name]; now.uid == a.uid && slices.Equal(now.refusals, a.refusals) {
		delete(n.answers, name)
	}
	return nil
}

// writeAnswer writes it as the condition of a pod, whose time is since when the same nodes refuse it for the same plugin. No
// answer takes back what was told.
func (n *noter) writeAnswer(ctx context.Context, name types.NamespacedName, a answer) error {
	text, since := convert.RefusalsText(a.refusals), metav1.Now()
	status, reason := corev1.ConditionTrue, a.plugin
	pod, err := n.pods.Pods(name.Namespace).Get(name.Name)
	switch {
	case len(a.refusals) == 0 && (err != nil || len(convert.PodRefusals(pod)) == 0):
		return nil //nolint:nilerr // of a pod that is gone nothing is taken back
	case len(a.refusals) == 0:
		status, reason = corev1.ConditionFalse, kueue.ReasonRefusalLapsed
	case err == nil && pod.UID == a.uid:
		told, said := toldBefore(pod, a)
		if said == text {
			return nil
		}
		if !told.IsZero() {
			since = told
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": a.uid},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": kueue.PodNodesRefused, "status": status, "reason": reason,
			"message": text, "lastTransitionTime": since,
		}}},
	})
	if err != nil {
		return fmt.Errorf("encode condition: %w", err)
	}
	_, err = n.client.CoreV1().
		Pods(name.Namespace).
		Patch(ctx, name.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("tell pod %s which nodes refuse it: %w", name, err)
	}
	return nil
}

// toldBefore is since when a pod says that the same nodes refuse it, maybe in other words, and the text; zero if it says
// no such thing.
func toldBefore(pod *corev1.Pod, a answer) (since metav1.Time, text string) {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != kueue.PodNodesRefused || c.Status != corev1.ConditionTrue || c.Reason != a.plugin {
			continue
		}
		told, now := convert.ReadRefusals(c.Message), convert.ReadRefusals(convert.RefusalsText(a.refusals))
		if slices.EqualFunc(told, now, func(x, y convert.Refusal) bool {
			return x.PodSet == y.PodSet && x.Node == y.Node && x.Most == y.Most
		}) {
			return c.LastTransitionTime, c.Message
		}
	}
	return metav1.Time{}, ""
}
