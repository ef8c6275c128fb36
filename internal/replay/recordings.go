package replay

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mlbatch/mlbatch/internal/record"
)

// Recording is one file of a flight recorder.
type Recording struct {
	File string
	// First and Last are when the first and the last cycle were; zero if there was none.
	First, Last time.Time
	// Begins says what came before it: "start" of a controller, "continued" from the file
	// before, "gap" if cycles are missing between them, "unknown" for the first file if it
	// begins with a state.
	Begins string
	// Bytes is how long it is; Events, Cycles and Decisions are what is in it.
	Bytes                     int64
	Events, Cycles, Decisions int
	// CutShort says that it ends within a line, as after a kill.
	CutShort bool `json:",omitempty"`
	// Error says why it cannot be read on, "" if it can.
	Error string `json:",omitempty"`
}

// How recordings begin.
const (
	beginsStart     = "start"
	beginsContinued = "continued"
	beginsGap       = "gap"
	beginsUnknown   = "unknown"
)

// Recordings lists the files of a path, oldest first. No engine decides for it, so that
// files are listed that only another program can replay.
func Recordings(path string) ([]Recording, error) {
	paths, err := recordings(path)
	if err != nil {
		return nil, err
	}
	var out []Recording
	decided, known := uint64(0), false
	for _, path := range paths {
		r := Recording{File: filepath.Base(path)}
		at, err := r.read(path, decided, known)
		if errors.Is(err, os.ErrNotExist) && !known {
			continue // dropped just now: the recorder is at work
		}
		if err != nil {
			r.Error = err.Error()
		}
		decided, known = at, true
		out = append(out, r)
	}
	return out, nil
}

// read looks through a file, before which so much was decided if that is known. It returns
// how much was decided after it.
func (r *Recording) read(path string, before uint64, known bool) (decided uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return before, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		r.Bytes = info.Size()
	}
	in := record.NewReader(f)
	head, err := in.Next()
	if err != nil {
		if r.CutShort = in.Cut(); r.CutShort {
			return before, nil
		}
		return before, err
	}
	h := head.Header
	switch decided = h.Decided; {
	case h.State() == nil:
		r.Begins = beginsStart
	case !known:
		r.Begins = beginsUnknown
	case h.Decided == before:
		r.Begins = beginsContinued
	default:
		r.Begins = beginsGap
	}
	for {
		l, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			r.CutShort = in.Cut()
			return decided, nil
		case err != nil:
			return decided, err
		case l.Event != nil:
			r.Events++
		default:
			if r.First.IsZero() {
				r.First = l.Decide.At
			}
			r.Last = l.Decide.At
			r.Cycles++
			r.Decisions += len(l.Decide.Plan)
			decided++
		}
	}
}
