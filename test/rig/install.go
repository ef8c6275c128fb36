package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// StartBare starts a cluster with real nodes and without mlbatch, whose nodes have the image
// that Install installs. image makes that of the program as it is here, which takes minutes the
// first time, and half a minute from then on.
func StartBare(ctx context.Context, log io.Writer, args ...string) (*Cluster, error) {
	c, err := Build(ctx, log)
	if err != nil {
		return nil, err
	}
	archive, err := c.makeImage(ctx)
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if c, err = c.started(ctx, append([]string{"--bare", "--runtime=containerd"}, args...)); err != nil {
		return nil, err
	}
	if err := c.Import(archive); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// archives is where nodes look for images.
func (c *Cluster) archives() string { return filepath.Join(c.Dir, "archives") }

// Import gives nodes an image, from an archive.
func (c *Cluster) Import(archive string) error {
	data, err := os.ReadFile(archive)
	if err != nil {
		return fmt.Errorf("read an image: %w", err)
	}
	to := filepath.Join(c.archives(), filepath.Base(archive))
	// What is complete has the name that nodes look for.
	if err := os.WriteFile( //nolint:gosec // the directory is of our own making
		to+".part",
		data,
		0o600,
	); err != nil {
		return fmt.Errorf("give nodes an image: %w", err)
	}
	if err := os.Rename(to+".part", to); err != nil {
		return fmt.Errorf("give nodes an image: %w", err)
	}
	return nil
}

// makeImage writes the image of the tree as it is for this machine's platform, as "make images" does, and
// returns the archive.
func (c *Cluster) makeImage(ctx context.Context) (string, error) {
	root, err := sources(ctx)
	if err != nil {
		return "", err
	}
	archive, image, err := images(ctx, root, "")
	c.image = image
	return archive, err
}

// sources is where this repository is.
func sources(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// images writes the image of a tree for this machine's platform, of a version if one is given, and returns
// the archive and the image's name.
func images(ctx context.Context, root, version string) (archive, image string, err error) {
	cmd := exec.CommandContext(ctx, ".ci/images")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PLATFORMS=linux/"+runtime.GOARCH, "VERSION="+version)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", "", fmt.Errorf("make the image: %w\n%s", err, out.String())
	}
	// The last line is the archive and the name of the image.
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) != 2 {
		return "", "", fmt.Errorf("make the image: it says %q", out.String())
	}
	return filepath.Join(root, fields[0]), fields[1], nil
}

// Release is a version of the program, as it runs in clusters.
type Release struct {
	// Program is its command, Image what nodes know it by.
	Program, Image string
}

// Release makes a version of the program from a commit of this repository, or from the tree as it is for
// "", and gives nodes its image.
func (c *Cluster) Release(ctx context.Context, commit, version string) (Release, error) {
	root, err := sources(ctx)
	if err != nil {
		return Release{}, err
	}
	if commit != "" {
		tree := filepath.Join(c.work, "tree-"+version)
		if out, err := exec.CommandContext( //nolint:gosec // it is the tester's word
			ctx,
			"git",
			"-C",
			root,
			"worktree",
			"add",
			"--detach",
			tree,
			commit,
		).CombinedOutput(); err != nil {
			return Release{}, fmt.Errorf("look at commit %s: %w: %s", commit, err, out)
		}
		defer func() {
			_ = exec.CommandContext( //nolint:gosec // what stays is in a folder that is removed
				context.WithoutCancel(ctx),
				"git",
				"-C",
				root,
				"worktree",
				"remove",
				"--force",
				tree,
			).Run()
		}()
		script, err := os.ReadFile(filepath.Join(root, ".ci", "images"))
		if err != nil {
			return Release{}, fmt.Errorf("read how images are made: %w", err)
		}
		if err := os.WriteFile( //nolint:gosec // it is run
			filepath.Join(tree, ".ci", "images"),
			script,
			0o700,
		); err != nil {
			return Release{}, fmt.Errorf("say how images are made: %w", err)
		}
		root = tree
	}
	archive, image, err := images(ctx, root, version)
	if err != nil {
		return Release{}, err
	}
	program, err := os.ReadFile(filepath.Join(root, "dist", "mlbatch-linux-"+runtime.GOARCH))
	if err != nil {
		return Release{}, fmt.Errorf("take the program: %w", err)
	}
	r := Release{Program: filepath.Join(c.work, "mlbatch-"+version), Image: image}
	if err := os.WriteFile(r.Program, program, 0o700); err != nil { //nolint:gosec // it is run
		return Release{}, fmt.Errorf("take the program: %w", err)
	}
	return r, c.Import(archive)
}

// Install types "mlbatch install" with further arguments, and returns what it says.
func (c *Cluster) Install(ctx context.Context, args ...string) (string, error) {
	return c.Run(ctx, append([]string{"install", "--image=" + c.image}, args...)...)
}

// Image is the name of the image that Install installs.
func (c *Cluster) Image() string { return c.image }

// programs are the installed programs, as processes of this machine.
func (c *Cluster) programs(ctx context.Context) ([]Component, error) {
	out, err := c.Run(ctx, "kubectl", "get", "pods", "-n", "mlbatch-system", "-o", "json")
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := json.Unmarshal([]byte(out), &pods); err != nil {
		return nil, fmt.Errorf("read pods: %w", err)
	}
	processes, err := processes()
	if err != nil {
		return nil, err
	}
	var all []Component
	for _, p := range pods.Items {
		one := Component{Name: p.Labels["app.kubernetes.io/component"], PID: processes[p.Name]}
		for _, s := range p.Status.ContainerStatuses {
			one.Restarts += int(s.RestartCount)
			if s.Ready {
				one.Health = "ready"
			}
		}
		switch {
		case one.PID != 0:
			if one.MemoryBytes, err = resident(one.PID); err != nil {
				return nil, err
			}
		case one.Health == "ready":
			return nil, fmt.Errorf("pod %s is ready, and no process of this machine is in it", p.Name)
		}
		all = append(all, one)
	}
	return all, nil
}

// processes are those of this machine that run in pods, by the names of these, which containers have
// in their environment.
func processes() (map[string]int, error) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	out := map[string]int{}
	for _, at := range environments {
		data, err := os.ReadFile(at)
		if err != nil {
			continue // it has ended
		}
		for variable := range strings.SplitSeq(string(data), "\x00") {
			pod, is := strings.CutPrefix(variable, "HOSTNAME=")
			if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(at))); is && (out[pod] == 0 || pid < out[pod]) {
				out[pod] = pid // the first one of a container
			}
		}
	}
	return out, nil
}

// resident is what a process holds in memory, in bytes.
func resident(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("read its memory: %w", err)
	}
	f := strings.Fields(string(data))
	if len(f) < 2 {
		return 0, fmt.Errorf("its memory is %q", data)
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read its memory: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}
