package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/mlbatch/mlbatch/internal/cli"
)

type thing struct {
	Name string `json:"name"`
}

// TestListsPrintAlike: what a list finds is printed in every format by one rule; what people should know
// besides goes to the other stream.
func TestListsPrintAlike(t *testing.T) {
	list := func(names ...string) *rows[thing] {
		out := &rows[thing]{
			columns: []cli.Column[thing]{
				{Title: "NAME", Text: func(x thing) string { return x.Name }},
			},
			items: []thing{},
			name:  func(x thing) string { return "thing/" + x.Name },
			none:  "There are no things.",
			notes: []string{"You may not see all."},
			below: func(w io.Writer) error { _, err := fmt.Fprintln(w, "below"); return err },
		}
		for _, n := range names {
			out.items = append(out.items, thing{n})
		}
		return out
	}
	const note = "You may not see all.\n"
	for name, tc := range map[string]struct {
		rows       *rows[thing]
		q          query
		want, said string
	}{
		"a table":                  {list("b", "a"), query{}, "NAME\nb\na\nbelow\n", note},
		"sorted":                   {list("b", "a"), query{sortBy: "name"}, "NAME\na\nb\nbelow\n", note},
		"turned":                   {list("a", "b"), query{sortBy: "-name"}, "NAME\nb\na\nbelow\n", note},
		"bare":                     {list("a"), query{bare: true}, "a\nbelow\n", note},
		"names":                    {list("a"), query{output: "name"}, "thing/a\nbelow\n", note},
		"columns of people's own":  {list("a"), query{output: "custom-columns=N:.name"}, "N\na\nbelow\n", note},
		"YAML":                     {list("a"), query{output: "yaml"}, "items:\n- name: a\nbelow\n", note},
		"nothing, for people":      {list(), query{}, "below\n", note + "There are no things.\n"},
		"nothing, for programs":    {list(), query{output: "yaml"}, "items: []\nbelow\n", note},
		"nothing has no column":    {list(), query{sortBy: "size"}, "below\n", note + "There are no things.\n"},
		"nothing, in a name alone": {list(), query{output: "name"}, "below\n", note},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			tc.q.errs = &errs
			if err := tc.rows.print(&out, &tc.q); err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.want || errs.String() != tc.said {
				t.Errorf("printed %q and said %q, want %q and %q", out.String(), errs.String(), tc.want, tc.said)
			}
		})
	}
	strict := list()
	strict.strict = true
	for name, wrong := range map[string]*rows[thing]{"of some": list("a"), "of none, where that is strict": strict} {
		if err := wrong.print(
			io.Discard,
			&query{sortBy: "size", session: session{errs: io.Discard}},
		); !errors.As(
			err,
			new(usageError),
		) {
			t.Errorf("a column that there is not, %s: %v", name, err)
		}
	}
}

// TestListsGoOn: a list that is printed in several goes has its titles once, and columns that stay as wide
// as they were; programs get one object after the other.
func TestListsGoOn(t *testing.T) {
	for format, want := range map[string]string{
		"":     "NAME   N\nlong   -\na      -\n",
		"name": "thing/long\nthing/a\n",
		"yaml": "---\nname: long\n---\nname: a\n",
	} {
		list := &rows[thing]{
			columns: []cli.Column[thing]{
				{Title: "NAME ", Text: func(x thing) string { return x.Name }},
				{Title: "N", Text: func(thing) string { return "" }},
			},
			name: func(x thing) string { return "thing/" + x.Name },
		}
		list.follow = func(w io.Writer, show inGoes[thing]) error {
			return errors.Join(
				show(w, list.columns, []thing{{"long"}}, true),
				show(w, list.columns, []thing{{"a"}}, false),
			)
		}
		var out bytes.Buffer
		if err := list.print(
			&out,
			&query{output: format, session: session{errs: io.Discard}},
		); err != nil ||
			out.String() != want {
			t.Errorf("-o %q prints %q (%v), want %q", format, out.String(), err, want)
		}
	}
}
