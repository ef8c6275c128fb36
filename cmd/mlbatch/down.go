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
			return down(cmd, path, del)
		},
	}
	dir.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&del, "delete", false, "also delete the data directory")
	return cmd
}

func down(cmd *cobra.Command, dir string, del bool) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*stopTimeout)
	defer cancel()
	ran, err := local.Shutdown(ctx, dir)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if ran {
		fmt.Fprintf(out, "Stopped the cluster in %s\n", dir)
	} else {
		fmt.Fprintf(out, "No cluster runs in %s\n", dir)
	}
	if !del {
		return nil
	}
	if err := local.Delete(dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "Deleted %s\n", dir)
	return nil
}
