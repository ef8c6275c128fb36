package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/words"
)

// newClearCommand says of nodes that they are well.
func newClearCommand() *cobra.Command {
	var d nodeCommand
	var reason string
	withoutTest := false
	d.do = func(ctx context.Context) error {
		who, err := cli.WhoAmI(ctx, d.c)
		if err != nil {
			return err //nolint:wrapcheck // it says what it asked
		}
		for _, n := range d.nodes {
			left, err := n.Clear(ctx, d.c, who, reason, withoutTest, time.Now())
			if err != nil {
				return err //nolint:wrapcheck // it names the node
			}
			if left != "" {
				left = "; what is not of mlbatch's findings stays: " + words.Harmless(left)
			}
			if !withoutTest && n.AwaitsTest(ctx, d.c) {
				left += "; it waits for its deep test before it is used"
			}
			fmt.Fprintf(d.out, "node/%s cleared%s\n", n.Name, left)
		}
		return nil
	}
	cmd := d.command(&cobra.Command{
		Use:   "clear NODE...",
		Short: "Say that nodes are well: what was found on them until now does not count any more",
		Long: `Say of nodes that they are well. What conditions, checks and other sources found on them until now
does not count any more, a fatal finding neither; what is found later does. A health label that
mlbatch set is taken off. What others set, and what "mlbatch drain" did, stays.

Where mlbatch tests nodes that return (nodeHealth.deepTest), one that had a fatal finding waits for its
test before it is used; --without-test has it used at once.

It takes the right to patch nodes.`,
		Example: `  # repaired, and tested by hand
  mlbatch nodes clear node-1 --reason "GPU 3 replaced"

  # what waits for a test is used without
  mlbatch nodes clear node-1 --without-test`,
	})
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for those who look at the node later")
	cmd.Flags().BoolVar(&withoutTest, "without-test", false,
		"use nodes at once that would wait for the deep test of nodes that return")
	return cmd
}
