package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

const (
	segmentPrefix = "flight-"
	segmentSuffix = ".jsonl"
)

// Ring is a directory of recordings, called segments, that together take no more
// than a number of bytes: the oldest is dropped for the newest. Each segment
// begins with the state of its engine, so that it can be read alone. What was
// written survives the death of the process, not that of the machine. It is not
// safe for concurrent use.
type Ring struct {
	dir   string
	limit int64
	codec *Codec
	buf   []byte

	file *os.File // of the newest segment; nil before Start and after a failure
	// sizes are those of all segments, oldest first, by number.
	segments []segment
	// head is what the newest segment began with.
	head int64
}

type segment struct {
	number uint64
	size   int64
}

func (s segment) name() string {
	return fmt.Sprintf("%s%08d%s", segmentPrefix, s.number, segmentSuffix)
}

// leastRing is what a ring needs for segments to have any length.
const leastRing = 64 << 10

// OpenRing opens a directory, which is made if need be, for writing. The limit is
// in bytes, for all segments together; segments that are there count. Files of
// others are left alone.
func OpenRing(dir string, limit int64) (*Ring, error) {
	if limit < leastRing {
		return nil, fmt.Errorf("a flight recorder needs %d bytes at least, not %d", leastRing, limit)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the flight recorder's directory: %w", err)
	}
	r := &Ring{dir: dir, limit: limit, codec: NewCodec()}
	var err error
	r.segments, err = segments(dir)
	return r, err
}

// Segments returns the files of a ring, oldest first.
func Segments(dir string) ([]string, error) {
	all, err := segments(dir)
	var out []string
	for _, s := range all {
		out = append(out, filepath.Join(dir, s.name()))
	}
	return out, err
}

func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list recordings: %w", err)
	}
	var out []segment
	for _, e := range entries {
		digits, ours := strings.CutPrefix(e.Name(), segmentPrefix)
		digits, ends := strings.CutSuffix(digits, segmentSuffix)
		n, err := strconv.ParseUint(digits, 10, 64)
		if !ours || !ends || err != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped just now
		}
		if err != nil {
			return nil, fmt.Errorf("list recordings: %w", err)
		}
		out = append(out, segment{n, info.Size()})
	}
	slices.SortFunc(out, func(a, b segment) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return out, nil
}

// Start begins a new segment with a state, after so many decisions; nil is that
// of an engine that knows nothing. It fails for a state that takes more than half of the ring.
func (r *Ring) Start(options, state any, decided uint64) error {
	r.stop()
	b, err := r.codec.AppendHeader(r.buf[:0], options, state, decided)
	if err != nil {
		return err
	}
	r.buf = b
	r.head = int64(len(b))
	if r.head > r.limit/2 {
		return fmt.Errorf(
			"the state of %d bytes does not fit into half of the flight recorder's %d bytes: give it more",
			r.head,
			r.limit,
		)
	}
	next := segment{number: 1}
	if n := len(r.segments); n > 0 {
		next.number = r.segments[n-1].number + 1
	}
	if err := r.makeRoom(r.head); err != nil {
		return err
	}
	f, err := os.OpenFile(
		filepath.Join(r.dir, next.name()),
		os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND,
		0o600,
	)
	if err != nil {
		return fmt.Errorf("start a recording: %w", err)
	}
	r.file = f
	r.segments = append(r.segments, next)
	return r.write(b)
}

// Append records one cycle: what the engine was told, and what it decided then.
// After an error nothing can be appended before the next Start.
func (r *Ring) Append(events []core.Event, at time.Time, plan core.Plan) error {
	if r.file == nil {
		return errors.New("no recording was started")
	}
	b := r.buf[:0]
	var err error
	for _, ev := range events {
		if b, err = r.codec.AppendEvent(b, ev); err != nil {
			r.stop()
			return err
		}
	}
	if b, err = r.codec.AppendDecide(b, at, plan); err != nil {
		r.stop()
		return err
	}
	r.buf = b
	if err := r.makeRoom(int64(len(b))); err != nil {
		r.stop()
		return err
	}
	return r.write(b)
}

// Full reports that the newest segment is long enough, and a new one should be
// started: it has a quarter of the ring, and more cycles than an eighth.
func (r *Ring) Full() bool {
	if r.file == nil {
		return false
	}
	size := r.segments[len(r.segments)-1].size
	return size >= r.limit/4 && size-r.head >= r.limit/8
}

// overfull reports that the newest segment takes so much that nothing older is
// kept beside it.
func (r *Ring) overfull() bool {
	return r.file != nil && r.segments[len(r.segments)-1].size >= r.limit/4*3
}

// Close ends the newest segment.
func (r *Ring) Close() { r.stop() }

func (r *Ring) stop() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// write appends in one call, so that only the last line can be cut off.
func (r *Ring) write(b []byte) error {
	n, err := r.file.Write(b)
	r.segments[len(r.segments)-1].size += int64(n)
	if err != nil {
		r.stop()
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

// makeRoom drops the oldest segments until n more bytes fit.
func (r *Ring) makeRoom(n int64) error {
	total := n
	for _, s := range r.segments {
		total += s.size
	}
	for total > r.limit {
		if len(r.segments) == 0 || (len(r.segments) == 1 && r.file != nil) {
			return fmt.Errorf("%d bytes do not fit into the flight recorder's %d: give it more", total, r.limit)
		}
		old := r.segments[0]
		if err := os.Remove(filepath.Join(r.dir, old.name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop the oldest recording: %w", err)
		}
		total -= old.size
		r.segments = r.segments[1:]
	}
	return nil
}
