package upgrade

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// unpack brings a kept data directory back.
func unpack(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			err = write(path, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func write(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// Today's program comes up on what earlier ones left: jobs that ran go on with their pods, those
// that waited wait, and are started when there is room; what was decided is decided again. The
// archives are made by keep.sh.
func TestDataDirectoriesOfEarlierPrograms(t *testing.T) {
	files, err := filepath.Glob("testdata/schema-*.tar.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no data directories are kept: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := unpack(t, file)
			if text, err := program.Run(t.Context(), "replay", filepath.Join(dir, "flights")); err != nil {
				t.Errorf("what was decided: %v\n%s", err, text)
			}
			r, c := up(t, dir)
			want, err := os.ReadFile(filepath.Join(dir, "pods"))
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the pods run", func() string {
				have := ""
				for name, pod := range podsOf(t, c, "blue") {
					if !strings.Contains(string(want), name+" "+string(pod.UID)+"\n") ||
						pod.Status.Phase != corev1.PodRunning {
						return fmt.Sprintf("pod %s is %s, %s; there were\n%s", name, pod.UID, pod.Status.Phase, want)
					}
					have += name
				}
				if n := strings.Count(string(want), "\n"); n != 3 || len(podsOf(t, c, "blue")) != n {
					return "of the pods there are " + have
				}
				return ""
			})
			var waits batchv1.Job
			if err := c.Get(
				t.Context(),
				types.NamespacedName{Namespace: "blue", Name: "waits"},
				&waits,
			); err != nil ||
				!*waits.Spec.Suspend {
				t.Errorf("the job that waits: %v", err)
			}
			if text, err := r.Run(t.Context(), "cancel", "blue/runs", "blue/wrapped", "--yes", "--wait"); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			eventually(t, "the job that waits starts", func() string {
				if err := c.Get(
					t.Context(),
					types.NamespacedName{Namespace: "blue", Name: "waits"},
					&waits,
				); err != nil || *waits.Spec.Suspend ||
					waits.Status.Active == 0 {
					return fmt.Sprintf("%v, %+v", err, waits.Status)
				}
				return ""
			})
		})
	}
}

// A directory that a newer program ran is refused, and says by which program it is started.
func TestNewerDataDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(
		filepath.Join(dir, "mlbatch.json"),
		[]byte(`{"complete": true, "schema": 99}`),
		0o600,
	); err != nil {
		t.Fatal(err)
	}
	r := *program
	r.Dir = dir
	out, err := r.Run(t.Context(), "up", "--data-dir", dir)
	if err == nil || !strings.Contains(err.Error(), "was last run by a newer mlbatch (state 99") ||
		!strings.Contains(err.Error(), "or choose another directory with --data-dir") {
		t.Errorf("%v\n%s", err, out)
	}
}
