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
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/strict"
)

// Position is a place in a file.
type Position = strict.Position

// Problem is something wrong in a file.
type Problem = strict.Problem

// FileError is all that is wrong with one file, in its order.
type FileError = strict.FileError

// Notice tells of something that is accepted and has no effect.
type Notice struct {
	Position
	Path string
	Text string
}

// String prints it without its position.
func (n Notice) String() string { return n.Path + ": " + n.Text }

// problems gives validation errors their places.
func problems(p strict.Places, errs field.ErrorList) []Problem {
	var out []Problem
	for _, e := range errs {
		text := e.ErrorBody()
		if e.Type == field.ErrorTypeForbidden {
			text = e.Detail
		}
		out = append(out, Problem{Position: p.Find(e.Field), Path: e.Field, Text: text})
	}
	return out
}
