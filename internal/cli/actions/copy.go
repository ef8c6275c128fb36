package actions

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Pack writes a file or folder as a tar archive in which it is called name. Links are not
// followed and not packed: they are returned, to be told.
func Pack(to io.Writer, from, name string) (left []string, err error) {
	archive := tar.NewWriter(to)
	err = filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			left = append(left, file)
			return nil
		}
		header, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		header.Name = path.Join(name, filepath.ToSlash(below))
		header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
		if err := archive.WriteHeader(header); err != nil || info.IsDir() {
			return err
		}
		return addFile(archive, file)
	})
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", from, err)
	}
	return left, archive.Close()
}

func addFile(to io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}

// Unpack writes what is below name in a tar archive to a path: a file under that path, a folder
// as that path, or into it if it is a folder already. Nothing is written anywhere else, whatever
// the archive says. Links and devices are left out and returned, to be told.
func Unpack(from io.Reader, name, to string) (left []string, err error) {
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, path.Base(name))
	}
	base := filepath.Base(to)
	root, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // what was only opened has nothing to tell
	archive := tar.NewReader(from)
	found := false
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return left, fmt.Errorf("read what the pod sends: %w", err)
		}
		below, inside := strings.CutPrefix("/"+path.Clean(header.Name), "/"+path.Clean(name))
		if !inside || below != "" && below[0] != '/' {
			left = append(left, header.Name)
			continue
		}
		found = true
		at := filepath.Join(base, filepath.FromSlash(below))
		switch header.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(at, 0o755)
		case tar.TypeReg:
			err = unpackFile(root, at, archive, header.FileInfo().Mode().Perm())
		default:
			left = append(left, header.Name)
		}
		if err != nil {
			return left, fmt.Errorf("write %s: %w", header.Name, err)
		}
	}
	if !found {
		return left, errors.New("the pod sent nothing")
	}
	return left, nil
}

func unpackFile(root *os.Root, at string, from io.Reader, mode fs.FileMode) error {
	if err := root.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(at, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
