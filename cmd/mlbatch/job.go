package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// jobArg is the job that a command is about: an argument, and flags that say which cluster and
// namespace it is in, and of which kind it is.
type jobArg struct {
	conn            cli.Connection
	namespace, kind string
}

// flags adds those of the job.
func (j *jobArg) flags(f *pflag.FlagSet) {
	f.StringVarP(&j.namespace, "namespace", "n", "",
		"`namespace` of the job, if its name does not say it (default: that of the kubeconfig's context)")
	f.StringVar(
		&j.kind,
		"kind",
		"",
		fmt.Sprintf(
			"%s (or short: %s), where several have the same name",
			cli.KindList(),
			strings.Join(cli.ShortNames(), ", "),
		),
	)
	connectionFlags(f, &j.conn)
}

// ref reads NAME, NAMESPACE/NAME or KIND/NAME. Errors are those of the command line.
func (j *jobArg) ref(arg string) (view.Ref, error) {
	locate(&j.conn)
	of := j.kind
	kind, name, is, err := cli.KindAndName(arg)
	switch {
	case err != nil:
		return view.Ref{}, usageError{err}
	case is && of != "":
		return view.Ref{}, usagef("--kind %s and %s: give one of them", of, arg)
	case is:
		of, arg = kind, name
	}
	if namespace, _, qualified := strings.Cut(arg, "/"); !qualified {
		in := cmp.Or(j.namespace, j.conn.Namespace())
		if in == "" {
			return view.Ref{}, usagef("%s: say in which namespace: -n NAMESPACE, or NAMESPACE/%s", arg, arg)
		}
		arg = in + "/" + arg
	} else if j.namespace != "" && namespace != j.namespace {
		return view.Ref{}, usagef("-n %s and %s: give one of them", j.namespace, arg)
	}
	ref, err := cli.ParseRef(arg, of)
	if err != nil {
		return view.Ref{}, usageError{err}
	}
	return ref, nil
}

// only is the job that was named, if one was.
func (j *jobArg) only(args []string) (view.Ref, error) {
	if len(args) == 0 {
		return view.Ref{}, nil
	}
	return j.ref(args[0])
}

// complete offers the jobs that there are, for the first argument.
func (j *jobArg) complete(
	cmd *cobra.Command,
	args []string,
	typed string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return jobNames(cmd.Context(), j.conn, j.namespace, typed), cobra.ShellCompDirectiveNoFileComp
}

// completeTwo offers the jobs that there are, for the first two arguments.
func (j *jobArg) completeTwo(
	cmd *cobra.Command,
	args []string,
	typed string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return j.complete(cmd, nil, typed)
}

// completeAll offers the jobs that there are, for each argument.
func (j *jobArg) completeAll(
	cmd *cobra.Command,
	_ []string,
	typed string,
) ([]string, cobra.ShellCompDirective) {
	return j.complete(cmd, nil, typed)
}

// memberFlags choose pods of a job.
func memberFlags(f *pflag.FlagSet, role, ranks, container *string) {
	f.StringVar(role, "role", "", "pods of this `role` only, such as worker")
	f.StringVar(
		ranks,
		"rank",
		"",
		"pods of these `ranks` only, such as 0, 0..3 or worker-1; they count in the job or, with --role, in the role",
	)
	f.StringVarP(container, "container", "c", "", "`container` of the pods (default: the first)")
}
