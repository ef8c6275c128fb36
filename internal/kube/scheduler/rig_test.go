package scheduler

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// rig is the upstream framework with our plugins, without a queue or an API server:
// tests walk pods through the extension points themselves.
type rig struct {
	framework.Framework
	*desk
	t      testing.TB
	plugin *gangPlugin
	waker  *waker
	// woken are the pods that were brought back into the queue, in the order of their names.
	woken []string
}

// aNode is a node of some GPUs and CPUs, most of them free.
type aNode struct {
	name       string
	gpus, cpus int64
	// health is the label of the health check.
	health string
	// taken are the GPUs and CPUs of a pod that runs there; with a label app it is of namespace blue.
	takenGPUs, takenCPUs int64
	app                  string
	zone                 string
}

func (n aNode) object() *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{}}}
	if n.health != "" {
		out.Labels[nodehealth.HealthLabel] = n.health
	}
	if n.zone != "" {
		out.Labels[corev1.LabelTopologyZone] = n.zone
	}
	out.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(n.cpus, resource.DecimalSI),
		core.GPU:            *resource.NewQuantity(n.gpus, resource.DecimalSI),
		corev1.ResourcePods: resource.MustParse("100"),
	}
	return out
}

// tenant is the pod that takes what is taken of a node.
func (n aNode) tenant() *corev1.Pod {
	p := pod("red", "on-"+n.name, 0)
	p.UID, p.Spec.NodeName = types.UID(p.Name), n.name
	if n.app != "" {
		p.Namespace, p.Labels["app"] = "blue", n.app
	}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(n.takenCPUs, resource.DecimalSI),
		core.GPU:           *resource.NewQuantity(n.takenGPUs, resource.DecimalSI),
	}
	return p
}

func newRig(t testing.TB, nodes ...aNode) *rig {
	t.Helper()
	metrics.Register()
	r := &rig{t: t, desk: newDesk()}
	r.waker = &waker{reservations: r.Reservations, registry: newRegistry(), touched: func(*corev1.Pod) {}}
	var objects []*corev1.Node
	var tenants []*corev1.Pod
	for _, n := range nodes {
		objects, tenants = append(objects, n.object()), append(tenants, n.tenant())
	}
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := config.KubeSchedulerProfile{
		SchedulerName: testScheduler, PluginConfig: defaults.Profiles[0].PluginConfig,
		Plugins: &config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{
			{
				Name: GangName,
			},
			{Name: HealthName, Weight: 1},
			{Name: names.NodeResourcesFit, Weight: 1},
			{Name: names.NodePorts},
			{Name: names.PodTopologySpread, Weight: 1},
		}}},
	}
	registry := upstream.NewInTreeRegistry()
	registry[GangName], registry[HealthName] = gangFactory(r.Reservations, r.waker), newHealthPlugin
	client := fake.NewClientset()
	r.Framework, err = frameworkruntime.NewFramework(t.Context(), registry, &profile,
		frameworkruntime.WithSnapshotSharedLister(cache.NewSnapshot(tenants, objects)),
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodNominator(noNominations{}),
		frameworkruntime.WithPodActivator(r),
	)
	if err != nil {
		t.Fatal(err)
	}
	r.plugin = r.waker.plugin()
	r.plugin.rules = r.Framework
	return r
}

// noNominations is a queue in which no pod was nominated.
type noNominations struct{ fwk.PodNominator }

func (noNominations) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

// Activate notes which pods are brought back into the queue.
func (r *rig) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		r.woken = append(r.woken, pods[name].Name)
	}
}

// wokenSince tells which pods were brought back into the queue, and forgets them.
func (r *rig) wokenSince() []string {
	out := r.woken
	r.woken = nil
	return out
}

// add makes an admitted gang of one set, with pods of some GPUs that wait.
func (r *rig) add(name string, gpus int, podNames ...string) gang.Gang {
	g := r.gang(name, podNames...)
	for _, p := range r.pods[g.Key] {
		resize(p, gpus)
		planned(p, name, "main")
	}
	return g
}

// plan gives a gang planned nodes.
func (r *rig) plan(g gang.Gang, places ...core.Place) gang.Gang {
	g.Sets = slices.Clone(g.Sets)
	g.Sets[0].Places = places
	r.gangs[g.Key] = g
	return g
}

func resize(p *corev1.Pod, gpus int) {
	fresh := pod(p.Namespace, p.Name, gpus)
	p.Labels, p.Annotations, p.Spec.Containers = fresh.Labels, fresh.Annotations, fresh.Spec.Containers
}

// find is a pod of a gang.
func (r *rig) find(g gang.Gang, name string) *corev1.Pod {
	r.t.Helper()
	for _, p := range r.pods[g.Key] {
		if p.Name == name {
			return p
		}
	}
	r.t.Fatalf("%s has no pod %s", g.Key, name)
	return nil
}

// prefilter asks where a pod may go: on these nodes, on any (nil), or nowhere with a reason.
func (r *rig) prefilter(p *corev1.Pod) (nodes []string, why string) {
	r.t.Helper()
	res, status := r.plugin.PreFilter(r.t.Context(), framework.NewCycleState(), p, nil)
	if status.IsSkip() {
		return nil, ""
	}
	if !status.IsSuccess() {
		if status.Code() != fwk.UnschedulableAndUnresolvable {
			r.t.Errorf("pod %s is refused with %v: evicting others would not help", p.Name, status.Code())
		}
		return nil, status.Message()
	}
	return slices.Sorted(maps.Keys(res.NodeNames)), ""
}

// reserve takes a pod to its node and asks whether it may go. active are the pods that
// are brought into the queue at the end of the cycle.
func (r *rig) reserve(p *corev1.Pod, node string) (status *fwk.Status, active []string) {
	r.t.Helper()
	state := framework.NewCycleState()
	activate := framework.NewPodsToActivate()
	state.Write(framework.PodsToActivateKey, activate)
	if status := r.RunReservePluginsReserve(r.t.Context(), state, p, node); !status.IsSuccess() {
		r.t.Fatalf("reserve: %v", status)
	}
	waits, status := r.RunPermitPlugins(r.t.Context(), state, p, node)
	if status.IsWait() {
		r.AddWaitingPod(p, waits)
	}
	return status, slices.Sorted(maps.Keys(activate.Map))
}

// outcome is how the wait of a pod ended.
func (r *rig) outcome(p *corev1.Pod) (released bool, why string) {
	r.t.Helper()
	if !r.WillWaitOnPermit(r.t.Context(), p) {
		return false, "it does not wait"
	}
	status := r.WaitOnPermit(r.t.Context(), p)
	return status.IsSuccess(), status.Message()
}

// queued is a pod in the queue since some time.
func queued(p *corev1.Pod, since time.Time) fwk.QueuedEntityInfo {
	info, err := framework.NewPodInfo(p)
	if err != nil {
		panic(err)
	}
	return &framework.QueuedPodInfo{PodInfo: info, QueueingParams: framework.QueueingParams{Timestamp: since}}
}

func placed(node string, pods int32) core.Place { return core.Place{Node: node, Count: pods} }
