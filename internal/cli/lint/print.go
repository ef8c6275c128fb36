package lint

import (
	"fmt"
	"io"
	"strings"

	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Print prints a finding in a line, as compilers do.
func Print(w io.Writer, f *finding.Finding) error {
	path := ""
	if f.Path != "" {
		path = " " + f.Path + ":"
	}
	_, err := fmt.Fprintf(
		w,
		"%s:%d:%d: %s: %s:%s %s (%s)\n",
		words.Harmless(f.File),
		f.Line,
		f.Column,
		f.Severity,
		words.Harmless(f.Object),
		words.Harmless(path),
		words.Harmless(f.Message),
		f.Rule,
	)
	return err //nolint:wrapcheck // the writer's own
}

// PrintGitHub prints a finding as a command to GitHub's workflows, which show it in the file.
func PrintGitHub(w io.Writer, f *finding.Finding) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	_, err := fmt.Fprintf(
		w,
		"::%s file=%s,line=%d,col=%d,title=%s::%s\n",
		f.Severity,
		property.Replace(f.File),
		f.Line,
		f.Column,
		property.Replace(f.Rule),
		data.Replace(f.Object+": "+strings.TrimPrefix(f.Path+": ", ": ")+f.Message),
	)
	return err //nolint:wrapcheck // the writer's own
}
