package realnode

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Ask asks for a page on the node itself, as its own processes would: over its loopback
// interface, whatever became of its cable. silent tells that there was no answer.
func (n Node) Ask(ctx context.Context, address, path string) (silent bool, err error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx, address) }
	cl := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return false, err
	}
	resp, err := cl.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s%s on %s says %s: %s", address, path, n.Name, resp.Status, body)
	}
	return false, nil
}

// AskContainerd says why containerd on the node does not take connections.
func (n Node) AskContainerd(ctx context.Context) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/%d/root%s", n.PID(), containerdSocket))
	if err != nil {
		return err
	}
	return c.Close()
}

// dial connects to an address on the node.
func (n Node) dial(ctx context.Context, address string) (c net.Conn, err error) {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.PID()))
	if err != nil {
		return nil, fmt.Errorf("%s does not run: %w", n.Name, err)
	}
	defer ns.Close()
	err = within(ns, func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, "tcp", address)
		return err
	})
	return c, err
}

// within does something in another network namespace, in a thread of its own.
func within(ns *os.File, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}
