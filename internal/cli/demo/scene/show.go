package scene

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/demo/verdict"
)

const (
	// lineWidth is how wide what the scenes say is, in columns.
	lineWidth = 88
	// patience is how long one step may take on a busy machine.
	patience = 2 * time.Minute
	lookEach = 200 * time.Millisecond
)

// show is a scene that is being played.
type show struct {
	Stage
	began   time.Time
	results []verdict.Result
}

// say tells what comes now.
func (s *show) say(format string, args ...any) {
	fmt.Fprintln(s.Out, "\n"+cli.Wrap(fmt.Sprintf(format, args...), lineWidth, ""))
}

// claim states something. Err is what is wrong with it.
func (s *show) claim(text string, err error) {
	s.results = append(s.results, verdict.Result{Text: text, Err: err})
}

// file makes a file, and has alice show it.
func (s *show) file(name, text string) error {
	fmt.Fprintf(s.Out, "\nalice$ cat %s\n%s", name, text)
	return s.Shell.Write(name, text)
}

// run types a command line, prints what it prints, and returns that. It must succeed.
func (s *show) run(ctx context.Context, user string, argv ...string) (string, error) {
	return s.typed(ctx, Line{User: user, Argv: argv}, 0)
}

// head is run with "| head -n LINES" behind it.
func (s *show) head(ctx context.Context, lines int, user string, argv ...string) (string, error) {
	return s.typed(ctx, Line{User: user, Argv: argv}, lines)
}

func (s *show) typed(ctx context.Context, line Line, lines int) (string, error) {
	prompt := line.User + "$ " + quoted(line.Argv)
	switch {
	case line.Into != "":
		prompt += " > " + line.Into
	case lines > 0:
		prompt += fmt.Sprintf(" | head -n %d", lines)
	}
	fmt.Fprintln(s.Out, "\n"+prompt)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	var said bytes.Buffer
	var out io.Writer = &said
	if lines == 0 {
		out = io.MultiWriter(&said, s.Out) // while it is printed
	}
	code, err := s.Shell.Run(ctx, line, out, s.Out)
	if lines > 0 {
		fmt.Fprintln(s.Out, firstLines(said.String(), lines))
	}
	switch {
	case err != nil:
		return "", err
	case code != 0:
		return "", fmt.Errorf("%s: exit code %d", prompt, code)
	}
	return strings.TrimSpace(said.String()), nil
}

func firstLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

// look runs a command that prints JSON without showing it: that is how a scene knows whether
// what it says is so.
func (s *show) look(ctx context.Context, into any, user string, argv ...string) error {
	var out, errs bytes.Buffer
	code, err := s.Shell.Run(ctx, Line{User: user, Argv: argv}, &out, &errs)
	switch {
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("%s: exit code %d: %s", quoted(argv), code, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("%s: %w", quoted(argv), err)
	}
	return nil
}

// until looks again and again until something is so. Looks that fail are tried again.
func (s *show) until(ctx context.Context, what string, is func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	var last error
	for {
		ok, err := is(ctx)
		if ok && err == nil {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, errors.Join(context.Cause(ctx), last))
		case <-s.Clock.After(lookEach):
		}
	}
}

// job is what ps tells of a job.
type job struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Reason    string    `json:"reason"`
	GPUs      int64     `json:"gpus"`
	Held      int64     `json:"gpusHeld"`
	Started   time.Time `json:"started"`
	Created   time.Time `json:"created"`
}

// jobs are all jobs by NAMESPACE/NAME, as the administrator sees them.
func (s *show) jobs(ctx context.Context) (map[string]job, error) {
	var list struct{ Items []job }
	if err := s.look(ctx, &list, "", "mlbatch", "ps", "-A", "-o", "json"); err != nil {
		return nil, err
	}
	out := map[string]job{}
	for _, j := range list.Items {
		out[j.Namespace+"/"+j.Name] = j
	}
	return out, nil
}

// in waits until a job is in a state.
func (s *show) in(ctx context.Context, name, state string) error {
	return s.until(ctx, name+" is "+state, func(ctx context.Context) (bool, error) {
		all, err := s.jobs(ctx)
		return all[name].State == state, err
	})
}

// quoted is a command line as it is typed.
func quoted(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		if out[i] = a; a == "" || strings.ContainsAny(a, " \t'\"$*&;|<>(){}[]!?`\\") {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
