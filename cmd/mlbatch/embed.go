//go:build !noembed

package main

import "github.com/spf13/cobra"

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
