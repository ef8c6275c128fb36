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
	if _, err := os.Stat(l.marker()); err != nil {
		return false, fmt.Errorf("%w: %s", ErrNoCluster, dir)
	}
	pid := l.holder()
	if pid == 0 {
		return false, nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return true, fmt.Errorf("stop process %d: %w", pid, err)
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

// waitFree waits until nobody uses the directory.
func (l layout) waitFree(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		return l.holder() == 0, nil
	})
}
