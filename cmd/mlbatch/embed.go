//go:build !noembed

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/local"
)

// embeddedCommands need the control plane that is part of this binary.
func embeddedCommands() []func() *cobra.Command {
	return []func() *cobra.Command{
		newUpCommand,
		newDownCommand,
		newStatusCommand,
		newKubectlCommand,
		newDemoCommand,
		newComponentCommand,
	}
}

// housekeeping is what a component of the embedded cluster does besides its work.
func housekeeping(ctx context.Context) {
	if percent, is := local.ComponentPercent(); is {
		local.GiveBackMemory(ctx, percent)
	}
}
