package pki

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestIssuedCertificatesWorkTogether(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	ca, err := Open(dir, "ca", now)
	if err != nil {
		t.Fatal(err)
	}
	server := issue(
		t,
		ca,
		Leaf{Name: "server", User: "server", Hosts: []string{"127.0.0.1", "localhost"}, Usage: Server},
		now,
	)
	client := issue(t, ca, Leaf{Name: "client", User: "alice", Groups: []string{"a", "b"}, Usage: Client}, now)

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM())
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := r.TLS.PeerCertificates[0].Subject
		_, _ = io.WriteString(w, s.CommonName+" "+s.Organization[0]+" "+s.Organization[1])
	}))
	srv.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair(t, server)},
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}
	srv.StartTLS()
	defer srv.Close()
	cl := &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair(t, client)}},
		},
	}
	resp, err := cl.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if diff := cmp.Diff("alice a b", string(body)); diff != "" {
		t.Errorf("subject seen by the server (-want +got):\n%s", diff)
	}
}

func TestFilesAreKeptOrRenewed(t *testing.T) {
	now := time.Now()
	base := Leaf{Name: "x", User: "u", Hosts: []string{"127.0.0.1"}, Usage: Server}
	tests := map[string]struct {
		why  string
		then Leaf
		at   time.Time
		kept bool
	}{
		"again": {"a restarted cluster keeps its identity", base, now.Add(time.Hour), true},
		"near end": {
			"an old data directory must still work",
			base,
			now.Add(lifetime - renewBefore + time.Hour),
			false,
		},
		"other user": {
			"the subject is what the API server trusts",
			Leaf{Name: "x", User: "v", Hosts: base.Hosts, Usage: Server},
			now,
			false,
		},
		"other hosts": {
			"clients would refuse the server",
			Leaf{Name: "x", User: "u", Hosts: []string{"localhost"}, Usage: Server},
			now,
			false,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ca, err := Open(dir, "ca", now)
			if err != nil {
				t.Fatal(err)
			}
			before := read(t, issue(t, ca, base, now).Cert)
			again, err := Open(dir, "ca", tc.at)
			if err != nil {
				t.Fatal(err)
			}
			after := read(t, issue(t, again, tc.then, tc.at).Cert)
			if kept := before == after; kept != tc.kept {
				t.Errorf("kept = %v, want %v: %s", kept, tc.kept, tc.why)
			}
		})
	}
}

func TestTokensAreKept(t *testing.T) {
	dir := t.TempDir()
	token := func(name string) string {
		t.Helper()
		token, err := Token(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	first := token("a")
	if len(first) < 43 {
		t.Errorf("a token of %d characters can be guessed", len(first))
	}
	if again := token("a"); again != first {
		t.Error("a restarted cluster would not know its own components")
	}
	if other := token("b"); other == first {
		t.Error("two components have one token")
	}
	if err := os.WriteFile(filepath.Join(dir, "a.token"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if anew := token("a"); anew == first || len(anew) != len(first) {
		t.Errorf("an empty file gives the token %q", anew)
	}
	if info, err := os.Stat(filepath.Join(dir, "a.token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token can be read by others: %v, %v", info.Mode(), err)
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	ca, err := Open(dir, "ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issue(t, ca, Leaf{Name: "x", User: "u", Usage: Client}, time.Now())
	if _, err := SigningKey(dir, "sa"); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 5 {
		t.Errorf("files = %v, want 5", files)
	}
	for _, f := range files {
		fi, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", f, fi.Mode())
		}
	}
}

func TestExpiredAuthorityIsAnError(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, "ca", time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "ca", time.Now().Add(lifetime+time.Hour)); err == nil {
		t.Error("an expired authority was opened without an error")
	}
}

func issue(t *testing.T, ca *Authority, l Leaf, now time.Time) Pair {
	t.Helper()
	p, err := ca.Issue(l, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func pair(t *testing.T, p Pair) tls.Certificate {
	t.Helper()
	c, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
