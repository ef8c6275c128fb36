package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
)

// session is one run of a command that works with a cluster: what was typed, who reads and answers, and
// the cluster.
type session struct {
	cmd  *cobra.Command
	args []string
	out  io.Writer
	// errs is where notes go.
	errs io.Writer
	// conn says which cluster it is.
	conn *cli.Connection
	cfg  *rest.Config
	c    client.WithWatch
}

// unreachable says of a server that does not answer what to do about it.
func (s *session) unreachable(err error) error {
	if err == nil || s.cfg == nil {
		return err
	}
	return s.conn.Unreachable(err, s.cfg.Host)
}

// clusterCommand is a command that works with a cluster, as a value: what is wrong with what was typed, and
// what it does. The runner (command) does what all of them have in common: it adds the flags of the cluster,
// refuses what is wrong before it connects, and says what to do where no server answers.
type clusterCommand struct {
	*session
	// job is the job that the command is about, if it is about one: its flags say which cluster it is.
	job *jobArg
	// check finds mistakes in what was typed; those that are none of the command line are an exitError.
	check func() error
	// offline reports whether what was typed takes no cluster, dry whether the API server is to keep nothing
	// of what is written; without them it takes one, and is written.
	offline, dry func() bool
	do           func(ctx context.Context) error
}

// command makes the command; cmd has its names, its help and what arguments it takes.
func (r clusterCommand) command(cmd *cobra.Command) *cobra.Command {
	if r.job != nil {
		r.conn = &r.job.conn
		r.job.flags(cmd.Flags())
	} else {
		r.conn = &cli.Connection{}
		connectionFlags(cmd.Flags(), r.conn)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.cmd, r.args, r.out, r.errs = cmd, args, cmd.OutOrStdout(), cmd.ErrOrStderr()
		return r.run(cmd.Context())
	}
	return cmd
}

func (r clusterCommand) run(ctx context.Context) (err error) {
	if r.check != nil {
		if err := r.check(); errors.As(err, new(exitError)) {
			return err
		} else if err != nil {
			return usageError{err}
		}
	}
	if r.offline == nil || !r.offline() {
		if r.cfg, r.c, err = connect(r.conn); err != nil {
			return err
		}
		if r.dry != nil && r.dry() {
			r.c = unwritten{client.NewDryRunClient(r.c), r.c}
		}
	}
	return r.unreachable(r.do(ctx))
}

// unwritten is a client whose writes the API server checks, and does not keep.
type unwritten struct {
	client.Client
	watcher client.WithWatch
}

// Watch reads, so that nothing is different.
func (u unwritten) Watch(
	ctx context.Context,
	list client.ObjectList,
	options ...client.ListOption,
) (watch.Interface, error) {
	return u.watcher.Watch(ctx, list, options...)
}
