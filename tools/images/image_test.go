package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// made is the archive of this test, which is a Go program as well, for two platforms.
func made(t *testing.T, change func(*spec)) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &spec{
		name:     "localhost/mlbatch",
		version:  "v1.2.3+4",
		revision: "abc",
		created:  time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		programs: []program{{"linux", "amd64", self}, {"linux", "arm64", self}},
	}
	if change != nil {
		change(s)
	}
	out := filepath.Join(t.TempDir(), "a.tar")
	if _, err := s.write(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// unpacked is the layout in an archive.
func unpacked(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o700)
		} else if data, readErr := io.ReadAll(r); readErr != nil {
			err = readErr
		} else {
			err = os.WriteFile(at, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// inside are the files of an image and their modes.
func inside(t *testing.T, img v1.Image) (files map[string][]byte, modes map[string]int64) {
	t.Helper()
	files, modes = map[string][]byte{}, map[string]int64{}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for in := tar.NewReader(r); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			files[h.Name], modes[h.Name] = data, h.Mode
		}
	}
	return files, modes
}

// TestImages reads an archive back: an index of an image for each platform, by the name that
// containerd gives it, in which a user that is not root runs the program, and nothing else is.
func TestImages(t *testing.T) {
	top, err := unpacked(t, made(t, nil)).IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 1 ||
		top.Manifests[0].Annotations["io.containerd.image.name"] != "localhost/mlbatch:v1.2.3-4" {
		t.Fatalf("named otherwise: %+v", top.Manifests)
	}
	index, err := unpacked(t, made(t, nil)).ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var of []string
	for _, m := range platforms.Manifests {
		of = append(of, m.Platform.String())
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/mlbatch"}) ||
			c.Labels["org.opencontainers.image.revision"] != "abc" ||
			config.Architecture != m.Platform.Architecture {
			t.Errorf("%s: %+v", m.Platform, config)
		}
		files, modes := inside(t, img)
		if got := slices.Sorted(
			maps.Keys(files),
		); !slices.Equal(
			got,
			[]string{"etc/", "etc/group", "etc/passwd", "mlbatch", "sbom.spdx.json"},
		) {
			t.Errorf("%s has %v", m.Platform, got)
		}
		for name, mode := range modes {
			if mode&0o222 != 0 {
				t.Errorf("%s may be written: %o", name, mode)
			}
		}
		self, _ := os.Executable()
		if want, err := os.ReadFile(
			self,
		); err != nil || !bytes.Equal(want, files["mlbatch"]) ||
			modes["mlbatch"] != 0o555 {
			t.Errorf("%s: not the program (%v)", m.Platform, err)
		}
	}
	if !slices.Equal(of, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms %v", of)
	}
}

// TestSBOM: the list of what a program was built from names it, Go and its modules.
func TestSBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := sbom(self, &spec{version: "v1", created: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	var doc spdx
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range doc.Packages {
		names = append(names, p.Name)
		if !strings.HasPrefix(p.Refs[0].Locator, "pkg:golang/"+p.Name+"@") {
			t.Errorf("%s is found at %s", p.Name, p.Refs[0].Locator)
		}
	}
	for _, want := range []string{"github.com/mlbatch/mlbatch", "stdlib", "github.com/google/go-containerregistry"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s among %v", want, names)
		}
	}
	if doc.Version != "SPDX-2.3" || len(doc.Relationships) != len(doc.Packages) ||
		!strings.HasPrefix(doc.Namespace, "urn:mlbatch:sbom:") {
		t.Errorf("%+v", doc)
	}
}

// TestSameBytes: what is the same gives the same archive; another version another one.
func TestSameBytes(t *testing.T) {
	read := func(path string) []byte {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one := read(made(t, nil))
	if !bytes.Equal(one, read(made(t, nil))) {
		t.Error("two archives of the same differ")
	}
	if bytes.Equal(one, read(made(t, func(s *spec) { s.version = "v2" }))) {
		t.Error("another version is no other archive")
	}
}

// TestWrongArguments: mistakes are told, and nothing is written.
func TestWrongArguments(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		version, created string
		programs         []string
		says             string
	}{
		"no version":   {created: "2026-01-01T00:00:00Z", programs: []string{"linux/amd64=" + self}, says: "-version"},
		"no time":      {version: "v1", created: "yesterday", programs: []string{"linux/amd64=" + self}, says: "-created"},
		"no programs":  {version: "v1", created: "2026-01-01T00:00:00Z", says: "linux/amd64=bin/mlbatch"},
		"no platform":  {version: "v1", created: "2026-01-01T00:00:00Z", programs: []string{self}, says: "SYSTEM/ARCHITECTURE"},
		"no such file": {version: "v1", created: "2026-01-01T00:00:00Z", programs: []string{"linux/amd64=" + text + "x"}, says: "no such file"},
		"no program":   {version: "v1", created: "2026-01-01T00:00:00Z", programs: []string{"linux/amd64=" + text}, says: "built from"},
	} {
		out := filepath.Join(t.TempDir(), "out.tar")
		err := run(&spec{name: "n", version: tc.version}, tc.created, out, tc.programs)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
		left, _ := os.ReadDir(filepath.Dir(out))
		if len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}
