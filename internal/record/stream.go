package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Writer writes one recording. Its zero value is not usable; see NewWriter.
type Writer struct {
	out   io.Writer
	codec *Codec
	buf   []byte
}

// NewWriter starts a recording with its header: the engine's options and what it
// knows at the start, nil if that is nothing.
func NewWriter(out io.Writer, options, state any) (*Writer, error) {
	w := &Writer{out: out, codec: NewCodec()}
	b, err := w.codec.AppendHeader(nil, options, state, 0)
	if err != nil {
		return nil, err
	}
	return w, w.write(b)
}

// Event records an event, in the order in which the engine is told.
func (w *Writer) Event(ev core.Event) error {
	b, err := w.codec.AppendEvent(w.buf[:0], ev)
	if err != nil {
		return err
	}
	return w.write(b)
}

// Decide records a decision.
func (w *Writer) Decide(at time.Time, plan core.Plan) error {
	b, err := w.codec.AppendDecide(w.buf[:0], at, plan)
	if err != nil {
		return err
	}
	return w.write(b)
}

func (w *Writer) write(b []byte) error {
	w.buf = b
	if _, err := w.out.Write(b); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

// Reader reads one recording, line by line.
type Reader struct {
	in    *bufio.Reader
	lines *lines
	n     int
	cut   bool
}

// NewReader returns a reader of a recording.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 1<<16), lines: newLines()}
}

// Next returns the next line, io.EOF after the last. The first line is the
// header, and no other is. Errors name the line. A last line that was cut off, as
// when the writer was killed, counts as not written; Cut tells. A header that was
// cut off is an error.
func (r *Reader) Next() (Line, error) {
	text, err := r.in.ReadBytes('\n')
	whole := err == nil
	if err != nil && !errors.Is(err, io.EOF) {
		return Line{}, fmt.Errorf("line %d: %w", r.n+1, err)
	}
	if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 && !whole {
		if r.n == 0 {
			r.cut = true
			return Line{}, errors.New("line 1: the recording is empty")
		}
		return Line{}, io.EOF
	}
	r.n++
	l, err := r.lines.parse(text)
	l.Number = r.n
	switch {
	case err != nil && !whole && r.n > 1:
		r.cut = true
		return Line{}, io.EOF
	case err != nil:
		r.cut = !whole
		return Line{}, fmt.Errorf("line %d: %w", r.n, err)
	case (l.Header != nil) != (r.n == 1):
		return Line{}, fmt.Errorf("line %d: the first line, and no other, must be the header", r.n)
	case l.Header != nil && l.Header.Version != Version:
		return Line{}, fmt.Errorf(
			"line 1: recorded in version %d of the format, this program reads version %d",
			l.Header.Version,
			Version,
		)
	case l.Header != nil && l.Header.options == nil:
		return Line{}, errors.New("line 1: the header has no options")
	}
	return l, nil
}

// Cut reports whether the last line was cut off.
func (r *Reader) Cut() bool { return r.cut }
