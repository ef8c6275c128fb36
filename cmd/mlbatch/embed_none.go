//go:build noembed

package main

import (
	"context"

	"github.com/spf13/cobra"
)

// embeddedCommands is empty: this binary is for real clusters.
func embeddedCommands() []func() *cobra.Command { return nil }

// housekeeping is left to the platform that runs this binary.
func housekeeping(context.Context) {}
