package agent

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Tools runs programs that look at hardware.
type Tools interface {
	// Has reports whether there is such a program.
	Has(tool string) bool
	// Run runs it, until its context ends at the latest.
	Run(ctx context.Context, tool string, args ...string) Output
}

// Output is what a program printed, and how it ended.
type Output struct {
	Text []byte
	Code int
	// Cut says why there may be more that nobody will see; "" if this is all.
	Cut string
}

// mostOutput bounds what is kept of what a program prints.
const mostOutput = 4 << 20

// Programs are those on the path of this process. Create it with NewPrograms.
type Programs struct {
	mu sync.Mutex
	// runs have room for one run of each program: they are for the same driver, and many would wait where one does.
	runs map[string]chan struct{}
	// stuck are programs that were killed and did not end, as those do whose driver hangs. No second one is
	// started beside them.
	stuck map[string]bool
}

// NewPrograms are the programs on the path.
func NewPrograms() *Programs {
	return &Programs{runs: map[string]chan struct{}{}, stuck: map[string]bool{}}
}

// Has reports whether the path has it.
func (p *Programs) Has(tool string) bool {
	_, err := exec.LookPath(tool)
	return err == nil
}

// Run runs a program and all that it starts in a group of processes, which is killed as a whole.
func (p *Programs) Run(ctx context.Context, tool string, args ...string) Output {
	p.mu.Lock()
	stuck := p.stuck[tool]
	if p.runs[tool] == nil {
		p.runs[tool] = make(chan struct{}, 1)
	}
	turn := p.runs[tool]
	p.mu.Unlock()
	if stuck {
		return Output{
			Code: -1,
			Cut:  "an earlier " + tool + " was killed and still has not ended: the driver may hang",
		}
	}
	select {
	case turn <- struct{}{}: // until it has ended, whoever still waits for it
	case <-ctx.Done():
		return Output{Code: -1, Cut: "another " + tool + " did not end in time"}
	}
	var out bounded
	cmd := exec.CommandContext(ctx, tool, args...) //nolint:gosec // names of tools are constants
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		<-turn
		return Output{Code: -1, Cut: tool + " did not start: " + err.Error()}
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.stuck, tool)
		ended <- err // there is room
		<-turn
	}()
	const grace = 3 * time.Second
	select {
	case err := <-ended:
		return out.output(ctx, tool, err)
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return out.output(ctx, tool, err)
	case <-time.After(grace):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case err := <-ended:
		return out.output(ctx, tool, err)
	default:
		p.stuck[tool] = true
	}
	return Output{Text: out.text(), Code: -1, Cut: tool + " was killed and did not end: the driver may hang"}
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	mu   sync.Mutex
	kept []byte
	more bool
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := mostOutput - len(b.kept)
	b.more = b.more || len(p) > room
	b.kept = append(b.kept, p[:min(len(p), room)]...)
	return len(p), nil
}

func (b *bounded) text() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]byte(nil), b.kept...)
}

func (b *bounded) output(ctx context.Context, tool string, err error) Output {
	o := Output{Text: b.text()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		o.Code, o.Cut = -1, tool+" did not end in time"
	case errors.As(err, &exit):
		o.Code = exit.ExitCode()
	case err != nil:
		o.Code, o.Cut = -1, tool+": "+err.Error()
	}
	if b.more {
		o.Cut = tool + " printed more than 4 MiB"
	}
	return o
}

// once runs each command once, for checks of one round that read the same answer.
type once struct {
	Tools

	mu   sync.Mutex
	runs map[string]*sync.Once
	said map[string]Output
}

func newOnce(t Tools) *once {
	return &once{Tools: t, runs: map[string]*sync.Once{}, said: map[string]Output{}}
}

func (o *once) Run(ctx context.Context, tool string, args ...string) Output {
	key := tool + "\x00" + strings.Join(args, "\x00")
	o.mu.Lock()
	run := o.runs[key]
	if run == nil {
		run = &sync.Once{}
		o.runs[key] = run
	}
	o.mu.Unlock()
	run.Do(func() {
		out := o.Tools.Run(ctx, tool, args...)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.said[key] = out
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said[key]
}
