package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
)

// readCommand is a command that only reads, as a value: its flags, what is wrong with what was typed, and
// what it finds. The runner (command) does what such commands have in common beside [clusterCommand]: it
// refuses formats that there are not, sorts, prints, watches, and offers words to shells.
type readCommand struct {
	// formats are those of -o, besides what people read; with columns also custom-columns. Help says
	// what people read instead, if that is no table.
	formats []string
	columns bool
	instead string
	// sortBy, watch and bare are what help says of these flags; a command has none of which it says "".
	sortBy, watch, bare string
	// sorts are the words that are offered for --sort-by.
	sorts []string
	// job is the job that the command is about, if it is about one: its flags say which cluster is asked.
	job *jobArg
	// flags adds those that only this command has.
	flags func(cmd *cobra.Command)
	// check finds mistakes in what was typed, before a cluster is asked.
	check func(q *query) error
	// read asks the cluster.
	read func(ctx context.Context, q *query) (found, error)
}

// What help says of flags that most lists have.
const (
	byColumn      = "`column` to sort by; -COLUMN turns the order"
	againAndAgain = "again and again, until interrupted"
	withoutTitles = "without titles"
)

// query is a question of a command that reads, and the cluster that answers it.
type query struct {
	session

	output, sortBy string
	watch, bare    bool
	// every is after how much time a watched answer is given again, if that is said.
	every time.Duration
}

// found is what a command that reads prints.
type found interface {
	print(w io.Writer, q *query) error
}

// command makes the command; cmd has its names, its help and what arguments it takes.
func (r *readCommand) command(cmd *cobra.Command) *cobra.Command {
	q := &query{}
	f := cmd.Flags()
	if len(r.formats) > 0 {
		f.StringVarP(&q.output, "output", "o", "", r.outputHelp())
	}
	if r.sortBy != "" {
		f.StringVar(&q.sortBy, "sort-by", "", r.sortBy)
	}
	offers(cmd, "sort-by", r.sorts)
	if r.watch != "" {
		f.BoolVarP(&q.watch, "watch", "w", false, r.watch)
	}
	if r.bare != "" {
		f.BoolVar(&q.bare, "no-headers", false, r.bare)
	}
	if r.flags != nil {
		r.flags(cmd)
	}
	return clusterCommand{
		session: &q.session, job: r.job,
		check: func() error { return r.mistake(q) },
		do:    func(ctx context.Context) error { return r.run(ctx, q) },
	}.command(cmd)
}

func (r *readCommand) outputHelp() string {
	switch {
	case r.columns:
		return strings.Join(r.formats, ", ") + " or " + cli.CustomColumnsFormat + "TITLE:.field,..."
	case r.instead != "":
		return cli.Either(r.formats) + " instead of " + r.instead
	}
	return cli.Either(r.formats)
}

// mistake is what is wrong with what was typed.
func (r *readCommand) mistake(q *query) error {
	check := knownFormat
	if r.columns {
		check = knownFormatOrColumns
	}
	if err := check(q.output, r.formats...); err != nil || r.check == nil {
		return err
	}
	return r.check(q)
}

// run answers a question.
func (r *readCommand) run(ctx context.Context, q *query) error {
	show := func(w io.Writer) error {
		what, err := r.read(ctx, q)
		if err != nil {
			return err
		}
		return what.print(w, q)
	}
	switch {
	case q.every > 0:
		return screenEvery(ctx, q.out, q.every, show)
	case q.watch:
		return watchScreen(ctx, q.out, show)
	}
	return show(q.out)
}

// answer is something that is found and is no list: a value for programs, and what people read.
type answer struct {
	value any
	text  func(w io.Writer) error
}

func (a answer) print(w io.Writer, q *query) error {
	if q.output == "json" || q.output == "yaml" {
		return printObject(w, q.output, a.value)
	}
	return a.text(w)
}

// rows is a list that is found.
type rows[T any] struct {
	items   []T
	columns []cli.Column[T]
	// name is what -o name prints of a row.
	name func(T) string
	// object is what programs read in place of the items, if it is more than these.
	object any
	// notes are told before the list.
	notes []string
	// none is told in place of a table without rows. With strict a column to sort by that there is not
	// is a mistake even then.
	none   string
	strict bool
	// most is how many rows are printed, 0 for all.
	most int
	// below prints what stands below the table.
	below func(w io.Writer) error
	// follow prints the list in its place, in several goes.
	follow func(w io.Writer, show inGoes[T]) error
}

// inGoes prints some rows of a list that is printed in several goes: as lines, with titles above if
// they are wanted, or as objects one after the other.
type inGoes[T any] func(w io.Writer, columns []cli.Column[T], items []T, titles bool) error

func (r *rows[T]) print(w io.Writer, q *query) error {
	empty := len(r.items) == 0 && r.none != "" && tabular(q.output)
	if r.strict || !empty {
		if err := sortRows(r.columns, r.items, q.sortBy); err != nil {
			return err
		}
	}
	for _, note := range r.notes {
		fmt.Fprintln(q.errs, note)
	}
	switch {
	case r.follow != nil:
		return r.follow(w, r.inGoes(q))
	case empty:
		fmt.Fprintln(q.errs, r.none)
	default:
		if err := r.all(w, q); err != nil {
			return err
		}
	}
	if r.below != nil {
		return r.below(w)
	}
	return nil
}

// all prints the rows, and says how many are left out.
func (r *rows[T]) all(w io.Writer, q *query) error {
	items, left := r.items, 0
	if r.most > 0 && len(items) > r.most {
		items, left = items[:r.most], len(items)-r.most
	}
	err := r.whole(w, q, items)
	if left > 0 && tabular(q.output) && !q.bare {
		fmt.Fprintf(q.errs, "%d more, without --limit %d.\n", left, r.most)
	}
	return err
}

func (r *rows[T]) whole(w io.Writer, q *query, items []T) error {
	switch {
	case r.object != nil && (q.output == "json" || q.output == "yaml"):
		return printObject(w, q.output, r.object)
	case q.output == "name" && r.name != nil:
		return printNames(w, items, r.name)
	}
	return printRows(w, q.output, r.columns, items, q.bare)
}

// inGoes prints in the format that was asked for, with columns that stay as wide as they were.
func (r *rows[T]) inGoes(q *query) inGoes[T] {
	widths := map[string]int{}
	return func(w io.Writer, columns []cli.Column[T], items []T, titles bool) error {
		switch q.output {
		case "name":
			return printNames(w, items, r.name)
		case "json", "yaml":
			for i := range items {
				if q.output == "yaml" {
					fmt.Fprintln(w, "---")
				}
				if err := printObject(w, q.output, items[i]); err != nil {
					return err
				}
			}
			return nil
		}
		return printTable(w, q.output, columns, items, cli.Layout{Bare: q.bare || !titles, Widths: widths})
	}
}

// sortRows orders rows by a column; "" leaves them as they are.
func sortRows[T any](columns []cli.Column[T], items []T, by string) error {
	if by == "" {
		return nil
	}
	if err := cli.SortBy(columns, items, by); err != nil {
		return usageError{err}
	}
	return nil
}
