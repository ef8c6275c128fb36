package simnode

import (
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

// Names that simulated nodes carry or answer to.
const (
	// LabelSimulated marks the nodes that the simulator looks after.
	LabelSimulated = "mlbatch.dev/simulated"
	// AnnotationSimulate on a node takes it down: see Down and NotReady.
	AnnotationSimulate = "mlbatch.dev/simulate"
	// Down, as the annotation's value, is a dead node: no heartbeat, and its
	// pods neither start, end nor go away.
	Down = "down"
	// NotReady is a node that lives but reports that it is not ready at once.
	NotReady = "not-ready"
	// BadGPUs is a node on which every container that has GPUs fails.
	BadGPUs = "bad-gpus"
	// LabelBlock and LabelRack say in which block and rack a node is, by the names that Kueue's
	// documentation uses.
	LabelBlock = "cloud.provider.com/topology-block"
	LabelRack  = "cloud.provider.com/topology-rack"

	gpuResource = corev1.ResourceName("nvidia.com/gpu")
	gpuProduct  = "nvidia.com/gpu.product"
	gpuCount    = "nvidia.com/gpu.count"

	namePrefix = "node-"
	// loopback is where the kubelets answer the API server.
	loopback = "127.0.0.1"
)

// Fleet describes equal simulated nodes, called node-0, node-1 and so on.
type Fleet struct {
	Count int `json:"count"`
	// CPU, Memory, GPUs and Pods are the capacity of each node.
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
	GPUs   int64             `json:"gpus"`
	Pods   int64             `json:"pods"`
	// GPUProduct becomes a label, as on real GPU nodes.
	GPUProduct string `json:"gpuProduct,omitempty"`
	// Racks is in how many racks the nodes are, one after the other, and Blocks in how many blocks the
	// racks are; 0 is in none. Where the nodes do not divide, some racks have one more.
	Racks  int `json:"racks,omitempty"`
	Blocks int `json:"blocks,omitempty"`
	// Domains, if there are some, say where the nodes are in place of Racks and Blocks.
	Domains []Domain `json:"domains,omitempty"`
	// Labels and Taints are put on every node.
	Labels map[string]string `json:"labels,omitempty"`
	Taints []corev1.Taint    `json:"taints,omitempty"`
}

// DefaultFleet is the cluster of MLBatch's tutorial.
func DefaultFleet() Fleet {
	return Fleet{
		Count:      3,
		CPU:        resource.MustParse("224"),
		Memory:     resource.MustParse("2000Gi"),
		GPUs:       8,
		Pods:       250,
		GPUProduct: "NVIDIA-H100-80GB-HBM3",
	}
}

// FleetOf is the fleet that nodes belong to, as far as they tell; false if there
// are none. Nodes that an administrator deleted come back.
func FleetOf(nodes []corev1.Node) (Fleet, bool) {
	var f Fleet
	for i := range nodes {
		n := &nodes[i]
		at, err := strconv.Atoi(strings.TrimPrefix(n.Name, namePrefix))
		if err != nil || at < 0 {
			continue
		}
		c := n.Status.Capacity
		f = Fleet{
			Count: max(f.Count, at+1),
			CPU:   c[corev1.ResourceCPU], Memory: c[corev1.ResourceMemory],
			GPUs: new(c[gpuResource]).Value(), Pods: c.Pods().Value(),
			GPUProduct: n.Labels[gpuProduct],
			Racks:      max(f.Racks, numbered(n.Labels[LabelRack], "rack-")),
			Blocks:     max(f.Blocks, numbered(n.Labels[LabelBlock], "block-")),
		}
	}
	return f, f.Count > 0
}

// numbered is one more than the number of a name, 0 of another.
func numbered(name, prefix string) int {
	i, err := strconv.Atoi(strings.TrimPrefix(name, prefix))
	if err != nil || i < 0 {
		return 0
	}
	return i + 1
}

// Node returns the i-th node of the fleet, ready from the start.
func (f Fleet) Node(i int, now time.Time) *corev1.Node {
	name := namePrefix + strconv.Itoa(i)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: f.labels(name)},
		Spec:       corev1.NodeSpec{Taints: f.Taints, ProviderID: "mlbatch://" + name},
		Status: corev1.NodeStatus{
			Capacity:        f.capacity(),
			Allocatable:     f.capacity(),
			Phase:           corev1.NodeRunning,
			Addresses:       addresses(name),
			NodeInfo:        nodeInfo(name),
			DaemonEndpoints: corev1.NodeDaemonEndpoints{},
		},
	}
	n.Status.Conditions = healthyConditions(now)
	return n
}

func addresses(node string) []corev1.NodeAddress {
	return []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: node},
		{Type: corev1.NodeInternalIP, Address: hostIP(node)},
	}
}

func (f Fleet) labels(name string) map[string]string {
	l := map[string]string{
		LabelSimulated:                 "true",
		corev1.LabelHostname:           name,
		corev1.LabelArchStable:         runtime.GOARCH,
		corev1.LabelOSStable:           "linux",
		corev1.LabelTopologyRegion:     region,
		corev1.LabelTopologyZone:       zone(name),
		"node-role.kubernetes.io/node": "",
	}
	if f.GPUs > 0 {
		l[gpuCount] = strconv.FormatInt(f.GPUs, 10)
		if f.GPUProduct != "" {
			l[gpuProduct] = f.GPUProduct
		}
	}
	i, _ := index(name)
	maps.Copy(l, f.domainLabels(i))
	if len(f.Domains) == 0 && f.Racks > 0 && f.Count > 0 {
		rack := i * f.Racks / f.Count
		l[LabelRack] = "rack-" + strconv.Itoa(rack)
		if f.Blocks > 0 {
			l[LabelBlock] = "block-" + strconv.Itoa(rack*f.Blocks/f.Racks)
		}
	}
	maps.Copy(l, f.Labels)
	return l
}

// region is where all simulated nodes are, in zones, as nodes of a cloud are.
const (
	region = "local"
	zones  = 3
)

// zone is that of a node: what spreads over zones, or must not, can be tried.
func zone(node string) string {
	i, _ := index(node)
	return region + "-" + string(rune('a'+i%zones))
}

func (f Fleet) capacity() corev1.ResourceList {
	c := corev1.ResourceList{
		corev1.ResourceCPU:              f.CPU,
		corev1.ResourceMemory:           f.Memory,
		corev1.ResourcePods:             *resource.NewQuantity(f.Pods, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: resource.MustParse("1800Gi"),
	}
	if f.GPUs > 0 {
		c[gpuResource] = *resource.NewQuantity(f.GPUs, resource.DecimalSI)
	}
	return c
}

func nodeInfo(name string) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		MachineID:               name,
		SystemUUID:              name,
		BootID:                  name,
		KernelVersion:           "simulated",
		OSImage:                 "simulated",
		ContainerRuntimeVersion: "simulated://1",
		KubeletVersion:          kubeversion.Release,
		OperatingSystem:         "linux",
		Architecture:            runtime.GOARCH,
	}
}

// healthyConditions is what a healthy kubelet says, in its order.
func healthyConditions(now time.Time) []corev1.NodeCondition {
	t := metav1.NewTime(now)
	cond := func(ty corev1.NodeConditionType, st corev1.ConditionStatus, reason, msg string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type:               ty,
			Status:             st,
			Reason:             reason,
			Message:            msg,
			LastHeartbeatTime:  t,
			LastTransitionTime: t,
		}
	}
	return []corev1.NodeCondition{
		cond(
			corev1.NodeMemoryPressure,
			corev1.ConditionFalse,
			"KubeletHasSufficientMemory",
			"memory is sufficient",
		),
		cond(
			corev1.NodeDiskPressure,
			corev1.ConditionFalse,
			"KubeletHasNoDiskPressure",
			"disk space is sufficient",
		),
		cond(
			corev1.NodePIDPressure,
			corev1.ConditionFalse,
			"KubeletHasSufficientPID",
			"process ids are sufficient",
		),
		cond(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "the simulated node is ready"),
	}
}

// index is the number in a node's name, or false for other names.
func index(name string) (int, bool) {
	n, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(n)
	return i, err == nil && i >= 0
}

// hostIP gives every node an address of its own out of 10.0.0.0/8.
func hostIP(node string) string {
	i, ok := index(node)
	if !ok {
		return "10.0.0.1"
	}
	return fmt.Sprintf("10.1.%d.%d", i/250%256, 1+i%250)
}

// MostNodes is how many nodes a fleet can have.
const MostNodes = 5000

// Validate says what is wrong with the fleet, and what would be right.
func (f Fleet) Validate() error {
	switch {
	case f.Count < 0 || f.Count > MostNodes:
		return fmt.Errorf("%d nodes: must be between 1 and %d", f.Count, MostNodes)
	case f.GPUs < 0:
		return fmt.Errorf("%d GPUs per node: must not be negative", f.GPUs)
	case f.Count > 0 && f.CPU.Sign() <= 0:
		return fmt.Errorf("%s CPUs per node: must be greater than 0", f.CPU.String())
	case f.Count > 0 && f.Memory.Sign() <= 0:
		return fmt.Errorf("memory %s per node: must be greater than 0", f.Memory.String())
	case f.Count > 0 && f.Pods <= 0:
		return fmt.Errorf("%d pods per node: must be greater than 0", f.Pods)
	}
	return nil
}

// FleetChange is what turns the nodes that exist into a fleet.
type FleetChange struct {
	Create, Update, Delete []*corev1.Node
}

// Reconcile compares a fleet with the simulated nodes that exist. Labels and
// taints of existing nodes are the administrator's and stay.
func Reconcile(f Fleet, have []corev1.Node, now time.Time) FleetChange {
	var c FleetChange
	exists := map[int]bool{}
	for i := range have {
		n := &have[i]
		if k, ok := index(n.Name); ok && k < f.Count {
			exists[k] = true
			want := f.Node(k, now)
			if !sameCapacity(n.Status.Capacity, want.Status.Capacity) {
				n = n.DeepCopy()
				n.Status.Capacity, n.Status.Allocatable = want.Status.Capacity, want.Status.Allocatable
				c.Update = append(c.Update, n)
			}
			continue
		}
		c.Delete = append(c.Delete, n)
	}
	for k := range f.Count {
		if !exists[k] {
			c.Create = append(c.Create, f.Node(k, now))
		}
	}
	return c
}

func sameCapacity(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
