// Package strict decodes what people write: every field that is unknown, written twice or of
// the wrong type is a Problem with its line and its cure, all of them at once, and what
// is written where is remembered for those who judge it afterwards.
//
// It knows no file in particular and no Kubernetes: internal/kube/settings reads
// configurations with it, internal/cli/generate values.
package strict

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// Places are where the fields of a file are.
type Places map[string]Position

// Find returns the place of a field or, if it is not in the file, of the
// nearest section around it.
func (p Places) Find(path string) Position {
	for {
		if at, ok := p[path]; ok || path == "" {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// Failed returns the problems of a file as an error, nil if there are none.
func Failed(file string, list []Problem) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &FileError{File: file, List: list}
}

// SyntaxError takes the line out of the parser's message.
func SyntaxError(err error) *Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	m := regexp.MustCompile(`^line (\d+): (.*)`).FindStringSubmatch(text)
	if m == nil {
		return &Problem{Text: "not YAML: " + text}
	}
	line, _ := strconv.Atoi(m[1]) // digits
	return &Problem{Position: Position{line, 1}, Text: "not YAML: " + m[2]}
}
