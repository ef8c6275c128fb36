package view

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Progress is what the condition kueue.WorkloadProgressing tells in words that people and ReadProgress read.
type Progress struct {
	// Step is the last one that the job has taken, At since when it has; zero if it has taken none. Began is since when
	// all of its pods run, told only then.
	Step      int64
	At, Began time.Time
	// Expected is within what time a step was stated; told only of a job that hangs.
	Expected time.Duration
	// Slowest is the rank that is behind the others; nil if none is.
	Slowest *Slowest
	// Evidence names the JobEvidence of a job that hangs, Note says what else there is to say.
	Evidence, Note string
}

// Slowest is the rank of a job that has taken the fewest steps.
type Slowest struct {
	Rank      int32
	Pod, Node string
}

// ProgressText writes it as ReadProgress reads it.
func ProgressText(p *Progress) string {
	if p.Expected == 0 {
		return fmt.Sprintf("step %d at %s", p.Step, stamp(p.At))
	}
	text := fmt.Sprintf("no step since %s (step %d; expected every %s)", stamp(p.At), p.Step, p.Expected)
	if p.At.IsZero() {
		text = fmt.Sprintf("no step since all pods run at %s (expected within %s)", stamp(p.Began), p.Expected)
	}
	if s := p.Slowest; s != nil {
		text += fmt.Sprintf("; slowest: rank %d, pod %s on %s", s.Rank, s.Pod, s.Node)
	}
	if p.Evidence != "" {
		text += "; evidence: " + p.Evidence
	}
	if p.Note != "" {
		text += "; " + oneLine(p.Note)
	}
	return text
}

var (
	goesOn      = regexp.MustCompile(`^step (\d+) at (\S+)$`)
	hangs       = regexp.MustCompile(`^no step since (\S+) \(step (\d+); expected every ([^)\s]+)\)`)
	neverBegan  = regexp.MustCompile(`^no step since all pods run at (\S+) \(expected within ([^)\s]+)\)`)
	isSlowest   = regexp.MustCompile(`^; slowest: rank (\d+), pod (\S+) on ([^\s;]+)`)
	hasEvidence = regexp.MustCompile(`^; evidence: ([^\s;]+)`)
)

// ReadProgress reads what ProgressText wrote; ok is false of other texts.
func ReadProgress(text string) (p Progress, ok bool) {
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	moment := func(s string) time.Time { t, _ := time.Parse(time.RFC3339, s); return t }
	length := func(s string) time.Duration { d, _ := time.ParseDuration(s); return d }
	rest := text
	cut := func(e *regexp.Regexp) []string {
		m := e.FindStringSubmatch(rest)
		if m != nil {
			rest = rest[len(m[0]):]
		}
		return m
	}
	if m := cut(goesOn); m != nil {
		p.Step, p.At = number(m[1]), moment(m[2])
		return p, !p.At.IsZero()
	}
	if m := cut(hangs); m != nil {
		p.At, p.Step, p.Expected = moment(m[1]), number(m[2]), length(m[3])
	} else if m := cut(neverBegan); m != nil {
		p.Began, p.Expected = moment(m[1]), length(m[2])
	}
	if p.Expected <= 0 || p.At.IsZero() && p.Began.IsZero() {
		return Progress{}, false
	}
	if m := cut(isSlowest); m != nil {
		p.Slowest = &Slowest{int32(number(m[1])), m[2], m[3]} //nolint:gosec // a rank
	}
	if m := cut(hasEvidence); m != nil {
		p.Evidence = m[1]
	}
	p.Note = strings.TrimPrefix(rest, "; ")
	return p, true
}
