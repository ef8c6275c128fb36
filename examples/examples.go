// Package examples holds the manifests that documents and the demo use, so
// that what is shown is what runs.
package examples

import (
	"embed"
	"io/fs"
	"strings"
)

// Tutorial has the sample jobs of the tutorial in tutorial/*.yaml.
//
//go:embed tutorial/*.yaml
var Tutorial embed.FS

// Kinds has one ready manifest for each kind of job, in kinds/*.yaml.
//
//go:embed kinds/*.yaml
var Kinds embed.FS

// Workloads has the example workloads of the tutorial, in workloads/*.yaml.
//
//go:embed workloads/*.yaml
var Workloads embed.FS

// Runtimes has runtimes for TrainJobs, by framework, in runtimes/*.yaml.
//
//go:embed runtimes/*.yaml
var Runtimes embed.FS

// AllRuntimes are the manifests of all runtimes.
func AllRuntimes() string {
	var all []string
	_ = fs.WalkDir(
		Runtimes,
		".",
		func(path string, _ fs.DirEntry, _ error) error { // an embedded folder can be read
			if text, err := Runtimes.ReadFile(path); err == nil {
				all = append(all, string(text))
			}
			return nil
		},
	)
	return strings.Join(all, "\n---\n")
}
