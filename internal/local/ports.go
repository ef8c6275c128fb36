package local

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	loopback = "127.0.0.1"

	// Ports are picked below the range that the kernel uses for outgoing
	// connections, so that none of those takes a component's port while it is
	// being restarted.
	lowestPort  = 20000
	highestPort = 30000
)

// Ports are the ports that a cluster listens on, all on loopback.
type Ports struct {
	API               int `json:"api"`
	Etcd              int `json:"etcd"`
	ControllerManager int `json:"controllerManager"`
	Webhook           int `json:"webhook"`
	Metrics           int `json:"metrics"`
	Health            int `json:"health"`
	Visibility        int `json:"visibility"`
	Scheduler         int `json:"scheduler"`
	Nodes             int `json:"nodes"`
	// Kubelets is where the simulated nodes answer the API server.
	Kubelets int `json:"kubelets"`
	// Calls is the proxy by which the controller asks pods on simulated nodes.
	Calls int `json:"calls"`
	// Prometheus is where that one answers, if it runs.
	Prometheus int `json:"prometheus"`
}

func (p *Ports) all() []*int {
	return []*int{
		&p.API,
		&p.Etcd,
		&p.ControllerManager,
		&p.Webhook,
		&p.Metrics,
		&p.Health,
		&p.Visibility,
		&p.Scheduler,
		&p.Nodes,
		&p.Kubelets,
		&p.Calls,
		&p.Prometheus,
	}
}

// awaitFree waits until the components of a run that was killed are off their
// ports: the kernel kills them with their parent, and takes a moment to take
// down large processes. When ctx ends, the process that has a port may keep it.
func (p *Ports) awaitFree(ctx context.Context) {
	for _, port := range p.all() {
		if *port == 0 {
			continue
		}
		_ = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			return free(ctx, *port), nil
		})
	}
}

// claims keep ports from other clusters, as long as this process lives or until
// release. Components listen on them only later, and not while they are being
// restarted; so a port that is free may still be wanted. A
// claim is a socket that carries the port in its name: the kernel lets one
// process have it, and takes it away with the process.
type claims struct{ sockets []io.Closer }

// claim takes a port if no cluster has claimed it and no process listens on it.
func (c *claims) claim(ctx context.Context, port int) bool {
	var lc net.ListenConfig
	name := fmt.Sprintf("@mlbatch-port-%d", port) // abstract: no file is left behind
	s, err := lc.Listen(ctx, "unix", name)
	if err != nil {
		return false
	}
	if !free(ctx, port) {
		_ = s.Close()
		return false
	}
	c.sockets = append(c.sockets, s)
	return true
}

func (c *claims) release() {
	for _, s := range c.sockets {
		_ = s.Close()
	}
	c.sockets = nil
}

// choosePorts claims the ports of the last run where it can, so that copies of
// the kubeconfig go on working, and others in their stead. A port that the user
// asked for must be free. The caller releases the claims, also after an error.
func choosePorts(ctx context.Context, last Ports, api int) (Ports, *claims, error) {
	p, c := last, &claims{}
	if api != 0 {
		p.API = api
	}
	for _, port := range p.all() {
		for tries := 0; *port == 0 || !c.claim(ctx, *port); tries++ {
			if port == &p.API && api != 0 {
				return p, c, fmt.Errorf(
					"API port %d: %w: choose another with --api-port, or leave that out",
					api,
					ErrPortInUse,
				)
			}
			if tries > highestPort-lowestPort {
				return p, c, fmt.Errorf("find a port between %d and %d: all are taken", lowestPort, highestPort)
			}
			*port = lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // no secret
		}
	}
	return p, c, nil
}

func free(ctx context.Context, port int) bool {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address(port))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
