package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"golang.org/x/term"
)

// watchEvery is how often a list is taken afresh while it is watched: a list is a handful of
// requests, and as many people as like may watch.
const watchEvery = 2 * time.Second

// watchScreen prints a list again and again until ctx ends: on a terminal in the place of the last
// one, elsewhere one below the other.
func watchScreen(ctx context.Context, out io.Writer, show func(io.Writer) error) error {
	return screenEvery(ctx, out, watchEvery, show)
}

// screenEvery is watchScreen with another pause.
func screenEvery(ctx context.Context, out io.Writer, pause time.Duration, show func(io.Writer) error) error {
	return watchLoop(ctx, pause, func(n int) error {
		height := terminalHeight(out)
		if height == 0 {
			if n > 0 {
				fmt.Fprintln(out)
			}
			return show(out)
		}
		var text bytes.Buffer
		if err := show(&widthLike{&text, out}); err != nil {
			return err
		}
		_, err := io.WriteString(out, "\x1b[H\x1b[2J"+firstLines(text.String(), height-1))
		return err
	})
}

// watchRows prints a list until ctx ends: on a terminal all of it again and again, elsewhere all of
// it once and from then on the rows that changed.
func watchRows[T any](
	ctx context.Context,
	out io.Writer,
	take func() ([]T, error),
	key func(T) string,
	show func(w io.Writer, rows []T, first bool) error,
) error {
	if terminalHeight(out) > 0 {
		return watchScreen(ctx, out, func(w io.Writer) error {
			rows, err := take()
			if err != nil {
				return err
			}
			return show(w, rows, true)
		})
	}
	var before map[string]T
	return watchLoop(ctx, watchEvery, func(n int) error {
		rows, err := take()
		if err != nil {
			return err
		}
		now, changed := make(map[string]T, len(rows)), rows[:0:0]
		for _, r := range rows {
			k := key(r)
			now[k] = r
			if was, there := before[k]; !there || !reflect.DeepEqual(was, r) {
				changed = append(changed, r)
			}
		}
		before = now
		if len(changed) == 0 {
			return nil
		}
		return show(out, changed, n == 0)
	})
}

// watchLoop calls show until it fails or ctx ends: what goes on for ever ends by an interruption, which
// is its exit code.
func watchLoop(ctx context.Context, pause time.Duration, show func(n int) error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n := 0; ; n++ {
		if err := show(n); err != nil {
			if ctx.Err() != nil {
				return exitError{code: exitInterrupted}
			}
			return err
		}
		select {
		case <-ctx.Done():
			return exitError{code: exitInterrupted}
		case <-tick.C:
		}
	}
}

// widthLike is a writer whose tables are as wide as another one's.
type widthLike struct {
	io.Writer
	like io.Writer
}

// terminalHeight is how many lines a terminal has, 0 if it is none.
func terminalHeight(w io.Writer) int {
	f, is := w.(*os.File)
	if !is {
		return 0
	}
	_, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return max(height, 1)
}

// firstLines are as many lines of a text as fit, with the number of the others.
func firstLines(text string, most int) string {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) <= most+1 {
		return text
	}
	return strings.Join(lines[:max(most-1, 0)], "") + fmt.Sprintf("... and %d more\n", len(lines)-most)
}
