package jobs

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Steps is what a job states of its steps.
type Steps struct {
	// Every is how often it takes one, First how long the first may take.
	Every, First time.Duration
	// Log tells of steps in its log; nil is that pods tell of them by annotations.
	Log *regexp.Regexp
	// Restart has it restarted when it hangs, Restarts times at most.
	Restart  bool
	Restarts int32
}

// Limits of what a job may state, and what holds where it states nothing.
const (
	// ShortestProgress and LongestProgress bound how often steps are taken; logs are not read more often
	// than makes ShortestLogProgress sensible.
	ShortestProgress    = 5 * time.Second
	ShortestLogProgress = time.Minute
	LongestProgress     = 7 * 24 * time.Hour
	// DefaultFirstProgress is how long the first step may take.
	DefaultFirstProgress = 30 * time.Minute
	// DefaultHangRestarts is how often a job is restarted because it hangs, MostHangRestarts what it may say instead.
	DefaultHangRestarts = 3
	MostHangRestarts    = 100
	// longestExpression is how long an expression may be, and mostInstructions how much it may compile to: it is
	// looked for in all lines of a log, which takes time in proportion.
	longestExpression, mostInstructions = 256, 500
)

// instructions is how much an expression compiles to.
func instructions(text string) int {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(prog.Inst)
}

// StepsOf reads what a job states of its steps; nil if it states nothing.
func StepsOf(o metav1.Object) (*Steps, field.ErrorList) {
	said, at := o.GetAnnotations(), field.NewPath("metadata", "annotations")
	var errs field.ErrorList
	wrong := func(key, cure string) { errs = append(errs, field.Invalid(at.Key(key), said[key], cure)) }
	duration := func(key string, least time.Duration) time.Duration {
		d, err := time.ParseDuration(said[key])
		if err != nil || d < least || d > LongestProgress {
			wrong(key, fmt.Sprintf("use a duration from %s to %s, such as 10m", least, LongestProgress))
			return 0
		}
		return d
	}
	if _, states := said[kueue.ProgressEveryAnnotation]; !states {
		for _, key := range []string{
			kueue.ProgressFirstAnnotation, kueue.ProgressLogAnnotation, kueue.OnHangAnnotation, kueue.HangRestartsAnnotation,
		} {
			if _, has := said[key]; has {
				wrong(
					key,
					"it says nothing without "+kueue.ProgressEveryAnnotation+": state how often the job takes a step",
				)
			}
		}
		return nil, errs
	}
	p := &Steps{Restarts: DefaultHangRestarts}
	least := ShortestProgress
	if text, has := said[kueue.ProgressLogAnnotation]; has {
		least = ShortestLogProgress
		var err error
		switch p.Log, err = regexp.Compile(text); {
		case text == "" || len(text) > longestExpression:
			wrong(
				kueue.ProgressLogAnnotation,
				fmt.Sprintf("use an expression of 1 to %d characters", longestExpression),
			)
		case err != nil:
			wrong(
				kueue.ProgressLogAnnotation,
				fmt.Sprintf(`use a regular expression as of RE2, such as "step=(\d+)": %v`, err),
			)
		case instructions(text) > mostInstructions:
			wrong(
				kueue.ProgressLogAnnotation,
				"it takes too long to look for: repeat less, as in [0-9]+ in place of [0-9]{1,999}",
			)
		case p.Log.MatchString(""):
			wrong(
				kueue.ProgressLogAnnotation,
				"it matches every line, also those of a job that hangs: use one that only steps match",
			)
		}
	}
	p.Every = duration(kueue.ProgressEveryAnnotation, least)
	p.First = max(DefaultFirstProgress, p.Every)
	if _, has := said[kueue.ProgressFirstAnnotation]; has {
		p.First = duration(kueue.ProgressFirstAnnotation, ShortestProgress)
	}
	if mode, has := said[kueue.OnHangAnnotation]; has {
		if p.Restart = mode == kueue.OnHangRestart; !slices.Contains(
			[]string{kueue.OnHangObserve, kueue.OnHangRestart},
			mode,
		) {
			wrong(kueue.OnHangAnnotation, "use "+kueue.OnHangObserve+" or "+kueue.OnHangRestart)
		}
	}
	if text, has := said[kueue.HangRestartsAnnotation]; has {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 || n > MostHangRestarts {
			wrong(kueue.HangRestartsAnnotation, fmt.Sprintf("use a whole number from 1 to %d", MostHangRestarts))
		}
		p.Restarts = int32(n)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return p, nil
}
