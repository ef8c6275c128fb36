package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

// stamped is the version that the build gave to the program, from its Git tag.
var stamped string //nolint:gochecknoglobals // set by the linker, see .ci/build

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of mlbatch and of the Kubernetes inside",
		Example: "  mlbatch version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versions())
			return err
		},
	}
}

// versions is what "mlbatch version" and "mlbatch --version" print.
func versions() string {
	return fmt.Sprintf("mlbatch %s\nKubernetes %s", version(), kubeversion.Release)
}

// version is that of this program.
func version() string {
	var info debug.BuildInfo
	if b, ok := debug.ReadBuildInfo(); ok {
		info = *b
	}
	return versionOf(stamped, info)
}

// versionOf is the version of a build: what the build says, else what the go command
// knows of the module, else the commit. "(devel)" says nothing.
func versionOf(stamped string, info debug.BuildInfo) string {
	const unknown = "(devel)"
	switch {
	case stamped != "":
		return stamped
	case info.Main.Version != "" && info.Main.Version != unknown:
		return info.Main.Version
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return "of an unknown commit: it was not built by make build"
	}
	if settings["vcs.modified"] == "true" {
		commit += " with changes"
	}
	return "of commit " + commit
}
