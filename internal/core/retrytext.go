package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What the text of a retry policy may have at most.
const (
	maxRetryText  = 1024
	maxRetryRules = 16
	maxRetries    = 100
	// maxDisruptions: attempts are remembered one by one up to that many (history.MaxAttempts).
	maxDisruptions = 16
	maxExitCode    = 255
)

// RetryText is a retry policy as people write it: what it does not say is told by others.
type RetryText struct {
	Rules []RetryRule
	// Limit and Disruptions are nil if nothing is said.
	Limit, Disruptions *int32
}

// ParseRetryText reads a retry policy such as
//
//	UserError exit 3,10: Fail; Crash,Unknown: Retry limit 2; limit: 5
//
// with entries on lines of their own or behind semicolons. The error says which entry is wrong and how to mend it.
func ParseRetryText(text, from string) (RetryText, error) {
	var out RetryText
	if len(text) > maxRetryText {
		return out, fmt.Errorf("it has %d bytes: use at most %d", len(text), maxRetryText)
	}
	some := false
	for entry := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		entry = strings.Join(strings.Fields(entry), " ")
		if entry == "" {
			continue
		}
		some = true
		if err := out.entry(entry, from); err != nil {
			return RetryText{}, fmt.Errorf("%q: %w", entry, err)
		}
	}
	if !some {
		return out, errors.New("it is empty: write rules such as UserError: Fail, or remove it")
	}
	return out, nil
}

func (t *RetryText) entry(entry, from string) error {
	what, then, found := strings.Cut(entry, ":")
	what, then = strings.TrimSpace(what), strings.TrimSpace(then)
	if !found {
		return errors.New(
			"it has no colon: write what fails, a colon, and Retry or Fail, as in UserError exit 3: Fail",
		)
	}
	var err error
	switch what {
	case "limit":
		t.Limit, err = retryNumber(t.Limit, then, 0, maxRetries)
		return err
	case "disruptions":
		t.Disruptions, err = retryNumber(t.Disruptions, then, 1, maxDisruptions)
		return err
	}
	r, err := parseRetryRule(what, then)
	if err != nil {
		return err
	}
	if len(t.Rules) == maxRetryRules {
		return fmt.Errorf("there are more than %d rules: join some", maxRetryRules)
	}
	r.From = from
	t.Rules = append(t.Rules, r)
	return nil
}

func retryNumber(was *int32, text string, least, most int32) (*int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	switch {
	case was != nil:
		return was, errors.New("it is said twice: remove one")
	case err != nil || int32(n) < least || int32(n) > most:
		return nil, fmt.Errorf("write a whole number from %d to %d", least, most)
	}
	return new(int32(n)), nil
}

// parseRetryRule reads what a rule is for and what it says.
func parseRetryRule(what, then string) (r RetryRule, err error) {
	categories, codes, exit := strings.Cut(" "+what+" ", " exit ")
	if categories = strings.TrimSpace(categories); categories == "" && !exit {
		return r, errors.New(
			"it says of no failure: write a category, exit codes, or both, as in UserError exit 3: Fail",
		)
	}
	if categories != "" {
		if r.Categories, err = parseCategories(categories); err != nil {
			return r, err
		}
	}
	if exit {
		if r.ExitCodes, err = parseExitCodes(codes); err != nil {
			return r, err
		}
	}
	words := strings.Fields(then)
	switch {
	case slices.Equal(words, []string{"Fail"}):
		r.Action = FailOnFailure
	case slices.Equal(words, []string{"Retry"}):
		r.Action = RetryOnFailure
	case len(words) == 3 && words[0] == "Retry" && words[1] == "limit":
		r.Action = RetryOnFailure
		r.Limit, err = retryNumber(nil, words[2], 0, maxDisruptions)
	default:
		return r, errors.New("after the colon write Fail, Retry, or Retry limit N")
	}
	return r, err
}

func parseCategories(text string) (out []Category, err error) {
	for word := range strings.SplitSeq(text, ",") {
		c := Category(strings.TrimSpace(word))
		switch {
		case slices.Contains(out, c):
			return nil, fmt.Errorf("%s is there twice: remove one", c)
		case slices.Contains(RuledCategories(), c):
			out = append(out, c)
		case slices.Contains(Categories(), c):
			return nil, fmt.Errorf(
				"%s is not the job's own failure and never counts against its limit: remove it (disruptions: N says how many in a row it survives)",
				c,
			)
		default:
			return nil, fmt.Errorf("there is no category %q: use some of %s, with commas, or exit and exit codes",
				c, joinCategories(RuledCategories(), ", "))
		}
	}
	return out, nil
}

func parseExitCodes(text string) (out []int32, err error) {
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		switch {
		case err != nil || n < 1 || n > maxExitCode:
			return nil, fmt.Errorf("%q is no exit code of a failure: write whole numbers from 1 to %d, with commas",
				strings.TrimSpace(word), maxExitCode)
		case slices.Contains(out, int32(n)):
			return nil, fmt.Errorf("exit code %d is there twice: remove one", n)
		}
		out = append(out, int32(n))
	}
	return out, nil
}

func joinCategories(all []Category, with string) string {
	words := make([]string, len(all))
	for i, c := range all {
		words[i] = string(c)
	}
	return strings.Join(words, with)
}

// String is the rule as it is written; what is Repeated only the defaults say.
func (r *RetryRule) String() string {
	var b strings.Builder
	b.WriteString(joinCategories(r.Categories, ","))
	if len(r.ExitCodes) > 0 {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString("exit ")
		for i, code := range r.ExitCodes {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Itoa(int(code)))
		}
	}
	if r.Repeated {
		b.WriteString(" twice in a row")
	}
	b.WriteString(": " + string(r.Action))
	if r.Limit != nil {
		b.WriteString(" limit " + strconv.Itoa(int(*r.Limit)))
	}
	return b.String()
}
