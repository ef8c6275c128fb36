package nodehealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

const owner = client.FieldOwner("mlbatch-node-health")

// DeviceIndex is the name of the cache index that has the pods with unhealthy devices, all under DeviceUnhealthy.
const (
	DeviceIndex     = "mlbatch.dev/devices"
	DeviceUnhealthy = "unhealthy"
)

// IndexDevices is DeviceUnhealthy for pods with devices that their kubelet calls unhealthy.
func IndexDevices(o client.Object) []string {
	p, is := o.(*corev1.Pod)
	if !is || p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded ||
		p.Status.Phase == corev1.PodFailed {
		return nil
	}
	for range convert.UnhealthyDevices(p) {
		return []string{DeviceUnhealthy}
	}
	return nil
}

// Options are what the controller works with.
type Options struct {
	// Client reads from a cache with DeviceIndex, HangIndex and LostIndex, and writes.
	Client   client.Client
	Clock    clock.Clock
	Recorder events.EventRecorder
	// Memory reads the ConfigMap.
	Memory cache.Cache
	// Namespace of the ConfigMap.
	Namespace string
	Policy    nodehealth.Policy
	// TestNamespace has the Jobs of deep tests; "" if there are none.
	TestNamespace string
	// Act has nodes touched.
	Act bool
	// Count is told how many nodes are in which state, how many are held in service by flavor, which states
	// nodes came into, and how many are lemons; nil is not told.
	Count func(states map[nodehealth.State]int, held map[string]int, into []nodehealth.State, lemons int)
}

// SetupWithManager adds the controller to the manager. It needs list and watch on nodes, pods, workloads,
// appwrappers, resourceflavors and, where there are tests, jobs and namespaces,
// create and patch on events, and list, watch, create and patch on configmaps in its namespace; to act, patch on nodes
// and nodes/status as well (convert.NodesRole).
func SetupWithManager(mgr manager.Manager, o Options) error {
	r := &reconciler{Options: o, memory: o.Memory, told: map[string]bool{}}
	c, err := controller.New("nodehealth", mgr, controller.Options{Reconciler: r})
	if err != nil {
		return fmt.Errorf("make the controller of node health: %w", err)
	}
	for _, s := range sources(mgr.GetCache(), o.Memory, o.TestNamespace) {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watch for the controller of node health: %w", err)
		}
	}
	return nil
}

type reconciler struct {
	Options
	memory client.Reader
	// told are the flavors of which it was said that no more nodes are taken out, the nodes whose reports
	// cannot be read, and whether there are more bad nodes than can be remembered.
	told map[string]bool
}

// Reconcile judges all nodes.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	// 1. Gather.
	stored, err := r.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now().UTC().Truncate(time.Second)
	nodes, patients, lapses, err := r.patients(ctx, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	was, torn := convert.Healths(stored)
	// 2. Decide.
	v := nodehealth.Judge(r.Policy, was, patients, convert.LiftedAt(stored), now)
	// 3. Write: first what is remembered, then what follows from it.
	if err := r.write(ctx, stored, was, torn, v.Healths); apierrors.IsConflict(err) ||
		apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, err // it is looked again at what somebody else wrote
	} else if err != nil {
		// What is new is not known to the engine, which reads what is remembered. Only what is as it was goes on.
		r.tell(nodes, was, &nodehealth.Verdict{Healths: was, Halts: v.Halts})
		return reconcile.Result{}, errors.Join(err, r.act(ctx, asBefore(nodes, was, v.Healths), was, now))
	}
	r.tell(nodes, was, &v)
	r.tellUnknown(ctx, v.Unknown)
	err = r.act(ctx, nodes, v.Healths, now)
	result := reconcile.Result{}
	if v.Next.IsZero() || !lapses.IsZero() && lapses.Before(v.Next) {
		v.Next = lapses
	}
	if !v.Next.IsZero() {
		result.RequeueAfter = max(v.Next.Sub(r.Clock.Now()), time.Second)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// asBefore are the nodes whose state is the same as it was.
func asBefore(nodes []corev1.Node, was, now map[string]nodehealth.Health) []corev1.Node {
	var out []corev1.Node
	for i := range nodes {
		n := &nodes[i]
		if convert.OfNode(n, was[n.Name]).State() == convert.OfNode(n, now[n.Name]).State() {
			out = append(out, *n)
		}
	}
	return out
}

// tellUnknown says once that there is no room for all that is found.
func (r *reconciler) tellUnknown(ctx context.Context, nodes int) {
	const key = "unknown nodes"
	if nodes > 0 && !r.told[key] {
		log.FromContext(ctx).Info(
			"More nodes are bad than can be remembered, the others stay in service",
			"nodes", nodes, "configMap", convert.HealthMemory,
		)
	}
	r.told[key] = nodes > 0
}

// read is the ConfigMap; nil if there is none yet.
func (r *reconciler) read(ctx context.Context) (*corev1.ConfigMap, error) {
	var m corev1.ConfigMap
	err := r.memory.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: convert.HealthMemory}, &m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", r.Namespace, convert.HealthMemory, err)
	}
	return &m, nil
}

// patients are all nodes with what is found on them, and when something of that lapses by itself; zero for never.
func (r *reconciler) patients(
	ctx context.Context,
	now time.Time,
) ([]corev1.Node, []nodehealth.Patient, time.Time, error) {
	var never time.Time
	var all kueue.ResourceFlavorList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, nil, never, fmt.Errorf("list flavors: %w", err)
	}
	flavors := make([]core.Flavor, len(all.Items))
	for i := range all.Items {
		flavors[i] = convert.Flavor(&all.Items[i])
	}
	var pods corev1.PodList
	if err := r.Client.List(
		ctx, &pods, client.MatchingFields{DeviceIndex: DeviceUnhealthy}, client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, nil, never, fmt.Errorf("list pods with unhealthy devices: %w", err)
	}
	on := map[string][]*corev1.Pod{}
	for i := range pods.Items {
		p := &pods.Items[i]
		on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
	}
	tests, err := r.tests(ctx)
	if err != nil {
		return nil, nil, never, err
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, never, fmt.Errorf("list nodes: %w", err)
	}
	hung, lapses, err := r.hangs(ctx, now)
	if err != nil {
		return nil, nil, never, err
	}
	lost, err := r.lost(ctx)
	if err != nil {
		return nil, nil, never, err
	}
	patients := make([]nodehealth.Patient, len(nodes.Items))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		p, err := convert.Patient(n, on[n.Name], flavors, r.Policy.Rules)
		if key := "report of " + n.Name; err == nil {
			delete(r.told, key)
		} else if !r.told[key] {
			r.told[key] = true
			log.FromContext(ctx).Error(err, "A report of checks says nothing", "node", n.Name)
		}
		if f, is := hung[n.Name]; is {
			p.Add(r.Policy.Rules, f)
		}
		convert.DeepTested(&p, n, tests[n.Name])
		if view.DrainOf(n) == nil {
			p.Down, p.Returned = convert.Answers(n)
		}
		p.Lost = lost[n.Name]
		patients[i] = p
	}
	return nodes.Items, patients, lapses, nil
}

// tests are the deep tests that there are, by node; none in the namespace of a team, who could write them.
func (r *reconciler) tests(ctx context.Context) (map[string][]nodehealth.Test, error) {
	if r.TestNamespace == "" {
		return nil, nil
	}
	var ns corev1.Namespace
	if err := r.Client.Get(
		ctx,
		client.ObjectKey{Name: r.TestNamespace},
		&ns,
	); client.IgnoreNotFound(
		err,
	) != nil {
		return nil, fmt.Errorf("read namespace %s: %w", r.TestNamespace, err)
	}
	if ns.Labels[kueue.TeamNamespaceLabel] == "true" {
		return nil, nil // the controller of deep tests says so
	}
	var jobs batchv1.JobList
	if err := r.Client.List(
		ctx,
		&jobs,
		client.InNamespace(r.TestNamespace),
		client.HasLabels{convert.DeepTestLabel},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list Jobs in %s: %w", r.TestNamespace, err)
	}
	tests := map[string][]nodehealth.Test{}
	for i := range jobs.Items {
		if t, is := convert.TestOf(&jobs.Items[i]); is {
			tests[t.Node] = append(tests[t.Node], t)
		}
	}
	return tests, nil
}

// write stores what changed. It fails if somebody else has written since: the breaker counts by what is stored.
func (r *reconciler) write(
	ctx context.Context,
	stored *corev1.ConfigMap,
	was map[string]nodehealth.Health,
	torn []string,
	now map[string]nodehealth.Health,
) error {
	data := map[string]*string{}
	for node, h := range now {
		if old, known := was[node]; known && old.Equal(h) {
			continue
		}
		text, err := convert.HealthText(h)
		if err != nil {
			return fmt.Errorf("health of node %s: %w", node, err)
		}
		data[node] = &text
	}
	for _, node := range slices.Concat(slices.Collect(maps.Keys(was)), torn) {
		if _, still := now[node]; !still {
			data[node] = nil
		}
	}
	if len(data) == 0 {
		return nil
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: convert.HealthMemory}}
	if stored == nil {
		m.Data = map[string]string{}
		for node, text := range data {
			m.Data[node] = *text
		}
		if err := r.Client.Create(ctx, m, owner); err != nil {
			return fmt.Errorf("create ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
		}
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": stored.ResourceVersion}, "data": data,
	})
	if err != nil {
		return fmt.Errorf("compose ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	if err := r.Client.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch), owner); err != nil {
		return fmt.Errorf("update ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}

// tell reports what changed.
func (r *reconciler) tell(nodes []corev1.Node, was map[string]nodehealth.Health, v *nodehealth.Verdict) {
	states, held := map[nodehealth.State]int{}, map[string]int{}
	var into []nodehealth.State
	lemons := 0
	for i := range nodes {
		n := &nodes[i]
		h, old := v.Healths[n.Name], was[n.Name]
		state := h.State()
		states[state]++
		if h.Lemon > 0 {
			lemons++
		}
		if state == old.State() {
			continue
		}
		into = append(into, state)
		kind, note := corev1.EventTypeNormal, "The node is healthy again"
		if state == nodehealth.Testing && !h.Untested.IsZero() {
			note = "The node waits for a deep test before it is used again"
		} else if state == nodehealth.Testing {
			note = "The node is being tested, as its health label says"
		} else if f, _ := h.Worst(); f != nil {
			note = fmt.Sprintf("The node is %s: %s", state, f.Words())
			if state != nodehealth.Back {
				kind = corev1.EventTypeWarning
			}
		}
		r.Recorder.Eventf(n, nil, kind, "HealthChanged", "JudgeHealth", "%s", note)
	}
	halted := map[string]bool{}
	for _, h := range v.Halts {
		held[h.Pool] = len(h.Nodes)
		halted["halt of "+h.Pool] = true
		if key := "halt of " + h.Pool; !r.told[key] {
			r.told[key] = true
			r.Recorder.Eventf(
				r.of(h.Pool),
				nil,
				corev1.EventTypeWarning,
				"TooManyNodesBad",
				"JudgeHealth",
				"%s",
				HaltWords(h),
			)
		}
	}
	for key := range r.told {
		if strings.HasPrefix(key, "halt of ") && !halted[key] {
			delete(r.told, key)
		}
	}
	if r.Count != nil {
		r.Count(states, held, into, lemons)
	}
}

// of is what is told of a pool: its flavor, or the ConfigMap for nodes of none.
func (r *reconciler) of(pool string) client.Object {
	if pool == "" {
		return &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: convert.HealthMemory},
		}
	}
	return &kueue.ResourceFlavor{
		TypeMeta:   metav1.TypeMeta{APIVersion: kueue.GroupVersion.String(), Kind: "ResourceFlavor"},
		ObjectMeta: metav1.ObjectMeta{Name: pool},
	}
}

// HaltWords say that the breaker holds, and what to do.
func HaltWords(h nodehealth.Halt) string {
	const most = 5
	names := strings.Join(h.Nodes[:min(len(h.Nodes), most)], ", ")
	if more := len(h.Nodes) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	text := fmt.Sprintf(
		"%s would be taken out of service and stay in it: of %d nodes %d were taken out within the hour, and %d may be. "+
			"That looks like a fault of what watches the nodes",
		names,
		h.Of,
		h.Taken,
		h.Most,
	)
	if !h.Until.IsZero() {
		text += ". The next may be taken out at " + h.Until.Format(time.RFC3339)
	}
	return text
}

// act writes on the nodes what is decided, in mode Act.
func (r *reconciler) act(
	ctx context.Context,
	nodes []corev1.Node,
	healths map[string]nodehealth.Health,
	now time.Time,
) error {
	if !r.Act {
		return r.lift(ctx, nodes)
	}
	var errs []error
	for i := range nodes {
		n := &nodes[i]
		if n.DeletionTimestamp != nil {
			continue
		}
		h := convert.OfNode(n, healths[n.Name])
		err := errors.Join(r.relabel(ctx, n, h), r.condition(ctx, n, h, now))
		if apierrors.IsForbidden(err) {
			return fmt.Errorf(
				"nodeHealth.mode is Act, which needs the ClusterRole %s: bind it, as docs/node-health.md says: %w",
				convert.NodesRole,
				err,
			)
		}
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

// lift takes off, in mode Decide, what was written on nodes in mode Act: labels of ours, and the condition of nodes that
// had one. Without the right to do so it is said once, and what is there stays.
func (r *reconciler) lift(ctx context.Context, nodes []corev1.Node) error {
	var errs []error
	for i := range nodes {
		n := &nodes[i]
		_, marked := n.Annotations[convert.LabelledAnnotation]
		stated := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == nodehealth.ConditionType
		})
		if n.DeletionTimestamp != nil || !marked && !stated {
			continue
		}
		var err error
		if marked {
			err = r.relabel(ctx, n, nodehealth.Health{})
		}
		if err == nil && stated {
			err = r.forgetCondition(ctx, n)
		}
		const key = "what was written on nodes"
		if apierrors.IsForbidden(err) {
			if !r.told[key] {
				log.FromContext(ctx).Info(
					"Labels and conditions that were written in mode Act stay on nodes, which may not be written",
					"node", n.Name, "clusterRole", convert.NodesRole,
				)
			}
			r.told[key] = true
			return nil
		}
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

// forgetCondition takes the condition of ours off a node.
func (r *reconciler) forgetCondition(ctx context.Context, n *corev1.Node) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []map[string]string{
		{"type": string(nodehealth.ConditionType), "$patch": "delete"},
	}}})
	if err != nil {
		return fmt.Errorf("compose the end of its condition: %w", err)
	}
	to := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	return r.Client.Status().Patch(ctx, to, client.RawPatch(types.StrategicMergePatchType, patch), owner)
}

// relabel writes the health label and whose it is, in one write.
func (r *reconciler) relabel(ctx context.Context, n *corev1.Node, h nodehealth.Health) error {
	if _, has := n.Status.Capacity[corev1.ResourceName(core.GPU)]; !has {
		h = nodehealth.Health{} // the label speaks of GPUs
	}
	label, mark := n.Labels[nodehealth.HealthLabel], convert.HealthMark(n)
	_, marked := n.Annotations[convert.LabelledAnnotation]
	_, drained := n.Annotations[view.DrainAnnotation]
	want, by := nodehealth.Relabel(h, label, mark, drained)
	if want == label && (by == nil && !marked || by != nil && mark != nil && *by == *mark) {
		return nil
	}
	meta := map[string]any{"resourceVersion": n.ResourceVersion}
	if want != label {
		meta["labels"] = map[string]*string{nodehealth.HealthLabel: orNil(want)}
	}
	annotation := ""
	if by != nil {
		text, err := json.Marshal(by)
		if err != nil {
			return fmt.Errorf("compose %s: %w", convert.LabelledAnnotation, err)
		}
		annotation = string(text)
	}
	meta["annotations"] = map[string]*string{convert.LabelledAnnotation: orNil(annotation)}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return fmt.Errorf("compose its label: %w", err)
	}
	to := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	return r.Client.Patch(ctx, to, client.RawPatch(types.MergePatchType, patch), owner)
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// condition writes how the node is. Nodes on which nothing was ever found get none.
func (r *reconciler) condition(
	ctx context.Context,
	n *corev1.Node,
	h nodehealth.Health,
	now time.Time,
) error {
	want := corev1.NodeCondition{
		Type:               nodehealth.ConditionType,
		Status:             corev1.ConditionTrue,
		Reason:             string(h.State()),
		Message:            "nothing is found",
		LastHeartbeatTime:  metav1.NewTime(now),
		LastTransitionTime: metav1.NewTime(now),
	}
	if h.State() == nodehealth.Testing && !h.Untested.IsZero() {
		want.Status, want.Message = corev1.ConditionFalse, "waits for a deep test since it was cleared"
	} else if h.State() == nodehealth.Testing {
		want.Status, want.Message = corev1.ConditionFalse, "its health label speaks of a test"
	} else if f, _ := h.Worst(); f != nil {
		want.Status, want.Message = corev1.ConditionFalse, f.Words()
	}
	at := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == want.Type })
	if at < 0 && want.Status == corev1.ConditionTrue {
		return nil
	}
	if at >= 0 {
		is := n.Status.Conditions[at]
		if is.Status == want.Status && is.Reason == want.Reason && is.Message == want.Message {
			return nil
		}
		if is.Status == want.Status {
			want.LastTransitionTime = is.LastTransitionTime
		}
	}
	patch, err := json.Marshal(
		map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{want}}},
	)
	if err != nil {
		return fmt.Errorf("compose its condition: %w", err)
	}
	to := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	return r.Client.Status().Patch(ctx, to, client.RawPatch(types.StrategicMergePatchType, patch), owner)
}
