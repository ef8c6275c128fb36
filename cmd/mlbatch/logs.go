package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mlbatch/mlbatch/internal/cli/actions"
	"github.com/mlbatch/mlbatch/internal/view"
)

// logFlags are those of logs.
type logFlags struct {
	session

	job   jobArg
	ref   view.Ref
	o     actions.LogOptions
	ranks string
	tail  int64
	// evidence asks for what was kept when the job hung.
	evidence bool
}

// newLogsCommand prints the logs of jobs.
func newLogsCommand() *cobra.Command {
	var l logFlags
	cmd := clusterCommand{session: &l.session, job: &l.job, check: l.check, do: l.read}.command(&cobra.Command{
		Use:   "logs JOB",
		Short: "Print the logs of all pods of a job",
		Long: `Print the logs of all pods of a job in the order of time, each line with the role and
rank of its pod in front, if there are several. The job is NAME or NAMESPACE/NAME, or the
name of one of its pods, of which alone the log is printed then.

With -f new lines are printed as they come, also those of pods that take the place of
others and of containers that start again, whose run before that comes first unless --tail
or --since ask for less; it ends with the job. Without it, logs of pods that have ended are
printed as long as the pods exist.

At most --most logs are read at the same time, those of failed pods before others.

With --evidence what was kept the last time that the job hung is printed, also when its pods
or the job are gone: each rank, its last step and the end of its log.`,
		Example: `  # what does it print, until it ends?
  mlbatch logs -f blue/train

  # the last lines of two of its workers
  mlbatch logs blue/train --role worker --rank 0..1 --tail 20

  # what a container printed before it was started again
  mlbatch logs blue/train --rank 3 --previous

  # what its pods said when it hung
  mlbatch logs blue/train --evidence`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: l.job.complete,
	})
	f := cmd.Flags()
	f.BoolVarP(&l.o.Follow, "follow", "f", false, "go on until the job has ended, over restarts")
	memberFlags(f, &l.o.Role, &l.ranks, &l.o.Container)
	f.DurationVar(&l.o.Since, "since", 0, "lines of the last so many seconds, minutes or hours, such as 10m")
	f.Int64Var(&l.tail, "tail", -1, "so many of the last lines of each pod; -1 are all")
	f.BoolVarP(&l.o.Previous, "previous", "p", false,
		"of containers that were started again in their pods: the run before this one")
	f.BoolVar(&l.evidence, "evidence", false, "what was kept the last time that the job hung")
	f.BoolVar(&l.o.Timestamps, "timestamps", false, "print when each line was written")
	f.IntVar(&l.o.Most, "most", mostLogs, "how many logs are read at the same time")
	return cmd
}

// mostLogs is how many logs are read at the same time unless more are asked for: each is a
// connection that the API server holds to a node.
const mostLogs = 50

func (l *logFlags) read(ctx context.Context) error {
	if l.evidence {
		return actions.Evidence(ctx, l.c, l.ref, l.out)
	}
	open, err := logOpener(l.cfg)
	if err != nil {
		return err
	}
	target, err := actions.Find(ctx, l.c, l.ref)
	if err != nil {
		return err
	}
	l.o.Terminal = isTerminal(l.out)
	return interrupted(ctx, actions.Logs(ctx, l.c, open, target, l.o, l.out, l.errs))
}

// check finds mistakes in the flags.
func (l *logFlags) check() (err error) {
	if l.o.Ranks, err = actions.ParseRanks(l.ranks); err != nil {
		return err
	}
	switch {
	case l.evidence && (l.o.Follow || l.o.Previous):
		return errors.New("--evidence: it was kept once and says nothing more: leave out -f and --previous")
	case l.o.Follow && l.o.Previous:
		return errors.New("-f and --previous: a run that is over says nothing more: give one of them")
	case l.o.Since < 0:
		return fmt.Errorf("--since %s: give a time such as 10m", l.o.Since)
	case l.o.Since > 0 && l.o.Since < time.Second:
		return fmt.Errorf("--since %s: one second is the least", l.o.Since)
	case l.tail < -1:
		return fmt.Errorf("--tail %d: give a number of lines, -1 for all", l.tail)
	case l.o.Most < 1:
		return fmt.Errorf("--most %d: give at least 1", l.o.Most)
	}
	if l.tail >= 0 {
		l.o.Tail = &l.tail
	}
	l.ref, err = l.job.ref(l.args[0])
	return err
}

// logOpener reads logs from a cluster.
func logOpener(cfg *rest.Config) (actions.Opener, error) {
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return func(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		return cs.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).Stream(ctx)
	}, nil
}

// interrupted makes what Ctrl-C ended exit as such.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return exitError{code: exitInterrupted}
	}
	return err
}

// isTerminal reports whether what is written goes to one.
func isTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}
