// Package rig runs the mlbatch binary for tests the way a user does: it builds
// it, types "mlbatch up", and works with the kubeconfig that comes out. The
// cluster ends with the process that started it.
package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// flagsVariable holds further flags for every "mlbatch up" of a test run, e.g.
// --stock-api-server: what holds with the API server of mlbatch has to hold with
// that of a real cluster.
const flagsVariable = "MLBATCH_UP_FLAGS"

// binaryVariable names a program that was built already, for who runs a test again and
// again: linking it takes longer than many a test.
const binaryVariable = "MLBATCH_TEST_BINARY"

// Cluster is a running "mlbatch up".
type Cluster struct {
	// Binary is the built program, Dir its data directory.
	Binary, Dir string
	// Took is how long it took from the command to being ready.
	Took time.Duration

	work string // removed in the end
	// auditLog, if set, is where each "mlbatch up" notes who asked for what.
	auditLog string
	log      io.Writer
	image    string // what Install installs
	up       *exec.Cmd
	rest     *rest.Config
}

// Component is one line of "mlbatch status".
type Component struct {
	Name     string `json:"name"`
	PID      int    `json:"pid"`
	Restarts int    `json:"restarts"`
	Health   string `json:"health"`
	// MemoryBytes is what the process holds in memory, its share of what
	// several processes map counted as a share.
	MemoryBytes int64 `json:"memoryBytes"`
}

// Start builds the program, starts a cluster with the arguments of "mlbatch up"
// and returns when it is ready. What the program prints goes to log.
func Start(ctx context.Context, log io.Writer, args ...string) (*Cluster, error) {
	c, err := Build(ctx, log)
	if err != nil {
		return nil, err
	}
	return c.started(ctx, args)
}

// StartAudited is Start, with a note of all requests to the API server (see Asked).
func StartAudited(ctx context.Context, log io.Writer, args ...string) (*Cluster, error) {
	c, err := Build(ctx, log)
	if err != nil {
		return nil, err
	}
	c.auditLog = filepath.Join(c.work, "audit.log")
	return c.started(ctx, args)
}

func (c *Cluster) started(ctx context.Context, args []string) (*Cluster, error) {
	if err := c.begin(ctx, args...); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Build builds the program and starts nothing. Open starts a cluster.
func Build(ctx context.Context, log io.Writer) (*Cluster, error) {
	work, err := os.MkdirTemp("", "mlbatch-test-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	c := &Cluster{Binary: filepath.Join(work, "mlbatch"), Dir: filepath.Join(work, "data"), work: work, log: log}
	if err := c.build(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Open types "mlbatch up" on a data directory that others made, and returns when the cluster is
// ready. The directory is the caller's to remove.
func (c *Cluster) Open(ctx context.Context, dir string, args ...string) error {
	c.Dir = dir
	return c.begin(ctx, args...)
}

// Another starts a second cluster from the same program, with data of its own.
func (c *Cluster) Another(ctx context.Context, log io.Writer, args ...string) (*Cluster, error) {
	work, err := os.MkdirTemp("", "mlbatch-test-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	other := &Cluster{Binary: c.Binary, Dir: filepath.Join(work, "data"), work: work, log: log}
	if err := other.begin(ctx, args...); err != nil {
		return nil, errors.Join(err, other.Stop())
	}
	return other, nil
}

func (c *Cluster) build(ctx context.Context) error {
	if built := os.Getenv(binaryVariable); built != "" {
		c.Binary = built
		return nil
	}
	//nolint:gosec // the path is of our own making
	cmd := exec.CommandContext(ctx, "go", "build", "-o", c.Binary, "github.com/mlbatch/mlbatch/cmd/mlbatch")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build mlbatch: %w\n%s", err, out)
	}
	return nil
}

// Restart types "mlbatch up" again after Crash, and returns when the cluster is
// ready.
func (c *Cluster) Restart(ctx context.Context) error { return c.begin(ctx) }

// begin types "mlbatch up" with further arguments.
func (c *Cluster) begin(ctx context.Context, args ...string) error {
	begin := time.Now()
	var audit []string
	if c.auditLog != "" {
		audit = []string{"--audit-log", c.auditLog}
	}
	//nolint:gosec,noctx // it is the program under test, and Stop ends it
	c.up = exec.Command(
		c.Binary,
		slices.Concat(
			[]string{"up", "--data-dir", c.Dir},
			audit,
			args,
			strings.Fields(os.Getenv(flagsVariable)),
		)...)
	c.up.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.up.Stderr = c.log
	out, err := c.up.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start mlbatch up: %w", err)
	}
	if err := c.up.Start(); err != nil {
		return fmt.Errorf("start mlbatch up: %w", err)
	}
	if err := awaitReady(ctx, out, c.log); err != nil {
		return err
	}
	c.Took = time.Since(begin)
	c.rest, err = clientcmd.BuildConfigFromFlags("", filepath.Join(c.Dir, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	c.rest.QPS = -1
	return nil
}

// awaitReady copies what the program prints until it says that it is ready, and
// goes on copying in the background.
func awaitReady(ctx context.Context, out io.Reader, log io.Writer) error {
	ready := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(log, lines.Text())
			if strings.HasPrefix(lines.Text(), "The cluster is ready") {
				ready <- nil
			}
		}
		ready <- errors.New("mlbatch up ended before it was ready")
	}()
	select {
	case err := <-ready:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for mlbatch up: %w", ctx.Err())
	}
}

// RESTConfig is the admin's access, without throttling.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// Run types a command of mlbatch and returns what it prints.
func (c *Cluster) Run(ctx context.Context, args ...string) (string, error) {
	return c.RunWith(ctx, c.Binary, args...)
}

// RunWith types a command of another mlbatch.
func (c *Cluster) RunWith(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // it is a program under test
	cmd.Env = append(os.Environ(), "MLBATCH_DATA_DIR="+c.Dir, "KUBECONFIG="+filepath.Join(c.Dir, "kubeconfig"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("mlbatch %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// Components reads "mlbatch status". Where mlbatch was installed, the programs that run in pods are
// among them.
func (c *Cluster) Components(ctx context.Context) ([]Component, error) {
	out, err := c.Run(ctx, "status", "-o", "json")
	if out == "" { // with an output, the error says that something is not ready
		return nil, err
	}
	var status struct {
		Components []Component `json:"components"`
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		return nil, fmt.Errorf("read mlbatch status: %w\n%s", err, out)
	}
	for i := range status.Components {
		if c := &status.Components[i]; c.Name == "kube-scheduler" {
			c.Name = "scheduler" // whichever there is (--stock-scheduler)
		}
	}
	if c.image == "" {
		return status.Components, nil
	}
	pods, err := c.programs(ctx)
	return append(status.Components, pods...), err
}

// componentPatience is how long nothing may move while a component comes back.
const componentPatience = time.Minute

// Aim returns a function that ends the running processes of some components at
// the same time, as a crash would. They come back by themselves: one that is
// just coming back from an earlier crash is waited for, as a cluster that can
// be shot at again.
func (c *Cluster) Aim(ctx context.Context, names ...string) (fire func(), err error) {
	var pids []int
	err = Await(ctx, componentPatience, func(ctx context.Context) error {
		all, err := c.Components(ctx)
		if err != nil {
			return err
		}
		pids = pids[:0]
		for _, p := range all {
			if slices.Contains(names, p.Name) && p.PID != 0 {
				pids = append(pids, p.PID)
			}
		}
		if len(pids) != len(names) {
			return fmt.Errorf("of %v only processes %v run", names, pids)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // one that is gone already is dead, too
		}
	}, nil
}

// Kill ends a component as a crash would. It comes back by itself; back waits until it is ready
// again.
func (c *Cluster) Kill(ctx context.Context, name string) (back func(context.Context) error, err error) {
	fire, err := c.Aim(ctx, name)
	if err != nil {
		return nil, err
	}
	before, err := c.component(ctx, name)
	if err != nil {
		return nil, err
	}
	fire()
	return func(ctx context.Context) error {
		return Await(ctx, componentPatience, func(ctx context.Context) error {
			is, err := c.component(ctx, name)
			if err == nil && (is.Restarts <= before.Restarts || is.Health != "ready") {
				err = fmt.Errorf(
					"%s has restarted %d times, %d before it was killed, and is %s",
					name,
					is.Restarts,
					before.Restarts,
					is.Health,
				)
			}
			return err
		})
	}, nil
}

func (c *Cluster) component(ctx context.Context, name string) (Component, error) {
	all, err := c.Components(ctx)
	if err != nil {
		return Component{}, err
	}
	i := slices.IndexFunc(all, func(x Component) bool { return x.Name == name })
	if i < 0 {
		return Component{}, fmt.Errorf("there is no component %s", name)
	}
	return all[i], nil
}

// Crash kills "mlbatch up" itself and returns when no component is left. The
// data stays, for Restart.
func (c *Cluster) Crash(ctx context.Context) error {
	all, err := c.Components(ctx)
	if err != nil {
		return err
	}
	if err := c.up.Process.Kill(); err != nil {
		return fmt.Errorf("kill mlbatch up: %w", err)
	}
	_ = c.up.Wait() // killed is what it shall be
	for _, p := range all {
		if err := awaitEnd(ctx, p.PID); err != nil {
			return fmt.Errorf("%s outlives its parent: %w", p.Name, err)
		}
	}
	return nil
}

// awaitEnd returns when a process, possibly a stranger's child, has ended. One
// that no process has waited for yet is a zombie, without memory.
func awaitEnd(ctx context.Context, pid int) error {
	return wait.PollUntilContextTimeout(
		ctx,
		10*time.Millisecond,
		componentPatience,
		true,
		func(context.Context) (bool, error) {
			memory, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
			return err != nil || //nolint:nilerr // no such process is what we wait for
				strings.HasPrefix(string(memory), "0 "), nil
		},
	)
}

// Stop ends the cluster and removes its data.
func (c *Cluster) Stop() error {
	return errors.Join(c.End(), os.RemoveAll(c.work))
}

// End ends the cluster, and leaves its directory and the program.
func (c *Cluster) End() error {
	if c.up == nil || c.up.Process == nil {
		return nil
	}
	if err := c.up.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop mlbatch up: %w", err)
	}
	_ = c.up.Wait() // it ends by a signal, which is no news
	c.up = nil
	return nil
}
