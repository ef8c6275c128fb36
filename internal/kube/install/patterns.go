package install

import "regexp"

// Patterns of values, by path; that of a list is about each of its entries. `mlbatch install` and the
// schema of the chart go by the same.
const (
	FullnamePattern = `^([a-z]([-a-z0-9]{0,38}[a-z0-9])?)?$`
	TagPattern      = `^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$`
	DigestPattern   = `^(sha256:[0-9a-f]{64})?$`
	// RangePattern is of the form of a range of addresses; `mlbatch install` reads it.
	RangePattern = `^[0-9a-fA-F.:]+/[0-9]{1,3}$`
	// KernelLogPattern is of a file that is no device and has a directory, and RuntimeClassPattern of the name of a class.
	KernelLogPattern    = `^(/([a-ce-z0-9]|d[a-df-z0-9]|de[a-uw-z0-9])[A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+)?$`
	RuntimeClassPattern = `^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$`
)

// Patterns are all of them.
func Patterns() map[string]string {
	return map[string]string{
		"fullnameOverride":        FullnamePattern,
		"image.tag":               TagPattern,
		"image.digest":            DigestPattern,
		"networkPolicy.apiServer": RangePattern,
		"networkPolicy.nodes":     RangePattern,
		"controller.extraArgs": FlagsOf(
			ControllerComponent,
		).Pattern(),
		"scheduler.extraArgs":    FlagsOf(SchedulerComponent).Pattern(),
		"agent.extraArgs":        FlagsOf(AgentComponent).Pattern(),
		"agent.kernelLog":        KernelLogPattern,
		"agent.runtimeClassName": RuntimeClassPattern,
	}
}

// fits reports whether a text has a pattern.
func fits(text, pattern string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// KindModes are the kinds that controller.kinds may name, and what may be done with each.
func KindModes() (kinds, modes []string) {
	return kindNames(), []string{RunKind, QueueKind, IgnoreKind}
}

// Effects and Operators are the ones that tolerations may name.
func Effects() []string { return []string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"} }

// Operators are the ones that tolerations may name.
func Operators() []string { return []string{"", "Exists", "Equal", "Lt", "Gt"} }
