package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/actions"
	"github.com/mlbatch/mlbatch/internal/cli/submit"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// attached is who stays with a job, and where from.
type attached struct {
	cfg       *rest.Config
	c         client.WithWatch
	in        io.Reader
	out, errs io.Writer
}

// stay stays with a job until it ends, and exits as it does. ctx does not end when the user
// interrupts: that asks what to do.
func (a *attached) stay(ctx context.Context, job client.Object, kind string) error {
	ctx = context.WithoutCancel(ctx)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupts)

	ref := view.Ref{Kind: view.Kind(kind), Namespace: job.GetNamespace(), Name: job.GetName()}
	open, err := logOpener(a.cfg)
	if err != nil {
		return err
	}
	target, err := actions.Find(ctx, a.c, ref)
	if err != nil {
		return err
	}
	s := &submit.Session{
		Name: ref.Namespace + "/" + ref.Name, Interrupts: interrupts, Notes: a.errs,
		Follow: func(ctx context.Context, see func(bool) (bool, error)) error {
			return actions.Follow(ctx, a.c, target, true, see)
		},
		Facts: target.Facts,
		Pods:  func() []corev1.Pod { return target.Pods },
		Why: func(ctx context.Context) string {
			answer, err := cli.Controller{Config: a.cfg}.Explanation(ctx, ref.Namespace, target.Workload.Name)
			if err != nil || !answer.Waiting {
				return ""
			}
			text := why.Plain(answer.Message)
			if n := answer.PositionInClusterQueue; n != nil && *n > 0 {
				text += fmt.Sprintf("; %d before it", *n)
			}
			return text
		},
		Again: func(ctx context.Context) []corev1.Pod {
			again, err := actions.Find(ctx, a.c, ref)
			if err != nil {
				return nil
			}
			return again.Pods
		},
		Logs: func(ctx context.Context) error {
			of, err := actions.Find(ctx, a.c, ref)
			if err != nil {
				return err
			}
			return actions.Logs(
				ctx,
				a.c,
				open,
				of,
				actions.LogOptions{Follow: true, Most: mostLogs, Terminal: isTerminal(a.out)},
				a.out,
				a.errs,
			)
		},
		Cancel: func(ctx context.Context) error {
			actor := &actions.Actor{Client: a.c}
			_, err := actor.Cancel(ctx, target, false)
			return err
		},
	}
	if isTerminal(a.errs) {
		s.Width = tableWidth(a.errs)
	}
	if in, is := a.in.(*os.File); is && isTerminal(in) && isTerminal(a.errs) {
		s.Ask = a.ask
	}
	result, err := s.Run(ctx)
	switch {
	case err != nil:
		return err
	case result.Left && s.Ask != nil:
		return nil
	case result.Left || result.Canceled:
		return exitError{code: exitInterrupted}
	case result.Code != exitOK:
		return exitError{code: result.Code}
	}
	return nil
}

// ask asks who sits at the terminal.
func (a *attached) ask(question string) <-chan string {
	fmt.Fprint(a.errs, question)
	answer := make(chan string, 1)
	go func() { // ends with the program, if nobody answers
		text, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- text
	}()
	return answer
}

// after waits until all jobs have ended that a job depends on.
func (a *attached) after(ctx context.Context, namespace string, all []jobs.Dependency) error {
	for _, d := range all {
		target, err := actions.Find(ctx, a.c, view.Ref{Namespace: namespace, Name: d.Job})
		if _, ok := errors.AsType[*why.MissingError](err); ok {
			return fmt.Errorf("--after %s: %w", d, err)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.errs, "Waiting until %s/%s has ended.\n", namespace, d.Job)
		var state view.State
		err = actions.Follow(ctx, a.c, target, false, func(gone bool) (bool, error) {
			j := target.Facts()
			state = j.State
			switch {
			case gone:
				return true, fmt.Errorf("--after %s: it was deleted, so nothing was started", d)
			case j.Stage == view.Deactivated:
				state = view.Failed
				return true, nil
			}
			return j.Stage == view.Ended || j.Stage == view.Finished, nil
		})
		if err != nil {
			return interrupted(ctx, err)
		}
		if err := submit.AfterDone(d, state); err != nil {
			return err
		}
	}
	return nil
}

// stillRunning are those of the jobs that another one comes after which have not ended. It is an
// error if one is not there, or has ended in another way than it must.
func stillRunning(
	ctx context.Context,
	c client.Client,
	namespace string,
	all []jobs.Dependency,
) ([]jobs.Dependency, error) {
	var left []jobs.Dependency
	for _, d := range all {
		target, err := actions.Find(ctx, c, view.Ref{Namespace: namespace, Name: d.Job})
		if err != nil {
			return nil, fmt.Errorf("--after %s: %w", d, err)
		}
		switch j := target.Facts(); {
		case j.State == view.Unmanaged:
			return nil, fmt.Errorf(
				"--after %s: it is in no queue, so nobody in the cluster would notice its end: use mlbatch run without --detach, which waits here",
				d,
			)
		case j.Stage != view.Ended && j.Stage != view.Finished:
			left = append(left, d)
		default:
			if err := submit.AfterDone(d, j.State); err != nil {
				return nil, err
			}
		}
	}
	return left, nil
}
