// Command terminal runs a program in a terminal of its own and draws what is then on
// the screen as SVG, so that pictures of programs in the documentation come from real
// runs.
//
//	go run ./tools/terminal [-when REGEXP -do COMMAND] -until REGEXP -o FILE -- PROGRAM ARG...
//
// Once the screen matches -when, COMMAND is run by a shell outside of the terminal; once
// it has ended and the screen matches -until, the picture is drawn and the program is
// sent a Ctrl-C, unless it has ended. pty_linux.go opens the terminal, screen.go keeps what is on it, draw.go
// draws it as lines of text. It knows as much of terminals as our programs use.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// quiet is how long nothing is written before a screen counts as complete.
const quiet = 300 * time.Millisecond

type options struct {
	columns     int
	when, until *regexp.Regexp
	do          string
	// replace is what must not be in the picture, and what is there instead.
	replace [2]string
	argv    []string
}

func main() {
	var o options
	flag.IntVar(&o.columns, "columns", 100, "width of the terminal")
	when := flag.String("when", "", "run -do once the screen matches this regular `expression`")
	flag.StringVar(&o.do, "do", "", "shell `command` to run outside of the terminal")
	until := flag.String("until", "", "draw once the screen matches this regular `expression`")
	replace := flag.String("replace", "", "`FROM=TO`: text to draw instead of another")
	out := flag.String("o", "", "SVG `file` to write")
	most := flag.Duration("timeout", 2*time.Minute, "give up after this time")
	flag.Parse()
	o.argv = flag.Args()
	if *out == "" || *until == "" || len(o.argv) == 0 || (*when == "") != (o.do == "") {
		fmt.Fprintln(
			os.Stderr,
			"usage: terminal [-when REGEXP -do COMMAND] -until REGEXP -o FILE -- PROGRAM ARG...",
		)
		os.Exit(2)
	}
	from, to, _ := strings.Cut(*replace, "=")
	o.replace = [2]string{from, to}
	o.when, o.until = regexp.MustCompile(*when), regexp.MustCompile(*until)
	ctx, cancel := context.WithTimeout(context.Background(), *most)
	defer cancel()
	picture, err := watch(ctx, o)
	if err == nil {
		err = os.WriteFile(*out, picture, 0o644) //nolint:gosec // documentation is for everybody
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "terminal:", err)
		os.Exit(1)
	}
}

// watch runs the program and draws its screen at the moment that was asked for.
func watch(ctx context.Context, o options) ([]byte, error) {
	ours, theirs, err := openTerminal(o.columns)
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	cmd := exec.CommandContext(ctx, o.argv[0], o.argv[1:]...) //nolint:gosec // running it is what this is for
	inTerminal(cmd, theirs)
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, err
	}
	s := newScreen(o.columns)
	_, _ = io.WriteString(s, "$ "+strings.Join(o.argv, " ")+"\r\n") // a screen takes everything
	err = play(ctx, s, chunks(ctx, ours), o)
	picture := draw(s.lines(), o.columns, o.replace)
	if err != nil {
		err = fmt.Errorf("%w; on the screen was:\n%s", err, s.text())
	}
	_, failed := ours.Write([]byte{3}) // Ctrl-C
	go func() { _, _ = io.Copy(io.Discard, ours) }()
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	return picture, errors.Join(err, cmd.Wait())
}

// chunks hands on what a terminal is written, until it is closed.
func chunks(ctx context.Context, r io.Reader) <-chan []byte {
	c := make(chan []byte)
	go func() {
		defer close(c)
		for {
			buf := make([]byte, 4096)
			n, err := r.Read(buf)
			select {
			case c <- buf[:n]:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

// play feeds the screen, and goes through the steps, until the picture can be drawn.
func play(ctx context.Context, s *screen, written <-chan []byte, o options) error {
	var done chan error
	acted := o.do == ""
	for {
		select {
		case b, open := <-written:
			switch {
			case open:
			case acted && o.until.MatchString(s.text()):
				return nil
			default:
				return errors.New("the program ended before")
			}
			_, _ = s.Write(b)
		case <-time.After(quiet):
			switch text := s.text(); {
			case !acted && done == nil && o.when.MatchString(text):
				done = make(chan error, 1)
				go func() { done <- shell(ctx, o.do) }()
			case acted && o.until.MatchString(text):
				return nil
			}
		case err := <-done:
			if err != nil {
				return err
			}
			acted, done = true, nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func shell(ctx context.Context, command string) error {
	out, err := exec.CommandContext( //nolint:gosec // it was asked for
		ctx,
		"sh",
		"-ec",
		command,
	).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, bytes.TrimSpace(out))
	}
	return nil
}
