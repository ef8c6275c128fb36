package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli/whatif"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
	"github.com/mlbatch/mlbatch/internal/kube/settings"
	"github.com/mlbatch/mlbatch/internal/replay"
)

// completeFlights checks the flags that go with --from-flights.
func (s *simulation) completeFlights() error {
	switch {
	case s.output != "" && s.output != "json" && s.output != "yaml":
		return fmt.Errorf("-o %s is not known: use json or yaml", s.output)
	case s.trace != "":
		return errors.New("--from-flights cannot be combined with --trace: the jobs are those of the recordings")
	case s.seed != 0:
		return errors.New("--from-flights cannot be combined with --seed: nothing is left to chance")
	case s.csv != "":
		return errors.New("--from-flights cannot be combined with --csv: use -o json")
	case s.check:
		return errors.New("--from-flights cannot be combined with --check")
	}
	return nil
}

// runFlights decides a recorded past under other policies.
func (s *simulation) runFlights(cmd *cobra.Command) error {
	policies := make([]*whatif.Policy, 0, len(s.compare))
	var wrong []error
	for _, file := range s.compare {
		text, err := os.ReadFile(file)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("read the policy: %w", err))
			continue
		}
		p, err := whatif.ReadPolicy(file, text, engineOptions)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		policies = append(policies, p)
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	began := time.Now()
	past, err := replay.ReadPast(s.flights)
	if err != nil {
		return fmt.Errorf("read the recordings: %w", err)
	}
	read := time.Since(began)
	c, err := whatif.Compare(cmd.Context(), past, policies)
	if err != nil {
		return err
	}
	if !s.quiet {
		fmt.Fprintf(
			cmd.ErrOrStderr(),
			"%d jobs in %d recordings read in %s, decided %d times in %s\n",
			c.Jobs,
			past.Recordings,
			read.Round(time.Millisecond),
			len(c.Policies),
			(time.Since(began) - read).Round(time.Millisecond),
		)
	}
	for _, x := range []struct {
		file  string
		write func(io.Writer) error
	}{{s.svg, c.SVG}, {s.html, c.HTML}} {
		if x.file == "" {
			continue
		}
		if err := writeTo(x.file, x.write); err != nil {
			return err
		}
	}
	if s.output != "" {
		return printObject(cmd.OutOrStdout(), s.output, c)
	}
	return c.Text(cmd.OutOrStdout(), tableWidth(cmd.OutOrStdout()))
}

// engineOptions is what a Configuration sets of the engine.
func engineOptions(file string, text []byte) (*cycle.Options, error) {
	read, err := settings.Read(file, text)
	if err != nil {
		return nil, err
	}
	resolved, err := settings.Resolve(read, settings.Given{})
	if err != nil {
		return nil, err
	}
	o := resolved.Options(manager.Options{})
	return &cycle.Options{
		FairSharing:          o.FairSharing,
		BlockAdmission:       o.BlockAdmission,
		AdmissionFairSharing: o.AdmissionFairSharing,
	}, nil
}
