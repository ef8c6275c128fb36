//go:build !noembed

package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Names of interfaces. That of the machine has the subnet's number.
const (
	bridge      = "nodes"
	machinePort = "machine"
)

// plugEvery is how often it is looked for nodes that are not plugged in.
const plugEvery = 50 * time.Millisecond

// RunNetwork is the program that joins the nodes, the machine and the API server. It must
// have NetworkNamespaces for itself. What it makes ends with it, and is made anew by the
// next one.
func RunNetwork(ctx context.Context, args []string) error {
	var n Network
	f := flag.NewFlagSet("network", flag.ContinueOnError)
	f.Func("network", "the network, as JSON", func(s string) error { return json.Unmarshal([]byte(s), &n) })
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	machine, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", os.Getppid()))
	if err != nil {
		return fmt.Errorf("find the machine's network: %w", err)
	}
	defer machine.Close()
	if err := n.join(machine); err != nil {
		return err
	}
	api, err := new(
		net.ListenConfig,
	).Listen(ctx, "tcp", net.JoinHostPort(n.Subnet.Router(), strconv.Itoa(APIPort)))
	if err != nil {
		return fmt.Errorf("listen for nodes: %w", err)
	}
	go passOnTo(ctx, api, func() (net.Conn, error) { return dialIn(machine, n.API) })
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	if err := keepLocked(n.readyFile(), ""); err != nil {
		return err
	}
	n.plugAll(ctx)
	return nil
}

// beginNetwork sets up what every network namespace of ours has: a loopback interface, and packets
// that pass.
func beginNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set up the loopback interface: %w", err)
	}
	// Of this network namespace: the settings shown are those of who looks.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let packets pass: %w", err)
	}
	return nil
}

// join makes the bridge and joins the machine with it.
func (n Network) join(machine *os.File) error {
	if err := beginNetwork(); err != nil {
		return err
	}
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}
	if err := netlink.LinkAdd(br); err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	if err := addAddress(nil, br, n.Subnet.Router()+"/24"); err != nil {
		return err
	}
	h, err := handleAt(machine)
	if err != nil {
		return err
	}
	defer h.Close()
	name := machineInterface(n.Subnet)
	if old, err := h.LinkByName(name); err == nil {
		_ = h.LinkDel(old) // of a network that has ended, and which is being taken down
	}
	if err := n.plug(br, machinePort, name, int(machine.Fd())); err != nil {
		return err
	}
	end, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if err := addAddress(h, end, n.Subnet.Host()+"/24"); err != nil {
		return err
	}
	if err := addRoute(h, end, n.Subnet.Pods(), n.Subnet.Router()); err != nil {
		return err
	}
	for _, node := range n.Nodes {
		if err := addRoute(nil, br, n.Subnet.PodsOf(node.Index), n.Subnet.Node(node.Index)); err != nil {
			return err
		}
	}
	return nil
}

// plugAll plugs in nodes as they start, until ctx ends.
func (n Network) plugAll(ctx context.Context) {
	ticker := clock.RealClock{}.NewTicker(plugEvery)
	defer ticker.Stop()
	plugged := map[string]int{}
	for {
		for _, node := range n.Nodes {
			if err := n.plugNode(node, plugged); err != nil {
				klog.ErrorS(err, "Plug in a node", "node", node.Name)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// plugNode joins a node with the bridge if its process is not, and remembers that. A cable that
// somebody has pulled, by setting its port down, stays so.
func (n Network) plugNode(node Node, plugged map[string]int) error {
	pid := node.PID()
	if pid == 0 {
		return nil // it does not run
	}
	if old, err := netlink.LinkByName(node.Name); err == nil {
		if plugged[node.Name] == pid {
			return nil
		}
		// That of a node which was killed: its namespace lives on with processes that entered it.
		if err := netlink.LinkDel(old); err != nil {
			return fmt.Errorf("unplug %s: %w", node.Name, err)
		}
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.Close()
	br, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}
	h, err := handleAt(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	if old, err := h.LinkByName(uplink); err == nil {
		// Its other end is in a network that was killed, and which something still uses.
		if err := h.LinkDel(old); err != nil {
			return fmt.Errorf("unplug %s: %w", node.Name, err)
		}
	}
	if err := n.plug(br, node.Name, uplink, int(ns.Fd())); err != nil {
		return err
	}
	end, err := h.LinkByName(uplink)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", uplink, err)
	}
	if err := addAddress(h, end, n.Subnet.Node(node.Index)+"/24"); err != nil {
		return err
	}
	if err := addRoute(h, end, "0.0.0.0/0", n.Subnet.Router()); err != nil {
		return err
	}
	plugged[node.Name] = pid
	return nil
}

// plug makes a cable from a port of the bridge to an interface in another namespace.
func (n Network) plug(br netlink.Link, port, far string, ns int) error {
	v := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: br.Attrs().Index, Flags: net.FlagUp},
		PeerName:  far, PeerNamespace: netlink.NsFd(ns),
	}
	if err := netlink.LinkAdd(v); err != nil {
		return fmt.Errorf("plug in %s: %w", port, err)
	}
	if err := netlink.LinkSetUp(v); err != nil {
		return fmt.Errorf("plug in %s: %w", port, err)
	}
	return nil
}

// addAddress gives an interface an address and sets it up. A nil handle is of this
// namespace, here and below.
func addAddress(h *netlink.Handle, l netlink.Link, address string) error {
	if h == nil {
		h = &netlink.Handle{}
	}
	a, err := netlink.ParseAddr(address)
	if err == nil {
		err = h.AddrReplace(l, a)
	}
	if err == nil {
		err = h.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("give %s the address %s: %w", l.Attrs().Name, address, err)
	}
	return nil
}

func addRoute(h *netlink.Handle, l netlink.Link, to, via string) error {
	if h == nil {
		h = &netlink.Handle{}
	}
	_, dst, err := net.ParseCIDR(to)
	if err == nil {
		err = h.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: dst, Gw: net.ParseIP(via)})
	}
	if err != nil {
		return fmt.Errorf("route %s by %s: %w", to, via, err)
	}
	return nil
}

// handleAt works on the interfaces of another namespace.
func handleAt(ns *os.File) (h *netlink.Handle, err error) {
	err = within(ns, func() (err error) {
		h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("work on another network namespace: %w", err)
	}
	return h, nil
}

// dialIn connects to an address, a number and a port, in another network namespace.
func dialIn(ns *os.File, address string) (c net.Conn, err error) {
	err = within(ns, func() (err error) {
		c, err = net.DialTimeout("tcp", address, dialTimeout) //nolint:noctx // it is bounded
		return err
	})
	return c, err
}

const dialTimeout = 5 * time.Second

// passOnTo connects everyone who comes with what dial connects to.
func passOnTo(ctx context.Context, l net.Listener, dial func() (net.Conn, error)) {
	go func() {
		<-ctx.Done()
		_ = l.Close()
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }() // both sides have said all
			to, err := dial()
			if err != nil {
				klog.ErrorS(err, "Pass on a connection")
				return
			}
			defer func() { _ = to.Close() }() // as above
			join(c, to)
		}()
	}
}

// join copies both ways until both sides have said all.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0])
			if half, ok := way[1].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
