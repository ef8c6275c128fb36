package upgrade

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A first start that is killed at any moment, again and again, leaves nothing that a later one does not come
// up on.
func TestUpComesUpAfterFirstStartsThatWereKilled(t *testing.T) {
	const kills, longest = 5, 20 * time.Second
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "data")
	for range kills {
		cmd := exec.Command(program.Binary, "up", "--data-dir", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		moment := time.Duration(random.Int64N(int64(longest)))
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			t.Fatalf("a start before was killed, and this one ends by itself: %v", err)
		case <-time.After(moment):
		}
		t.Logf("killed after %v", moment)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended //nolint:errcheck // it was killed
	}
	r := *program // with the same words: what a start before began is completed by one that means the same
	if err := r.Open(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.End(); err != nil {
			t.Error(err)
		}
	})
	// Its controller answers once the lease of the one that was killed is over.
	eventually(t, "nothing is wrong", func() string {
		if text, err := r.Run(t.Context(), "doctor"); err != nil {
			return err.Error() + "\n" + text
		}
		return ""
	})
}
