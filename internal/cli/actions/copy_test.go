package actions

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/view/why"
)

// tree are the files below a folder, and what is in them.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		name, _ := filepath.Rel(folder, file)
		out[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCopyThereAndBack: a folder is the same after it was packed and unpacked, under another
// name.
func TestCopyThereAndBack(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(from, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a/x": "1", "a/b/y": "2"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "a", "link")); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	left, err := Pack(&packed, filepath.Join(from, "a"), "run")
	if err != nil || len(left) != 1 {
		t.Fatalf("left out %v, %v", left, err)
	}
	if _, err := Unpack(bytes.NewReader(packed.Bytes()), "run", filepath.Join(to, "new")); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(bytes.NewReader(packed.Bytes()), "run", to); err != nil { // into a folder that there is
		t.Fatal(err)
	}
	got := tree(t, to)
	for name, want := range map[string]string{"new/x": "1", "new/b/y": "2", "run/x": "1", "run/b/y": "2"} {
		if got[name] != want {
			t.Errorf("%s holds %q, want %q", name, got[name], want)
		}
	}
	if len(got) != 4 {
		t.Errorf("there are %v", got)
	}
}

// TestUnpackStaysWhereItIs: a pod sends what its owner likes, and writes nothing elsewhere.
func TestUnpackStaysWhereItIs(t *testing.T) {
	tests := map[string]struct {
		why    string
		header tar.Header
	}{
		"up":       {"", tar.Header{Name: "run/../../evil", Typeflag: tar.TypeReg}},
		"absolute": {"", tar.Header{Name: "/evil", Typeflag: tar.TypeReg}},
		"beside":   {"it was not asked for", tar.Header{Name: "runner/evil", Typeflag: tar.TypeReg}},
		"link": {
			"what is written through it would be elsewhere",
			tar.Header{Name: "run/evil", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		},
		"device": {"", tar.Header{Name: "run/evil", Typeflag: tar.TypeChar}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			to := filepath.Join(outer, "to")
			if err := os.Mkdir(to, 0o755); err != nil {
				t.Fatal(err)
			}
			var sent bytes.Buffer
			w := tar.NewWriter(&sent)
			for _, h := range []*tar.Header{{Name: "run/good", Typeflag: tar.TypeReg}, &tc.header} {
				if err := w.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			left, err := Unpack(&sent, "run", to)
			if err != nil || len(left) != 1 {
				t.Errorf("left out %v, %v: %s", left, err, tc.why)
			}
			if got := tree(t, outer); len(got) != 1 || !slices.Contains([]string{"to/run/good"}, first(got)) {
				t.Errorf("written are %v: %s", got, tc.why)
			}
		})
	}
	if _, err := Unpack(strings.NewReader(""), "run", t.TempDir()); err == nil {
		t.Error("nothing was sent, and that is no error")
	}
}

func first(m map[string]string) string {
	for name := range m {
		return name
	}
	return ""
}

func TestPick(t *testing.T) {
	pod := func(index int, phase corev1.PodPhase) *corev1.Pod {
		p := podOf(index, runs(), 0)
		p.Status.Phase = phase
		return p
	}
	tests := map[string]struct {
		why   string
		pods  []*corev1.Pod
		ranks string
		want  string // its name, or what the error says
	}{
		"rank 0": {"", []*corev1.Pod{pod(1, corev1.PodRunning), pod(0, corev1.PodRunning)}, "", "train-0"},
		"chosen": {"", []*corev1.Pod{pod(1, corev1.PodRunning), pod(0, corev1.PodRunning)}, "1", "train-1"},
		"0 is gone": {
			"another rank is not what was asked for",
			[]*corev1.Pod{pod(0, corev1.PodFailed), pod(1, corev1.PodRunning)},
			"",
			"choose another one with --rank, of 1",
		},
		"none":        {"", nil, "", "has no pods: it is waiting"},
		"none so far": {"", []*corev1.Pod{pod(0, corev1.PodPending)}, "", "of which none runs"},
	}
	for name, tc := range tests {
		j, w := job(2)
		target := &Target{JobObjects: why.JobObjects{Asked: train, Job: j, Workload: w}}
		for _, p := range tc.pods {
			target.Pods = append(target.Pods, *p)
		}
		m, err := Pick(target, "", rank(t, tc.ranks))
		if err == nil && m.Pod.Name != tc.want || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v; want %s: %s", name, m, err, tc.want, tc.why)
		}
	}
}

func TestPorts(t *testing.T) {
	p := &corev1.Pod{}
	p.Name = "head"
	p.Spec.Containers = []corev1.Container{
		{Name: "c", Ports: []corev1.ContainerPort{{Name: "dashboard", ContainerPort: 8265}}},
	}
	for typed, want := range map[string]string{
		"8265": "8265:8265", "9000:8265": "9000:8265", "dashboard": "8265:8265", "9000:dashboard": "9000:8265", ":8265": ":8265",
		"": "declares 8265 (dashboard)", "gcs": "is not [LOCAL:]REMOTE", "0": "is not", "70000": "is not", "1:2:3": "is not",
	} {
		ports, err := Ports(p, strings.Fields(typed))
		if err == nil && strings.Join(ports, " ") != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", typed, ports, err, want)
		}
	}
}
