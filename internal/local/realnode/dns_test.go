//go:build linux && !noembed

package realnode

import (
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// aZone has the service web, and the headless service peers with two pods of which one is
// not ready.
func aZone(t *testing.T) *zone {
	t.Helper()
	services := cache.NewIndexer(
		cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	)
	slicesOf := cache.NewIndexer(
		cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	)
	ports := []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	for _, s := range []*corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "blue"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: ports}},
		{ObjectMeta: metav1.ObjectMeta{Name: "peers", Namespace: "blue"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}},
		{ObjectMeta: metav1.ObjectMeta{Name: "early", Namespace: "blue"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true}},
	} {
		if err := services.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	endpoints := []discoveryv1.Endpoint{
		{
			Addresses:  []string{"10.140.128.2"},
			Hostname:   new("worker-0"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		},
		{
			Addresses:  []string{"10.140.129.2"},
			Hostname:   new("worker-1"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(false)},
		},
	}
	for _, of := range []string{"peers", "early"} {
		err := slicesOf.Add(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name:      of,
				Namespace: "blue",
				Labels:    map[string]string{discoveryv1.LabelServiceName: of},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   endpoints,
			Ports: []discoveryv1.EndpointPort{
				{Name: new("ssh"), Port: new(int32(22)), Protocol: new(corev1.ProtocolTCP)},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return &zone{
		services: corelisters.NewServiceLister(services),
		slices:   discoverylisters.NewEndpointSliceLister(slicesOf),
	}
}

// ask asks the zone as a client does, and returns what it answers in words.
func ask(t *testing.T, z *zone, name string, kind dnsmessage.Type) []string {
	t.Helper()
	m := dnsmessage.Message{
		Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{
			{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET},
		},
	}
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var r dnsmessage.Message
	if err := r.Unpack(z.reply(packed, largestPacket)); err != nil {
		t.Fatal(err)
	}
	if r.ID != 7 || !r.Response {
		t.Errorf("not an answer to the question: %+v", r.Header)
	}
	if r.RCode != dnsmessage.RCodeSuccess {
		return []string{r.RCode.String()}
	}
	out := []string{}
	for _, a := range r.Answers {
		switch b := a.Body.(type) {
		case *dnsmessage.AResource:
			out = append(out, net.IP(b.A[:]).String())
		case *dnsmessage.SRVResource:
			out = append(out, b.Target.String())
		case *dnsmessage.PTRResource:
			out = append(out, b.PTR.String())
		}
	}
	slices.Sort(out)
	return out
}

// TestDNS: names mean what the Kubernetes DNS specification says.
func TestDNS(t *testing.T) {
	z := aZone(t)
	no := []string{dnsmessage.RCodeNameError.String()}
	for name, c := range map[string]struct {
		why  string
		ask  string
		kind dnsmessage.Type
		want []string
	}{
		"service":         {"a service has its own address", "web.blue.svc.cluster.local.", dnsmessage.TypeA, []string{"10.96.0.7"}},
		"other case":      {"names do not tell cases apart", "Web.Blue.svc.Cluster.local.", dnsmessage.TypeA, []string{"10.96.0.7"}},
		"no IPv6":         {"a name without such an address is a name: clients would look elsewhere", "web.blue.svc.cluster.local.", dnsmessage.TypeAAAA, []string{}},
		"port":            {"a named port has its service as target", "_http._tcp.web.blue.svc.cluster.local.", dnsmessage.TypeSRV, []string{"web.blue.svc.cluster.local."}},
		"no port":         {"a port that there is not", "_ssh._tcp.web.blue.svc.cluster.local.", dnsmessage.TypeSRV, no},
		"headless":        {"those that are ready", "peers.blue.svc.cluster.local.", dnsmessage.TypeA, []string{"10.140.128.2"}},
		"headless port":   {"pods are targets by name", "_ssh._tcp.peers.blue.svc.cluster.local.", dnsmessage.TypeSRV, []string{"worker-0.peers.blue.svc.cluster.local."}},
		"early":           {"launchers look for workers before they are ready", "early.blue.svc.cluster.local.", dnsmessage.TypeA, []string{"10.140.128.2", "10.140.129.2"}},
		"pod":             {"a pod of a headless service", "worker-0.peers.blue.svc.cluster.local.", dnsmessage.TypeA, []string{"10.140.128.2"}},
		"pod not ready":   {"it is not there yet", "worker-1.peers.blue.svc.cluster.local.", dnsmessage.TypeA, no},
		"pod early":       {"unless that is wanted", "worker-1.early.blue.svc.cluster.local.", dnsmessage.TypeA, []string{"10.140.129.2"}},
		"unknown service": {"there is none", "db.blue.svc.cluster.local.", dnsmessage.TypeA, no},
		"other namespace": {"a namespace has its own", "web.red.svc.cluster.local.", dnsmessage.TypeA, no},
		"outside":         {"there is no way out", "example.com.", dnsmessage.TypeA, no},
		"search":          {"what resolvers try first is no name", "web.blue.svc.cluster.local.blue.svc.cluster.local.", dnsmessage.TypeA, no},
		"who":             {"ssh asks whose address it is; two services have the pod", "2.128.140.10.in-addr.arpa.", dnsmessage.TypePTR, []string{"worker-0.early.blue.svc.cluster.local."}},
		"who else":        {"nobody's", "9.128.140.10.in-addr.arpa.", dnsmessage.TypePTR, no},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, z, c.ask, c.kind)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
	if got := z.reply([]byte("nonsense"), largestPacket); got != nil {
		t.Errorf("nonsense is answered with %v", got)
	}
}

// TestSubnet: a network that the machine has addresses in is not taken, nor one that
// another cluster has; the last one is kept.
func TestSubnet(t *testing.T) {
	used := []net.Addr{&net.IPNet{IP: net.IPv4(10, 140, 3, 4), Mask: net.CIDRMask(8, 32)}}
	if !inUse(140, used) || !inUse(150, used) {
		t.Error("an interface in 10.0.0.0/8 leaves no network free")
	}
	used = []net.Addr{&net.IPNet{IP: net.IPv4(10, 140, 3, 4), Mask: net.CIDRMask(24, 32)}}
	if !inUse(140, used) || inUse(141, used) {
		t.Error("an interface in 10.140.3.0/24 takes 10.140.0.0/16 and no other")
	}
	taken := map[Subnet]bool{}
	claim := func(s Subnet) bool { was := taken[s]; taken[s] = true; return !was }
	first, err := ChooseSubnet(0, claim)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ChooseSubnet(first, claim)
	if err != nil || second == first {
		t.Errorf("a second cluster gets %d, too (%v)", second, err)
	}
	if kept, err := ChooseSubnet(177, claim); err != nil || kept != 177 {
		t.Errorf("the last one is not kept: %d (%v)", kept, err)
	}
}
