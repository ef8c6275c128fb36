//go:build !noembed

package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/local"
)

// newComponentCommand plays one component of the embedded cluster. "mlbatch
// up" starts these; they are not meant to be typed.
func newComponentCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "component NAME [flags of the component]",
		Short:              "Run one component of the embedded cluster",
		Example:            "  mlbatch component kube-apiserver --etcd-servers=https://127.0.0.1:2379",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := local.Components()
			program, ok := all[args[0]]
			if !ok {
				return usagef("there is no component %q; there are %v", args[0], slices.Sorted(maps.Keys(all)))
			}
			return program(cmd.Context(), args[1:])
		},
	}
}
