package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// cniPlugins is where Debian puts the plugins of the pod network.
const cniPlugins = "/usr/lib/cni"

// pathOf is where programs of Debian's packages may be.
func pathOf() []string { return []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin"} }

// needed are the programs that real nodes run, and the Debian packages that have them.
func needed() []struct{ program, pkg string } {
	return []struct{ program, pkg string }{
		{"containerd", "containerd"},
		{"ctr", "containerd"},
		{"containerd-shim-runc-v2", "containerd"},
		{"runc", "runc"},
		{cniPlugins + "/ptp", "containernetworking-plugins"},
		{cniPlugins + "/host-local", "containernetworking-plugins"},
		{cniPlugins + "/portmap", "containernetworking-plugins"},
		{"nft", "nftables"},
		{"iptables", "iptables"},
		{"mount", "mount"},
		{"/bin/busybox", "busybox-static"},
	}
}

// ErrUnable means that this machine cannot run real nodes as it is.
var ErrUnable = errors.New("real pods cannot run here")

// Check says what the machine lacks for real nodes, and what to do about it.
func Check() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: they need Linux", ErrUnable)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf(
			"%w: containers, their networks and mounts need root: type it as root, or with sudo",
			ErrUnable,
		)
	}
	var packages, lacking []string
	for _, n := range needed() {
		if find(n.program) != "" {
			continue
		}
		lacking = append(lacking, filepath.Base(n.program))
		if len(packages) == 0 || packages[len(packages)-1] != n.pkg {
			packages = append(packages, n.pkg)
		}
	}
	if len(lacking) > 0 {
		return fmt.Errorf(
			"%w: there is no %s: on Debian, apt-get install %s",
			ErrUnable,
			strings.Join(lacking, ", "),
			strings.Join(packages, " "),
		)
	}
	return checkKernel()
}

// find is where a program is, "" if it is not there.
func find(program string) string {
	if filepath.IsAbs(program) {
		if _, err := os.Stat(program); err != nil {
			return ""
		}
		return program
	}
	for _, dir := range pathOf() {
		if p, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return p
		}
	}
	return ""
}

// Containerd is the path of containerd.
func Containerd() string { return find("containerd") }
