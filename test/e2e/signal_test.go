package e2e_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What kubectl serves ends as people end it.
func TestKubectlProxyEnds(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd := exec.Command(cluster.Binary, "kubectl", "proxy", "--port=0")
			cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(cluster.Dir, "kubeconfig"))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil ||
				!strings.HasPrefix(line, "Starting to serve") {
				t.Fatalf("kubectl proxy says %q, %v", line, err)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			_ = cmd.Wait() // the signal is its error
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() ||
				status.Signal() != sig {
				t.Errorf("kubectl proxy ended with %v, want %v", cmd.ProcessState, sig)
			}
		})
	}
}
