package scene

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/sim/knownbugs"
	"github.com/mlbatch/mlbatch/internal/words"
)

func famousBugs() Scene {
	return Scene{
		Name:  "famous",
		Title: "famous faults of other schedulers, replayed",
		Opening: "Programs that decide which job runs where have had faults that cost their users weeks of work: jobs " +
			"stopped again and again for each other, or waiting for ever beside free machines. Here are ten that were " +
			"reported in public, each as a small world in which it showed, decided by mlbatch's own engine in virtual " +
			"time, with what has to be true if the fault is not there.",
		play: playFamous,
	}
}

// mostLines is how much of a story is printed: the rest repeats it.
const mostLines = 12

func playFamous(ctx context.Context, s *show) error {
	for _, b := range knownbugs.All() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fmt.Fprintf(s.Out, "\n-- %s (%s)\n%s\n", b.Name, b.Link, cli.Wrap("There: "+b.There, lineWidth, "   "))
		story, err := b.Play()
		if err != nil {
			return err
		}
		fmt.Fprintln(s.Out, "Here:")
		s.tell(&story)
		verdicts := b.Judge(&story)
		s.claim(fmt.Sprintf("%s: %s", b.Name, words.Count(len(verdicts), "statement")), s.print(verdicts))
	}
	return nil
}

// print prints what was judged in a world and returns all that is wrong.
func (s *show) print(verdicts []knownbugs.Verdict) error {
	var wrong []error
	for _, v := range verdicts {
		if v.Err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", v.Text, v.Err))
			fmt.Fprintf(s.Out, "  FAIL  %s: %v\n", v.Text, v.Err)
			continue
		}
		fmt.Fprintf(s.Out, "  PASS  %s\n", v.Text)
	}
	return errors.Join(wrong...)
}

// tell prints the beginning of a story.
func (s *show) tell(story *knownbugs.Story) {
	lines := 0
	for _, m := range story.Moments {
		text := momentText(m)
		if text == "" {
			continue
		}
		if lines++; lines > mostLines {
			continue
		}
		fmt.Fprintf(s.Out, "  %10s  %-15s %s\n", m.At.Round(time.Second), m.Job, text)
	}
	if lines > mostLines {
		fmt.Fprintf(s.Out, "  %10s  and %d more\n", "", lines-mostLines)
	}
}

func momentText(m knownbugs.Moment) string {
	switch m.What {
	case knownbugs.Submitted:
		return "" // what becomes of it comes at once
	case knownbugs.Started:
		return fmt.Sprintf("starts: %s on %s", words.Count(int(m.Pods), "pod"), strings.Join(m.Nodes, ", "))
	case knownbugs.Moved:
		return fmt.Sprintf("starts again: %s on %s", words.Count(int(m.Pods), "pod"), strings.Join(m.Nodes, ", "))
	case knownbugs.Evicted:
		return "has to leave for " + m.For
	case knownbugs.Left:
		return "is gone, and waits"
	case knownbugs.Refused:
		return "waits: " + string(m.Code)
	case knownbugs.Ended:
		return "has ended"
	}
	return ""
}
