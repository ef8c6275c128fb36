package submit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Session stays with a job until it ends, or until its user goes.
type Session struct {
	// Name of the job, as messages have it.
	Name string
	// Follow calls see when the job or its pods have changed, until see says that it has seen
	// enough. gone says that the job was deleted.
	Follow func(ctx context.Context, see func(gone bool) (done bool, err error)) error
	// Facts is how the job stood when see was called, Pods the pods that it had then.
	Facts func() view.Standing
	Pods  func() []corev1.Pod
	// Why says what a waiting job waits for, in a sentence; "" if nobody can say.
	Why func(ctx context.Context) string
	// Again reads the pods once more.
	Again func(ctx context.Context) []corev1.Pod
	// Logs prints what the job's pods print, until it has ended.
	Logs func(ctx context.Context) error
	// Cancel deletes the job.
	Cancel func(ctx context.Context) error
	// Interrupts come from people who want to go, and Ask returns what they want then; nil asks
	// nobody, as where there is no terminal.
	Interrupts <-chan os.Signal
	Ask        func(question string) <-chan string
	// Notes are printed there: a line that changes in a terminal of a width, or one for each
	// change elsewhere, where the width is 0.
	Notes io.Writer
	Width int

	lock  sync.Mutex
	last  string
	shown bool // the line of a terminal is in place
	// stuck is the pod that could not be started when see looked last, and said what the runtime said of
	// it first.
	stuck, said string
	result      Result
}

// Result is how a session ended.
type Result struct {
	// Code is the exit code of the job, or 1 if it is not known.
	Code int
	// Left says that the job goes on, Canceled that it was deleted, on request of the user.
	Left, Canceled bool
}

// errFailed is the code of what failed for a reason that no container tells.
const errFailed = 1

// Run stays until the end.
func (s *Session) Run(ctx context.Context) (Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var logs sync.WaitGroup
	var logFailure error
	started := false
	followed := make(chan error, 1)
	go func() {
		followed <- s.Follow(ctx, func(gone bool) (bool, error) {
			j := s.Facts()
			if !started && begun(j) {
				started = true
				logs.Go(func() { logFailure = s.Logs(ctx) })
			}
			return s.see(ctx, j, gone), nil
		})
	}()
	var answer <-chan string
	for {
		select {
		case err := <-followed:
			if err != nil {
				return Result{Code: errFailed}, err
			}
			s.await(&logs, stop)
			if logFailure != nil && !errors.Is(logFailure, context.Canceled) {
				s.note("its logs could not be read: " + logFailure.Error())
			}
			s.finish(context.WithoutCancel(ctx))
			return s.result, nil
		case <-s.Interrupts:
			if answer != nil {
				fmt.Fprintln(s.Notes) // the question stays where it is
			}
			if answer != nil || s.Ask == nil {
				return s.leave(), nil
			}
			s.clear()
			answer = s.Ask(fmt.Sprintf("Detach from %s, cancel it, or stay? [d/c/S] ", s.Name))
		case text := <-answer:
			answer = nil
			switch strings.ToLower(strings.TrimSpace(text)) {
			case "d", "detach":
				return s.leave(), nil
			case "c", "cancel":
				if err := s.Cancel(ctx); err != nil {
					return Result{Code: errFailed}, fmt.Errorf("cancel %s: %w", s.Name, err)
				}
				s.note(s.Name + " is canceled")
				return Result{Canceled: true}, nil
			}
		}
	}
}

// patience is how long the logs of a job may take to end that will not go on.
const patience = 10 * time.Second

// await waits until the logs have been read. Those of a job that was stopped and not ended would go
// on when it does.
func (s *Session) await(logs *sync.WaitGroup, stop func()) {
	read := make(chan struct{})
	go func() { logs.Wait(); close(read) }()
	if j := s.Facts(); j.State != view.Succeeded && j.State != view.Failed {
		stop()
	}
	select {
	case <-read:
	case <-clock.RealClock{}.After(patience):
		stop()
		<-read
	}
}

// leave lets the job go on.
func (s *Session) leave() Result {
	s.note(
		fmt.Sprintf("%s goes on; mlbatch logs -f %s follows it, mlbatch cancel %s ends it", s.Name, s.Name, s.Name),
	)
	return Result{Left: true}
}

// begun reports whether there may be something to read.
func begun(j view.Standing) bool {
	switch j.State {
	case view.Waiting, view.Held:
		return false
	case view.Starting, view.Running, view.Resetting, view.Stopping, view.Succeeded, view.Failed, view.Unmanaged:
	}
	return len(j.Pods.Running) > 0 || j.Pods.Ended > 0
}

// see tells how the job stands, and reports whether it has ended.
func (s *Session) see(ctx context.Context, j view.Standing, gone bool) bool {
	if code := view.ExitCode(view.Failed, s.Pods()); code != nil {
		s.result.Code = int(*code)
	}
	switch {
	case gone:
		s.result.Code = errFailed
		s.tell(s.Name + " was deleted")
		return true
	case j.State == view.Succeeded || j.State == view.Failed:
		return true
	case j.Stage == view.Deactivated && j.Pods.Live() == 0:
		s.result.Code = errFailed
		s.tell(fmt.Sprintf("%s was stopped for good (%s)", s.Name, reasonOf(j)))
		return true
	}
	s.tell(s.Name + " " + s.standing(ctx, j))
	return false
}

func reasonOf(j view.Standing) string {
	if j.Message == "" {
		return j.Reason
	}
	return j.Message
}

// standing is how a job stands that has not ended.
func (s *Session) standing(ctx context.Context, j view.Standing) string {
	switch j.State {
	case view.Waiting:
		if j.Decision == nil {
			return "waits"
		}
		if text := s.Why(ctx); text != "" {
			return "waits: " + text
		}
		return "waits: " + why.Plain(reasonOf(j))
	case view.Starting:
		if j.Pods.Ended > 0 { // it ends
			return "runs"
		}
		return fmt.Sprintf("starts: %d of %d pods run%s", len(j.Pods.Running), j.Pods.Wanted, s.trouble())
	case view.Held:
		return "is held: " + reasonOf(j)
	case view.Stopping:
		return "is stopped: " + reasonOf(j)
	case view.Resetting:
		return "begins anew"
	case view.Running:
		return "runs"
	case view.Succeeded, view.Failed, view.Unmanaged:
	}
	return strings.ToLower(string(j.State))
}

// trouble ends a line about a job that starts with what the runtime says of the first pod that it cannot
// start. That stays as it was first said while the runtime tries again: it says so in ever other words.
func (s *Session) trouble() string {
	for _, p := range s.Pods() {
		said := view.NotStarted(&p)
		if said == "" {
			continue
		}
		if s.stuck != p.Name {
			s.stuck, s.said = p.Name, said
		}
		return fmt.Sprintf("; pod %s cannot start: %s", p.Name, s.said)
	}
	s.stuck = ""
	return ""
}

// finish tells how the job ended.
func (s *Session) finish(ctx context.Context) {
	j := s.Facts()
	switch j.State {
	case view.Succeeded:
		s.result.Code = 0
		s.note(s.Name + " succeeded")
	case view.Failed:
		if code := view.ExitCode(view.Failed, s.Again(ctx)); code != nil {
			s.result.Code = int(*code)
		}
		if s.result.Code == 0 {
			s.result.Code = errFailed
		}
		s.note(fmt.Sprintf("%s failed with exit code %d: %s", s.Name, s.result.Code, reasonOf(j)))
	case view.Held, view.Waiting, view.Starting, view.Running, view.Resetting, view.Stopping, view.Unmanaged:
		s.clear()
	}
}

// tell shows how the job stands, if that is another way than before. In a terminal what it waits
// for is a line that changes.
func (s *Session) tell(text string) {
	s.lock.Lock()
	same := s.last == text
	s.last = text
	s.lock.Unlock()
	if same {
		return
	}
	if s.Width == 0 {
		s.note(text)
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	line := []rune(words.Harmless(text))
	if len(line) >= s.Width {
		line = append(line[:s.Width-2], '…')
	}
	fmt.Fprintf(s.Notes, "\r\x1b[K%s", string(line))
	s.shown = true
	if strings.HasSuffix(text, " runs") { // logs follow
		fmt.Fprintln(s.Notes)
		s.shown = false
	}
}

// note prints a line that stays.
func (s *Session) note(text string) {
	s.clear()
	fmt.Fprintln(s.Notes, words.Harmless(text))
}

// clear takes away the line that changes.
func (s *Session) clear() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.shown {
		fmt.Fprint(s.Notes, "\r\x1b[K")
		s.shown = false
	}
}

// AfterDone says whether a job may start that comes after one that has ended in a state. The error
// says why it never will.
func AfterDone(d jobs.Dependency, state view.State) error {
	if d.Met(state == view.Succeeded) {
		return nil
	}
	how := "succeeded"
	if d.When == jobs.AfterFail {
		how = "failed"
	}
	return fmt.Errorf("--after %s: it has not %s (%s), so nothing was started", d, how, state)
}
