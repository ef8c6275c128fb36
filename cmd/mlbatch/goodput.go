package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mlbatch/mlbatch/internal/sim/goodput"
	"github.com/mlbatch/mlbatch/internal/words"
)

// runGoodput plays ways to recover from failures. Stopped early, it prints what there is, and says so.
func (s *simulation) runGoodput(cmd *cobra.Command) error {
	failures, err := s.listOfFailures()
	if err != nil {
		return err
	}
	rows, stopped := goodput.Table(cmd.Context(), failures)
	if cmd.Context().Err() != nil {
		stopped = fmt.Errorf("stopped early, after %s: these are the results so far", words.Count(len(rows), "row"))
	}
	switch {
	case len(rows) == 0:
		return stopped
	case s.output == "json":
		return errors.Join(printJSON(cmd.OutOrStdout(), rows), stopped)
	}
	return errors.Join(goodput.Print(cmd.OutOrStdout(), failures, rows), stopped)
}

func (s *simulation) listOfFailures() ([]goodput.Failure, error) {
	if s.failures == "" {
		return goodput.Stated()
	}
	return readFailures(s.failures)
}

func readFailures(name string) ([]goodput.Failure, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the failures: %w", err)
	}
	defer f.Close()
	failures, err := goodput.Read(io.LimitReader(f, 64<<20))
	if err != nil {
		return nil, inFile(name, err)
	}
	return failures, nil
}

// completeGoodput checks that nothing is asked for beside it.
func (s *simulation) completeGoodput(cmd *cobra.Command, args []string) error {
	if s.failures != "" && !s.goodput {
		return errors.New("--failures is the list of --goodput: give both")
	}
	if !s.goodput {
		return nil
	}
	var other []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "goodput", "failures", "output", "quiet":
		default:
			other = append(other, "--"+f.Name)
		}
	})
	switch other = append(other, args...); {
	case len(other) > 0:
		return fmt.Errorf(
			"--goodput has a world of its own: only --failures and -o json go with it, not %s",
			strings.Join(other, ", "),
		)
	case s.output != "" && s.output != "json":
		return fmt.Errorf("-o %s is not known: use json", s.output)
	}
	return nil
}
