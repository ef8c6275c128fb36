package supervise

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLog bounds a log file; one older file of the same size is kept.
const maxLog = 16 << 20

func openLog(file string) (*os.File, error) {
	if err := rotate(file, maxLog); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

// rotate copies a log that has grown too large to FILE.1 and empties it. It
// copies instead of renaming because a running process keeps its descriptor;
// that is opened for appending, so it goes on at the new end.
func rotate(file string, limit int64) error {
	fi, err := os.Stat(file)
	if err != nil || fi.Size() <= limit {
		return nil // no log yet, or a small one
	}
	from, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	defer from.Close()
	to, err := os.OpenFile(file+".1", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	_, err = io.Copy(to, from)
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Truncate(file, 0)
	}
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	return nil
}

// tail returns the last lines of a log, to explain why a process died.
func tail(file string, lines int) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 4 << 10
	if fi, err := f.Stat(); err == nil && fi.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
