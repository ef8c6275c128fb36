//go:build !noembed

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/local"
)

func newDownCommand() *cobra.Command {
	var dir dataDir
	var del bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster on this machine",
		Long: `Stop the cluster on this machine. Its data directory stays, and "mlbatch up"
resumes where it stopped; --delete removes it with everything in it.`,
		Example: `  mlbatch down

  # and forget everything
  mlbatch down --delete`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := dir.path()
			if err != nil {
				return err
			}
			if err := down(cmd, path); err != nil || !del {
				return err
			}
			if err := local.Delete(path); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Deleted %s\n", path)
			return err
		},
	}
	dir.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&del, "delete", false, "also delete the data directory")
	return cmd
}

// down stops the cluster in dir, if one runs.
func down(cmd *cobra.Command, dir string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*stopTimeout)
	defer cancel()
	ran, err := local.Shutdown(ctx, dir)
	if err != nil {
		return err
	}
	said := "No cluster runs in %s\n"
	if ran {
		said = "Stopped the cluster in %s\n"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), said, dir)
	return err
}
