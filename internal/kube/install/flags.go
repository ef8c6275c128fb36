package install

import (
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/internal/strict"
)

// Flags are the flags of a program that extraArgs may have: not flags that make it print something and
// end, nor those of the files that it is given here.
type Flags struct {
	// Program is what they are flags of.
	Program string
	// Valued need a value, Switches are on without one.
	Valued, Switches []string
}

// FlagsOf are the flags of a program, by its component.
func FlagsOf(component string) Flags {
	if component == ControllerComponent {
		return Flags{
			Program: "mlbatch controller",
			Valued: strings.Fields(
				"bind-address default-queue drain-for feature-gates flight-recorder-dir flight-recorder-size health-port kinds metrics-port namespace pod-proxy " +
					"scheduler-name scheduler-names slack-queue verbosity visibility-port webhook-cert-dir webhook-client-ca-file webhook-client-names webhook-port",
			),
			Switches: strings.Fields("leader-elect metrics-secure webhook-client-converts"),
		}
	}
	if component == AgentComponent {
		return Flags{
			Program:  "mlbatch agent",
			Valued:   strings.Fields("bind-address health-port kernel-log namespace node peer-token-file pod port"),
			Switches: strings.Fields("secure write-label"),
		}
	}
	return Flags{
		Program:  "mlbatch scheduler",
		Valued:   strings.Fields("bind-address health-port kube-api-qps namespace scheduler-names verbosity"),
		Switches: []string{"leader-elect"},
	}
}

// Pattern is of one argument: a flag that there is, with its value.
func (f Flags) Pattern() string {
	return "^(--(" + strings.Join(
		f.Valued,
		"|",
	) + ")=.*|--(" + strings.Join(
		f.Switches,
		"|",
	) + ")(=(true|false))?|-v=?[0-9]+)$"
}

// wrong says what is wrong with an argument, "" if nothing is.
func (f Flags) wrong(arg string) string {
	if fits(arg, f.Pattern()) {
		return ""
	}
	name, _, valued := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	all := slices.Sorted(slices.Values(slices.Concat(f.Valued, f.Switches)))
	switch like := strict.Nearest(name, all); {
	case !strings.HasPrefix(arg, "-"):
		return "must be a flag with its value, such as --verbosity=2"
	case strings.HasPrefix(arg, "--") && slices.Contains(f.Valued, name) && !valued:
		return "needs its value in the same text: --" + name + "=VALUE"
	case strings.HasPrefix(arg, "--") && slices.Contains(f.Switches, name):
		return "is true or false"
	case like != "":
		return f.Program + " takes no such flag here; did you mean --" + like + "?"
	}
	return f.Program + " takes no such flag here; it takes --" + strings.Join(all, ", --")
}
