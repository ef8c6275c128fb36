package submit

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree makes a directory of files; a name with -> is a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		from, to, link := strings.Cut(name, "->")
		at := filepath.Join(dir, from)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if link {
			err = os.Symlink(to, at)
		} else {
			err = os.WriteFile(at, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPackDir(t *testing.T) {
	noise := make([]byte, mostArchive+1)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	tests := map[string]struct {
		why   string
		files map[string]string
		want  []string
		says  []string
	}{
		"all": {
			"files of all directories, and links within",
			map[string]string{"a.py": "", "b/c.py": "", "b/l->../a.py": ""},
			[]string{"a.py", "b/c.py", "b/l"},
			nil,
		},
		"git": {
			"nobody wants it",
			map[string]string{"a": "", ".git/config": "", ".gitignore": ""},
			[]string{".gitignore", "a"},
			nil,
		},
		"ignored": {
			"as git has it",
			map[string]string{
				".gitignore":  "*.ckpt\n/out/\n# text\n**/cache\n!keep.ckpt\nb/*.log\n",
				"a.ckpt":      "",
				"keep.ckpt":   "",
				"out/x":       "",
				"b/out/y":     "",
				"b/c/cache/z": "",
				"b/d.log":     "",
				"d.log":       "",
			},
			[]string{".gitignore", "b/out/y", "d.log", "keep.ckpt"},
			nil,
		},
		"ours": {
			"ours counts instead of git's",
			map[string]string{".gitignore": "a", ".mlbatchignore": "b", "a": "", "b": ""},
			[]string{".gitignore", ".mlbatchignore", "a"},
			nil,
		},
		"leads out": {
			"it would not be there",
			map[string]string{"a->../../etc/passwd": ""},
			nil,
			[]string{"a leads out of the directory"},
		},
		"absolute": {
			"it would be another file there",
			map[string]string{"a->/etc/passwd": ""},
			nil,
			[]string{"a leads out of the directory"},
		},
		"too large": {
			"size, largest files and cure",
			map[string]string{"big": string(noise), "small": "x"},
			nil,
			[]string{"1.0 MiB", "the largest are big (1.0 MiB), small (1 bytes)", ".mlbatchignore", "--mount"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := PackDir(tree(t, tc.files))
			if len(tc.says) > 0 {
				for _, s := range tc.says {
					if err == nil || !strings.Contains(err.Error(), s) {
						t.Errorf("%s: %v, want %q", tc.why, err, s)
					}
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.why, err)
			}
			if diff := cmp.Diff(tc.want, got.Names); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// TestPackedIsUnpacked: tar makes the same files of it, and the same files make the same bytes.
func TestPackedIsUnpacked(t *testing.T) {
	files := map[string]string{"a.py": "print(1)\n", "b/c": "x", "b/l->../a.py": ""}
	first, err := PackDir(tree(t, files))
	if err != nil {
		t.Fatal(err)
	}
	second, err := PackDir(tree(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Archive, second.Archive) || first.ConfigMap("x").Name != second.ConfigMap("x").Name {
		t.Error("the same files are packed in two ways")
	}
	to := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "tar", "-xzf", "-", "-C", to)
	cmd.Stdin = bytes.NewReader(first.Archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{"a.py": "print(1)\n", "b/c": "x", "b/l": "print(1)\n"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
}
