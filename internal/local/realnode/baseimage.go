//go:build !noembed

package realnode

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// busybox is Debian's, which needs no libraries.
const busybox = "/bin/busybox"

// WriteBaseImage writes an archive with an image of busybox, under all names given. It
// is written once, unless the names change.
func WriteBaseImage(dir string, names []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, "busybox.tar")
	list := filepath.Join(dir, "busybox.names")
	want := strings.Join(names, "\n") + "\n"
	if has, err := os.ReadFile(list); err == nil && string(has) == want {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
	}
	base, err := baseImage()
	if err != nil {
		return fmt.Errorf("make an image of busybox: %w", err)
	}
	pause, err := mutate.Config(base, v1.Config{Entrypoint: []string{"/bin/sleep", "2147483647"}})
	if err != nil {
		return fmt.Errorf("make an image of busybox: %w", err)
	}
	all := map[name.Reference]v1.Image{}
	for _, n := range append([]string{PauseImage}, names...) {
		ref, err := name.NewTag(n)
		if err != nil {
			return fmt.Errorf("name an image: %w", err)
		}
		all[ref] = base
		if n == PauseImage {
			all[ref] = pause
		}
	}
	if err := writeArchive(file, all); err != nil {
		return err
	}
	return os.WriteFile(list, []byte(want), 0o600)
}

// writeArchive writes an archive whole or not at all.
func writeArchive(file string, all map[name.Reference]v1.Image) error {
	part := file + ".part"
	defer func() { _ = os.Remove(part) }() // gone already when all went well
	f, err := os.Create(part)
	if err != nil {
		return err
	}
	err = tarball.MultiRefWrite(all, f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(part, file)
}

func baseImage() (v1.Image, error) {
	binary, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(busybox, "--list").Output() //nolint:noctx // it prints and ends
	if err != nil {
		return nil, fmt.Errorf("ask busybox what it can do: %w", err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = errors.Join(
		addDirs(w, "bin", "etc", "root", "home", "var", "usr", "usr/bin", "dev", "proc", "sys"),
		w.WriteHeader(&tar.Header{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir}),
		addFile(w, "bin/busybox", 0o755, binary),
		addFile(
			w,
			"etc/passwd",
			0o644,
			[]byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"),
		),
		addFile(w, "etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n")),
		w.WriteHeader(
			&tar.Header{Name: "usr/bin/env", Linkname: "/bin/busybox", Typeflag: tar.TypeSymlink, Mode: 0o777},
		),
	)
	for a := range strings.FieldsSeq(string(applets)) {
		if err == nil && a != "busybox" {
			err = w.WriteHeader(
				&tar.Header{Name: "bin/" + a, Linkname: "/bin/busybox", Typeflag: tar.TypeSymlink, Mode: 0o777},
			)
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return imageOf(layer.Bytes(), v1.Config{Cmd: []string{"sh"}})
}

func addDirs(w *tar.Writer, names ...string) error {
	for _, n := range names {
		if err := w.WriteHeader(&tar.Header{Name: n + "/", Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
			return err
		}
	}
	return nil
}

func addFile(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(
		&tar.Header{Name: name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg},
	); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// imageOf is an image of one layer for this machine.
func imageOf(layer []byte, config v1.Config) (v1.Image, error) {
	l, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil },
	)
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	has, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	has = has.DeepCopy()
	has.OS, has.Architecture = "linux", runtime.GOARCH
	config.Env = append(
		[]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		config.Env...)
	has.Config = config
	return mutate.ConfigFile(img, has)
}
