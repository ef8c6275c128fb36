package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/words"
)

// usagef is a mistake in the command line.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// making is what commands have in common that write objects of administrators: how it is told, and whether it
// is done at all.
type making struct {
	session

	output string
	dryRun string
	yes    bool
}

// writeCommand is a command that writes objects of administrators, as a value. The runner (command) does what
// they have in common beside [clusterCommand]: dry runs, and output.
type writeCommand struct {
	*making
	// prints has objects printed with -o, asks has --yes answer what is asked.
	prints, asks bool
	// check finds mistakes in what was typed, if there can be any.
	check func() error
	do    func(ctx context.Context) error
}

// command makes the command; cmd has its names, its help and what arguments it takes.
func (w writeCommand) command(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	if w.prints {
		f.StringVarP(&w.output, "output", "o", "", "yaml or json: print the objects")
	}
	if w.asks {
		f.BoolVarP(&w.yes, "yes", "y", false, "do not ask")
	}
	f.StringVar(&w.dryRun, "dry-run", dryRunNone,
		"none, client (write nothing) or server (let the API server check, and write nothing)")
	f.Lookup("dry-run").NoOptDefVal = dryRunClient
	return clusterCommand{
		session: &w.session,
		check: func() error {
			if err := w.making.check(); err != nil || w.check == nil {
				return err
			}
			return w.check()
		},
		dry: func() bool { return w.dryRun == dryRunServer },
		do:  w.do,
	}.command(cmd)
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
		return err
	}
	if !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, m.dryRun) {
		return fmt.Errorf("--dry-run=%s is not known: use none, client or server", m.dryRun)
	}
	return nil
}

// dry reports whether nothing is to be written.
func (m *making) dry() bool { return m.dryRun == dryRunClient || m.dryRun == dryRunServer }

// confirm asks whether to go on.
func (m *making) confirm(question string) error { return confirm(m.cmd, m.yes, question) }

// suffix is said after what a dry run did not do.
func (m *making) suffix() string {
	if m.dry() {
		return " (" + m.dryRun + " dry run)"
	}
	return ""
}

// create makes an object, prints it, and says what will keep it from doing what is expected.
func (m *making) create(ctx context.Context, o client.Object, hints []string) error {
	if m.dryRun != dryRunClient {
		if err := admin.Create(ctx, m.c, o); err != nil {
			return err //nolint:wrapcheck // it names the object
		}
	}
	if err := m.print([]admin.TeamObject{{Object: o, Done: admin.Created}}); err != nil {
		return err
	}
	notes(m.errs, hints)
	return nil
}

// print says what was done, or prints the objects themselves.
func (m *making) print(steps []admin.TeamObject) error {
	out := m.out
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

// changed shows values before and after.
func (m *making) changed(what string, changes []admin.FieldChange) {
	for _, c := range changes {
		fmt.Fprintf(m.out, "%s %s%s\n", what, words.Harmless(c.String()), m.suffix())
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
