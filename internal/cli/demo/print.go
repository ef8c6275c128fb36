package demo

import (
	"fmt"
	"io"
	"strings"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// printer writes a timeline for people while it grows: what happens to jobs,
// with single pods left out.
type printer struct {
	out   io.Writer
	line  Timeline
	runs  map[string]bool   // jobs that were said to run
	waits map[string]string // the reason that was said last
}

func newPrinter(out io.Writer) *printer {
	return &printer{out: out, runs: map[string]bool{}, waits: map[string]string{}}
}

// tell prints a moment, or nothing if it only repeats what is known.
func (p *printer) tell(m Moment) {
	p.line = append(p.line, m)
	subject := m.Job
	if subject == "" {
		subject = m.Node
	}
	if text := p.words(m); text != "" {
		fmt.Fprintf(p.out, "%6.1fs  %-22s %s\n", m.At.Seconds(), subject, text)
	}
}

func (p *printer) words(m Moment) string {
	switch m.What {
	case Submitted:
		return "submitted by " + m.Who
	case Admitted:
		delete(p.waits, m.Job)
		return "admitted" + on(m.Node)
	case Evicted:
		p.runs[m.Job] = false
		if m.For != "" {
			return fmt.Sprintf("evicted for %s (%s)", m.For, m.Reason)
		}
		return "evicted: " + m.Message
	case Released:
		p.runs[m.Job] = false
		return "gave its quota back"
	case Waits:
		return p.refused(m)
	case Phase:
		return p.phase(m)
	case PodRuns:
		return p.podRuns(m)
	case Labelled:
		return "label " + nodehealth.HealthLabel + ": " + orGone(m.Reason)
	case Retries:
		return "counts retry " + m.Reason
	case Queued, PodLeaves, PodEnded, Removed:
	}
	return ""
}

// refused prints the first sentence of a reason, unless the reason was told
// already, or is only that the job was evicted a moment ago.
func (p *printer) refused(m Moment) string {
	if p.waits[m.Job] == m.Reason || m.Reason == "Pending" {
		return ""
	}
	p.waits[m.Job] = m.Reason
	first, _, _ := strings.Cut(m.Message, ". ")
	return "waits: " + strings.TrimSuffix(first, ".")
}

func (p *printer) phase(m Moment) string {
	switch m.Reason {
	case "Resetting":
		p.runs[m.Job] = false
		return "is reset: all its pods are removed and made anew"
	case succeeded:
		return "succeeded"
	case "Failed":
		return "failed"
	}
	return ""
}

// podRuns says that a job runs when the last of its pods does.
func (p *printer) podRuns(m Moment) string {
	pods := p.line.pods(m.Job)
	if p.runs[m.Job] || len(pods) < sampleSize(m.Job) {
		return ""
	}
	p.runs[m.Job] = true
	nodes := map[string]bool{}
	for _, n := range pods {
		nodes[n] = true
	}
	return fmt.Sprintf("runs: %d pods%s", len(pods), on(strings.Join(sorted(nodes), " ")))
}

// sampleSize is the number of pods of a sample job.
func sampleSize(job string) int {
	if strings.Contains(job, "/large-") {
		return 4
	}
	return 2
}

func on(nodes string) string {
	if nodes == "" {
		return ""
	}
	return " on " + strings.ReplaceAll(nodes, " ", ", ")
}

func orGone(value string) string {
	if value == "" {
		return "removed"
	}
	return value
}
