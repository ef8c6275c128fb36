package submit

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of a working directory that goes along.
const (
	// mostArchive is what a ConfigMap can hold, in bytes.
	mostArchive = 1 << 20
	// mostRead bounds what is read to find out that it is too much, in bytes.
	mostRead = 256 << 20
	// mostNamed is how many of the largest files are named then.
	mostNamed = 5
)

// ignoreFiles are the names of files that list what is left out. The first that exists counts.
func ignoreFiles() []string { return []string{".mlbatchignore", ".gitignore"} }

// Files are the content of a working directory.
type Files struct {
	// Archive is a tar file, compressed by gzip, that is the same for the same content.
	Archive []byte
	// Names are those of the files.
	Names []string
}

// ConfigMap has the archive. It is called by its content.
func (f *Files) ConfigMap(namespace string) *corev1.ConfigMap {
	sum := sha256.Sum256(f.Archive)
	const digits = 16
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      "mlbatch-workdir-" + hex.EncodeToString(sum[:])[:digits],
		},
		Immutable:  new(true),
		BinaryData: map[string][]byte{uploadKey: f.Archive},
	}
}

// file is one that goes along.
type file struct {
	name string // with slashes, relative to the directory
	info fs.FileInfo
	link string
}

// PackDir packs a directory. Left out are .git, and what .mlbatchignore, or else .gitignore,
// says. Links may lead to what is in the directory only.
func PackDir(dir string) (*Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // it was only read
	var rules ignore
	for _, name := range ignoreFiles() {
		data, err := root.ReadFile(name)
		if err == nil {
			rules = readIgnore(string(data))
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	files, err := list(root, rules)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, f := range files {
		total += f.info.Size()
	}
	if total > mostRead {
		return nil, tooLarge(files, total, 0)
	}
	out := &Files{}
	if out.Archive, err = archive(root, files); err != nil {
		return nil, err
	}
	if len(out.Archive) > mostArchive {
		return nil, tooLarge(files, total, len(out.Archive))
	}
	for _, f := range files {
		out.Names = append(out.Names, f.name)
	}
	return out, nil
}

// list are the files of a directory, in order.
func list(root *os.Root, rules ignore) (out []file, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case name == ".git" || rules.leavesOut(name, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := file{name: name, info: info}
		switch mode := info.Mode(); {
		case mode&fs.ModeSymlink != 0:
			if f.link, err = root.Readlink(name); err != nil {
				return err
			}
			to := path.Join(path.Dir(name), filepath.ToSlash(f.link))
			if path.IsAbs(f.link) || to == ".." || strings.HasPrefix(to, "../") {
				return fmt.Errorf(
					"%s leads out of the directory, to %s: leave it out by a line in .mlbatchignore",
					name,
					f.link,
				)
			}
		case !mode.IsRegular():
			return fmt.Errorf("%s is no file, directory or link: leave it out by a line in .mlbatchignore", name)
		}
		out = append(out, f)
		return nil
	})
	return out, err
}

// archive packs files so that the same content gives the same bytes.
func archive(root *os.Root, files []file) ([]byte, error) {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is a good one
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{
			Name:     f.name,
			Mode:     0o644,
			Size:     f.info.Size(),
			Format:   tar.FormatPAX,
			Typeflag: tar.TypeReg,
		}
		if f.info.Mode()&0o111 != 0 {
			h.Mode = 0o755
		}
		if f.link != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, filepath.ToSlash(f.link), 0
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if f.link != "" {
			continue
		}
		if err := pack(t, root, f.name); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func pack(t *tar.Writer, root *os.Root, name string) error {
	from, err := root.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(t, from)
	return err
}

// tooLarge says how large a directory is, and what of it is largest.
func tooLarge(files []file, total int64, packed int) error {
	slices.SortStableFunc(files, func(a, b file) int { return cmp.Compare(b.info.Size(), a.info.Size()) })
	var largest []string
	for _, f := range files[:min(mostNamed, len(files))] {
		largest = append(largest, fmt.Sprintf("%s (%s)", f.name, size(f.info.Size())))
	}
	what := size(total)
	if packed > 0 {
		what += ", packed " + size(int64(packed))
	}
	return fmt.Errorf(
		"its files have %s, and %s packed are the most that goes along; the largest are %s: leave out what is not needed by lines in .mlbatchignore, or put data on a volume and use --mount",
		what,
		size(mostArchive),
		strings.Join(largest, ", "),
	)
}

// size is a number of bytes as people read it.
func size(n int64) string {
	const kibi = 1 << 10
	switch {
	case n >= kibi*kibi:
		return fmt.Sprintf("%.1f MiB", float64(n)/kibi/kibi)
	case n >= kibi:
		return fmt.Sprintf("%.0f KiB", float64(n)/kibi)
	}
	return fmt.Sprintf("%d bytes", n)
}

// ignore are rules of what is left out. The last that fits counts.
type ignore []rule

type rule struct {
	parts    []string
	anchored bool // it fits from the top only
	dirs     bool // it fits directories only
	keep     bool // it takes back what rules before it left out
}

// readIgnore reads lines as git has them: * and ? within a name, ** for any directories, / at the
// beginning for the top, at the end for directories, ! takes back.
func readIgnore(text string) (out ignore) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		var r rule
		line, r.keep = strings.CutPrefix(line, "!")
		line, r.dirs = strings.CutSuffix(line, "/")
		r.anchored = strings.Contains(line, "/")
		r.parts = strings.Split(strings.TrimPrefix(line, "/"), "/")
		out = append(out, r)
	}
	return out
}

// leavesOut reports whether a file or directory is left out.
func (g ignore) leavesOut( //nolint:revive // what it is decides which rules fit
	name string,
	dir bool,
) (out bool) {
	parts := strings.Split(name, "/")
	for _, r := range g {
		if r.dirs && !dir {
			continue
		}
		fits := fit(r.parts, parts)
		if !r.anchored {
			fits = fit(r.parts, parts[len(parts)-1:])
		}
		if fits {
			out = !r.keep
		}
	}
	return out
}

// fit reports whether a name is as a pattern has it.
func fit(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return fit(pattern[1:], name) || len(name) > 0 && fit(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	is, err := path.Match(pattern[0], name[0])
	return err == nil && is && fit(pattern[1:], name[1:])
}
