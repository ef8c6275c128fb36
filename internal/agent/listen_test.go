package agent

import (
	"net"
	"testing"
	"time"
)

// One host may not fill the port for all others.
func TestOneHostCannotFillThePort(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bounded := Bounded(l)
	defer bounded.Close()
	accepted := make(chan net.Conn, 2*mostOfOne)
	go func() {
		for {
			c, err := bounded.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	var first net.Conn
	for range mostOfOne {
		dial("127.0.0.1")
		first = <-accepted
	}
	refused := dial("127.0.0.1")
	_ = refused.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := refused.Read(make([]byte, 1)); err == nil {
		t.Error("one more than a host may have was served")
	}
	dial("127.0.0.2")
	if c := <-accepted; origin(c.RemoteAddr()).String() != "127.0.0.2/32" {
		t.Errorf("%s is served, want the other host", c.RemoteAddr())
	}
	_ = first.Close()
	_ = first.Close() // twice is once
	dial("127.0.0.1")
	<-accepted
}

func TestHostsOfAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7:1": "192.0.2.7/32", "[2001:db8::1]:1": "2001:db8::1/128", "[::ffff:192.0.2.7]:1": "192.0.2.7/32",
		"[fe80::1%eth0]:1": "fe80::1/128",
	} {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := origin(a).String(); got != want {
			t.Errorf("%s is of %s, want %s", address, got, want)
		}
	}
}
