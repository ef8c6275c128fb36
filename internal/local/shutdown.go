package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Shutdown stops the cluster that another process runs in a data directory,
// and says whether there was one. When ctx ends first, the process is killed,
// and all components with it.
func Shutdown(ctx context.Context, dir string) (ran bool, err error) {
	l := layout{dir: dir}
	if _, err := os.Stat(l.marker()); errors.Is(err, os.ErrPermission) {
		return false, fmt.Errorf("stop the cluster in %s: %w; do it as the user who started it", dir, err)
	} else if err != nil {
		return false, fmt.Errorf("%w: %s", ErrNoCluster, dir)
	}
	pid, err := l.holder()
	if err != nil {
		return false, err
	}
	if pid == 0 { // it may have been killed
		return false, l.sweepStopped(ctx)
	}
	defer func() {
		if err == nil {
			err = l.sweepStopped(context.WithoutCancel(ctx))
		}
	}()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return true, fmt.Errorf("stop process %d: %w; do it as the user who started it", pid, err)
	}
	if l.waitFree(ctx) == nil {
		return true, nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return true, fmt.Errorf("kill process %d: %w", pid, err)
	}
	killed, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := l.waitFree(killed); err != nil {
		return true, fmt.Errorf("process %d was killed and still holds %s", pid, dir)
	}
	return true, nil
}

// waitFree waits until no process uses the directory.
func (l layout) waitFree(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		pid, err := l.holder()
		return pid == 0, err
	})
}
