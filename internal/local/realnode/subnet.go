package realnode

import (
	"fmt"
	"net"
	"net/netip"
)

// Subnet is the network of a cluster, 10.x.0.0/16, as x. A part of it is that of the
// nodes, each of which has a /24 for its pods.
type Subnet int

const (
	// MostNodes is how many nodes a cluster with real pods can have.
	MostNodes = 50
	// MostPods is how many pods a node can have, by its addresses.
	MostPods = 250

	lowestSubnet, highestSubnet = 140, 199

	// APIPort is where the API server answers the nodes, at the address Router.
	APIPort = 6443
	// KubeletPort is where kubelets answer the API server.
	KubeletPort = 10250
)

// Host is the machine's address, as nodes and pods see it.
func (s Subnet) Host() string { return fmt.Sprintf("10.%d.0.1", s) }

// Router is the address of the process that joins the nodes. It passes on what is for
// the API server, and answers for names.
func (s Subnet) Router() string { return fmt.Sprintf("10.%d.0.2", s) }

// Node is the address of the i-th node.
func (s Subnet) Node(i int) string { return fmt.Sprintf("10.%d.0.%d", s, 10+i) }

// Nodes are the addresses of nodes, the router and the machine.
func (s Subnet) Nodes() string { return fmt.Sprintf("10.%d.0.0/24", s) }

// PodsOf are the addresses of the pods of the i-th node.
func (s Subnet) PodsOf(i int) string { return fmt.Sprintf("10.%d.%d.0/24", s, 128+i) }

// Pods are the addresses of all pods.
func (s Subnet) Pods() string { return fmt.Sprintf("10.%d.128.0/17", s) }

func (s Subnet) all() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(s), 0, 0}), 16) //nolint:gosec // at most 255
}

// Valid reports whether it is one that ChooseSubnet may return.
func (s Subnet) Valid() bool { return s >= lowestSubnet && s <= highestSubnet }

// ChooseSubnet returns a network that no interface of the machine is part of, the last
// one if it can be. claim keeps others from choosing it, and says whether it could.
func ChooseSubnet(last Subnet, claim func(Subnet) bool) (Subnet, error) {
	used, err := net.InterfaceAddrs()
	if err != nil {
		return 0, fmt.Errorf("look at the machine's addresses: %w", err)
	}
	candidates := []Subnet{}
	if last.Valid() {
		candidates = append(candidates, last)
	}
	for s := Subnet(lowestSubnet); s <= highestSubnet; s++ {
		candidates = append(candidates, s)
	}
	for _, s := range candidates {
		// The last one's interface may still be there for a moment, after a kill.
		if (s == last || !inUse(s, used)) && claim(s) {
			return s, nil
		}
	}
	return 0, fmt.Errorf(
		"find a network between 10.%d.0.0/16 and 10.%d.0.0/16 for nodes and pods: this machine has addresses in all",
		lowestSubnet,
		highestSubnet,
	)
}

// inUse reports whether an address shares a network with s.
func inUse(s Subnet, used []net.Addr) bool {
	for _, a := range used {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Overlaps(s.all()) {
			return true
		}
	}
	return false
}
