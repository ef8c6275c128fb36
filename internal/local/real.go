package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/local/realnode"
	"github.com/mlbatch/mlbatch/internal/local/supervise"
)

// Runtime says what runs the pods of a cluster.
type Runtime string

const (
	// Simulated nodes run nothing: pods take as long as their commands sleep.
	Simulated Runtime = "simulated"
	// Containerd runs containers on this machine.
	Containerd Runtime = "containerd"
)

// Runtimes are all that there are.
func Runtimes() []Runtime { return []Runtime{Simulated, Containerd} }

// Components of nodes with real pods. A node has the name of its Node object; what runs
// on it is called NODE-containerd and so on.
const (
	NetworkComponent = realnode.NetworkName
	DNSComponent     = realnode.DNSName
	VolumesComponent = realnode.VolumesName
)

// OnNode is the component of a node, such as node-0-kubelet.
func OnNode(node, program string) string { return node + "-" + program }

// nodePrefix begins the names of nodes.
const nodePrefix = "node-"

// Programs on each node.
const (
	ContainerdProgram = "containerd"
	KubeletProgram    = realnode.KubeletName
	ProxyProgram      = realnode.ProxyName
)

// hardware is what a cluster with real pods has besides; nil in others.
type hardware struct {
	subnet realnode.Subnet
	nodes  []realnode.Node
}

func (l layout) nodes() string                { return l.path("nodes") }
func (l layout) networkDir() string           { return l.path("network") }
func (l layout) volumes() string              { return l.path("volumes") }
func (l layout) archives() string             { return l.path("archives") }
func (l layout) healthOf(name string) string  { return l.path("network", name) }
func (l layout) kubeconfigOn(n string) string { return "kubelet-" + n }

// cgroup is where the pods of the cluster's nodes are counted: below one directory that
// is the data directory's.
func (l layout) cgroup() string {
	sum := sha256.Sum256([]byte(l.dir))
	return "/mlbatch-" + hex.EncodeToString(sum[:4])
}

// sweep removes what the kernel does not take away with the processes of real nodes.
func (l layout) sweep(ctx context.Context, s realnode.Subnet) error {
	if err := realnode.Sweep(ctx, l.cgroup(), s); err != nil {
		return fmt.Errorf("clean up after the nodes: %w", err)
	}
	return nil
}

// sweepStopped cleans up after a cluster that was killed, if it had real nodes.
func (l layout) sweepStopped(ctx context.Context) error {
	m, err := l.readMarker()
	if err != nil || m.Runtime != Containerd {
		return nil //nolint:nilerr // then there is nothing to be known
	}
	s, err := l.readState()
	if err != nil {
		s.Subnet = 0
	}
	return l.sweep(ctx, s.Subnet)
}

// settleRuntime finds out what runs the pods: what the data directory was made for.
func (c *Cluster) settleRuntime() error {
	had := c.marker.Runtime
	if had == "" && c.marker.Complete {
		had = Simulated // it is older than the others
	}
	switch {
	case c.cfg.Runtime == "" && had == "":
		c.cfg.Runtime = Simulated
	case c.cfg.Runtime == "":
		c.cfg.Runtime = had
	case had != "" && had != c.cfg.Runtime:
		return fmt.Errorf(
			"runtime %s: the cluster in %s has %s nodes, and its pods cannot move: take another --data-dir, or remove it with: mlbatch down --delete --data-dir %s",
			c.cfg.Runtime,
			c.files.dir,
			had,
			c.files.dir,
		)
	}
	if c.cfg.StartTimeout == 0 {
		c.cfg.StartTimeout = defaultStartTimeout
		if c.isReal() {
			c.cfg.StartTimeout = realStartTimeout
		}
	}
	if !c.isReal() {
		return nil
	}
	if c.cfg.Fleet.Count > realnode.MostNodes {
		return fmt.Errorf(
			"%d nodes: must be between 1 and %d with real pods",
			c.cfg.Fleet.Count,
			realnode.MostNodes,
		)
	}
	if c.cfg.TimeScale != 1 {
		return fmt.Errorf("time scale %g: real pods take real time: leave it out", c.cfg.TimeScale)
	}
	return realnode.Check()
}

// settle finds out of what kind the cluster is.
func (c *Cluster) settle() error {
	if err := c.settleBare(); err != nil {
		return err
	}
	return c.settleRuntime()
}

// settleBare finds out whether mlbatch runs beside the cluster: as the data directory was made.
func (c *Cluster) settleBare() error {
	switch made := c.marker.Complete; {
	case made && c.marker.Bare && !c.isBare():
		return fmt.Errorf(
			"the cluster in %s was made without mlbatch, which may be installed there by now: start it in the same way (--bare), or take another --data-dir",
			c.files.dir,
		)
	case made && !c.marker.Bare && c.isBare():
		return fmt.Errorf(
			"the cluster in %s has its mlbatch: take another --data-dir for one without, or remove it with: mlbatch down --delete --data-dir %s",
			c.files.dir,
			c.files.dir,
		)
	case c.isBare() && c.cfg.Runtime == Simulated, c.isBare() && c.cfg.Runtime == "" && !made:
		return errors.New(
			"a cluster without mlbatch is there to install it in, and pods on simulated nodes run no program: add --runtime containerd",
		)
	}
	return nil
}

// isBare reports whether nothing of mlbatch runs beside the cluster.
func (c *Cluster) isBare() bool { return c.cfg.Parts == Bare }

// isReal reports whether pods are real here.
func (c *Cluster) isReal() bool { return c.cfg.Runtime == Containerd && c.cfg.Parts != APIOnly }

// assemble decides what the nodes are like and where they are.
func (c realNodes) assemble(ctx context.Context, last ClusterFile) error {
	if !c.isReal() {
		return nil
	}
	// What a killed run left, which would be taken for this one's.
	if err := c.files.sweep(ctx, last.Subnet); err != nil {
		return err
	}
	subnet, err := realnode.ChooseSubnet(
		last.Subnet,
		func(s realnode.Subnet) bool { return c.claims.claimName(ctx, fmt.Sprintf("subnet-%d", s)) },
	)
	if err != nil {
		return err
	}
	c.real = &hardware{subnet: subnet}
	for i := range c.cfg.Fleet.Count {
		name := nodePrefix + strconv.Itoa(i)
		c.real.nodes = append(c.real.nodes, realnode.Node{
			Name:     name,
			Index:    i,
			Dir:      c.files.path("nodes", name),
			Volumes:  c.files.volumes(),
			Archives: c.files.archives(),
			Cgroup:   c.files.cgroup() + "/" + name,
			GPUs:     c.cfg.Fleet.GPUs,
			CPUs:     c.cfg.Fleet.CPU.Value(),
			Memory:   c.cfg.Fleet.Memory.Value(),
		})
	}
	return nil
}

// claimName keeps others from a name; it is free again when this process ends.
func (c *claims) claimName(ctx context.Context, name string) bool {
	var lc net.ListenConfig
	s, err := lc.Listen(ctx, "unix", "@mlbatch-"+name)
	if err != nil {
		return false
	}
	c.sockets = append(c.sockets, io.Closer(s))
	return true
}

// writeHardware writes what the nodes' programs are configured with.
func (c realNodes) writeHardware() error {
	if c.real == nil {
		return nil
	}
	for _, dir := range []string{c.files.nodes(), c.files.networkDir(), c.files.volumes(), c.files.archives()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
	}
	proxy, err := os.ReadFile(c.files.kubeconfigOf(ProxyProgram))
	if err != nil {
		return fmt.Errorf("configure the nodes: %w", err)
	}
	for _, n := range c.real.nodes {
		kubelet, err := os.ReadFile(c.files.kubeconfigOf(c.files.kubeconfigOn(n.Name)))
		if err != nil {
			return fmt.Errorf("configure the nodes: %w", err)
		}
		cert := c.id.kubeletOf[n.Name]
		id := realnode.Identity{
			CA:      c.id.ca.CertFile(),
			Cert:    cert.Cert,
			Key:     cert.Key,
			Kubelet: kubelet,
			Proxy:   proxy,
		}
		if err := n.WriteConfiguration(c.real.subnet, id, min(c.cfg.Fleet.Pods, realnode.MostPods)); err != nil {
			return err
		}
	}
	return realnode.WriteBaseImage(c.files.archives(), c.cfg.Images)
}

// startNodes runs the network, the nodes and what runs on them, and returns when pods can
// be bound to them.
func (c realNodes) startNodes(ctx context.Context) error {
	network, err := c.network()
	if err != nil {
		return err
	}
	if err := c.run(ctx, network); err != nil {
		return err
	}
	if err := c.forgetNodes(ctx); err != nil {
		return err
	}
	var all errgroup.Group
	all.Go(func() error { return c.run(ctx, c.dns()) })
	all.Go(func() error { return c.run(ctx, c.volumes()) })
	for _, n := range c.real.nodes {
		all.Go(func() error { return c.startNode(ctx, n) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return c.awaitNodes(ctx)
}

func (c realNodes) startNode(ctx context.Context, n realnode.Node) error {
	machine, err := c.machine(n)
	if err != nil {
		return err
	}
	if err := c.run(ctx, machine); err != nil {
		return err
	}
	if err := c.run(ctx, c.containerd(n)); err != nil {
		return err
	}
	kubelet, err := c.kubelet(n)
	if err != nil {
		return err
	}
	var both errgroup.Group
	both.Go(func() error { return c.run(ctx, kubelet) })
	both.Go(func() error { return c.run(ctx, c.proxy(n)) })
	return both.Wait()
}

// forgetNodes deletes nodes of an earlier start that had more of them: nobody else would.
func (c realNodes) forgetNodes(ctx context.Context) error {
	cl, err := client.New(c.admin, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	var have corev1.NodeList
	if err := cl.List(ctx, &have); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for i := range have.Items {
		n := &have.Items[i]
		ours := strings.HasPrefix(n.Name, nodePrefix)
		if !ours || slices.ContainsFunc(c.real.nodes, func(r realnode.Node) bool { return r.Name == n.Name }) {
			continue
		}
		if err := cl.Delete(ctx, n); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete node %s: %w", n.Name, err)
		}
	}
	return nil
}

// awaitNodes waits until the nodes are ready and have their GPUs.
func (c realNodes) awaitNodes(ctx context.Context) error {
	cl, err := client.New(c.admin, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	var waits error
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		waits = nil
		for _, n := range c.real.nodes {
			var node corev1.Node
			if err := cl.Get(ctx, client.ObjectKey{Name: n.Name}, &node); err != nil {
				waits = fmt.Errorf("%s: %w", n.Name, err)
				return false, nil
			}
			if err := usable(&node, n.GPUs); err != nil {
				waits = err
				return false, nil //nolint:nilerr // it is told if it stays so
			}
		}
		return true, nil
	})
	if err != nil {
		return errors.Join(waits, context.Cause(ctx))
	}
	c.milestone("real nodes")
	return nil
}

// usable says why pods cannot run on a node yet.
func usable(node *corev1.Node, gpus int64) error {
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady && cond.Status != corev1.ConditionTrue {
			return fmt.Errorf("%s is not ready: %s", node.Name, cond.Message)
		}
	}
	has := node.Status.Allocatable[realnode.GPUResource]
	if has.Value() != gpus {
		return fmt.Errorf("%s offers %d of %d GPUs", node.Name, has.Value(), gpus)
	}
	return nil
}

// routerURL is the API server as nodes and pods see it.
func (h *hardware) routerURL() string {
	return "https://" + net.JoinHostPort(h.subnet.Router(), strconv.Itoa(realnode.APIPort))
}

func (c realNodes) network() (program, error) {
	what, err := json.Marshal(
		realnode.Network{
			Subnet: c.real.subnet,
			API:    address(c.ports.API),
			Nodes:  c.real.nodes,
			Dir:    c.files.networkDir(),
		},
	)
	if err != nil {
		return program{}, fmt.Errorf("describe the network: %w", err)
	}
	n := realnode.Network{Dir: c.files.networkDir()}
	return program{
		name: NetworkComponent, stage: stageNetwork, grace: time.Second, goGC: 100, memory: 128,
		probe:      func(context.Context) error { return n.Ready() },
		namespaces: realnode.NetworkNamespaces,
		args:       []string{componentCommand, realnode.NetworkName, "--network=" + string(what)},
	}, nil
}

func (c realNodes) dns() program {
	health := c.files.healthOf(DNSComponent)
	return program{
		name: DNSComponent, stage: stageRest, grace: time.Second, goGC: 100, memory: 128,
		probe: func(context.Context) error { return realnode.Working(health) }, inside: NetworkComponent,
		args: []string{
			componentCommand, realnode.DNSName, "--kubeconfig=" + c.files.kubeconfigOf(DNSComponent),
			"--listen=" + net.JoinHostPort(c.real.subnet.Router(), "53"), "--health-file=" + health,
		},
	}
}

func (c realNodes) volumes() program {
	health := c.files.healthOf(VolumesComponent)
	return program{
		name: VolumesComponent, stage: stageRest, grace: time.Second, goGC: 100, memory: 128,
		probe: func(context.Context) error { return realnode.Working(health) },
		args: []string{
			componentCommand, realnode.VolumesName, "--kubeconfig=" + c.files.kubeconfigOf(VolumesComponent),
			"--dir=" + c.files.volumes(), "--health-file=" + health,
		},
	}
}

func (c realNodes) machine(n realnode.Node) (program, error) {
	what, err := json.Marshal(n)
	if err != nil {
		return program{}, fmt.Errorf("describe node %s: %w", n.Name, err)
	}
	return program{
		name: n.Name, stage: stageMachine, grace: time.Second, goGC: 100, memory: 128,
		probe: func(context.Context) error { return n.Ready() }, namespaces: realnode.MachineNamespaces,
		args: []string{componentCommand, realnode.MachineName, "--node=" + string(what)},
	}, nil
}

func (c realNodes) containerd(n realnode.Node) program {
	return program{
		name: OnNode(n.Name, ContainerdProgram), stage: stageOnNode, grace: 2 * time.Second, goGC: 100, memory: 512,
		probe: silent(n.AskContainerd), inside: n.Name,
		path: realnode.Containerd(), args: realnode.ContainerdArgs(),
	}
}

func (c realNodes) kubelet(n realnode.Node) (program, error) {
	what, err := json.Marshal(n)
	if err != nil {
		return program{}, fmt.Errorf("describe node %s: %w", n.Name, err)
	}
	labels := map[string]string{}
	if n.GPUs > 0 {
		labels["nvidia.com/gpu.count"] = strconv.FormatInt(n.GPUs, 10)
		if p := c.cfg.Fleet.GPUProduct; p != "" {
			labels["nvidia.com/gpu.product"] = p
		}
	}
	labelled, err := json.Marshal(labels)
	if err != nil {
		return program{}, fmt.Errorf("describe node %s: %w", n.Name, err)
	}
	return program{
		name:   OnNode(n.Name, KubeletProgram),
		stage:  stageOnNode,
		grace:  3 * time.Second,
		goGC:   100,
		memory: 512,
		probe:  onNode(n, "127.0.0.1:10248"),
		inside: n.Name,
		args: []string{
			componentCommand,
			realnode.KubeletName,
			"--node=" + string(what),
			"--node-ip=" + c.real.subnet.Node(n.Index),
			"--node-labels=" + string(labelled),
		},
	}, nil
}

func (c realNodes) proxy(n realnode.Node) program {
	return program{
		name: OnNode(n.Name, ProxyProgram), stage: stageOnNode, grace: time.Second, goGC: 100, memory: 256,
		probe: onNode(n, "127.0.0.1:10256"), inside: n.Name,
		args: []string{componentCommand, realnode.ProxyName},
	}
}

// onNode asks a health endpoint on a node.
func onNode(n realnode.Node, address string) probe {
	return func(ctx context.Context) error {
		no, err := n.Ask(ctx, address, "/healthz")
		if no {
			return fmt.Errorf("%w: %w", supervise.ErrSilent, err)
		}
		return err
	}
}

// silent makes every error of a probe one of no answer.
func silent(p probe) probe {
	return func(ctx context.Context) error {
		if err := p(ctx); err != nil {
			return fmt.Errorf("%w: %w", supervise.ErrSilent, err)
		}
		return nil
	}
}

// realNodes are the nodes of a cluster whose pods are real, and what runs on them.
type realNodes struct{ *Cluster }

func (c *Cluster) realNodes() realNodes { return realNodes{c} }
