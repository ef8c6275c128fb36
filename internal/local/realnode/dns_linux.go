//go:build !noembed

package realnode

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// runDNS answers for the names of services and of pods of headless services, as the
// Kubernetes DNS specification has it. It knows no other names: pods have no way out of
// the machine.
func runDNS(ctx context.Context, args []string) error {
	var kubeconfig, listen, health string
	f := flag.NewFlagSet("dns", flag.ContinueOnError)
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	f.StringVar(&listen, "listen", "", "host:port of the server, UDP and TCP")
	f.StringVar(&health, "health-file", "", "file that is locked once it answers")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	cl, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	all := informers.NewSharedInformerFactory(cl, 0)
	z := &zone{
		services: all.Core().V1().Services().Lister(),
		slices:   all.Discovery().V1().EndpointSlices().Lister(),
	}
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
	return serveDNS(ctx, z, listen, health)
}

// serveDNS answers over UDP and TCP until ctx ends.
func serveDNS(ctx context.Context, z *zone, listen, health string) error {
	var lc net.ListenConfig
	packets, err := lc.ListenPacket(ctx, "udp", listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", listen, err)
	}
	streams, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", listen, err)
	}
	if err := keepLocked(health, ""); err != nil {
		return err
	}
	var g errgroup.Group
	g.Go(func() error {
		<-ctx.Done()
		return errors.Join(packets.Close(), streams.Close())
	})
	g.Go(func() error { return servePackets(ctx, z, packets) })
	g.Go(func() error {
		for {
			c, err := streams.Accept()
			if err != nil {
				return over(ctx, err)
			}
			go serveStream(z, c)
		}
	})
	return g.Wait()
}

// over is nil if what failed was to end.
func over(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // as said
	}
	return err
}

const (
	// largestPacket is what every client takes; more is asked for by TCP.
	largestPacket = 512
	largestStream = 64 << 10
	streamTimeout = 10 * time.Second
	// answerLasts is how long an answer may be kept, in seconds.
	answerLasts = 5
)

func servePackets(ctx context.Context, z *zone, conn net.PacketConn) error {
	buf := make([]byte, largestStream)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return over(ctx, err)
		}
		if out := z.reply(buf[:n], largestPacket); out != nil {
			_, _ = conn.WriteTo(out, from) // who is gone asks no more
		}
	}
}

func serveStream(z *zone, c net.Conn) {
	defer func() { _ = c.Close() }() // it said all
	for {
		if err := c.SetDeadline(deadline(streamTimeout)); err != nil {
			return
		}
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		buf := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		out := z.reply(buf, largestStream-1)
		if out == nil {
			return
		}
		binary.BigEndian.PutUint16(size[:], uint16(len(out))) //nolint:gosec // bounded above
		if _, err := c.Write(append(size[:], out...)); err != nil {
			return
		}
	}
}

// zone is what names mean.
type zone struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
}

// reply answers a message; nil if it is none.
func (z *zone) reply(message []byte, most int) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil || h.Response {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	h = dnsmessage.Header{
		ID:                 h.ID,
		Response:           true,
		Authoritative:      true,
		RecursionDesired:   h.RecursionDesired,
		RecursionAvailable: true,
	}
	records, known := z.answer(q)
	if !known {
		h.RCode = dnsmessage.RCodeNameError
	}
	out := pack(h, q, records)
	if len(out) > most {
		h.Truncated = true
		out = pack(h, q, nil)
	}
	return out
}

// pack is the answer as it is sent.
func pack(h dnsmessage.Header, q dnsmessage.Question, records []dnsmessage.Resource) []byte {
	m := dnsmessage.Message{Header: h, Questions: []dnsmessage.Question{q}, Answers: records}
	out, err := m.Pack()
	if err != nil {
		m = dnsmessage.Message{
			Header:    dnsmessage.Header{ID: h.ID, Response: true, RCode: dnsmessage.RCodeServerFailure},
			Questions: m.Questions,
		}
		out, _ = m.Pack()
	}
	return out
}

// answer is what is known of a name, and whether there is such a name.
func (z *zone) answer(q dnsmessage.Question) (records []dnsmessage.Resource, known bool) {
	name := parseName(q.Name.String())
	header := dnsmessage.ResourceHeader{
		Name:  q.Name,
		Type:  q.Type,
		Class: dnsmessage.ClassINET,
		TTL:   answerLasts,
	}
	var targets []target
	switch {
	case q.Type == dnsmessage.TypePTR:
		host, ok := z.hostAt(q.Name.String())
		if !ok {
			return nil, false
		}
		n, err := dnsmessage.NewName(host)
		if err != nil {
			return nil, false
		}
		return []dnsmessage.Resource{{Header: header, Body: &dnsmessage.PTRResource{PTR: n}}}, true
	case name.service == "":
		return nil, name.inside
	default:
		if targets, known = z.targets(name); !known {
			return nil, false
		}
	}
	for _, t := range targets {
		switch q.Type { //nolint:exhaustive // of other types there is nothing
		case dnsmessage.TypeA, dnsmessage.TypeALL:
			header.Type = dnsmessage.TypeA
			records = append(records, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: t.address}})
		case dnsmessage.TypeSRV:
			n, err := dnsmessage.NewName(t.host)
			if err == nil {
				records = append(
					records,
					dnsmessage.Resource{
						Header: header,
						Body:   &dnsmessage.SRVResource{Priority: 0, Weight: 100, Port: t.port, Target: n},
					},
				)
			}
		}
	}
	return records, true
}

// target is what a name leads to.
type target struct {
	address [4]byte
	port    uint16
	host    string
}

// targets are those of a service, or of one of its pods, or of one of its ports.
func (z *zone) targets(n dnsName) (out []target, known bool) {
	s, err := z.services.Services(n.namespace).Get(n.service)
	if err != nil {
		return nil, false
	}
	if s.Spec.ClusterIP != corev1.ClusterIPNone {
		if n.host != "" {
			return nil, false
		}
		for _, p := range portsOf(s, n) {
			out = append(out, target{toIPv4(s.Spec.ClusterIP), p, n.fqdn()})
		}
		return out, n.port == "" || len(out) > 0
	}
	all, err := z.slices.EndpointSlices(n.namespace).
		List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: n.service}))
	if err != nil {
		return nil, false
	}
	known = n.host == "" && n.port == ""
	for _, slice := range all {
		if slice.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if !answers(e, s) || n.host != "" && hostName(e) != n.host {
				continue
			}
			for _, p := range slicePorts(slice, n) {
				known = true
				out = append(out, target{toIPv4(e.Addresses[0]), p, hostName(e) + "." + n.ofService()})
			}
		}
	}
	return out, known
}

// answers reports whether a pod has a name now.
func answers(e *discoveryv1.Endpoint, s *corev1.Service) bool {
	return len(e.Addresses) > 0 &&
		(s.Spec.PublishNotReadyAddresses || e.Conditions.Ready == nil || *e.Conditions.Ready)
}

// hostAt is who has an address, for ssh and the like, which look.
func (z *zone) hostAt(name string) (host string, ok bool) {
	address := reversed(name)
	if address == "" {
		return "", false
	}
	services, err := z.services.List(labels.Everything())
	if err != nil {
		return "", false
	}
	for _, s := range services {
		if s.Spec.ClusterIP == address {
			return dnsName{service: s.Name, namespace: s.Namespace}.fqdn(), true
		}
	}
	all, err := z.slices.List(labels.Everything())
	if err != nil {
		return "", false
	}
	var names []string // a pod may be one of several services
	for _, slice := range all {
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if e.Hostname != nil && len(e.Addresses) > 0 && e.Addresses[0] == address {
				names = append(
					names,
					dnsName{
						host:      *e.Hostname,
						service:   slice.Labels[discoveryv1.LabelServiceName],
						namespace: slice.Namespace,
					}.fqdn(),
				)
			}
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return slices.Min(names), true
}

func deadline(after time.Duration) time.Time { return clock.RealClock{}.Now().Add(after) }
