package local

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

func TestDataDirErrors(t *testing.T) {
	marked := func(m marker) func(layout) error {
		return func(l layout) error {
			return errors.Join(os.MkdirAll(l.dir, 0o700), l.writeMarker(m))
		}
	}
	var held *os.File
	tests := map[string]struct {
		why   string
		setUp func(l layout) error
		want  error
		says  string
	}{
		"new":   {"a new directory is made", func(layout) error { return nil }, nil, ""},
		"empty": {"an empty one is fine", func(l layout) error { return os.MkdirAll(l.dir, 0o700) }, nil, ""},
		"foreign": {
			"no files of others are touched",
			func(l layout) error {
				return errors.Join(os.MkdirAll(l.dir, 0o700), os.WriteFile(l.path("thesis.tex"), nil, 0o600))
			}, ErrForeign, "thesis.tex",
		},
		"cut off": {
			"a first start that was killed has stored nothing, and is made again",
			marked(marker{}), nil, "",
		},
		"keys lost": {
			"what is stored does not depend on them",
			marked(marker{Complete: true}), nil, "",
		},
		"before schemas": {
			"it is from a program that did not write down its schema, and is read",
			marked(marker{Complete: true, Tutorial: true}), nil, "",
		},
		"newer": {
			"a newer program may have stored what this one would misread",
			marked(marker{Complete: true, Schema: schema + 1}), ErrAge, "start it with that mlbatch or a newer one",
		},
		"same Kubernetes": {
			"it is what this program stores",
			marked(marker{Complete: true, Schema: schema, Kubernetes: around(0)}),
			nil,
			"",
		},
		"Kubernetes before": {
			"Kubernetes goes up one version",
			marked(marker{Complete: true, Schema: schema, Kubernetes: around(-1)}), nil, "",
		},
		"newer Kubernetes": {
			"it may have stored objects in versions that this one does not know",
			marked(
				marker{Complete: true, Schema: schema, Kubernetes: around(1)},
			),
			ErrAge,
			"with a mlbatch that brings " + around(1),
		},
		"old Kubernetes": {
			"versions that it stored may not be known any more",
			marked(
				marker{Complete: true, Schema: schema, Kubernetes: around(-3)},
			),
			ErrAge,
			"once with a mlbatch that brings " + around(-2),
		},
		"in use": {
			"two clusters on one directory would destroy it",
			func(l layout) (err error) { held, _, err = l.open(time.Now()); return err },
			ErrInUse, strconv.Itoa(os.Getpid()),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := layout{dir: filepath.Join(t.TempDir(), "data")}
			if err := tc.setUp(l); err != nil {
				t.Fatal(err)
			}
			lock, _, err := l.open(time.Now())
			if lock != nil {
				lock.Close()
			}
			if !errors.Is(err, tc.want) || tc.want != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error = %v, want %v that says %q: %s", err, tc.want, tc.says, tc.why)
			}
		})
	}
	held.Close()
}

// around is a version of Kubernetes so many after the one that this program brings.
func around(n int) string {
	brings, _ := minor(kubeversion.Release)
	return release(brings + n)
}

// A directory that is refused for its age is left as it is, and one that is started says who
// runs it.
func TestAgeOfDataDir(t *testing.T) {
	l := layout{dir: t.TempDir()}
	if err := l.writeMarker(marker{Complete: true, Schema: schema + 1}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(l.marker())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.open(time.Now()); !errors.Is(err, ErrAge) {
		t.Fatalf("error = %v, want %v", err, ErrAge)
	}
	entries, err := os.ReadDir(l.dir)
	if after, _ := os.ReadFile(l.marker()); err != nil || len(entries) != 1 || string(after) != string(before) {
		t.Errorf("a refused directory was changed: %v, %s, %v", entries, after, err)
	}
	m := marker{Complete: true}
	if err := l.stamp(&m); err != nil {
		t.Fatal(err)
	}
	if read, err := l.readMarker(); err != nil || read.Schema != schema || read.Kubernetes != around(0) ||
		!read.Complete {
		t.Errorf("the marker is %+v, %v", read, err)
	}
}

// A crash of the machine may leave files empty or cut short. Those that only help
// to resume are worth nothing then; what etcd has stored is what counts, and no
// message ever advises to delete it.
func TestDamagedFilesAreNoReasonToStop(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "cut short": `{"complete": tr`, "zeros": "\x00\x00\x00", "something else": "[1]"} {
		t.Run(name, func(t *testing.T) {
			l := layout{dir: t.TempDir()}
			for _, f := range []string{l.marker(), l.state()} {
				if err := os.WriteFile(f, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(t, l.path("pki", "ca.key"))
			write(t, l.path("etcd", "member", "db"))
			lock, m, err := l.open(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			lock.Close()
			if !m.Complete || !m.Tutorial {
				t.Errorf(
					"the marker of a directory with data is %+v, want a complete one whose objects are the administrator's",
					m,
				)
			}
			if _, err := os.Stat(l.path("pki", "ca.key")); err != nil {
				t.Errorf("the authority of a cluster with data: %v", err)
			}
			if again, err := l.readMarker(); err != nil || again != m {
				t.Errorf("the marker was not mended: %+v, %v", again, err)
			}
			if st, err := ReadState(l.dir); err != nil || st.Phase != Stopped || !st.Fleet.CPU.IsZero() {
				t.Errorf("state = %+v, %v; want stopped, and no nodes known", st, err)
			}
			if ran, err := Shutdown(t.Context(), l.dir); ran || err != nil {
				t.Errorf("down = %v, %v; want nothing to do", ran, err)
			}
		})
	}
}

// Before the first start was complete, nothing is stored that could be lost.
func TestFirstStartIsMadeAgain(t *testing.T) {
	l := layout{dir: t.TempDir()}
	begin(t, l, marker{})
	if err := os.MkdirAll(l.pki(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.path("pki", "ca.key"), nil, 0o600); err != nil { // cut off
		t.Fatal(err)
	}
	lock, m, err := l.open(time.Now())
	if err != nil || m.Complete {
		t.Fatalf("marker = %+v, %v; want an incomplete one", m, err)
	}
	defer lock.Close()
	if _, err := makeIdentities(l, time.Now(), &Config{}, nil); err != nil {
		t.Errorf("certificates after a start that was cut off: %v", err)
	}
}

// A user who may not look does not know that nothing runs.
func TestUnreadableDirectoryIsNotStopped(t *testing.T) {
	l := layout{dir: t.TempDir()}
	begin(t, l, marker{Complete: true})
	if err := os.Symlink(l.lock(), l.lock()); err != nil { // cannot be opened, not even by root
		t.Fatal(err)
	}
	if st, err := ReadState(l.dir); err == nil {
		t.Errorf("state is %v, though that cannot be known", st.Phase)
	}
	if ran, err := Shutdown(t.Context(), l.dir); ran || err == nil {
		t.Errorf("down says %v, %v, though that cannot be known", ran, err)
	}
}

// The message names what to do, and that the data stays.
func TestDamagedKeysNameTheCure(t *testing.T) {
	for _, file := range []string{"ca.key", "ca.crt", "etcd-ca.key", "front-proxy-ca.crt", "service-accounts.key"} {
		t.Run(file, func(t *testing.T) {
			l := layout{dir: t.TempDir()}
			if _, err := makeIdentities(l, time.Now(), &Config{}, nil); err != nil {
				t.Fatal(err)
			}
			damaged := l.path("pki", file)
			if err := os.Truncate(damaged, 0); err != nil {
				t.Fatal(err)
			}
			_, err := makeIdentities(l, time.Now(), &Config{}, nil)
			if err == nil {
				t.Fatal("an empty key is good enough")
			}
			for _, word := range []string{damaged, "remove", "the data stays"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not say %q: %v", word, err)
				}
			}
			base := strings.TrimSuffix(strings.TrimSuffix(damaged, ".key"), ".crt")
			_ = os.Remove(base + ".key")
			_ = os.Remove(base + ".crt")
			if _, err := makeIdentities(l, time.Now(), &Config{}, nil); err != nil {
				t.Errorf("what the message advises does not help: %v", err)
			}
		})
	}
}

func TestDataDirIsPrivate(t *testing.T) {
	l := layout{dir: filepath.Join(t.TempDir(), "a", "b")}
	lock, _, err := l.open(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	id, err := makeIdentities(l, time.Now(), &Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.writeKubeconfigs(l, 1234, nil); err != nil {
		t.Fatal(err)
	}
	err = filepath.Walk(l.dir, func(path string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v; others may look", path, fi.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDelete(t *testing.T) {
	foreign := layout{dir: t.TempDir()}
	write(t, foreign.path("thesis.tex"))
	if err := Delete(foreign.dir); !errors.Is(err, ErrForeign) {
		t.Errorf("deleting another user's directory: %v, want ErrForeign", err)
	}
	if _, err := os.Stat(foreign.path("thesis.tex")); err != nil {
		t.Error("another user's file is gone")
	}
	ours := layout{dir: t.TempDir()}
	begin(t, ours, marker{})
	if err := Delete(ours.dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ours.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if err := Delete(ours.dir); !errors.Is(err, ErrNoCluster) {
		t.Errorf("deleting nothing: %v, want ErrNoCluster", err)
	}
}

func TestPorts(t *testing.T) {
	ln, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().(*net.TCPAddr).Port
	if _, _, err := choosePorts(
		t.Context(),
		Ports{},
		taken,
	); !errors.Is(err, ErrPortInUse) ||
		!strings.Contains(err.Error(), "--api-port") {
		t.Errorf("a wanted port that is taken: %v, want ErrPortInUse with the cure", err)
	}
	first, held, err := choosePorts(t.Context(), Ports{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	held.release()
	again, held, err := choosePorts(t.Context(), first, 0)
	if err != nil || again != first {
		t.Errorf("ports of the second start = %+v, %v; want those of the first, %+v", again, err, first)
	}
	held.release()
	moved := first
	moved.Etcd = taken
	again, held, err = choosePorts(t.Context(), moved, 0)
	if err != nil || again.Etcd == taken || again.API != first.API {
		t.Errorf("ports = %+v, %v; want only the taken one changed", again, err)
	}
	held.release()
}

// The processes of a cluster that was killed may outlive it for a moment; its
// ports are worth waiting for, because copies of the kubeconfig name them.
func TestPortsOfAKilledCluster(t *testing.T) {
	dying, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	last := Ports{API: dying.Addr().(*net.TCPAddr).Port}
	var kernel sync.WaitGroup
	kernel.Go(func() { dying.Close() })
	last.awaitFree(t.Context())
	kernel.Wait()
	p, held, err := choosePorts(t.Context(), last, 0)
	if err != nil || p.API != last.API {
		t.Errorf("API port = %d, %v; want the one of the last run, %d", p.API, err, last.API)
	}
	held.release()

	stranger, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	taken := Ports{API: stranger.Addr().(*net.TCPAddr).Port}
	taken.awaitFree(impatient) // returns
}

// A port that is taken must not spoil a new directory.
func TestPortInUseLeavesNoHalfWrittenDirectory(t *testing.T) {
	ln, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	port := ln.Addr().(*net.TCPAddr).Port
	if _, err := Start(
		t.Context(),
		Config{DataDir: dir, Parts: APIOnly, APIPort: port},
	); !errors.Is(
		err,
		ErrPortInUse,
	) {
		t.Fatalf("error = %v, want ErrPortInUse", err)
	}
	ln.Close()
	c, err := Start(t.Context(), Config{DataDir: dir, Parts: APIOnly, APIPort: port})
	if err != nil {
		t.Fatal(err)
	}
	if c.Ports().API != port {
		t.Errorf("the API server listens on port %d, want %d", c.Ports().API, port)
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file string) {
	t.Helper()
	mkdir(t, filepath.Dir(file))
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, l layout, m marker) {
	t.Helper()
	mkdir(t, l.dir)
	if err := l.writeMarker(m); err != nil {
		t.Fatal(err)
	}
}
