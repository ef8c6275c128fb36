package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/words"
)

// newClearCommand says of nodes that they are well.
func newClearCommand() *cobra.Command {
	var d drainFlags
	withoutTest := false
	cmd := &cobra.Command{
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
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: others(asking(coreNames("Node"))),
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			c, nodes, err := d.nodes(ctx, names)
			if err != nil {
				return err
			}
			who, err := cli.WhoAmI(ctx, c)
			if err != nil {
				return err //nolint:wrapcheck // it says what it asked
			}
			for _, n := range nodes {
				left, err := n.Clear(ctx, c, who, d.reason, withoutTest, time.Now())
				switch {
				case err != nil:
					return err //nolint:wrapcheck // it names the node
				case left != "":
					fmt.Fprintf(
						out,
						"node/%s cleared; what is not of mlbatch's findings stays: %s\n",
						n.Name,
						words.Harmless(left),
					)
				default:
					fmt.Fprintf(out, "node/%s cleared\n", n.Name)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&d.reason, "reason", "", "`why`, for those who look at the node later")
	cmd.Flags().BoolVar(&withoutTest, "without-test", false,
		"use nodes at once that would wait for the deep test of nodes that return")
	connectionFlags(cmd.Flags(), &d.conn)
	return cmd
}
