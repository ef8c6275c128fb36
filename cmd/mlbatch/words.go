package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mlbatch/mlbatch/internal/cli/submit"
)

// habits returns words that people who come from kubectl, Slurm, PBS, Grid Engine, kueuectl and
// Run:ai type, and the commands that do it here. Commands of these names are found before.
func habits() map[string]string {
	return map[string]string{
		"get":            "ps",
		"job":            "ps",
		"jobs":           "ps",
		"ls":             "ps",
		"workload":       "ps",
		"workloads":      "ps",
		"qstat":          "ps",
		"pods":           "ps",
		"describe":       "show",
		"desc":           "show",
		"info":           "show",
		"inspect":        "show",
		"scontrol":       "show",
		"seff":           "show",
		"sstat":          "show",
		"explain":        "why",
		"reason":         "why",
		"pending":        "why",
		"when":           "eta",
		"start-time":     "eta",
		"kill":           "cancel",
		"rm":             "cancel",
		"del":            "cancel",
		"remove":         "cancel",
		"abort":          "cancel",
		"qdel":           "cancel",
		"bkill":          "cancel",
		"apply":          "submit",
		"qsub":           "submit",
		"bsub":           "submit",
		"salloc":         "run",
		"train":          "run",
		"training":       "run",
		"workspace":      "run",
		"bash":           "exec",
		"shell":          "exec",
		"ssh":            "exec",
		"attach":         "exec",
		"sattach":        "logs",
		"log":            "logs",
		"tail":           "logs",
		"port-forward":   "port",
		"copy":           "cp",
		"sbcast":         "cp",
		"suspend":        "hold",
		"pause":          "hold",
		"qhold":          "hold",
		"unhold":         "release",
		"qrls":           "release",
		"unsuspend":      "release",
		"priority":       "prio",
		"resize":         "scale",
		"restart":        "requeue",
		"rerun":          "requeue",
		"queues":         "queue",
		"clusterqueue":   "queue",
		"clusterqueues":  "queue",
		"cq":             "queue",
		"localqueue":     "queue",
		"localqueues":    "queue",
		"lq":             "queue",
		"sprio":          "queue",
		"quota":          "queue",
		"teams":          "team",
		"project":        "team",
		"projects":       "team",
		"department":     "team",
		"account":        "team",
		"sacctmgr":       "team",
		"node":           "nodes",
		"gpus":           "nodes",
		"qhost":          "nodes",
		"bhosts":         "nodes",
		"free":           "capacity",
		"avail":          "capacity",
		"cordon":         "drain",
		"uncordon":       "undrain",
		"nodepool":       "flavor",
		"flavors":        "flavor",
		"resourceflavor": "flavor",
		"usage":          "top",
		"users":          "top",
		"history":        "hist",
		"accounting":     "hist",
		"sreport":        "hist",
		"qacct":          "hist",
		"report":         "hist",
		"event":          "events",
		"validate":       "lint",
		"diagnose":       "doctor",
	}
}

// meant is the command that somebody may have meant by a word, "" if there is none like it.
func meant(root *cobra.Command, word string) string {
	if name, ok := habits()[strings.ToLower(word)]; ok {
		return name
	}
	root.SuggestionsMinimumDistance = 2
	if len(word) < 5 { // two letters of three are another word
		root.SuggestionsMinimumDistance = 1
	}
	if s := root.SuggestionsFor(word); len(s) > 0 {
		return s[0]
	}
	return ""
}

// argumentsError says of the wrong number of arguments what the command takes.
func argumentsError(cmd *cobra.Command, args []string, err error) error {
	said := err.Error()
	switch {
	case strings.HasPrefix(said, "unknown command") && !cmd.HasSubCommands():
		hint := ""
		if cmd.Flags().Lookup("namespace") != nil {
			hint = "; a namespace is chosen with --namespace"
		}
		return fmt.Errorf(
			"%s takes no arguments: leave out %q%s",
			strings.TrimPrefix(cmd.CommandPath(), "mlbatch "),
			strings.Join(args, " "),
			hint,
		)
	case strings.HasPrefix(said, "requires at least"), strings.HasPrefix(said, "accepts "):
		return fmt.Errorf("%w: %s", err, cmd.UseLine())
	default:
		return err
	}
}

// flagError says of a flag that there is not which one may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	if plain := valueError(err); plain != nil {
		return plain
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			names = append(names, f.Name)
		}
	})
	if like := submit.Closest(unknown.GetSpecifiedName(), names); like != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, like)
	}
	return err
}

// valueError says of a value that a flag cannot have what it can; nil if that is not what is wrong, or
// if the flag says it itself.
func valueError(err error) error {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return nil
	}
	f := value.GetFlag()
	var number *strconv.NumError
	can := map[string]string{
		"bool": "true or false", "duration": "a duration, such as 90s, 5m or 2h",
		"int": wholeNumber, "int32": wholeNumber, "int64": wholeNumber, "uint": wholeNumber, "uint32": wholeNumber, "uint64": wholeNumber, "uint16": "a whole number from 0 to 65535",
		"float32": aNumber, "float64": aNumber,
	}[f.Value.Type()]
	if can == "" {
		return nil
	}
	if errors.As(err, &number) && errors.Is(number.Err, strconv.ErrRange) {
		can += ", and this one is too large"
	}
	return fmt.Errorf("invalid argument %q for --%s: it takes %s", value.GetValue(), f.Name, can)
}

// What flags take that take numbers.
const (
	wholeNumber = "a whole number, such as 10"
	aNumber     = "a number, such as 1.5"
)
