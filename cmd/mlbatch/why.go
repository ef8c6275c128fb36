package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// newWhyCommand says why a job is where it is.
func newWhyCommand() *cobra.Command {
	var job jobArg
	var ref view.Ref
	ask := &readCommand{
		formats: []string{"json", "yaml"}, instead: "a paragraph", job: &job,
		check: func(q *query) (err error) {
			ref, err = job.ref(q.args[0])
			return err
		},
		read: func(ctx context.Context, q *query) (found, error) {
			about, err := why.Gather(ctx, q.c, cli.Controller{Config: q.cfg}, ref, time.Now())
			if err != nil {
				return nil, err
			}
			e := why.Explain(about)
			return answer{e, func(w io.Writer) error {
				return cli.PrintExplanation(w, &e, cli.Style{Width: widthOf(w), Kubectl: kubectlHere()})
			}}, nil
		},
	}
	return ask.command(&cobra.Command{
		Use:   "why JOB",
		Short: "Say why a job waits, or where it is: what is short, who holds it, what helps",
		Long: `Say in one paragraph where a job is and why: what it waits for, how much of it is
short, who holds it, and what would help, which was tried before it is said. The job
is NAME, NAMESPACE/NAME or KIND/NAME (pod/x, with -n), of its ` + cli.KindList() + `.
What runs outside all queues has an answer, too.

The cluster is that of --kubeconfig, else of $KUBECONFIG, else the one that
"mlbatch up" runs, else the one in ~/.kube/config.`,
		Example: `  # why does this job not start?
  mlbatch why blue/train

  # a Deployment, by the name that kubectl prints
  mlbatch why deployment.apps/chat -n blue

  # what alice is told
  mlbatch why blue/train --as alice

  # for a script
  mlbatch why blue/train -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: job.complete,
	})
}

// connectionFlags say which cluster is asked, and as whom.
func connectionFlags(f *pflag.FlagSet, conn *cli.Connection) {
	f.StringVar(&conn.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	f.StringVar(&conn.DataDir, "data-dir", "",
		"`directory` of a cluster made by mlbatch up (default $MLBATCH_DATA_DIR or ~/.local/share/mlbatch)")
	f.StringVar(&conn.As, "as", "", "user to ask as")
}

// widthOf is how wide a terminal is, with a bound for reading; cli.Width if it is none.
func widthOf(w io.Writer) int {
	f, is := w.(*os.File)
	if !is {
		return cli.Width
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < narrowest {
		return cli.Width
	}
	return min(width, widest)
}

// tableWidth is how wide a terminal is, 0 if it is none: what goes elsewhere is whole.
func tableWidth(w io.Writer) int {
	if screen, is := w.(*widthLike); is {
		w = screen.like
	}
	f, is := w.(*os.File)
	if !is {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return max(width, narrowest)
}

// hasColours reports whether states are printed in colours: on a terminal that has them, unless
// somebody wants none (https://no-color.org).
func hasColours(w io.Writer) bool { return tableWidth(w) > 0 && wantsColours(os.Getenv) }

func wantsColours(env func(string) string) bool {
	return env("NO_COLOR") == "" && env("TERM") != "" && env("TERM") != "dumb"
}

// kubectlHere is what runs kubectl here.
func kubectlHere() string {
	if _, err := exec.LookPath("kubectl"); err != nil {
		return "mlbatch kubectl"
	}
	return "kubectl"
}

const (
	narrowest = 40
	widest    = 140
)
