package v1beta2

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateManager(m *ControllerManager) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, port(field.NewPath("webhook", "port"), *m.Webhook.Port)...)
	errs = append(errs, validateLeaderElection(m.LeaderElection, field.NewPath("leaderElection"))...)
	errs = append(errs, address(field.NewPath("metrics", "bindAddress"), m.Metrics.BindAddress)...)
	errs = append(
		errs,
		validateCustomLabels(m.Metrics.CustomLabels, field.NewPath("metrics", "customLabels"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(
		m.Metrics.LocalQueueMetrics.LocalQueueSelector,
		metav1validation.LabelSelectorValidationOptions{},
		field.NewPath("metrics", "localQueueMetrics", "localQueueSelector"),
	)...)
	health := field.NewPath("health")
	errs = append(errs, address(health.Child("healthProbeBindAddress"), m.Health.HealthProbeBindAddress)...)
	if m.Health.ReadinessEndpointName == m.Health.LivenessEndpointName {
		errs = append(
			errs,
			field.Invalid(
				health.Child("livenessEndpointName"),
				m.Health.LivenessEndpointName,
				"must differ from readinessEndpointName",
			),
		)
	}
	errs = append(errs, address(field.NewPath("pprofBindAddress"), m.PprofBindAddress)...)
	return append(
		append(errs, validateTuning(m.Controller, field.NewPath("controller"))...),
		validateTLS(m.TLS, field.NewPath("tls"))...)
}

func validateLeaderElection(l *LeaderElection, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	positive := func(name string, d *metav1.Duration) {
		if d.Duration <= 0 {
			errs = append(errs, field.Invalid(at.Child(name), d.Duration.String(), "must be longer than 0"))
		}
	}
	positive("leaseDuration", l.LeaseDuration)
	positive("renewDeadline", l.RenewDeadline)
	positive("retryPeriod", l.RetryPeriod)
	if len(errs) == 0 && l.LeaseDuration.Duration <= l.RenewDeadline.Duration {
		errs = append(
			errs,
			field.Invalid(
				at.Child("leaseDuration"),
				l.LeaseDuration.Duration.String(),
				"must be longer than renewDeadline",
			),
		)
	}
	if len(errs) == 0 && l.LeaseDuration.Duration%time.Second != 0 {
		errs = append(
			errs,
			field.Invalid(
				at.Child("leaseDuration"),
				l.LeaseDuration.Duration.String(),
				"must be whole seconds: a Lease knows no others",
			),
		)
	}
	// A renewal that was tried once and failed can be tried again.
	if len(errs) == 0 && l.RenewDeadline.Seconds() <= 1.2*l.RetryPeriod.Seconds() {
		errs = append(
			errs,
			field.Invalid(
				at.Child("renewDeadline"),
				l.RenewDeadline.Duration.String(),
				"must be longer than 1.2 times retryPeriod",
			),
		)
	}
	errs = append(errs, oneOf(at.Child("resourceLock"), l.ResourceLock, LeaderElectionLock)...)
	errs = append(errs, names(at.Child("resourceName"), l.ResourceName, validation.IsDNS1123Subdomain)...)
	return append(errs, names(at.Child("resourceNamespace"), l.ResourceNamespace, validation.IsDNS1123Label)...)
}

// labelName is what Prometheus allows in names of labels.
const labelName = `^[a-zA-Z_][a-zA-Z0-9_]*$`

func validateCustomLabels(all []ControllerMetricsCustomLabel, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(all) > 20 {
		errs = append(errs, field.TooMany(at, len(all), 20))
	}
	most := map[SourceKind]int{SourceClusterQueue: 6, SourceLocalQueue: 6, SourceCohort: 6, SourceWorkload: 2}
	valid := regexp.MustCompile(labelName)
	seen, count := map[string]bool{}, map[SourceKind]int{}
	for i, l := range all {
		at := at.Index(i)
		kind := *l.SourceKind
		if !valid.MatchString(l.Name) {
			errs = append(
				errs,
				field.Invalid(at.Child("name"), l.Name, "must be letters, digits and _, and not begin with a digit"),
			)
		}
		id := string(kind) + "/" + l.Name
		if seen[id] {
			errs = append(errs, field.Duplicate(at.Child("name"), l.Name))
		}
		seen[id] = true
		if other := (map[SourceKind]SourceKind{SourceWorkload: SourceClusterQueue, SourceClusterQueue: SourceWorkload})[kind]; seen[string(other)+"/"+l.Name] {
			errs = append(
				errs,
				field.Invalid(
					at.Child("name"),
					l.Name,
					fmt.Sprintf("a label of a %s has this name too, and pending_workloads has both", other),
				),
			)
		}
		if l.SourceLabelKey != "" && l.SourceAnnotationKey != "" {
			errs = append(
				errs,
				field.Invalid(
					at.Child("sourceAnnotationKey"),
					l.SourceAnnotationKey,
					"must be empty if sourceLabelKey is given: a value has one source",
				),
			)
		}
		if l.SourceLabelKey != "" {
			errs = append(errs, names(at.Child("sourceLabelKey"), l.SourceLabelKey, validation.IsQualifiedName)...)
		}
		if l.SourceAnnotationKey != "" {
			errs = append(
				errs,
				names(at.Child("sourceAnnotationKey"), l.SourceAnnotationKey, validation.IsQualifiedName)...)
		}
		errs = append(errs, oneOf(at.Child("sourceKind"), kind, slices.Sorted(maps.Keys(most))...)...)
		if count[kind]++; most[kind] > 0 && count[kind] == most[kind]+1 {
			errs = append(
				errs,
				field.Forbidden(at, fmt.Sprintf("at most %d labels may come from a %s", most[kind], kind)),
			)
		}
		errs = append(errs, validateTracked(l, at.Child("trackedValues"))...)
	}
	return errs
}

// validateTracked keeps the number of series small: Workloads, which come and
// go, need a closed list.
func validateTracked(l ControllerMetricsCustomLabel, at *field.Path) field.ErrorList {
	low, high := 0, 16
	if *l.SourceKind == SourceWorkload {
		low, high = 1, 12
	}
	if n := len(l.TrackedValues); n < low || n > high {
		return field.ErrorList{
			field.Invalid(at, n, fmt.Sprintf("must be %d to %d values for a %s", low, high, *l.SourceKind)),
		}
	}
	return nil
}

func validateTuning(c *ControllerTuning, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, kind := range slices.Sorted(maps.Keys(c.GroupKindConcurrency)) {
		if n := c.GroupKindConcurrency[kind]; n < 1 {
			errs = append(errs, field.Invalid(at.Child("groupKindConcurrency").Key(kind), n, "must be 1 or more"))
		}
	}
	if d := c.CacheSyncTimeout.Duration; d <= 0 {
		errs = append(errs, field.Invalid(at.Child("cacheSyncTimeout"), d.String(), "must be longer than 0"))
	}
	return errs
}

func validateTLS(t *TLSOptions, at *field.Path) field.ErrorList {
	if t == nil {
		return nil
	}
	_, errs := t.Config(at)
	return errs
}

// Config turns the options into those of Go's crypto/tls. Fields that are not
// set stay at Go's defaults.
func (t *TLSOptions) Config(at *field.Path) (*tls.Config, field.ErrorList) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	var errs field.ErrorList
	switch t.MinVersion {
	case "", "VersionTLS12":
	case "VersionTLS13":
		out.MinVersion = tls.VersionTLS13
	default:
		errs = append(
			errs,
			field.NotSupported(at.Child("minVersion"), t.MinVersion, []string{"VersionTLS12", "VersionTLS13"}),
		)
	}
	if out.MinVersion == tls.VersionTLS13 && len(t.CipherSuites) > 0 {
		errs = append(
			errs,
			field.Invalid(
				at.Child("cipherSuites"),
				t.CipherSuites,
				"must be empty with minVersion VersionTLS13, whose suites cannot be chosen",
			),
		)
	}
	suites, suiteNames := map[string]uint16{}, []string{}
	for _, s := range tls.CipherSuites() {
		if slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
			suites[s.Name] = s.ID
			suiteNames = append(suiteNames, s.Name)
		}
	}
	for i, name := range t.CipherSuites {
		id, ok := suites[name]
		if !ok {
			errs = append(errs, field.NotSupported(at.Child("cipherSuites").Index(i), name, suiteNames))
		}
		out.CipherSuites = append(out.CipherSuites, id)
	}
	curves := []tls.CurveID{
		tls.X25519MLKEM768,
		tls.SecP256r1MLKEM768,
		tls.SecP384r1MLKEM1024,
		tls.X25519,
		tls.CurveP256,
		tls.CurveP384,
		tls.CurveP521,
	}
	for i, c := range t.CurvePreferences {
		k := slices.IndexFunc(curves, func(id tls.CurveID) bool {
			return c.String() == id.String() || c.String() == strconv.Itoa(int(id))
		})
		if k < 0 {
			errs = append(
				errs,
				field.NotSupported(at.Child("curvePreferences").Index(i), c.String(), curveNames(curves)),
			)
			continue
		}
		out.CurvePreferences = append(out.CurvePreferences, curves[k])
	}
	return out, errs
}

func curveNames(ids []tls.CurveID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, id.String())
	}
	return out
}

func port(at *field.Path, n int) field.ErrorList {
	if n < 1 || n > 65535 {
		return field.ErrorList{field.Invalid(at, n, "must be between 1 and 65535")}
	}
	return nil
}

// address checks host:port; "" and "0" stand for nowhere.
func address(at *field.Path, value string) field.ErrorList {
	if value == "" || value == "0" {
		return nil
	}
	_, p, err := net.SplitHostPort(value)
	if err != nil {
		return field.ErrorList{
			field.Invalid(at, value, `must be host:port, such as :8080 or 127.0.0.1:8080, or "0" for none`),
		}
	}
	n, err := strconv.Atoi(p)
	if err != nil {
		n = 0
	}
	return port(at, n)
}
