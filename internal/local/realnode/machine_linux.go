//go:build !noembed

package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// uplink is the node's interface to the others.
const uplink = "eth0"

// Machine is the program that is a node. It must have MachineNamespaces for itself.
func Machine(ctx context.Context, args []string) error {
	var n Node
	f := flag.NewFlagSet("machine", flag.ContinueOnError)
	f.Func("node", "the node, as JSON", func(s string) error { return json.Unmarshal([]byte(s), &n) })
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// 1. Say who we are, by the number that others know: the network plugs us in.
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("find this process: %w", err)
	}
	if os.Getpid() != 1 {
		return errors.New("a node must be the first process of its PID namespace")
	}
	ready, err := os.OpenFile(n.readyFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	kept = append(kept, ready) // it is out of reach once the node has its own root
	if err := keepLocked(n.pidFile(), self); err != nil {
		return err
	}
	// 2. A root directory and a name of its own.
	if err := makeCgroup(n.Cgroup); err != nil {
		return err
	}
	if err := n.enterRoot(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(n.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	// 3. A network.
	if err := joinNetwork(ctx); err != nil {
		return err
	}
	if err := syscall.Flock(int(ready.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", n.readyFile(), err)
	}
	// 4. What a machine does: its devices are there, and who lost its parent has one.
	go offerGPUs(ctx, n.GPUs)
	reap(ctx)
	return nil
}

// reap takes in orphans that end: containerd's shims live longer than what starts them.
func reap(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
		}
	}
}

// joinNetwork sets up what the node itself has to, and waits for the rest.
func joinNetwork(ctx context.Context) error {
	if err := beginNetwork(); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		i, err := net.InterfaceByName(uplink)
		if err != nil || i.Flags&net.FlagUp == 0 {
			return false, nil //nolint:nilerr // it is not plugged in yet
		}
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, r := range routes {
			if err == nil && r.Gw != nil && (r.Dst == nil || r.Dst.IP.IsUnspecified()) {
				return true, nil
			}
		}
		return false, nil
	})
}

// mounting makes mounts until one fails.
type mounting struct {
	root string
	err  error
}

func (m *mounting) dir(path string) string {
	at := filepath.Join(m.root, path)
	if m.err == nil {
		m.err = os.MkdirAll(at, 0o755)
	}
	return at
}

func (m *mounting) mount(source, path, kind string, flags uintptr, data string) {
	at := m.dir(path)
	if m.err != nil {
		return
	}
	if err := unix.Mount(source, at, kind, flags, data); err != nil {
		m.err = fmt.Errorf("mount %s as %s: %w", source, path, err)
	}
}

// bind shows a directory of the machine, with what is mounted in it.
func (m *mounting) bind(source, path string) { m.mount(source, path, "", unix.MS_BIND|unix.MS_REC, "") }

// readOnly shows one that cannot be written.
func (m *mounting) readOnly(source, path string) {
	m.bind(source, path)
	if m.err == nil {
		m.mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
}

// own shows a directory of the node's own, which is made if it is not there.
func (m *mounting) own(source, path string) {
	if m.err == nil {
		m.err = os.MkdirAll(source, 0o755)
	}
	m.bind(source, path)
}

// enterRoot makes the node's root directory and enters it: the machine's programs, which
// cannot be written, and directories of its own for all else.
func (n Node) enterRoot() error {
	// What is mounted here is nobody else's business, and the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("have mounts of its own: %w", err)
	}
	m := &mounting{root: filepath.Join(n.Dir, "root")}
	m.mount("node", "/", "tmpfs", 0, "mode=0755")
	m.readOnly("/usr", "/usr")
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		m.sameAs(dir)
	}
	m.readOnly("/etc", "/etc")
	m.bind("/dev", "/dev")
	m.mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.bind(cgroups, cgroups)
	m.mount("run", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755")
	m.own(filepath.Join(n.Dir, "tmp"), "/tmp")
	m.dir("/var/tmp")
	m.dir("/root")
	m.own(filepath.Join(n.Dir, "kubelet"), kubeletDir)
	m.own(filepath.Join(n.Dir, "containerd"), "/var/lib/containerd")
	m.own(filepath.Join(n.Dir, "cni"), "/var/lib/cni")
	m.own(filepath.Join(n.Dir, "log"), "/var/log")
	m.own(n.Etc(), insideEtc)
	m.own(n.Volumes, insideVolumes)
	if err := os.MkdirAll(n.Archives, 0o700); err != nil {
		return err
	}
	m.readOnly(n.Archives, insideArchive)
	if m.err == nil {
		m.err = os.Symlink("/run", filepath.Join(m.root, "var", "run"))
	}
	m.keepKernel()
	if m.err != nil {
		return fmt.Errorf("make the node's root directory: %w", m.err)
	}
	return pivot(m.root)
}

// sameAs makes a directory at the root what it is on the machine: a link into /usr, or a
// directory.
func (m *mounting) sameAs(dir string) {
	target, err := os.Readlink(dir)
	switch {
	case m.err != nil:
	case err == nil:
		m.err = os.Symlink(target, filepath.Join(m.root, dir))
	case !errors.Is(err, fs.ErrNotExist):
		m.readOnly(dir, dir)
	}
}

// keepKernel hides settings of the kernel that a kubelet changes, and that are the whole
// machine's: it finds them as it wants them.
func (m *mounting) keepKernel() {
	for setting, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		shown := filepath.Join(m.dir("/run/sysctl"), filepath.Base(setting))
		if m.err == nil {
			m.err = os.WriteFile(shown, []byte(value+"\n"), 0o644)
		}
		if m.err == nil {
			m.err = unix.Mount(shown, filepath.Join(m.root, "proc/sys", setting), "", unix.MS_BIND, "")
		}
	}
}

// pivot makes a directory the root of all processes here and lets go of the machine's.
func pivot(root string) error {
	const old = ".machine"
	if err := os.MkdirAll(filepath.Join(root, old), 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(root, filepath.Join(root, old)); err != nil {
		return fmt.Errorf("enter the node's root directory: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/"+old, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's root directory: %w", err)
	}
	if err := os.Remove("/" + old); err != nil {
		return err
	}
	// Mounts of kubelets reach containers that ask for it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts with containers: %w", err)
	}
	return nil
}
