package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHabitsLeadToCommands: every word leads to a command, and hides none.
func TestHabitsLeadToCommands(t *testing.T) {
	var names []string
	for _, c := range newRootCommand().Commands() {
		names = append(names, c.Name())
	}
	for word, name := range habits() {
		if !slices.Contains(names, name) {
			t.Errorf("%s leads to %s, which is no command", word, name)
		}
		if slices.Contains(names, word) {
			t.Errorf("%s is a command itself", word)
		}
	}
}

// TestWrongWords: who types what is known elsewhere, or the wrong number of arguments, is told
// what to type here.
func TestWrongWords(t *testing.T) {
	for name, tc := range map[string]struct {
		why, typed, says string
	}{
		"kubectl":     {"a habit", "get jobs", `did you mean "ps"?`},
		"slurm":       {"a habit", "scontrol show job 7", `did you mean "show"?`},
		"capitals":    {"as people write", "SReport", `did you mean "hist"?`},
		"slip":        {"two letters changed places", "sumbit x", `did you mean "submit"?`},
		"short":       {"top is another word than tip-off or abc", "abc", `there is no command "abc"` + "\n"},
		"namespace":   {"kubectl takes none there either, and Slurm a user", "ps blue", `ps takes no arguments: leave out "blue"; a namespace is chosen with --namespace`},
		"nowhere":     {"no namespace to choose", "version 2", `version takes no arguments: leave out "2"` + "\n"},
		"subcommand":  {"it is one of several", "flavor delete", "accepts 1 arg(s), received 0: mlbatch flavor delete NAME [flags]"},
		"too few":     {"what it takes", "why", "accepts 1 arg(s), received 0: mlbatch why JOB [flags]"},
		"too many":    {"what it takes", "show a b", "accepts 1 arg(s), received 2: mlbatch show JOB [flags]"},
		"run":         {"with the two dashes", "run", "-- COMMAND"},
		"delete job":  {"kueuectl's verbs are about queues", "delete job x", "for jobs it is mlbatch cancel"},
		"stop job":    {"kueuectl's verbs are about queues", "stop blue/x", "for jobs it is mlbatch hold"},
		"resume job":  {"kueuectl's verbs are about queues", "resume blue/x", "for jobs it is mlbatch release"},
		"list":        {"kueuectl's verbs are about queues", "list", "for jobs it is mlbatch ps"},
		"create what": {"kueuectl's verbs are about queues", "create job", "for jobs it is mlbatch submit"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if code := run(
				t.Context(),
				strings.Fields(tc.typed),
				&out,
				&out,
			); code != exitUsage ||
				!strings.Contains(out.String(), tc.says) {
				t.Errorf(
					"mlbatch %s exits with %d, want %d and %q: %s\n%s",
					tc.typed,
					code,
					exitUsage,
					tc.says,
					tc.why,
					out.String(),
				)
			}
		})
	}
}

// TestArgumentsError: what commands say themselves of their arguments stays.
func TestArgumentsError(t *testing.T) {
	cmd := &cobra.Command{Use: "top [WHAT]"}
	own := usagef("use one of jobs, users")
	if got := argumentsError(cmd, []string{"x"}, own); got.Error() != own.Error() {
		t.Errorf("%v, want %v", got, own)
	}
}
