package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/words"
)

// usagef is a mistake in the command line.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// making are the flags of commands that write objects.
type making struct {
	conn   cli.Connection
	output string
	dryRun string
	yes    bool
}

func (m *making) flags(f *pflag.FlagSet) {
	f.StringVarP(&m.output, "output", "o", "", "yaml or json: print the objects")
	m.dryRunFlag(f)
	connectionFlags(f, &m.conn)
}

func (m *making) dryRunFlag(f *pflag.FlagSet) {
	f.StringVar(
		&m.dryRun,
		"dry-run",
		dryRunNone,
		"none, client (write nothing) or server (let the API server check, and write nothing)",
	)
	f.Lookup("dry-run").NoOptDefVal = dryRunClient
}

// The kinds of dry runs.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// check refuses flags that are not known.
func (m *making) check() error {
	if err := knownFormat(m.output, "yaml", "json"); err != nil {
		return usageError{err}
	}
	if !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, m.dryRun) {
		return usagef("--dry-run=%s is not known: use none, client or server", m.dryRun)
	}
	return nil
}

// dry reports whether nothing is to be written.
func (m *making) dry() bool { return m.dryRun == dryRunClient || m.dryRun == dryRunServer }

// connect is connect, with a client that writes nothing in a dry run of the server.
func (m *making) connect() (*rest.Config, client.Client, error) {
	cfg, c, err := connect(&m.conn)
	if err == nil && m.dryRun == dryRunServer {
		return cfg, client.NewDryRunClient(c), nil
	}
	return cfg, c, err
}

// reach connects and takes what a change begins with. A server that does not answer is told of.
func reach[T any](
	ctx context.Context,
	m *making,
	take func(context.Context, client.Client) (T, error),
) (c client.Client, taken T, err error) {
	cfg, c, err := m.connect()
	if err != nil {
		return nil, taken, err
	}
	taken, err = take(ctx, c)
	return c, taken, m.conn.Unreachable(err, cfg.Host)
}

// hardware takes the nodes, flavors and queues that there are.
func (m *making) hardware(ctx context.Context) (client.Client, admin.Hardware, error) {
	return reach(
		ctx,
		m,
		func(ctx context.Context, c client.Client) (admin.Hardware, error) { return admin.TakeHardware(ctx, c) },
	)
}

// suffix is said after what a dry run did not do.
func (m *making) suffix() string {
	if m.dry() {
		return " (" + m.dryRun + " dry run)"
	}
	return ""
}

// create makes an object, prints it, and says what will keep it from doing what is expected.
func (m *making) create(cmd *cobra.Command, c client.Client, o client.Object, hints []string) error {
	if m.dryRun != dryRunClient {
		if err := admin.Create(cmd.Context(), c, o); err != nil {
			return err //nolint:wrapcheck // it names the object
		}
	}
	if err := m.print(cmd.OutOrStdout(), []admin.TeamObject{{Object: o, Done: admin.Created}}); err != nil {
		return err
	}
	notes(cmd.ErrOrStderr(), hints)
	return nil
}

// print says what was done, or prints the objects themselves.
func (m *making) print(out io.Writer, steps []admin.TeamObject) error {
	if m.output == "" {
		for _, s := range steps {
			fmt.Fprintf(out, "%s%s\n", s, m.suffix())
		}
		return nil
	}
	objects := make([]any, len(steps))
	for i := range steps {
		o, err := admin.Manifest(steps[i].Object)
		if err != nil {
			return err //nolint:wrapcheck // it names the object
		}
		objects[i] = o
	}
	if m.output == "json" {
		if len(objects) == 1 {
			return printObject(out, "json", objects[0])
		}
		return printObject(out, "json", map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	}
	for i, o := range objects {
		if i > 0 {
			fmt.Fprintln(out, "---")
		}
		if err := printObject(out, "yaml", o); err != nil {
			return err
		}
	}
	return nil
}

// notes are what people should know, each in a line.
func notes(errs io.Writer, lines []string) {
	for _, l := range lines {
		fmt.Fprintln(errs, "Note: "+words.Harmless(l)+".")
	}
}

// printChanges shows values before and after.
func printChanges(out io.Writer, what string, changes []admin.FieldChange, suffix string) {
	for _, c := range changes {
		fmt.Fprintf(out, "%s %s%s\n", what, words.Harmless(c.String()), suffix)
	}
}

// commaList is a list of names that may be typed with commas between them.
func commaList(names []string) []string {
	var out []string
	for _, n := range names {
		for part := range strings.SplitSeq(n, ",") {
			out = append(out, strings.TrimSpace(part))
		}
	}
	return out
}
