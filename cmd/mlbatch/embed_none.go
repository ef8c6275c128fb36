//go:build noembed

package main

import "github.com/spf13/cobra"

// embeddedCommands is empty: this binary is for real clusters.
func embeddedCommands() []func() *cobra.Command { return nil }
