package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

const cgroups = "/sys/fs/cgroup"

// checkKernel says what the kernel lacks.
func checkKernel() error {
	have := hierarchies()
	if len(have) == 0 {
		return fmt.Errorf("%w: %s is not there: mount the cgroup file system", ErrUnable, cgroups)
	}
	if unified() {
		return nil
	}
	for _, need := range []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "freezer", "devices"} {
		if !slices.ContainsFunc(
			have,
			func(h string) bool { return slices.Contains(strings.Split(filepath.Base(h), ","), need) },
		) {
			return fmt.Errorf("%w: the cgroup controller %s is not mounted below %s", ErrUnable, need, cgroups)
		}
	}
	return nil
}

// unified reports whether all controllers are in one hierarchy (cgroup v2).
func unified() bool {
	var s unix.Statfs_t
	return unix.Statfs(cgroups, &s) == nil && s.Type == unix.CGROUP2_SUPER_MAGIC
}

// hierarchies are the directories at the root of each.
func hierarchies() []string {
	if unified() {
		return []string{cgroups}
	}
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() { // links are other names for the same
			all = append(all, filepath.Join(cgroups, e.Name()))
		}
	}
	return all
}

// makeCgroup makes a cgroup in all hierarchies, as kubelets expect to find it.
func makeCgroup(name string) error {
	for _, root := range hierarchies() {
		at := root
		for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
			parent := at
			at = filepath.Join(at, part)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make a cgroup: %w", err)
			}
			if unified() {
				if err := passOn(parent); err != nil {
					return err
				}
				continue
			}
			// A new cpuset has no processors and takes no process.
			for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
				if err := inherit(parent, at, f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// passOn lets children of a cgroup have all controllers that it has.
func passOn(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read a cgroup: %w", err)
	}
	for c := range strings.FieldsSeq(string(have)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return fmt.Errorf("hand on cgroup controller %s: %w", c, err)
		}
	}
	return nil
}

func inherit(parent, child, file string) error {
	want, err := os.ReadFile(filepath.Join(parent, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another hierarchy
	}
	if err != nil {
		return fmt.Errorf("read a cgroup: %w", err)
	}
	if has, err := os.ReadFile(filepath.Join(child, file)); err == nil && len(bytes.TrimSpace(has)) > 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(child, file), want, 0o644); err != nil {
		return fmt.Errorf("set up a cgroup: %w", err)
	}
	return nil
}

// sweepTimeout is how long processes of a node that was killed may take to vanish.
const sweepTimeout = 15 * time.Second

// Sweep removes a cgroup and all below it. Its processes are gone or about to be: they
// end with the process that was their node.
// The network of the cluster is waited for.
func Sweep(ctx context.Context, name string, s Subnet) error {
	var last error
	_ = wait.PollUntilContextTimeout(
		ctx,
		50*time.Millisecond,
		sweepTimeout,
		true,
		func(context.Context) (bool, error) {
			last = nil
			for _, root := range hierarchies() {
				last = errors.Join(last, removeCgroup(filepath.Join(root, name)))
			}
			if s.Valid() && !interfaceGone(s) {
				last = errors.Join(last, fmt.Errorf("interface %s is still there", machineInterface(s)))
			}
			return last == nil, nil
		},
	)
	return last
}

// removeCgroup removes the children first: a cgroup that has some cannot be removed.
func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove a cgroup: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a cgroup: %w", err)
	}
	return nil
}
