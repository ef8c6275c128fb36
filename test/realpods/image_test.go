package realpods

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/mlbatch/mlbatch/test/rig"
)

// image makes an image of Debian packages of this machine, with the libraries that they link and
// a shell, and puts it where the nodes of a cluster find it. It skips where one is not installed.
func image(t *testing.T, c *rig.Cluster, tag string, extra map[string]string, packages ...string) {
	t.Helper()
	files := filesOf(t, packages)
	layer := filepath.Join(t.TempDir(), "layer.tar")
	out, err := os.Create(layer)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(writeLayer(out, files, extra), out.Close())
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromFile(layer, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Env: []string{"PATH=/usr/sbin:/usr/bin", "HOME=/root"}}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(c.Dir, "archives", strings.NewReplacer("/", "-", ":", "-").Replace(tag)+".tar")
	if err := tarball.WriteToFile(to+".part", ref, img); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".part", to); err != nil {
		t.Fatal(err)
	}
}

// filesOf lists the files of packages and of the libraries that they link.
func filesOf(t *testing.T, packages []string) map[string]bool {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "dpkg", append([]string{"-L"}, packages...)...).Output()
	if err != nil {
		t.Skipf("it takes the packages %s", strings.Join(packages, " "))
	}
	files, linked := map[string]bool{}, []string{}
	for file := range strings.Lines(string(list)) {
		file = strings.TrimSpace(file)
		if unwanted(file) {
			continue
		}
		info, err := os.Lstat(file)
		if err != nil || info.IsDir() {
			continue
		}
		files[file] = true
		if info.Mode().IsRegular() && (strings.Contains(file, ".so") || info.Mode()&0o111 != 0) {
			linked = append(linked, file)
		}
	}
	// It fails for scripts, which link nothing.
	libraries, _ := exec.CommandContext(t.Context(), "ldd", linked...).Output()
	for word := range strings.FieldsSeq(string(libraries)) {
		if strings.HasPrefix(word, "/") && !strings.HasSuffix(word, ":") {
			files[word] = true
		}
	}
	for _, file := range slices.Collect(keys(files)) {
		follow(files, file)
	}
	return files
}

func keys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// unwanted files are read by people and compilers only.
func unwanted(file string) bool {
	for _, part := range []string{"/usr/include/", "/usr/share/doc/", "/usr/share/man/", "/usr/share/lintian/", "/test/", "/tests/", "/torch/include/"} {
		if strings.Contains(file, part) {
			return true
		}
	}
	return strings.HasSuffix(file, ".a")
}

// follow adds what links lead to.
func follow(files map[string]bool, file string) {
	for range 8 {
		to, err := os.Readlink(file)
		if err != nil {
			return
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(file), to)
		}
		if info, err := os.Lstat(to); err != nil || info.IsDir() {
			return
		}
		files[to], file = true, to
	}
}

// writeLayer writes files where they really are: Debian's /lib is a link to /usr/lib.
func writeLayer(to io.Writer, files map[string]bool, extra map[string]string) error {
	w := tar.NewWriter(to)
	at := map[string]string{"/usr/bin/busybox": "/bin/busybox"}
	for file := range files {
		dir, err := filepath.EvalSymlinks(filepath.Dir(file))
		if err != nil {
			return err
		}
		at[filepath.Join(dir, filepath.Base(file))] = file
	}
	made := map[string]bool{"/": true}
	var mkdir func(string) error
	mkdir = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := mkdir(filepath.Dir(dir)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Name: dir[1:] + "/", Mode: 0o755, Typeflag: tar.TypeDir})
	}
	for _, dir := range []string{"/root", "/run/sshd", "/proc", "/dev", "/sys", "/data", "/var/empty"} {
		if err := mkdir(dir); err != nil {
			return err
		}
	}
	links := map[string]string{"/bin": "usr/bin", "/sbin": "usr/sbin", "/lib": "usr/lib", "/lib64": "usr/lib64"}
	for _, applet := range []string{"sh", "sleep", "cat", "mkdir", "hostname", "env"} {
		links["/usr/bin/"+applet] = "busybox"
	}
	for link, target := range links {
		if err := errors.Join(
			mkdir(filepath.Dir(link)),
			w.WriteHeader(&tar.Header{Name: link[1:], Linkname: target, Mode: 0o777, Typeflag: tar.TypeSymlink}),
		); err != nil {
			return err
		}
	}
	for name, content := range extra {
		err := errors.Join(
			mkdir(filepath.Dir(name)),
			w.WriteHeader(&tar.Header{Name: name[1:], Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}),
		)
		if err == nil {
			_, err = io.Copy(w, bytes.NewReader([]byte(content)))
		}
		if err != nil {
			return err
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(keys(set(at))) {
		if links[name] != "" || extra[name] != "" {
			continue
		}
		if err := errors.Join(mkdir(filepath.Dir(name)), addFile(w, name, at[name])); err != nil {
			return err
		}
	}
	return w.Close()
}

func set(m map[string]string) map[string]bool {
	out := map[string]bool{}
	for k := range m {
		out[k] = true
	}
	return out
}

func addFile(w *tar.Writer, name, from string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(from); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name = name[1:]
	if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}
