package jobs

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxDependencies is how many jobs a job can be after.
const MaxDependencies = 64

// When says how a job must have ended, for another one to start.
type When string

// The ways to end.
const (
	// AfterOK: it succeeded.
	AfterOK When = "ok"
	// AfterAny: it ended in whatever way, also by being deleted.
	AfterAny When = "any"
	// AfterFail: it failed, or was deleted before it had ended.
	AfterFail When = "fail"
)

// Dependency is a job of the same namespace that must have ended before.
type Dependency struct {
	When When
	Job  string
}

// String is what ParseDependency reads.
func (d Dependency) String() string { return string(d.When) + ":" + d.Job }

// Met reports whether a job that has ended did so as it must have.
func (d Dependency) Met(succeeded bool) bool {
	return d.When == AfterAny || succeeded == (d.When == AfterOK)
}

// ParseDependency reads ok:JOB, any:JOB or fail:JOB.
func ParseDependency(text string) (Dependency, error) {
	when, job, _ := strings.Cut(text, ":")
	d := Dependency{When(when), job}
	if !slices.Contains([]When{AfterOK, AfterAny, AfterFail}, d.When) ||
		len(validation.IsDNS1123Subdomain(job)) > 0 {
		return d, fmt.Errorf(
			"%q: use ok:JOB, any:JOB or fail:JOB, with the name of a job of the same namespace",
			text,
		)
	}
	return d, nil
}

// ParseDependencies reads several, separated by commas; none of "". What a job called self would
// be after is refused if that is itself.
func ParseDependencies(list, self string) ([]Dependency, error) {
	if list == "" {
		return nil, nil
	}
	texts := strings.Split(list, ",")
	if len(texts) > MaxDependencies {
		return nil, fmt.Errorf("%d jobs: name at most %d", len(texts), MaxDependencies)
	}
	out := make([]Dependency, 0, len(texts))
	for _, text := range texts {
		d, err := ParseDependency(strings.TrimSpace(text))
		switch {
		case err != nil:
			return nil, err
		case d.Job == self:
			return nil, fmt.Errorf("%q: a job cannot wait for itself", text)
		}
		out = append(out, d)
	}
	return out, nil
}

// FormatDependencies is the list that ParseDependencies reads.
func FormatDependencies(all []Dependency) string {
	out := make([]string, 0, len(all))
	for _, d := range all {
		out = append(out, d.String())
	}
	return strings.Join(out, ",")
}
