package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// spec is what goes into an archive.
type spec struct {
	name, version, revision string
	created                 time.Time
	programs                []program
}

// program is one for a platform.
type program struct{ system, arch, path string }

const (
	// entry is where the program is in the image.
	entry = "/mlbatch"
	// user is nobody on any node: neither root nor somebody with files.
	user = 65532
)

// tag is the version as a tag may be: those of Git may have a "+".
func (s *spec) tag() string { return strings.ReplaceAll(s.version, "+", "-") }

// write writes the archive, whole or not at all, and returns how large each image is, compressed.
func (s *spec) write(out string) (sizes []int64, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(out), ".images-")
	if err != nil {
		return nil, fmt.Errorf("make a place for the archive: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // of no use afterwards
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range s.programs {
		img, err := s.image(p)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", p.system, p.arch, err)
		}
		size, err := compressed(img)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", p.system, p.arch, err)
		}
		sizes = append(sizes, size)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: p.system, Architecture: p.arch},
		}})
	}
	files := filepath.Join(dir, "layout")
	at, err := layout.Write(files, empty.Index)
	if err != nil {
		return nil, fmt.Errorf("write the layout: %w", err)
	}
	// The names by which containerd and others know what they import.
	err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          s.name + ":" + s.tag(),
		"org.opencontainers.image.ref.name": s.tag(),
	}))
	if err != nil {
		return nil, fmt.Errorf("write the layout: %w", err)
	}
	packed := filepath.Join(dir, "archive")
	if err := s.pack(packed, files); err != nil {
		return nil, fmt.Errorf("write the archive: %w", err)
	}
	return sizes, os.Rename(packed, out)
}

// image is the image of one program.
func (s *spec) image(p program) (v1.Image, error) {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	bom, err := sbom(p.path, s)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, f := range []struct {
		name string
		mode int64
		data []byte
	}{
		{"etc/passwd", 0o444, fmt.Appendf(nil, "mlbatch:x:%[1]d:%[1]d::/:/nowhere\n", user)},
		{"etc/group", 0o444, fmt.Appendf(nil, "mlbatch:x:%d:\n", user)},
		{path.Base(entry), 0o555, binary},
		{"sbom.spdx.json", 0o444, bom},
	} {
		if err := add(w, f.name, f.mode, s.created, f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the layer: %w", err)
	}
	l, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression),
	)
	if err != nil {
		return nil, fmt.Errorf("pack the layer: %w", err)
	}
	made := v1.Time{Time: s.created}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(
		base,
		mutate.Addendum{Layer: l, History: v1.History{Created: made, CreatedBy: "images"}},
	)
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	return mutate.ConfigFile(img, s.config(img, p, made))
}

// config is how the image runs.
func (s *spec) config(img v1.Image, p program, made v1.Time) *v1.ConfigFile {
	c := &v1.ConfigFile{OS: p.system, Architecture: p.arch, Created: made}
	if has, err := img.ConfigFile(); err == nil { // layers and history
		c.RootFS, c.History = has.RootFS, has.History
	}
	c.Config = v1.Config{
		Entrypoint: []string{entry}, User: fmt.Sprintf("%[1]d:%[1]d", user), WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "mlbatch",
			"org.opencontainers.image.description": "Queues, quotas and gang scheduling for AI batch jobs on Kubernetes",
			"org.opencontainers.image.version":     s.version,
			"org.opencontainers.image.revision":    s.revision,
			"org.opencontainers.image.created":     s.created.Format(time.RFC3339),
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return c
}

// add adds a file, and its directory before it.
func add(w *tar.Writer, name string, mode int64, at time.Time, data []byte) error {
	headers := []*tar.Header{
		{Name: name, Mode: mode, Size: int64(len(data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX},
	}
	if name == "etc/passwd" {
		headers = append(
			[]*tar.Header{{Name: "etc/", Mode: 0o555, ModTime: at, Typeflag: tar.TypeDir, Format: tar.FormatPAX}},
			headers...)
	}
	for _, h := range headers {
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return nil
}

// compressed is how large an image is in a registry.
func compressed(img v1.Image) (int64, error) {
	m, err := img.Manifest()
	if err != nil {
		return 0, err
	}
	n := m.Config.Size
	for _, l := range m.Layers {
		n += l.Size
	}
	return n, nil
}

// pack writes a directory as an archive, in the order of names.
func (s *spec) pack(out, dir string) (err error) {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	w := tar.NewWriter(f)
	files := os.DirFS(dir)
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		h := &tar.Header{Name: name, Mode: 0o644, ModTime: s.created, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if d.IsDir() {
			h.Name, h.Mode, h.Typeflag = h.Name+"/", 0o755, tar.TypeDir
			return w.WriteHeader(h)
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		h.Size = int64(len(data))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
