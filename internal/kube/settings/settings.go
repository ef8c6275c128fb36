// Package settings turns Kueue's configuration file into the options of
// mlbatch's controller.
//
// Read decodes a file strictly: whatever is unknown, written twice, of the
// wrong type or of no use is a Problem with its line and its cure. Resolve
// completes a configuration and resolves the feature gates, once; nothing reads
// gates or configuration later. Options maps the result onto manager.Options.
// Every field is mapped, or refused, or named in a Notice that says why it has
// no effect: none is dropped. The table for users is docs/configuration.md.
package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Position is a place in a file, counted from 1; the zero value is unknown.
type Position struct{ Line, Column int }

// Problem is something wrong in a file.
type Problem struct {
	Position
	// Path is the field, e.g. waitForPodsReady.timeout; empty for the whole file.
	Path string
	// Text says what is wrong and how to mend it.
	Text string
}

// FileError is all that is wrong with one file, in its order.
type FileError struct {
	// File is the name to print.
	File string
	List []Problem
}

// Error prints a line for each problem: file:line:column: field: text.
func (p *FileError) Error() string {
	lines := make([]string, len(p.List))
	for i, one := range p.List {
		var b strings.Builder
		b.WriteString(p.File)
		if one.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", one.Line, one.Column)
		}
		b.WriteString(": ")
		if one.Path != "" {
			b.WriteString(one.Path + ": ")
		}
		b.WriteString(one.Text)
		lines[i] = b.String()
	}
	return strings.Join(lines, "\n")
}

// Notice tells of something that is accepted and has no effect.
type Notice struct {
	Position
	Path string
	Text string
}

// String prints it without its position.
func (n Notice) String() string { return n.Path + ": " + n.Text }

// places are where the fields of a file are.
type places map[string]Position

// find returns the place of a field or, if it is not in the file, of the
// nearest section around it.
func (p places) find(path string) Position {
	for {
		if at, ok := p[path]; ok || path == "" {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// problems gives validation errors their places.
func (p places) problems(errs field.ErrorList) []Problem {
	var out []Problem
	for _, e := range errs {
		text := e.ErrorBody()
		if e.Type == field.ErrorTypeForbidden {
			text = e.Detail
		}
		out = append(out, Problem{Position: p.find(e.Field), Path: e.Field, Text: text})
	}
	return out
}

// failed returns the problems of a file as an error, nil if there are none.
func failed(file string, list []Problem) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &FileError{File: file, List: list}
}
