package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
	"github.com/mlbatch/mlbatch/internal/local/pki"
)

// layout names the files of a data directory.
type layout struct{ dir string }

func (l layout) path(name ...string) string {
	return filepath.Join(append([]string{l.dir}, name...)...)
}

func (l layout) marker() string        { return l.path("mlbatch.json") }
func (l layout) lock() string          { return l.path("lock") }
func (l layout) state() string         { return l.path("cluster.json") }
func (l layout) kubeconfig() string    { return l.path("kubeconfig") }
func (l layout) pki() string           { return l.path("pki") }
func (l layout) tokens() string        { return l.path("pki", "tokens.csv") }
func (l layout) etcd() string          { return l.path("etcd") }
func (l layout) logs() string          { return l.path("logs") }
func (l layout) webhookCerts() string  { return l.path("webhook") }
func (l layout) prometheus() string    { return l.path("prometheus") }
func (l layout) flights() string       { return l.path("flights") }
func (l layout) configuration() string { return l.path("configuration.yaml") }
func (l layout) admission() string     { return l.path("admission.json") }
func (l layout) auditPolicy() string   { return l.path("audit-policy.json") }
func (l layout) kubeconfigOf(component string) string {
	return l.path("kubeconfigs", component+".kubeconfig")
}

func (l layout) log(component string) string { return l.path("logs", component+".log") }

// marker is the file that makes a directory ours. Complete is set before the
// first process starts: where it is false, there is no data yet. A marker that
// cannot be read says no more than that the directory is ours.
type marker struct {
	Complete bool      `json:"complete"`
	Created  time.Time `json:"created"`
	// Tutorial says that the tutorial's objects were created; they belong to
	// the administrator from then on.
	Tutorial bool `json:"tutorial"`
	// Runtime is what runs the pods; older clusters have simulated nodes and do not say so.
	Runtime Runtime `json:"runtime,omitempty"`
	// Empty says that the first start left the tutorial out; later ones do too.
	Empty bool `json:"empty,omitempty"`
	// Bare says that it is a cluster without mlbatch.
	Bare bool `json:"bare,omitempty"`
	// Schema is how the directory is laid out, see schema; directories without it are from
	// before it was written down. Kubernetes is the version, such as 1.36, whose objects
	// etcd has stored.
	Schema     int    `json:"schema,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
}

// schema is how this program lays out data directories. It grows when an older program
// would not come up on what a newer one leaves, or would do harm; what has to be done to an
// older directory then goes into readOrBegin. A directory of each schema is kept in
// test/upgrade/testdata, and has to come up.
const schema = 1

// LeftEmpty reports whether the first start of the cluster in a data directory left
// the tutorial out.
func LeftEmpty(dir string) bool {
	m, err := layout{dir: dir}.readMarker()
	return err == nil && m.Empty
}

// IsBare reports whether the cluster in a data directory was made without mlbatch.
func IsBare(dir string) bool {
	m, err := layout{dir: dir}.readMarker()
	return err == nil && m.Bare
}

// open makes the directory if needed, takes its lock, and checks what is in
// it. The returned file holds the lock until it is closed.
func (l layout) open(now time.Time) (*os.File, marker, error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, marker{}, fmt.Errorf("make the data directory: %w", err)
	}
	if err := l.checkForeign(); err != nil {
		return nil, marker{}, err
	}
	if err := l.checkAge(); err != nil {
		return nil, marker{}, err
	}
	lock, err := l.takeLock()
	if err != nil {
		return nil, marker{}, err
	}
	m, err := l.readOrBegin(now)
	if err != nil {
		lock.Close()
		return nil, marker{}, err
	}
	return lock, m, nil
}

// takeLock locks the directory for this process. The kernel lets go of it
// when the process ends, however that happens.
func (l layout) takeLock() (*os.File, error) {
	f, err := os.OpenFile(l.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	// A process that only looks (holder) has the lock for a moment.
	for range 5 {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		<-clock.RealClock{}.After(10 * time.Millisecond)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := os.ReadFile(l.lock())
		f.Close()
		return nil, fmt.Errorf("%w: %s runs a cluster as process %s; stop it with: mlbatch down --data-dir %s",
			ErrInUse, l.dir, strings.TrimSpace(string(holder)), l.dir)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	return f, nil
}

// holder is the process that holds the lock, zero if none does. An error means
// that it cannot be said: the directory is another user's.
func (l layout) holder() (int, error) {
	f, err := os.Open(l.lock())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("see whether a cluster runs: %w; do it as the user who started it", err)
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return 0, nil
	}
	b, err := os.ReadFile(l.lock())
	if err != nil {
		return 0, fmt.Errorf("see whether a cluster runs: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, nil // it has just been taken, and nothing runs yet
	}
	return pid, nil
}

// checkForeign refuses a directory that holds files and no marker.
func (l layout) checkForeign() error {
	if _, err := os.Stat(l.marker()); err == nil {
		return nil
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	// A lock alone is a start that was cut off before it wrote anything, or
	// that runs right now.
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == filepath.Base(l.lock()) })
	if len(entries) > 0 {
		return fmt.Errorf(
			"%w: %s is not empty (it holds %s) and was not made by mlbatch; choose another with --data-dir, or empty it",
			ErrForeign,
			l.dir,
			entries[0].Name(),
		)
	}
	return nil
}

// checkAge refuses a directory that another program has to start: a newer one, or one that
// comes between that which last ran it and this one. Nothing is changed then.
func (l layout) checkAge() error {
	m, err := l.readMarker()
	if err != nil {
		return nil //nolint:nilerr // it is new, or what is damaged is made anew
	}
	if m.Schema > schema {
		return fmt.Errorf(
			"%w: %s was last run by a newer mlbatch (state %d, and this program knows up to %d): start it with that mlbatch or a newer one, or choose another directory with --data-dir",
			ErrAge,
			l.dir,
			m.Schema,
			schema,
		)
	}
	has, known := minor(m.Kubernetes)
	brings, _ := minor(kubeversion.Release)
	switch {
	case !known || has == brings || has+1 == brings:
		return nil
	case has > brings:
		return fmt.Errorf(
			"%w: %s was last run with Kubernetes %s, and this program brings %s, which may not read what a newer one stored: start it with a mlbatch that brings %s or the next, or choose another directory with --data-dir",
			ErrAge,
			l.dir,
			m.Kubernetes,
			release(brings),
			m.Kubernetes,
		)
	}
	return fmt.Errorf(
		"%w: %s was last run with Kubernetes %s, and this program brings %s; Kubernetes goes up one version at a time: start it once with a mlbatch that brings %s, or choose another directory with --data-dir",
		ErrAge,
		l.dir,
		m.Kubernetes,
		release(brings),
		release(has+1),
	)
}

// minor is the second number of a version of Kubernetes, such as v1.36.0.
func minor(version string) (int, bool) {
	var n int
	_, err := fmt.Sscanf(strings.TrimPrefix(version, "v"), "1.%d", &n)
	return n, err == nil
}

func release(minor int) string { return "1." + strconv.Itoa(minor) }

// stamp writes down who runs a directory from now on, if that is not there.
func (l layout) stamp(m *marker) error {
	was := *m
	brings, _ := minor(kubeversion.Release)
	m.Schema, m.Kubernetes = schema, release(brings)
	if *m == was {
		return nil
	}
	return l.writeMarker(*m)
}

// readOrBegin reads the marker, or writes an incomplete one. What a first start
// that was cut off left is made anew: no process ran yet, so that nothing is lost.
func (l layout) readOrBegin(now time.Time) (marker, error) {
	m, err := l.readMarker()
	switch {
	case errors.Is(err, os.ErrNotExist):
		m = marker{Created: now.UTC().Truncate(time.Second)}
		return m, l.writeMarker(m)
	case errors.Is(err, errDamaged):
		// What etcd has stored tells that the first start was complete. Its objects
		// belong to the administrator by now.
		m = marker{Complete: l.hasData(), Created: now.UTC().Truncate(time.Second), Tutorial: l.hasData()}
		err = l.writeMarker(m)
	}
	if err != nil {
		return marker{}, err
	}
	if !m.Complete {
		err = os.RemoveAll(l.pki())
	}
	if err != nil {
		return marker{}, fmt.Errorf("begin again after a start that was cut off: %w", err)
	}
	return m, nil
}

// hasData reports whether etcd has stored anything.
func (l layout) hasData() bool {
	_, err := os.Stat(filepath.Join(l.etcd(), "member"))
	return err == nil
}

// errDamaged means that a file holds something else than it should. The files that
// it is about hold hints: they are worth no more than starting without them.
var errDamaged = errors.New("damaged")

// readJSON reads a file that holds hints.
func readJSON(file string, into any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read %s: %w: %w", file, errDamaged, err)
	}
	return nil
}

func (l layout) readMarker() (marker, error) {
	var m marker
	if err := readJSON(l.marker(), &m); err != nil {
		return marker{}, err
	}
	return m, nil
}

func (l layout) writeMarker(m marker) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", l.marker(), err)
	}
	return pki.WriteFile(l.marker(), append(b, '\n'))
}

// Delete removes a data directory. It refuses one that mlbatch did not make,
// or that is in use.
func Delete(dir string) error {
	l := layout{dir: dir}
	if _, err := os.Stat(l.marker()); err != nil {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: %s does not exist", ErrNoCluster, dir)
		}
		if errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("delete the data directory: %w; do it as the user who started the cluster", err)
		}
		return fmt.Errorf("%w: %s was not made by mlbatch and is left alone", ErrForeign, dir)
	}
	lock, err := l.takeLock()
	if err != nil {
		return err
	}
	defer lock.Close()
	sweeping, cancel := context.WithTimeout(
		context.Background(), //nolint:forbidigo // what was asked for is done
		dyingTimeout,
	)
	defer cancel()
	if err := l.sweepStopped(sweeping); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("delete the data directory: %w", err)
	}
	return nil
}
