package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagsSayWhatTheyTake: no flag of any command that takes a number, a duration or a yes answers
// with the text of a library to what it cannot have, but names itself and what it takes.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	seen := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				if err := f.Value.Set(
					"x",
				); err == nil ||
					!strings.Contains(err.Error(), "parsing") && !strings.Contains(err.Error(), "time:") {
					return // it takes any word, or says itself what it takes
				}
				seen[f.Value.Type()] = true
				said := flagError(c, set.Set(f.Name, "x")).Error()
				if strings.Contains(said, "strconv") || strings.Contains(said, "time:") ||
					!strings.Contains(said, "--"+f.Name) ||
					!strings.Contains(said, "it takes") {
					t.Errorf("%s --%s x: %s", c.CommandPath(), f.Name, said)
				}
			})
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand())
	if len(seen) < 3 {
		t.Errorf("only flags of %v were tried", seen)
	}
	set := pflag.NewFlagSet("x", pflag.ContinueOnError)
	set.Int32("n", 0, "")
	if said := flagError(
		&cobra.Command{},
		set.Set("n", "99999999999"),
	).Error(); !strings.Contains(
		said,
		"too large",
	) {
		t.Errorf("a number that is too large: %s", said)
	}
}
