package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The test binary plays the children and, for TestNoOrphans, a supervisor.
func TestMain(m *testing.M) {
	switch os.Getenv("SUPERVISE_TEST_ROLE") {
	case "sleep":
		time.Sleep(time.Hour)
	case "fail":
		fmt.Println("cannot find my shoes")
		os.Exit(3)
	case "parent":
		actAsParent()
	}
	os.Exit(m.Run())
}

func actAsParent() {
	s := New(func() {})
	for i := range 3 {
		_ = s.Start(sleeper(os.Getenv("SUPERVISE_TEST_DIR"), "c"+strconv.Itoa(i)))
	}
	for {
		pids := ""
		for _, st := range s.Status() {
			if st.Health == Ready {
				pids += strconv.Itoa(st.PID) + " "
			}
		}
		if len(strings.Fields(pids)) == 3 {
			fmt.Println(pids)
			time.Sleep(time.Hour)
		}
		time.Sleep(time.Millisecond)
	}
}

func sleeper(dir, name string) Spec {
	self, _ := os.Executable()
	return Spec{
		Name: name, Path: self, Args: []string{self}, Env: []string{"SUPERVISE_TEST_ROLE=sleep"},
		LogFile: filepath.Join(dir, name+".log"), Grace: 5 * time.Second,
	}
}

func TestPauses(t *testing.T) {
	tests := map[string]struct {
		why    string
		deaths int
		want   time.Duration
	}{
		"first":  {"an accident should hardly be noticed", 1, 100 * time.Millisecond},
		"second": {"it doubles", 2, 200 * time.Millisecond},
		"sixth":  {"and doubles", 6, 3200 * time.Millisecond},
		"many":   {"but never waits longer than a user would watch", 50, 10 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pause(tc.deaths)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
	if got := deathsAfter(7, healthyAfter); got != 1 {
		t.Errorf("deaths after a long run = %d, want 1", got)
	}
}

func TestKilledChildComesBack(t *testing.T) {
	s := New(func() {})
	t.Cleanup(func() { s.Stop(context.Background()) })
	start(t, s, sleeper(t.TempDir(), "a"))
	before := s.Status()[0]
	if err := s.Kill("a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if st := s.Status()[0]; st.Health != Ready || st.PID == before.PID || st.Restarts != 1 {
			return fmt.Errorf("status is %+v, want ready with one restart", st)
		}
		return nil
	})
	if err := s.Kill("b"); !errors.Is(err, ErrUnknown) {
		t.Errorf("killing an unknown component: %v, want ErrUnknown", err)
	}
}

func TestStopGoesByStage(t *testing.T) {
	var s *Supervisor
	var mu sync.Mutex
	var order []string
	s = New(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, st := range s.Status() {
			if st.Health == Stopped && !slices.Contains(order, st.Name) {
				order = append(order, st.Name)
			}
		}
	})
	dir := t.TempDir()
	base, top := sleeper(dir, "base"), sleeper(dir, "top")
	top.Stage = 1
	start(t, s, base)
	start(t, s, top)
	pids := []int{s.Status()[0].PID, s.Status()[1].PID}
	s.Stop(t.Context())
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"top", "base"}, order); diff != "" {
		t.Errorf("what others need stops last (-want +got):\n%s", diff)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d still runs after Stop", pid)
		}
	}
	if err := s.Start(sleeper(dir, "late")); err == nil {
		t.Error("a process could be started after Stop")
	}
}

func TestHopelessChildIsExplained(t *testing.T) {
	s := New(func() {})
	t.Cleanup(func() { s.Stop(context.Background()) })
	spec := sleeper(t.TempDir(), "bad")
	spec.Env = []string{"SUPERVISE_TEST_ROLE=fail"}
	spec.Probe = func(context.Context) error { return errors.New("not up") }
	if err := s.Start(spec); err != nil {
		t.Fatal(err)
	}
	err := s.WaitReady(t.Context(), "bad")
	if err == nil || !strings.Contains(err.Error(), "cannot find my shoes") {
		t.Errorf("error = %v, want one that quotes the log", err)
	}
}

func TestFailingProbeShows(t *testing.T) {
	s := New(func() {})
	t.Cleanup(func() { s.Stop(context.Background()) })
	spec := sleeper(t.TempDir(), "a")
	spec.Probe = func(context.Context) error { return errors.New("not yet") }
	if err := s.Start(spec); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if st := s.Status()[0]; st.Health != Starting || st.Message != "not yet" {
			return fmt.Errorf("status is %+v, want starting with the probe's error", st)
		}
		return nil
	})
}

// A process that was ready and answers nothing any more, as one that is stopped by
// a signal, comes back by itself. One that answers that it is not ready stays.
func TestHungProcessIsRestarted(t *testing.T) {
	s := New(func() {})
	t.Cleanup(func() { s.Stop(context.Background()) })
	var silent, unready atomic.Bool
	spec := sleeper(t.TempDir(), "hung")
	spec.Hung = time.Second
	spec.Probe = func(context.Context) error {
		if silent.Load() {
			return fmt.Errorf("%w: timeout", ErrSilent)
		}
		return nil
	}
	start(t, s, spec)
	other := sleeper(t.TempDir(), "unready")
	other.Hung = time.Second
	other.Probe = func(context.Context) error {
		if unready.Load() {
			return errors.New("not ready: waits for etcd")
		}
		return nil
	}
	start(t, s, other)
	first := s.Status()[0].PID
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	silent.Store(true)
	unready.Store(true)
	eventually(t, func() error {
		if st := s.Status()[0]; st.Restarts == 0 || st.PID == 0 || st.PID == first {
			return fmt.Errorf("it was not started again: %+v", st)
		}
		return nil
	})
	if alive(first) {
		t.Error("the hung process is still there")
	}
	eventually(t, func() error {
		if st := s.Status()[1]; st.Restarts == 0 && st.Health != Unhealthy {
			return fmt.Errorf("it is not known to be unhealthy yet: %+v", st)
		}
		return nil
	})
	if st := s.Status()[1]; st.Restarts != 0 {
		t.Errorf("a process that answers was restarted: %+v", st)
	}
}

// On a machine with too much to do, answers come too late from processes that work.
func TestBusyProcessIsNotHung(t *testing.T) {
	self := os.Getpid()
	began := silenceSince(time.Now(), self)
	for processorTime(self) < began.used+200*time.Millisecond { // work
	}
	lasted := began.since.Add(time.Second) // in which it worked for a fifth of the time
	if began.hung(lasted, self, time.Second) {
		t.Error("a process that works counts as hung")
	}
	if !began.hung(began.since.Add(patienceWithBusy*time.Second), self, time.Second) {
		t.Error("a process that works without end and without an answer is never given up")
	}
	idle := silence{since: began.since, used: processorTime(self)}
	if !idle.hung(began.since.Add(time.Minute), self, time.Minute) ||
		idle.hung(began.since.Add(time.Minute), self, 0) {
		t.Error("a process that does nothing counts as hung after its time, where one is given")
	}
	if idle.hung(began.since.Add(time.Minute-1), self, time.Minute) {
		t.Error("a process is given up too soon")
	}
}

// Whatever happens to the parent, its children go with it.
func TestNoOrphans(t *testing.T) {
	self, _ := os.Executable()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "SUPERVISE_TEST_ROLE=parent", "SUPERVISE_TEST_DIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids [3]int
	if _, err := fmt.Fscan(out, &pids[0], &pids[1], &pids[2]); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, func() error {
		for _, pid := range pids {
			if alive(pid) {
				return fmt.Errorf("child %d outlives its killed parent", pid)
			}
		}
		return nil
	})
}

func TestLogsStaySmall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.log")
	f, err := openLog(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, _ = f.WriteString(strings.Repeat("x", 100))
	if err := rotate(file, 50); err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("new\n")
	if got := tail(file, 5); got != "new" {
		t.Errorf("log after rotation = %q, want only what was written since", got)
	}
	if old, _ := os.ReadFile(file + ".1"); len(old) != 100 {
		t.Errorf("old log has %d bytes, want 100", len(old))
	}
}

func start(t *testing.T, s *Supervisor, spec Spec) {
	t.Helper()
	if err := s.Start(spec); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// A zombie that no process waits for is dead.
	return err == nil && syscall.Kill(pid, 0) == nil && !strings.Contains(string(b), ") Z ")
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// TestInside: what runs in the namespaces of another process sees what that one sees,
// ends with it, and is started again once it is back.
func TestInside(t *testing.T) {
	for name, namespaces := range map[string]uintptr{
		"machine": syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		"network": syscall.CLONE_NEWNET, // the kernel ends nothing with it
	} {
		t.Run(name, func(t *testing.T) { runInside(t, namespaces) })
	}
}

func runInside(t *testing.T, namespaces uintptr) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making namespaces needs root")
	}
	s := New(func() {})
	t.Cleanup(func() { s.Stop(context.Background()) })
	dir := t.TempDir()
	leader, inside := sleeper(dir, "leader"), sleeper(dir, "inside")
	leader.Namespaces = namespaces
	inside.Inside = "leader"
	if err := s.Start(inside); !errors.Is(err, ErrUnknown) {
		t.Fatalf("it was started without its leader: %v", err)
	}
	start(t, s, leader)
	start(t, s, inside)
	before := s.Status()
	for _, kind := range []string{"pid", "net", "mnt"} {
		ours, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		var of [2]string
		for i, st := range before {
			if of[i], err = os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", st.PID, kind)); err != nil {
				t.Fatal(err)
			}
		}
		if of[0] != of[1] || (of[0] == ours) != (namespaces == syscall.CLONE_NEWNET && kind != "net") {
			t.Errorf("the leader has %s, what is inside %s, we %s", of[0], of[1], ours)
		}
	}
	if err := s.Kill("leader"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if alive(before[1].PID) {
			return fmt.Errorf("process %d outlives its leader", before[1].PID)
		}
		for i, st := range s.Status() {
			if st.Health != Ready || st.PID == before[i].PID {
				return fmt.Errorf("%s is not back: %+v", st.Name, st)
			}
		}
		return nil
	})
}
