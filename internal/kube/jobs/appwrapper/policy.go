package appwrapper

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// AnnotationPrefix begins every annotation of an AppWrapper that sets a
// parameter of its lifecycle.Policy.
const AnnotationPrefix = "workload.codeflare.dev.appwrapper/"

// Warning is an annotation that could not be used as it stands.
type Warning struct {
	Annotation string
	Value      string
	// Problem says what is wrong and what is used instead.
	Problem string
}

// String is a sentence for an event or an admission warning.
func (w Warning) String() string {
	return fmt.Sprintf("annotation %s: %q %s", w.Annotation, w.Value, w.Problem)
}

// parameter reads one annotation into a policy. Its answer is what is wrong
// with the value and what is used instead; "" if it was taken as it is.
type parameter func(p *lifecycle.Policy, value string) string

// parameters are the annotations by name, without the prefix. base gives what
// a malformed value falls back to.
func parameters(base lifecycle.Policy) map[string]parameter {
	grace := func(of func(*lifecycle.Policy) *time.Duration) parameter {
		return func(p *lifecycle.Policy, v string) string { return setGrace(of(p), v, base.GraceMaximum) }
	}
	return map[string]parameter{
		"admissionGracePeriodDuration": grace(
			func(p *lifecycle.Policy) *time.Duration { return &p.AdmissionGrace },
		),
		"warmupGracePeriodDuration":  grace(func(p *lifecycle.Policy) *time.Duration { return &p.WarmupGrace }),
		"failureGracePeriodDuration": grace(func(p *lifecycle.Policy) *time.Duration { return &p.FailureGrace }),
		"retryPausePeriodDuration": func(p *lifecycle.Policy, v string) string {
			_, err := parseDuration(v)
			p.PauseSaid = err == nil
			return setGrace(&p.RetryPause, v, base.GraceMaximum)
		},
		"forcefulDeletionGracePeriodDuration": func(p *lifecycle.Policy, v string) string {
			return setGrace(&p.DeletionGrace, v, min(base.GraceMaximum, base.DeletionMaximum))
		},
		"deletionOnFailureGracePeriodDuration": grace(
			func(p *lifecycle.Policy) *time.Duration { return &p.FailedGrace },
		),
		"retryLimit":         setRetryLimit,
		"successTTLDuration": setSuccessTTL,
		"terminalExitCodes": func(p *lifecycle.Policy, v string) string {
			return setCodes(&p.TerminalExitCodes, v)
		},
		"retryableExitCodes": func(p *lifecycle.Policy, v string) string {
			return setCodes(&p.RetryableExitCodes, v)
		},
	}
}

// SaysRetries reports whether annotations say which failures are followed by another attempt, and whether they say how
// many are.
func SaysRetries(annotations map[string]string) (own, limit bool) {
	_, limit = annotations[AnnotationPrefix+"retryLimit"]
	_, terminal := annotations[AnnotationPrefix+"terminalExitCodes"]
	_, retryable := annotations[AnnotationPrefix+"retryableExitCodes"]
	return limit || terminal || retryable, limit
}

// ParsePolicy returns base changed by the annotations. What cannot be used is
// left at base, or bounded, and reported: a typing error in a retry limit must
// neither stop a job nor pass unseen. Unknown names under the prefix are
// reported too, since a misspelt one would otherwise do nothing.
func ParsePolicy(base lifecycle.Policy, annotations map[string]string) (lifecycle.Policy, []Warning) {
	known := parameters(base)
	p := base
	p.TerminalExitCodes = slices.Clone(base.TerminalExitCodes)
	p.RetryableExitCodes = slices.Clone(base.RetryableExitCodes)
	var warnings []Warning
	for _, key := range sortedKeys(annotations) {
		name, ours := strings.CutPrefix(key, AnnotationPrefix)
		if !ours || strings.HasPrefix(name, "tas-") {
			continue
		}
		value := strings.TrimSpace(annotations[key])
		problem := "is ignored: there is no such parameter"
		if set, ok := known[name]; ok {
			problem = set(&p, value)
		}
		if problem != "" {
			warnings = append(warnings, Warning{Annotation: key, Value: annotations[key], Problem: problem})
		}
	}
	return p, warnings
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func setGrace(to *time.Duration, value string, most time.Duration) string {
	d, err := parseDuration(value)
	switch {
	case err != nil:
		return fmt.Sprintf("is not a duration such as 90s or 1h30m; %s is used", *to)
	case d < 0:
		*to = 0
		return "is negative; 0s is used"
	case d > most:
		*to = most
		return fmt.Sprintf("is longer than the maximum; %s is used", most)
	}
	*to = d
	return ""
}

// setSuccessTTL takes what is shorter than the default only: an administrator
// sets the default as the longest time that finished work may be kept.
func setSuccessTTL(p *lifecycle.Policy, value string) string {
	d, err := parseDuration(value)
	switch {
	case err != nil:
		return fmt.Sprintf("is not a duration such as 90s or 1h30m; %s is used", p.SuccessTTL)
	case d <= 0 || d > p.SuccessTTL:
		return fmt.Sprintf("is not between 0s and the default; %s is used", p.SuccessTTL)
	}
	p.SuccessTTL = d
	return ""
}

func setRetryLimit(p *lifecycle.Policy, value string) string {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return fmt.Sprintf("is not a whole number from 0; %d is used", p.RetryLimit)
	}
	p.RetryLimit = int32(n)
	return ""
}

func setCodes(to *[]int32, value string) string {
	var codes []int32
	var bad []string
	for item := range strings.SplitSeq(value, ",") {
		item = strings.TrimSpace(item)
		n, err := strconv.ParseInt(item, 10, 32)
		if err != nil {
			if item != "" {
				bad = append(bad, strconv.Quote(item))
			}
			continue
		}
		codes = append(codes, int32(n))
	}
	slices.Sort(codes)
	*to = slices.Compact(codes)
	if len(bad) > 0 {
		return "has items that are not exit codes and are skipped: " + strings.Join(bad, ", ")
	}
	return ""
}

// parseDuration also takes whole days ("7d"): generators of AppWrappers write
// them, and Go's own syntax stops at hours.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("parse days in %q: %w", s, err)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("parse duration: %w", err)
	}
	return d, nil
}
