package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/cli/convert"
	"github.com/mlbatch/mlbatch/internal/words"
)

// convertFlags are those of convert.
type convertFlags struct {
	files  []string
	to     string
	strict bool
	output string
}

// newConvertCommand turns jobs into those of another kind.
func newConvertCommand() *cobra.Command {
	var v convertFlags
	cmd := &cobra.Command{
		Use:   "convert -f FILE --to KIND",
		Short: "Turn PyTorchJobs, JobSets, TrainJobs and Jobs into one another",
		Long: `Print jobs as jobs of another kind that run the same pods, which find each other in the
same way: ` + strings.Join(convert.Targets(), ", ") + `. Other objects in the files are printed as they are.

What the other kind cannot say is told with its path on standard error; --strict refuses it.
A TrainJob comes with a TrainingRuntime, and is read with the one in the files; a Job whose
pods have to find each other comes with a Service. No cluster is asked.`,
		Example: `  # an older job for the newer API
  mlbatch convert -f pytorchjob.yaml --to trainjob

  # or refuse, if anything would be lost
  mlbatch convert -f pytorchjob.yaml --to jobset --strict | kubectl create -n blue -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	filesFlag(cmd, &v.files)
	f.StringVar(&v.to, "to", "", "`kind`: "+strings.Join(convert.Targets(), ", "))
	f.BoolVar(&v.strict, "strict", false, "refuse what cannot be said, instead of telling about it")
	f.StringVarP(&v.output, "output", "o", "yaml", "yaml or json")
	_ = cmd.RegisterFlagCompletionFunc(
		"to",
		cobra.FixedCompletions(convert.Targets(), cobra.ShellCompDirectiveNoFileComp),
	) // the flag is there
	return cmd
}

func (v *convertFlags) run(in io.Reader, out, errs io.Writer) error {
	switch {
	case v.output != "yaml" && v.output != "json":
		return usagef("-o %s is not known: use yaml or json", v.output)
	case v.to == "":
		return usageError{errors.New("say what it shall be: --to " + strings.Join(convert.Targets(), ", "))}
	case !slices.Contains(convert.Targets(), strings.ToLower(v.to)):
		return usagef("--to %s: use %s", v.to, strings.Join(convert.Targets(), ", "))
	}
	docs, err := readDocuments(in, v.files)
	if err != nil {
		return err
	}
	all, err := convert.To(docs, v.to)
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	losses := 0
	for i := range all {
		for _, l := range all[i].Losses {
			at := all[i].Document.At(l.Path)
			fmt.Fprintf(
				errs,
				"%s:%d:%d: warning: %s: %s %s\n",
				words.Harmless(all[i].Document.File),
				at.Line,
				at.Column,
				words.Harmless(all[i].Document.Title()),
				words.Harmless(l.Path),
				words.Harmless(l.Message),
			)
			losses++
		}
	}
	if v.strict && losses > 0 {
		return fmt.Errorf(
			"%d things cannot be said in a %s; without --strict they are left out",
			losses,
			strings.ToLower(v.to),
		)
	}
	return v.print(out, all)
}

// print prints all objects in one stream, or JSON in one List.
func (v *convertFlags) print(out io.Writer, all []convert.Converted) error {
	var objects []map[string]any
	for i := range all {
		if all[i].Objects == nil {
			objects = append(objects, all[i].Document.Object.Object)
		}
		objects = append(objects, all[i].Objects...)
	}
	if v.output == "json" {
		if len(objects) == 1 {
			return printObject(out, "json", objects[0])
		}
		return printObject(out, "json", map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	}
	var b bytes.Buffer
	for i, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("print as YAML: %w", err)
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(text)
	}
	_, err := out.Write(b.Bytes())
	return err
}
