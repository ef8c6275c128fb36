package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// GangName is the name of the gang plugin, as users see it in messages.
const GangName = "MLBatchGang"

// maxOpen bounds how many planned nodes are tried for a pod that goes alone.
const maxOpen = 64

// prefilters is the part of the framework that a dry run needs besides what
// every plugin is handed.
type prefilters interface {
	RunPreFilterPlugins(
		context.Context,
		fwk.CycleState,
		*corev1.Pod,
	) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// gangPlugin starts gangs together and keeps planned pods to their nodes. One
// instance serves each profile; all share the Reservations.
type gangPlugin struct {
	reservations *Reservations
	handle       fwk.Handle
	rules        prefilters
	binder       fwk.BindPlugin
	// refused has it written on a pod which planned nodes refuse it, later calls a function in a
	// while.
	refused func(*corev1.Pod, found)
	later   func(time.Duration, func())
}

var (
	_ fwk.QueueSortPlugin   = &gangPlugin{}
	_ fwk.PreEnqueuePlugin  = &gangPlugin{}
	_ fwk.PreFilterPlugin   = &gangPlugin{}
	_ fwk.FilterPlugin      = &gangPlugin{}
	_ fwk.PostFilterPlugin  = &gangPlugin{}
	_ fwk.ReservePlugin     = &gangPlugin{}
	_ fwk.PermitPlugin      = &gangPlugin{}
	_ fwk.BindPlugin        = &gangPlugin{}
	_ fwk.EnqueueExtensions = &gangPlugin{}
	_ fwk.SignPlugin        = &gangPlugin{}
)

// gangFactory makes the plugin of one profile and tells the waker how to
// reach the queue.
func gangFactory(reservations *Reservations, w *waker) frameworkruntime.PluginFactory {
	return func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		rules, ok := h.(prefilters)
		if !ok {
			return nil, fmt.Errorf("make plugin %s: the framework does not let plugins run PreFilter", GangName)
		}
		upstream, err := defaultbinder.New(ctx, nil, h)
		if err != nil {
			return nil, fmt.Errorf("make plugin %s: %w", GangName, err)
		}
		binder, ok := upstream.(fwk.BindPlugin)
		if !ok {
			return nil, fmt.Errorf("make plugin %s: %s binds no pods", GangName, upstream.Name())
		}
		w.connect(h)
		return &gangPlugin{
			reservations: reservations,
			handle:       h,
			rules:        rules,
			binder:       binder,
			refused:      w.refused,
			later:        w.later,
		}, nil
	}
}

// Name is the plugin's name.
func (*gangPlugin) Name() string { return GangName }

// Less orders the queue: priority, then age, then the pods of one gang next to
// each other. The age of a gang is that of its object, which never changes, so
// its pods stay together. A PodGroup of Kubernetes' own is queued whole, by its
// own priority and age.
func (p *gangPlugin) Less(x, y fwk.QueuedEntityInfo) bool {
	if a, b := x.GetPriority(), y.GetPriority(); a != b {
		return a > b
	}
	px, py := p.position(x), p.position(y)
	if !px.since.Equal(py.since) {
		return px.since.Before(py.since)
	}
	if px.gang != py.gang {
		return px.gang.String() < py.gang.String()
	}
	return px.name.String() < py.name.String()
}

// position is what a queued entity is ordered by among those of its priority.
type position struct {
	since time.Time
	gang  gang.Key
	name  types.NamespacedName
}

func (p *gangPlugin) position(x fwk.QueuedEntityInfo) position {
	at := position{since: x.GetTimestamp()}
	switch x := x.(type) {
	case *framework.QueuedPodInfo:
		at.name = types.NamespacedName{Namespace: x.Pod.Namespace, Name: x.Pod.Name}
		if k, ok := gang.KeyOf(x.Pod); ok {
			if g, ok := p.reservations.gangs.Gang(k); ok {
				at.gang, at.since = k, g.Since
			}
		}
	case *framework.QueuedPodGroupInfo:
		at.name = types.NamespacedName{Namespace: x.GetNamespace(), Name: x.GetName()}
	}
	return at
}

// PreEnqueue keeps pods out of the queue while their gang cannot start. The
// waker brings them back; the noter tells the user.
func (p *gangPlugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	k, ok := gang.KeyOf(pod)
	if !ok || len(pod.Spec.SchedulingGates) > 0 || awaitsClaims(pod) {
		return nil // other plugins hold it, and it is looked at when they do no more
	}
	if v := p.reservations.look(k).decision; v.Act == gang.Hold {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, v.Why)
	}
	return nil
}

// allowed is what PreFilter leaves for Filter: a pod that was nominated to a
// node skips PreFilter's choice of nodes, so Filter has to know it.
type allowed sets.Set[string]

// Clone returns the value itself: it is never changed.
func (a allowed) Clone() fwk.StateData { return a }

// companions are the members of a pod's gang that are assigned and not reserved yet. Where pods must spread over
// domains, they count as if they were there: alone a pod may be one too many in its domain.
type companions []assignment

// Clone returns the value itself: it is never changed.
func (c companions) Clone() fwk.StateData { return c }

const (
	allowedKey    fwk.StateKey = GangName + "/allowed"
	companionsKey fwk.StateKey = GangName + "/companions"
	dryRunKey     fwk.StateKey = GangName + "/dry-run"
)

// PreFilter limits a pod to its planned nodes, or to the assignment that the
// dry run of its gang found for it.
func (p *gangPlugin) PreFilter(
	ctx context.Context,
	state fwk.CycleState,
	pod *corev1.Pod,
	_ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if _, err := state.Read(dryRunKey); err == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if why := p.reservations.resumed.refusal(pod); why != "" {
		return nil, refused(why)
	}
	k, ok := gang.KeyOf(pod)
	if !ok {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	node, refusal := p.reservations.assignmentOf(k, pod.UID)
	switch {
	case node != "":
		return p.assigned(state, k, pod, node)
	case refusal != "":
		return nil, refused(refusal)
	}
	v := p.reservations.look(k)
	switch v.decision.Act {
	case gang.Hold:
		return nil, refused(v.decision.Why)
	case gang.Alone:
		return p.alone(state, v, pod)
	case gang.Together:
	}
	p.rejectLeftOver(v)
	assignments, why, answers := p.dryRun(ctx, v, pod.UID)
	if why != "" {
		p.reservations.refuse(k, pod.UID, why)
		p.answered(k, pod, answers)
		return nil, refused(why)
	}
	p.reservations.begin(v.gang, assignments)
	return p.assigned(state, k, pod, assignments[pod.UID].node)
}

// assigned limits a pod to the node that the dry run of its gang found for it.
func (p *gangPlugin) assigned(
	state fwk.CycleState,
	k gang.Key,
	pod *corev1.Pod,
	node string,
) (*fwk.PreFilterResult, *fwk.Status) {
	if spreads(pod) {
		state.Write(companionsKey, companions(p.reservations.companions(k, pod.UID)))
	}
	return only(state, node)
}

// rejectLeftOver rejects pods that wait for an attempt which has ended. It ended after they were told to
// wait and before the framework knew that they do, so that sendBack did not find them.
func (p *gangPlugin) rejectLeftOver(v view) {
	for _, m := range v.members {
		if m.State != gang.Reserved {
			continue
		}
		if w := p.handle.GetWaitingPod(m.UID); w != nil {
			w.Reject(GangName, v.gang.Key.String()+" starts as a whole: the attempt that this pod waits for has ended")
		}
	}
}

// alone limits a pod without a gang to wait for to the open places of its set.
func (p *gangPlugin) alone(
	state fwk.CycleState,
	v view,
	pod *corev1.Pod,
) (*fwk.PreFilterResult, *fwk.Status) {
	name := gang.SetOf(v.gang, pod)
	s, ok := v.gang.Find(name)
	switch {
	case !ok:
		return nil, refused(fmt.Sprintf("%s has no pod set %q (label %s)", v.gang.Key, name, kueue.PodSetLabel))
	case gang.Room(v.gang, s, v.members) == 0:
		return nil, refused(gang.Full(v.gang, s, v.members))
	case s.Places == nil:
		return nil, fwk.NewStatus(fwk.Skip)
	}
	nodes := v.openTo(s, pod)
	if len(nodes) == 0 {
		return nil, refused(gang.Full(v.gang, s, v.members))
	}
	if missing := p.missing(nodes); len(missing) == len(nodes) {
		return nil, refused(fmt.Sprintf("planned node %s is not in the cluster", strings.Join(missing, ", ")))
	}
	return only(state, nodes...)
}

// openTo lists the nodes that a pod which goes alone may have: that of its rank, or any that is open if it tells none; none while it
// has to wait for the pod that it follows.
func (v view) openTo(s gang.Set, pod *corev1.Pod) []string {
	if s.Ranks.Of(pod.Labels) >= 0 {
		if node, has := gang.Assign(v.gang, v.members, v.members)[pod.UID]; has {
			return []string{node}
		}
		return nil // it waits for the one that it follows
	}
	var nodes []string
	for _, place := range gang.Open(s, v.gang.AdmittedAt, v.members) {
		if nodes = append(nodes, place.Node); len(nodes) == maxOpen {
			break
		}
	}
	return nodes
}

// missing returns those of the nodes that the cluster does not have.
func (p *gangPlugin) missing(nodes []string) []string {
	infos := p.handle.SnapshotSharedLister().NodeInfos()
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool {
		_, err := infos.Get(n)
		return err == nil
	})
}

func only(state fwk.CycleState, nodes ...string) (*fwk.PreFilterResult, *fwk.Status) {
	s := sets.New(nodes...)
	state.Write(allowedKey, allowed(s))
	return &fwk.PreFilterResult{NodeNames: s}, nil
}

// refused is the status of a pod that more nodes or fewer pods may help, but
// never the eviction of other pods.
func refused(why string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
}

// PreFilterExtensions returns nil: other pods on a node change nothing here.
func (*gangPlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter repeats PreFilter's choice for nodes that come from elsewhere, and tells the plugins that follow of the
// members that will come.
func (p *gangPlugin) Filter(
	ctx context.Context,
	state fwk.CycleState,
	pod *corev1.Pod,
	node fwk.NodeInfo,
) *fwk.Status {
	if status := p.tellOf(ctx, state, pod); !status.IsSuccess() {
		return status
	}
	data, err := state.Read(allowedKey)
	if err != nil {
		return nil
	}
	if a, ok := data.(allowed); ok && !sets.Set[string](a).Has(node.Node().Name) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are not in the plan of the pod")
	}
	return nil
}

// tellOf adds the companions of a pod to what plugins have counted in PreFilter, once for each state.
func (p *gangPlugin) tellOf(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) *fwk.Status {
	data, err := state.Read(companionsKey)
	if err != nil {
		return nil
	}
	state.Delete(companionsKey)
	others, _ := data.(companions)
	for _, s := range others {
		info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(s.node)
		if err != nil {
			continue
		}
		podInfo, err := framework.NewPodInfo(s.pod)
		if err != nil {
			continue
		}
		if status := p.handle.RunPreFilterExtensionAddPod(ctx, state, pod, podInfo, info); !status.IsSuccess() {
			return status
		}
	}
	return nil
}

// PostFilter keeps preemption away from gangs and planned pods, and sends the
// waiting pods of a gang back when one of them found no place after all.
func (p *gangPlugin) PostFilter(
	_ context.Context,
	state fwk.CycleState,
	pod *corev1.Pod,
	nodes fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	k, ok := gang.KeyOf(pod)
	if !ok {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	p.tried(pod.UID)
	node, _ := p.reservations.assignmentOf(k, pod.UID)
	if node == "" && p.refused != nil && p.reservations.look(k).decision.Act == gang.Alone {
		if f := p.aloneRefused(k, state, pod, nodes); len(f.refusals) > 0 {
			p.refused(pod, f)
		} else {
			p.relented(pod)
		}
	}
	if node != "" {
		why := fmt.Sprintf("%s starts as a whole: pod %s lost its place on node %s: %s",
			k, pod.Name, node, strings.Join(nodes.Get(node).Reasons(), ", "))
		p.sendBack(k, why)
		p.reservations.refuse(k, pod.UID, why)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// Reserve notes the pod's node, so that its place counts as taken.
func (p *gangPlugin) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if k, ok := gang.KeyOf(pod); ok {
		p.reservations.reserve(k, pod.UID, node)
		p.tried(pod.UID)
	}
	return nil
}

// Unreserve takes the note back. If the pod's gang has not started, no other
// pod of it may wait any longer either.
func (p *gangPlugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	k, ok := gang.KeyOf(pod)
	if !ok {
		return
	}
	if p.reservations.inTry(k, pod.UID) {
		p.sendBack(k, fmt.Sprintf("%s starts as a whole: pod %s gave up its place", k, pod.Name))
	}
	if p.reservations.release(k, pod.UID) {
		// Nothing in the cluster has changed that would wake the gang.
		p.wake(k)
	}
}

// Permit lets a gang go when its last pod has a node; the others wait.
func (p *gangPlugin) Permit(
	_ context.Context,
	state fwk.CycleState,
	pod *corev1.Pod,
	_ string,
) (*fwk.Status, time.Duration) {
	k, ok := gang.KeyOf(pod)
	if !ok {
		return nil, 0
	}
	t := p.reservations.arrive(
		k,
		pod.UID,
		func(uid types.UID) bool { return p.handle.GetWaitingPod(uid) != nil },
	)
	switch {
	case t.late:
		return fwk.NewStatus(
			fwk.Unschedulable,
			fmt.Sprintf("%s starts as a whole: its pods did not all get nodes in time", k),
		), 0
	case t.wait > 0:
		if t.first {
			p.activate(state, k)
		}
		return fwk.NewStatus(fwk.Wait), t.wait
	}
	for _, uid := range t.release {
		if w := p.handle.GetWaitingPod(uid); w != nil {
			w.Allow(GangName)
		}
	}
	if len(t.release) > 0 {
		// Pods beyond what the gang needs follow now.
		p.activate(state, k)
	}
	return nil, 0
}

// activate brings the pending pods of a gang into the queue at the end of this
// cycle.
func (p *gangPlugin) activate(state fwk.CycleState, k gang.Key) {
	data, err := state.Read(framework.PodsToActivateKey)
	if err != nil {
		return
	}
	if a, ok := data.(*framework.PodsToActivate); ok {
		a.Lock()
		defer a.Unlock()
		for name, pod := range p.reservations.look(k).pending() {
			a.Map[pod.Namespace+"/"+name] = pod
		}
	}
}

// sendBack ends the attempt of a gang and rejects its waiting pods.
func (p *gangPlugin) sendBack(k gang.Key, why string) {
	waiting, _ := p.reservations.abandon(k)
	for _, uid := range waiting {
		if w := p.handle.GetWaitingPod(uid); w != nil {
			w.Reject(GangName, why)
		}
	}
}

// wake brings the pending pods of a gang into the queue now.
func (p *gangPlugin) wake(k gang.Key) {
	if pods := p.reservations.look(k).pending(); len(pods) > 0 {
		p.handle.Activate(klog.Background(), pods)
	}
}

// EventsToRegister names what may help a pod that this plugin refused.
func (p *gangPlugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event: fwk.ClusterEvent{
				Resource:   fwk.Node,
				ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint,
			},
			QueueingHintFn: p.hint,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown},
			QueueingHintFn: p.hint,
		},
		{
			Event: fwk.ClusterEvent{
				Resource:   fwk.ResourceClaim,
				ActionType: fwk.Add | fwk.Update | fwk.Delete,
			},
			QueueingHintFn: p.claimHint,
		},
	}, nil
}

// hint lets one pod of a refused gang try again for all.
func (p *gangPlugin) hint(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
	if k, ok := gang.KeyOf(pod); ok && p.reservations.isLeaderPod(k, pod.UID) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// claimHint is hint for claims of devices: one of the gang's own may have come, or one of others may have
// given back what its pods need.
func (p *gangPlugin) claimHint(l klog.Logger, pod *corev1.Pod, was, is any) (fwk.QueueingHint, error) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return fwk.QueueSkip, nil
	}
	return p.hint(l, pod, was, is)
}

// SignPod keeps gang pods out of the reuse of earlier results: each has its own
// node. Other pods are nothing to this plugin.
func (*gangPlugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, ok := gang.KeyOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods of gangs have places of their own")
	}
	return nil, nil
}
