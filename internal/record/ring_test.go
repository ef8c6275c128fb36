package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/mlbatch/mlbatch/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// note is a state of the tests: how many cycles there were.
type note struct{ Cycles int }

func at(second int) time.Time { return time.Unix(int64(second), 0).UTC() }

func nodeGone(n int) core.Event {
	return core.NodeGone{Name: fmt.Sprintf("node-%d-%s", n, strings.Repeat("x", 200))}
}

func sizeOf(t *testing.T, dir string) int64 {
	t.Helper()
	all, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, s := range all {
		total += s.size
	}
	return total
}

func TestRingStaysWithinItsLimit(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenRing(dir, leastRing)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(settings{}, nil, 0); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		if err := r.Append([]core.Event{nodeGone(i)}, at(i), nil); err != nil {
			t.Fatal(err)
		}
		if size := sizeOf(t, dir); size > leastRing {
			t.Fatalf("%d bytes after cycle %d", size, i)
		}
		if r.Full() {
			if err := r.Start(settings{}, note{i + 1}, uint64(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		if i == 1000 { // another process goes on
			r.Close()
			if r, err = OpenRing(dir, leastRing); err != nil {
				t.Fatal(err)
			}
			if err := r.Start(settings{}, note{i + 1}, uint64(i+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.Close()
	// What is left is the end of the story, without a gap.
	next, files := -1, 0
	paths, err := Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := readAll(NewReader(bytes.NewReader(text)))
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		var s note
		if err := NewCodec().Decode(all[0].Header.State(), &s); err != nil {
			t.Fatal(err)
		}
		if next >= 0 && s.Cycles != next {
			t.Fatalf("%s begins at %d instead of %d", path, s.Cycles, next)
		}
		next = s.Cycles + (len(all)-1)/2
		files++
	}
	if next != 2000 || files < 3 {
		t.Errorf("%d segments, the last ends at %d", files, next)
	}
	if _, err := os.Stat(filepath.Join(dir, "thesis.tex")); err != nil {
		t.Error("files of others are left alone")
	}
}

func TestRingErrors(t *testing.T) {
	if _, err := OpenRing(t.TempDir(), 10); err == nil {
		t.Error("a ring without room is refused")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRing(file, leastRing); err == nil {
		t.Error("a file is no directory")
	}
	r, err := OpenRing(t.TempDir(), leastRing)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Append(nil, at(0), nil); err == nil {
		t.Error("nothing can be appended before a start")
	}
	if err := r.Start(
		settings{},
		strings.Repeat("x", leastRing),
		0,
	); err == nil ||
		!strings.Contains(err.Error(), "give it more") {
		t.Errorf("a state that does not fit: %v", err)
	}
	if err := r.Start(settings{}, nil, 0); err != nil {
		t.Fatal(err)
	}
	big := core.NodeGone{Name: strings.Repeat("x", leastRing)}
	if err := r.Append(
		[]core.Event{big},
		at(0),
		nil,
	); err == nil ||
		!strings.Contains(err.Error(), "give it more") {
		t.Errorf("a cycle that does not fit: %v", err)
	}
}

// failures collects what a recorder reports.
type failures chan error

func (f failures) report(err error) { f <- err }

// record plays cycles and returns how many states were asked for.
func play(r *Recorder, from, to int) (states int) {
	for i := from; i < to; i++ {
		r.Record([]core.Event{nodeGone(i)}, at(i), nil, func() (any, error) {
			states++
			return note{i + 1}, nil
		})
	}
	return states
}

func TestRecorderNeverWaits(t *testing.T) {
	dir := t.TempDir()
	ring, err := OpenRing(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(failures, 10)
	r := &Recorder{
		ring:    ring,
		options: settings{},
		failed:  failed.report,
		in:      make(chan cycle, backlog),
		done:    make(chan struct{}),
	}
	play(r, 0, 1000) // nothing writes yet, and still this ends
	if len(failed) != 1 || !errors.Is(<-failed, ErrBehind) || !r.behind {
		t.Fatalf("%d reports, behind: %t", len(failed), r.behind)
	}
	go r.run()
	for n := 1000; r.behind; n++ { // until the writer has caught up
		play(r, n, n+1)
	}
	play(r, 500000, 500010)
	r.Close()
	all, err := Segments(dir)
	if err != nil || len(all) != 2 {
		t.Fatalf("segments %v, %v", all, err)
	}
	text, err := os.ReadFile(all[1])
	if err != nil {
		t.Fatal(err)
	}
	lines, _ := readAll(NewReader(bytes.NewReader(text)))
	if len(lines) != 21 {
		t.Errorf("after the gap there are %d lines, want a state and 10 cycles of 2 lines", len(lines))
	}
}

func TestRecorderRotates(t *testing.T) {
	dir := t.TempDir()
	ring, err := OpenRing(dir, leastRing)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(failures, 1000)
	r := NewRecorder(ring, settings{}, failed.report)
	for i, states := 0, 0; states < 8; i++ {
		states += play(r, i, i+1)
		runtime.Gosched()
	}
	r.Close()
	if sizeOf(t, dir) > leastRing {
		t.Errorf("%d bytes", sizeOf(t, dir))
	}
	for len(failed) > 0 {
		if err := <-failed; !errors.Is(err, ErrBehind) {
			t.Error(err)
		}
	}
}

func TestRecorderSurvivesTheDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ring")
	ring, err := OpenRing(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil { // now no segment can be started
		t.Fatal(err)
	}
	failed := make(failures, 10)
	r := NewRecorder(ring, settings{}, failed.report)
	states := play(r, 0, 30)
	if err := <-failed; !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the failure is reported: %v", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	play(r, 30, 59)
	for i := 100; states == 0; i++ { // a minute later it tries again
		states += play(r, i, i+1)
	}
	r.Close()
	for len(failed) > 0 && errors.Is(<-failed, ErrBehind) {
	}
	if len(failed) > 0 {
		t.Errorf("one failure was reported more than once: %v", <-failed)
	}
	if all, err := Segments(dir); err != nil || len(all) != 1 {
		t.Errorf("segments after the disk is back: %v, %v", all, err)
	}
}

func TestStateNotToBeHad(t *testing.T) {
	ring, err := OpenRing(t.TempDir(), leastRing)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(failures, 10)
	r := NewRecorder(ring, settings{}, failed.report)
	r.renew.Store(true)
	asked := 0
	for i := range 3 { // it is asked for again after every decision
		r.Record(nil, at(i), nil, func() (any, error) { asked++; return nil, errors.New("not now") })
	}
	r.Close()
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

func TestSegmentsAreInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"flight-00000009.jsonl", "flight-100000000.jsonl", "flight-00000010.jsonl", "flight-x.jsonl", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i] = filepath.Base(got[i])
	}
	want := []string{"flight-00000009.jsonl", "flight-00000010.jsonl", "flight-100000000.jsonl"}
	if diff := cmp.Diff(want, slices.Clone(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
