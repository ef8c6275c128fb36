package agent

import (
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// mostConnections are those that a port of an agent has at once: whoever reaches it may open some, and each costs
// memory of the node.
const mostConnections = 256

// Bounded is a listener with few connections at once. Others wait until one is closed.
func Bounded(l net.Listener) net.Listener { return netutil.LimitListener(l, mostConnections) }

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
