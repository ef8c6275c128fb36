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
			"nobody's files are touched",
			func(l layout) error {
				return errors.Join(os.MkdirAll(l.dir, 0o700), os.WriteFile(l.path("thesis.tex"), nil, 0o600))
			}, ErrForeign, "thesis.tex",
		},
		"cut off": {
			"a first start that was killed left an incomplete marker",
			marked(marker{}), ErrHalfWritten, "mlbatch down --delete",
		},
		"keys lost": {
			"a cluster without its authority cannot resume",
			marked(marker{Complete: true}), ErrHalfWritten, "ca.key",
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

func TestDataDirIsPrivate(t *testing.T) {
	l := layout{dir: filepath.Join(t.TempDir(), "a", "b")}
	lock, _, err := l.open(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	id, err := makeIdentities(l, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := id.writeKubeconfigs(l, 1234); err != nil {
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
		t.Errorf("deleting somebody's directory: %v, want ErrForeign", err)
	}
	if _, err := os.Stat(foreign.path("thesis.tex")); err != nil {
		t.Error("somebody's file is gone")
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
	if _, _, err := choosePorts(t.Context(), Ports{}, taken); !errors.Is(err, ErrPortInUse) || !strings.Contains(err.Error(), "--api-port") {
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
	if _, err := Start(t.Context(), Config{DataDir: dir, Parts: APIOnly, APIPort: port}); !errors.Is(err, ErrPortInUse) {
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
