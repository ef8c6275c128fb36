package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of mlbatch and of the Kubernetes inside",
		Example: "  mlbatch version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version := "unknown"
			if b, ok := debug.ReadBuildInfo(); ok {
				version = b.Main.Version
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "mlbatch %s\nKubernetes %s\n", version, kubeversion.Release)
			return err
		},
	}
}
