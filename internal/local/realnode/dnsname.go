package realnode

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// dnsName is what a name in the cluster's domain says.
type dnsName struct {
	service, namespace string
	host               string // of a pod of the service
	port, protocol     string // of a named port
	inside             bool   // it ends with the cluster's domain
}

// parseName takes a name apart. The service is "" where it is none of a service.
func parseName(name string) dnsName {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	rest, inside := strings.CutSuffix(name, "svc."+Domain)
	if !inside {
		return dnsName{inside: name == Domain}
	}
	n := dnsName{inside: true}
	parts := strings.Split(strings.TrimSuffix(rest, "."), ".")
	switch last := len(parts) - 1; {
	case rest == "" || last == 0: // "svc" itself, or a namespace
		return n
	case last == 1:
		n.service, n.namespace = parts[0], parts[1]
	case last == 2:
		n.host, n.service, n.namespace = parts[0], parts[1], parts[2]
	case last == 3 && strings.HasPrefix(parts[0], "_") && strings.HasPrefix(parts[1], "_"):
		n.port, n.protocol, n.service, n.namespace = parts[0][1:], parts[1][1:], parts[2], parts[3]
	default:
		return dnsName{}
	}
	return n
}

func (n dnsName) ofService() string { return n.service + "." + n.namespace + ".svc." + Domain + "." }

func (n dnsName) fqdn() string {
	if n.host != "" {
		return n.host + "." + n.ofService()
	}
	return n.ofService()
}

// portsOf are the ports of a service that a name means; a single 0 where it means none.
func portsOf(s *corev1.Service, n dnsName) []uint16 {
	if n.port == "" {
		return []uint16{0}
	}
	var out []uint16
	for _, p := range s.Spec.Ports {
		if p.Name == n.port && strings.EqualFold(string(p.Protocol), n.protocol) {
			out = append(out, uint16(p.Port)) //nolint:gosec // ports are that small
		}
	}
	return out
}

func slicePorts(s *discoveryv1.EndpointSlice, n dnsName) []uint16 {
	if n.port == "" {
		return []uint16{0}
	}
	var out []uint16
	for _, p := range s.Ports {
		if p.Name != nil && *p.Name == n.port && p.Protocol != nil &&
			strings.EqualFold(string(*p.Protocol), n.protocol) &&
			p.Port != nil {
			out = append(out, uint16(*p.Port)) //nolint:gosec // ports are that small
		}
	}
	return out
}

// hostName is what a pod of a headless service is called there: its host name, or its
// address with dashes.
func hostName(e *discoveryv1.Endpoint) string {
	if e.Hostname != nil && *e.Hostname != "" {
		return *e.Hostname
	}
	return strings.ReplaceAll(e.Addresses[0], ".", "-")
}

func toIPv4(address string) [4]byte {
	a, err := netip.ParseAddr(address)
	if err != nil || !a.Is4() {
		return [4]byte{}
	}
	return a.As4()
}

// reversed is the address that a name in in-addr.arpa is about, "" if it is none.
func reversed(name string) string {
	rest, ok := strings.CutSuffix(strings.TrimSuffix(strings.ToLower(name), "."), ".in-addr.arpa")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 4 {
		return ""
	}
	return parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0]
}
