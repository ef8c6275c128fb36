package realnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaces that processes have for themselves: a node, and the network of a cluster.
const (
	MachineNamespaces = unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	NetworkNamespaces = unix.CLONE_NEWNET
)

// Node is what a node is told about itself.
type Node struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Dir is its directory on the machine, Volumes and Archives the directories that all nodes of
	// the cluster share.
	Dir      string `json:"dir"`
	Volumes  string `json:"volumes"`
	Archives string `json:"archives"`
	// Cgroup is where its pods are counted, in all hierarchies.
	Cgroup string `json:"cgroup"`
	// GPUs is how many it pretends to have.
	GPUs int64 `json:"gpus"`
	// CPUs and Memory (bytes) are what its kubelet says that it has; zero is what the
	// machine has.
	CPUs   int64 `json:"cpus"`
	Memory int64 `json:"memory"`
}

// Where things are, as the node's programs see it.
const (
	inside        = "/var/lib/mlbatch"
	insideEtc     = inside + "/etc"
	insideVolumes = inside + "/volumes"
	insideArchive = inside + "/archives"

	containerdSocket = "/run/containerd/containerd.sock"
	imageSocket      = "/run/mlbatch-images.sock"
	kubeletDir       = "/var/lib/kubelet"
)

// Etc is the directory of the node's configuration on the machine.
func (n Node) Etc() string { return filepath.Join(n.Dir, "etc") }

// pidFile holds the process that is the node, and is locked by it; readyFile is locked
// once others may run on it.
func (n Node) pidFile() string   { return filepath.Join(n.Dir, "pid") }
func (n Node) readyFile() string { return filepath.Join(n.Dir, "ready") }

// Ready says why nothing can run on the node yet.
func (n Node) Ready() error {
	if !locked(n.readyFile()) {
		return fmt.Errorf("%s is being set up", n.Name)
	}
	return nil
}

// PID is the process that is the node, zero if there is none.
func (n Node) PID() int {
	if !locked(n.pidFile()) {
		return 0
	}
	text, err := os.ReadFile(n.pidFile())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// locked reports whether a process that lives has locked a file.
func locked(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// keepLocked writes a file and locks it until this process ends, however it does.
func keepLocked(file, content string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		return err
	}
	// Whoever only looks has it for a moment; so this waits.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", file, err)
	}
	kept = append(kept, f)
	return nil
}

// kept keeps the files open that are locked.
var kept []*os.File //nolint:gochecknoglobals // what this process holds, until it ends

// Working says why a program is not ready that locks a file once it is.
func Working(file string) error {
	if !locked(file) {
		return errors.New("it is starting")
	}
	return nil
}
