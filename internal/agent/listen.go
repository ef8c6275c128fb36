package agent

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// mostConnections are those that a port of an agent has at once: whoever reaches it may open some, and each costs
// memory of the node.
const mostConnections = 256

// mostOfOne are those that one host has at once, so that it cannot fill the port for all others. Neighbours and a monitor
// need one or two.
const mostOfOne = 16

// Bounded is a listener with few connections at once, and fewer of one host. Those beyond the former wait until one is
// closed, those beyond the latter are closed at once.
func Bounded(l net.Listener) net.Listener {
	return netutil.LimitListener(&fair{Listener: l, of: map[netip.Prefix]int{}}, mostConnections)
}

// fair counts connections by where they come from.
type fair struct {
	net.Listener
	mu sync.Mutex
	of map[netip.Prefix]int
}

// Accept is the next connection of somebody who has not too many.
func (f *fair) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := origin(c.RemoteAddr())
		f.mu.Lock()
		taken := f.of[from] < mostOfOne
		if taken {
			f.of[from]++
		}
		f.mu.Unlock()
		if taken {
			return &counted{Conn: c, done: func() { f.release(from) }}, nil
		}
		_ = c.Close() // it is of no use to anybody
	}
}

func (f *fair) release(from netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[from]--; f.of[from] <= 0 {
		delete(f.of, from)
	}
}

// origin is the host that an address is of. Of IPv6 it is one address, too: hosts of a whole subnet would have to share what
// one may have. A host with many of them is bounded by what the port has.
func origin(a net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap().WithZone("")
	p, err := ip.Prefix(ip.BitLen())
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	once sync.Once
	done func()
}

// Close ends it.
func (c *counted) Close() error {
	c.once.Do(c.done)
	return c.Conn.Close()
}

// NewHTTPServer is one in which nobody who has not shown a right can hold a connection for long.
func NewHTTPServer(h http.Handler) *http.Server {
	const header, all, idle, most = 10 * time.Second, 30 * time.Second, time.Minute, 32 << 10
	return &http.Server{
		Handler: h, ReadHeaderTimeout: header, ReadTimeout: all, IdleTimeout: idle, MaxHeaderBytes: most,
	}
}

// unhurried lets a request that may be made last: the deadline for reading it would end what it asks for.
func unhurried(w http.ResponseWriter) {
	_ = http.NewResponseController(w).
		SetReadDeadline(time.Now().Add(longestAnswer + time.Minute))
	// a bound only
}
