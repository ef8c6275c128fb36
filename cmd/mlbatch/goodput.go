package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/sim/goodput"
)

// runGoodput plays ways to recover from failures.
func (s *simulation) runGoodput(cmd *cobra.Command) error {
	failures := goodput.Stated()
	if s.failures != "" {
		var err error
		if failures, err = readFailures(s.failures); err != nil {
			return err
		}
	}
	rows, err := goodput.Table(failures)
	if err != nil {
		return err
	}
	if s.output == "json" {
		return printJSON(cmd.OutOrStdout(), rows)
	}
	return goodput.Print(cmd.OutOrStdout(), failures, rows)
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
func (s *simulation) completeGoodput(args []string) error {
	switch {
	case s.failures != "" && !s.goodput:
		return errors.New("--failures is the list of --goodput: give both")
	case !s.goodput:
		return nil
	case len(args) > 0 || s.trace != "" || s.flights != "" || len(s.compare) > 0 || s.seed != 0 || s.example ||
		s.check || s.csv != "" || s.svg != "" || s.html != "":
		return errors.New("--goodput has a world of its own: only --failures and -o json go with it")
	case s.output != "" && s.output != "json":
		return fmt.Errorf("-o %s is not known: use json", s.output)
	}
	return nil
}
