package view

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// The text of attempts is what people read in a condition and what ReadAttempts reads: a line for each, as
//
//	2026-03-01T12:00:00Z to 2026-03-01T12:30:00Z Preemption/InCohortReclamation gpus=8 nodes=2:a,b: Preempted to ...
//
// and before them one for the sum of those before, which begins with "earlier". Lines that it does not
// know, and words in them, say nothing.

// earlierWord begins the line of those that are summed up.
const earlierWord = "earlier"

var (
	codes = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)
	names = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
)

// code is a reason that may stand in the text; "" of others.
func code(reason string) string {
	reason = reason[:min(len(reason), history.MaxAttemptReason)]
	if !codes.MatchString(reason) {
		return ""
	}
	return reason
}

// oneLine is a text in one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// AttemptsText writes attempts as ReadAttempts reads them.
func AttemptsText(all history.Attempts) string {
	var b strings.Builder
	if s := all.Earlier; s != nil {
		b.WriteString(sumText(s) + "\n")
	}
	for i := range all.Attempts {
		b.WriteString(attemptText(&all.Attempts[i]) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// stamp is a time as the API writes it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func attemptText(a *history.Attempt) string {
	words := []string{stamp(a.Start.Time), "to", "", cmp.Or(a.Category, string(Succeeded))}
	if a.End != nil {
		words[2] = stamp(a.End.Time)
	}
	if a.Reason != "" {
		words[3] += "/" + a.Reason
	}
	pair := func(key, value string) {
		if value != "" && value != "0" {
			words = append(words, key+"="+value)
		}
	}
	moment := func(key string, t *metav1.Time) {
		if t != nil {
			pair(key, stamp(t.Time))
		}
	}
	number := func(key string, n *int32) {
		if n != nil {
			words = append(words, fmt.Sprintf("%s=%d", key, *n))
		}
	}
	pair("gpus", strconv.FormatInt(a.GPUs, 10))
	if a.NodeCount > 0 {
		pair("nodes", fmt.Sprintf("%d:%s", a.NodeCount, strings.Join(a.Nodes, ",")))
	}
	pair("failed", strings.Join(a.FailedNodes, ","))
	pair("replaced", strconv.Itoa(int(a.ReplacedPods)))
	pair("restarted", strconv.Itoa(int(a.RestartedPods)))
	pair("pod", a.Pod)
	number("rank", a.Rank)
	number("exit", a.ExitCode)
	moment("ready", a.Ready)
	moment("checkpoint", a.Checkpoint)
	text := strings.Join(words, " ")
	if a.Message != "" {
		text += ": " + a.Message
	}
	return text
}

func sumText(s *history.AttemptSum) string {
	words := []string{
		earlierWord, fmt.Sprintf("attempts=%d", s.Attempts), fmt.Sprintf("replacements=%d", s.Replacements),
		fmt.Sprintf("ran=%d", s.RanSeconds), fmt.Sprintf("productive=%d", s.ProductiveSeconds),
		fmt.Sprintf("gpu-seconds=%d", s.GPUSeconds), fmt.Sprintf("lost=%d", s.LostGPUSeconds),
	}
	if s.Start != nil {
		words = append(words, "start="+stamp(s.Start.Time))
	}
	for _, c := range slices.Sorted(maps.Keys(s.Categories)) {
		words = append(words, fmt.Sprintf("%s=%d", c, s.Categories[c]))
	}
	return strings.Join(words, " ")
}

// ReadAttempts reads what AttemptsText wrote: the last history.MaxAttempts lines that are of attempts, and
// the first that is a sum.
func ReadAttempts(text string) history.Attempts {
	var out history.Attempts
	for line := range strings.SplitSeq(text, "\n") {
		if rest, is := strings.CutPrefix(line, earlierWord+" "); is {
			if out.Earlier == nil {
				out.Earlier = readSum(rest)
			}
			continue
		}
		if a, is := readAttempt(line); is {
			out.Attempts = append(out.Attempts, a)
		}
	}
	out.Attempts = out.Attempts[max(0, len(out.Attempts)-history.MaxAttempts):]
	return out
}

func readAttempt(line string) (a history.Attempt, is bool) {
	head, message, _ := strings.Cut(line, ": ")
	words := strings.Fields(head)
	if len(words) < 4 || words[1] != "to" {
		return a, false
	}
	start, end := readMoment(words[0]), readMoment(words[2])
	if start == nil || end == nil || end.Before(start) {
		return a, false
	}
	category, reason, _ := strings.Cut(words[3], "/")
	switch {
	case category == string(Succeeded):
		category = ""
	case !slices.Contains(core.Categories(), core.Category(category)):
		return a, false
	}
	a = history.Attempt{
		Start: *start, End: end, Category: category, Reason: code(reason),
		Message: convert.Cut(oneLine(message), history.MaxAttemptMessage),
	}
	for _, word := range words[4:] {
		key, value, _ := strings.Cut(word, "=")
		readPair(&a, key, value)
	}
	account(&a, end.Time)
	return a, true
}

func readPair(a *history.Attempt, key, value string) {
	switch key {
	case "gpus":
		a.GPUs = readNumber(value, 64)
	case "nodes":
		n, list, _ := strings.Cut(value, ":")
		if a.Nodes = readNames(list); a.Nodes != nil {
			a.NodeCount = max(int32(readNumber(n, 32)), int32(len(a.Nodes))) //nolint:gosec // it was read so
		}
	case "failed":
		a.FailedNodes = readNames(value)
	case "replaced":
		a.ReplacedPods = int32(readNumber(value, 32)) //nolint:gosec // it was read so
	case "restarted":
		a.RestartedPods = int32(readNumber(value, 32)) //nolint:gosec // it was read so
	case "pod":
		if names.MatchString(value) {
			a.Pod = value
		}
	case "rank":
		a.Rank = new(int32(readNumber(value, 32))) //nolint:gosec // it was read so
	case "exit":
		if n, err := strconv.ParseInt(value, 10, 32); err == nil {
			a.ExitCode = new(int32(n))
		}
	case "ready":
		a.Ready = readMoment(value)
	case "checkpoint":
		a.Checkpoint = readMoment(value)
	}
}

func readSum(text string) *history.AttemptSum {
	s := &history.AttemptSum{}
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "attempts":
			s.Attempts = int32(readNumber(value, 32)) //nolint:gosec // it was read so
		case "replacements":
			s.Replacements = int32(readNumber(value, 32)) //nolint:gosec // it was read so
		case "ran":
			s.RanSeconds = readNumber(value, 64)
		case "productive":
			s.ProductiveSeconds = readNumber(value, 64)
		case "gpu-seconds":
			s.GPUSeconds = readNumber(value, 64)
		case "lost":
			s.LostGPUSeconds = readNumber(value, 64)
		case "start":
			s.Start = readMoment(value)
		default:
			if n := readNumber(value, 32); n > 0 && slices.Contains(core.Categories(), core.Category(key)) {
				if s.Categories == nil {
					s.Categories = map[string]int32{}
				}
				s.Categories[key] = int32(n) //nolint:gosec // it was read so
			}
		}
	}
	return s
}

// readNumber reads a number that is not negative; 0 of what is none.
func readNumber(text string, bits int) int64 {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func readNames(list string) []string {
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if names.MatchString(name) {
			out = append(out, name)
		}
	}
	return SomeNodes(out)
}

// readMoment reads a time of this age; nil of others.
func readMoment(text string) *metav1.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 9000 {
		return nil
	}
	return new(metav1.NewTime(t.UTC().Truncate(time.Second)))
}
