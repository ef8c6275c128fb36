package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
	"github.com/mlbatch/mlbatch/internal/strict"
)

// Given is what a user gives besides the file. It wins over the file.
type Given struct {
	// FeatureGates is NAME=true,NAME=false; it excludes gates in the file.
	FeatureGates string
	// Namespace is that of the process, used if nothing else says; may be empty.
	Namespace string
	// Set writes flags into the configuration before defaults are filled in; may
	// be nil.
	Set func(*v1beta2.Configuration)
}

// Resolved is a configuration with nothing left open.
type Resolved struct {
	// Configuration is complete and valid. Read again it resolves to itself.
	Configuration *v1beta2.Configuration
	// Gates are all feature gates.
	Gates Gates
	// Notices tell of fields that are accepted and have no effect.
	Notices []Notice
}

// Resolve completes and checks a configuration. It changes the file's
// configuration. What is wrong in it is a *FileError.
func Resolve(f *File, given Given) (*Resolved, error) {
	c := f.Configuration
	flagged, err := parseGates(given.FeatureGates)
	switch {
	case err != nil:
		return nil, err
	case len(flagged) > 0 && f.has("featureGates"):
		return nil, strict.Failed(f.Name, []Problem{{
			Position: f.places.Find("featureGates"), Path: "featureGates",
			Text: "--feature-gates is given too: set gates in one place",
		}})
	}
	if given.Set != nil {
		given.Set(c)
	}
	v1beta2.Default(c, given.Namespace)
	set := map[string]bool{}
	maps.Copy(set, c.FeatureGates) // conversion may have added one
	maps.Copy(set, flagged)
	if f.absent {
		c.Metrics.EnableClusterQueueResources = true
	}
	gates, notices, gateErrs := resolveGates(set)
	if len(flagged) > 0 && len(gateErrs) > 0 {
		return nil, flagErrors(gateErrs)
	}
	errs := append(v1beta2.Validate(c), gateErrs...)
	errs = append(errs, refused(c)...)
	errs = append(errs, retryPolicy(c.Recovery.RetryPolicy)...)
	if err := strict.Failed(f.Name, problems(f.places, errs)); err != nil {
		return nil, err
	}
	c.FeatureGates = set
	notices = append(slices.Concat(f.Notices, notices), unused(c)...)
	if len(c.Metrics.CustomLabels) > 0 && !gates[customLabelsGate] {
		notices = append(notices, Notice{
			Path: field.NewPath(
				"metrics",
				"customLabels",
			).String(),
			Text: "has no effect while the feature gate " + customLabelsGate + " is off, as it is in Kueue if nothing is said: turn it on",
		})
	}
	for i := range notices {
		if notices[i].Line == 0 {
			notices[i].Position = f.places.Find(notices[i].Path)
		}
	}
	slices.SortStableFunc(notices, func(a, b Notice) int { return cmp.Compare(a.Line, b.Line) })
	return &Resolved{Configuration: c, Gates: gates, Notices: notices}, nil
}

// retryPolicy says what is wrong with that of the file.
func retryPolicy(text string) field.ErrorList {
	if text == "" {
		return nil
	}
	if _, err := core.ParseRetryText(text, jobs.RetryFromFile); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("recovery", "retryPolicy"), text, err.Error())}
	}
	return nil
}

// flagErrors are errors about gates that were given as a flag.
func flagErrors(errs field.ErrorList) error {
	lines := make([]string, len(errs))
	for i, e := range errs {
		name := strings.TrimSuffix(strings.TrimPrefix(e.Field, "featureGates["), "]")
		lines[i] = fmt.Sprintf("--feature-gates: %s=%v: %s", name, e.BadValue, e.Detail)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// refused are settings that ask for what mlbatch does not have, and whose
// absence would change what happens to jobs.
func refused(c *v1beta2.Configuration) field.ErrorList {
	var errs field.ErrorList
	no := func(at *field.Path, why string) { errs = append(errs, field.Forbidden(at, why)) }
	if c.Integrations != nil {
		errs = append(errs, refusedModes(c.Integrations.Modes)...)
	}
	if c.MultiKueue != nil {
		no(field.NewPath("multiKueue"), noMulti+": take the section out")
	}
	if len(c.Resources.DeviceClassMappings) > 0 {
		no(field.NewPath("resources", "deviceClassMappings"), noDevices+": take the field out")
	}
	return errs
}

// unused are settings that are accepted and do nothing, because they tune what
// does not exist here.
func unused(c *v1beta2.Configuration) []Notice {
	var out []Notice
	note := func(at *field.Path, format string, args ...any) {
		out = append(out, Notice{Path: at.String(), Text: fmt.Sprintf(format, args...)})
	}
	if *c.InternalCertManagement.Enable && c.Webhook.CertDir != "" {
		note(
			field.NewPath("webhook", "certDir"),
			"has no effect: certificates are made here and kept in a Secret, unless internalCertManagement.enable is false",
		)
	}
	if c.Integrations != nil {
		out = append(out, unknownKinds(c.Integrations)...)
	}
	numbered := slices.Sorted(maps.Keys(manager.Concurrency(kinds.All())))
	for _, kind := range slices.Sorted(maps.Keys(c.Controller.GroupKindConcurrency)) {
		if !slices.Contains(numbered, kind) {
			note(
				field.NewPath("controller", "groupKindConcurrency").Key(kind),
				"has no effect: there is a number for %s",
				strings.Join(numbered, ", "),
			)
		}
	}
	return out
}
