package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/mlbatch/mlbatch/internal/cli/actions"
	"github.com/mlbatch/mlbatch/internal/words"
)

// newCpCommand copies files to and from pods of jobs.
func newCpCommand() *cobra.Command {
	var p podCommand
	var job, there, here string
	var down bool
	p.named = func() string { return job }
	p.check = func() error {
		from, fromPath, isDown := remotePath(p.args[0])
		to, toPath, up := remotePath(p.args[1])
		job, there, here = from, fromPath, p.args[1]
		if up {
			job, there, here = to, toPath, p.args[0]
		}
		down = isDown
		switch {
		case down == up:
			return errors.New("one of both has to be JOB:PATH, the other a path of this machine")
		case there == "":
			return errors.New("say which path of the pod is meant: JOB:PATH")
		case up:
			if _, err := os.Stat(here); err != nil {
				return exitError{exitFailure, fmt.Errorf("copy %s: %w", here, err)}
			}
		}
		return nil
	}
	p.do = func(ctx context.Context, m member) error {
		if down {
			return m.download(ctx, there, here, p.errs)
		}
		return m.upload(ctx, here, there, p.errs)
	}
	return p.command(&cobra.Command{
		Use:   "cp JOB:PATH LOCAL | LOCAL JOB:PATH",
		Short: "Copy a file or folder from or to a pod of a job, of rank 0 if no other is chosen",
		Long: `Copy a file or folder from a pod of a job that runs to this machine, or the other way. The
image needs tar. Links are not copied; what a pod sends is written to LOCAL and nowhere
else.`,
		Example: `  # bring the last checkpoint here
  mlbatch cp blue/train:/checkpoints/last.pt .

  # and a new configuration there
  mlbatch cp config.yaml blue/train:/work/ --rank worker-1`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			if _, _, remote := remotePath(
				typed,
			); remote || strings.HasPrefix(typed, ".") ||
				strings.HasPrefix(typed, "/") {
				return nil, cobra.ShellCompDirectiveDefault
			}
			var out []string
			for _, name := range jobNames(cmd.Context(), p.job.conn, p.job.namespace, typed) {
				out = append(out, name+":")
			}
			return out, cobra.ShellCompDirectiveNoSpace // files are offered where there is no such job
		},
	})
}

// remotePath reads JOB:PATH. A path of this machine that has a colon is written with ./ in front.
func remotePath(arg string) (job, at string, is bool) {
	if strings.HasPrefix(arg, ".") || strings.HasPrefix(arg, "/") {
		return "", "", false
	}
	return strings.Cut(arg, ":")
}

// download copies from a pod.
func (m *member) download(ctx context.Context, from, to string, errs io.Writer) error {
	from = path.Clean(from)
	folder, name := path.Split(from)
	if name == "" || name == "." || name == ".." {
		return usagef("%s: name the file or folder itself", from)
	}
	reader, writer := io.Pipe()
	failed := make(chan error, 1)
	var said strings.Builder
	go func() {
		err := m.exec(
			ctx,
			[]string{"tar", "cf", "-", "-C", cmp.Or(folder, "."), "--", name},
			remotecommand.StreamOptions{Stdout: writer, Stderr: &said},
		)
		writer.CloseWithError(err)
		failed <- err
	}()
	left, err := actions.Unpack(reader, name, to)
	reader.CloseWithError(err)
	tell(errs, left)
	return copied(err, <-failed, said.String())
}

// upload copies to a pod.
func (m *member) upload(ctx context.Context, from, to string, errs io.Writer) error {
	whole, err := filepath.Abs(from)
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	folder, name := path.Split(to)
	if name == "" { // into that folder, under the name that it has
		name = filepath.Base(whole)
	}
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		left, err := actions.Pack(writer, whole, name)
		writer.CloseWithError(err)
		tell(errs, left)
		packed <- err
	}()
	var said strings.Builder
	err = m.exec(
		ctx,
		[]string{"tar", "xmf", "-", "-C", cmp.Or(folder, ".")},
		remotecommand.StreamOptions{Stdin: reader, Stdout: io.Discard, Stderr: &said},
	)
	reader.CloseWithError(err)
	return copied(<-packed, err, said.String())
}

// copied is what went wrong: what the other side says of it counts for more.
func copied(here, there error, said string) error {
	var code exitError
	switch {
	case errors.As(there, &code):
		return fmt.Errorf("tar in the pod: %s", words.Harmless(strings.TrimSpace(said)))
	case there != nil:
		return there
	}
	return here
}

// tell names what was not copied.
func tell(errs io.Writer, left []string) {
	const most = 5
	for i, name := range left {
		if i == most {
			fmt.Fprintf(errs, "and %d more\n", len(left)-most)
			return
		}
		fmt.Fprintf(
			errs,
			"left out, because it is no file or folder below what is copied: %s\n",
			words.Harmless(name),
		)
	}
}
