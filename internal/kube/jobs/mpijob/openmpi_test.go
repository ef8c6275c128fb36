package mpijob_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/api/kubeflow/v2beta1"
)

// need finds a program, or skips the test with the name of its package.
func need(t *testing.T, program, debian string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + program); err != nil {
			t.Skipf("needs %s: install the Debian package %s", program, debian)
		}
	}
	return path
}

// mpirun starts four processes by Open MPI with exactly the variables that the launcher of a
// job is given. Only folders are others, and more is what differs here.
func mpirun(t *testing.T, j *v2beta1.MPIJob, dir string, more ...string) {
	t.Helper()
	program := need(t, "mpirun", "openmpi-bin")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(
		ctx,
		program,
		"-np",
		"4",
		"sh",
		"-c",
		"echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on node $OMPI_MCA_orte_ess_vpid",
	)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + dir,
		"TMPDIR=" + dir,
		"OMPI_ALLOW_RUN_AS_ROOT=1",
		"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
	}
	for _, e := range member(t, j, "launcher", 0).Spec.Containers[0].Env {
		cmd.Env = append(cmd.Env, e.Name+"="+strings.ReplaceAll(e.Value, "/etc/mpi", dir))
	}
	cmd.Env = append(cmd.Env, more...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for rank := range 4 { // two on each of the workers, by the slots that they have
		if want := fmt.Sprintf("rank %d of 4 ", rank); strings.Count(string(out), want) != 1 {
			t.Errorf("%swas not started once:\n%s", want, out)
		}
	}
}

// TestOpenMPIBySSH: mpirun finds the workers of a job of v2beta1 by our list of hosts and is let
// in by our keys. There is one sshd for all of them, and no DNS: ssh is told where it is.
func TestOpenMPIBySSH(t *testing.T) {
	need(t, "mpirun", "openmpi-bin")
	need(t, "ssh", "openssh-client")
	j := decode(t, "slotsPerWorker: 2, PAIR")
	dir := write(t, j)
	secret := keys(t)
	for _, item := range member(t, j, "worker", 0).Spec.Volumes[0].Secret.Items {
		if err := os.WriteFile(filepath.Join(dir, item.Path), secret.Data[item.Key], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := startSSHD(t, dir)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(
		"Host a-worker-0.a.b.svc a-worker-1.a.b.svc\n  HostName 127.0.0.1\n  Port %d\n  User %s\n  IdentityFile %s/id_rsa\n  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n  LogLevel ERROR\n",
		port,
		me.Username,
		dir,
	)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	mpirun(
		t,
		j,
		dir,
		"OMPI_MCA_plm_rsh_args=-F "+dir+"/config -o ConnectionAttempts=10",
		"OMPI_MCA_oob_tcp_if_include=lo",
		"OMPI_MCA_btl_tcp_if_include=lo",
	)
}

// startSSHD lets in who has the job's key, and returns the port.
func startSSHD(t *testing.T, dir string) int {
	t.Helper()
	program := need(t, "sshd", "openssh-server")
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Skipf("needs the folder /run/sshd: %v", err)
		}
	}
	hostKey := filepath.Join(dir, "host")
	if out, err := exec.CommandContext(
		t.Context(),
		need(t, "ssh-keygen", "openssh-client"),
		"-q",
		"-t",
		"ed25519",
		"-N",
		"",
		"-f",
		hostKey,
	).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, _ := l.Addr().(*net.TCPAddr)
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	log := filepath.Join(dir, "sshd.log")
	cmd := exec.CommandContext(
		ctx,
		program,
		"-D",
		"-f",
		"/dev/null",
		"-E",
		log,
		"-h",
		hostKey,
		"-p",
		fmt.Sprint(address.Port),
		"-o",
		"ListenAddress=127.0.0.1",
		"-o",
		"AuthorizedKeysFile="+dir+"/authorized_keys",
		"-o",
		"StrictModes=no",
		"-o",
		"PidFile=none",
		"-o",
		"UsePAM=no",
		"-o",
		"PasswordAuthentication=no",
		"-o",
		"PermitRootLogin=prohibit-password",
		"-o",
		"PermitUserEnvironment=no",
	)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("sshd says:\n%s", text)
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", address.String())
		if err == nil {
			_ = conn.Close() // it only had to be there
			return address.Port
		}
		if time.Now().After(deadline) {
			t.Fatalf("sshd does not answer: %v", err)
		}
	}
}

// TestOpenMPIByExec: mpirun starts processes in the workers of a job of v1 by our script. In
// place of kubectl is a program that runs the command here.
func TestOpenMPIByExec(t *testing.T) {
	need(t, "mpirun", "openmpi-bin")
	j := decode(t, "slotsPerWorker: 2, PAIR", "v1")
	dir := write(t, j)
	script, err := os.ReadFile(filepath.Join(dir, "kubexec.sh"))
	if err != nil {
		t.Fatal(err)
	}
	executable(t, filepath.Join(dir, "kubexec.sh"), strings.ReplaceAll(string(script), "/opt/kube", dir))
	executable(t, filepath.Join(dir, "kubectl"), `#!/bin/sh
echo "$*" >>`+dir+`/called
[ "$1" = exec ] && [ "$3" = --container ] && [ "$5" = -- ] || exit 2
shift 5
exec "$@"
`)
	mpirun(t, j, dir, "OMPI_MCA_oob_tcp_if_include=lo", "OMPI_MCA_btl_tcp_if_include=lo")
	called, err := os.ReadFile(filepath.Join(dir, "called"))
	if err != nil || !strings.Contains(string(called), "exec a-worker-0 --container mpi -- /bin/sh -c") ||
		!strings.Contains(string(called), "exec a-worker-1 ") {
		t.Errorf("kubectl was called otherwise (%v):\n%s", err, called)
	}
	files, _ := artifacts(t, j)["ConfigMap a-config"].Object.(*corev1.ConfigMap)
	if len(files.Data) != 3 {
		t.Errorf("files: %v", files.Data)
	}
}
