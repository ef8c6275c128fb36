package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mlbatch/mlbatch/internal/cli/generate"
	"github.com/mlbatch/mlbatch/internal/strict"
)

// newGenerateCommand makes manifests of a few values.
func newGenerateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "generate KIND",
		Short:   "Make the manifest of a job from a few values",
		Long:    "Make the manifest of a job from a few values, and print it. No cluster is asked.",
		Example: "  mlbatch generate pytorchjob --job-name train --container-image pytorch/pytorch --num-pods 2 --num-gpus-per-pod 8 --main-program train.py",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is nothing to generate a %q: use pytorchjob", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGeneratePyTorchJobCommand())
	return cmd
}

// generateFlags are those of generate pytorchjob.
type generateFlags struct {
	values string
	schema bool
	output string
	given  []*settingFlag
}

// settingFlag is the flag of one value: what was given for it is read after the file.
type settingFlag struct {
	setting generate.Setting
	texts   []string
}

func (f *settingFlag) String() string { return strings.Join(f.texts, ",") }

func (f *settingFlag) Set(text string) error {
	if err := generate.Defaults().Set(&f.setting, text); err != nil {
		return err //nolint:wrapcheck // pflag says which flag
	}
	if !f.setting.Many() {
		f.texts = nil
	}
	f.texts = append(f.texts, text)
	return nil
}

func (f *settingFlag) Type() string {
	if f.setting.Like != "" {
		return f.setting.Like
	}
	switch generate.Defaults().Get(&f.setting).(type) {
	case int32, *int32, *int64:
		return "number"
	case generate.Amount:
		return "quantity"
	case bool:
		return "bool"
	}
	return "text"
}

// newGeneratePyTorchJobCommand does what MLBatch's chart pytorchjob-generator does.
func newGeneratePyTorchJobCommand() *cobra.Command {
	var g generateFlags
	cmd := &cobra.Command{
		Use:   "pytorchjob",
		Short: "Make an AppWrapper with a PyTorchJob, from the values of MLBatch's chart",
		Long: `Print the manifest of an AppWrapper with a PyTorchJob. The values are those of MLBatch's
Helm chart pytorchjob-generator 1.1.12, by the same names: in a file, as flags, or both, of
which flags win. A flag is the name of its value with dashes, numPods is --num-pods; the
name itself will do. Flags of lists may be given several times.

What is printed is created with kubectl create -f -, or mlbatch submit.`,
		Example: `  # 2 pods with 8 GPUs each
  mlbatch generate pytorchjob --job-name train --container-image pytorch/pytorch --num-pods 2 --num-gpus-per-pod 8 --main-program "train.py --epochs 3"

  # from a values file of the chart, with another number of pods
  mlbatch generate pytorchjob --values values.yaml --num-pods 4 | kubectl create -n blue -f -

  # for editors: what a values file can say
  mlbatch generate pytorchjob --schema > values.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&g.values, "values", "f", "", "`file` with values in YAML or JSON; - is standard input")
	f.BoolVar(&g.schema, "schema", false, "print a JSON schema of the values instead")
	f.StringVarP(&g.output, "output", "o", "yaml", "yaml or json")
	var names []string
	flagOf := map[string]string{}
	for _, s := range generate.Settings() {
		one := &settingFlag{setting: s}
		g.given = append(g.given, one)
		help := s.Help
		if s.Default != "" {
			help += " (default " + s.Default + ")"
		}
		flag := f.VarPF(one, s.FlagName(), "", help)
		if one.Type() == "bool" {
			flag.NoOptDefVal = "true"
		}
		flagOf[s.Name], names = s.FlagName(), append(names, s.FlagName())
	}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if flag := flagOf[name]; flag != "" {
			name = flag
		}
		return pflag.NormalizedName(name)
	})
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if name, is := strings.CutPrefix(err.Error(), "unknown flag: --"); is {
			if near := strict.Nearest(name, names); near != "" {
				err = fmt.Errorf("%w; did you mean --%s?", err, near)
			}
		}
		return usageError{err}
	})
	return cmd
}

func (g *generateFlags) run(in io.Reader, out, errs io.Writer) error {
	if g.output != "yaml" && g.output != "json" {
		return usageError{fmt.Errorf("-o %s is not known: use yaml or json", g.output)}
	}
	if g.schema {
		return printObject(out, "json", generate.Schema())
	}
	values, places, file := generate.Defaults(), strict.Places{}, "values"
	if g.values != "" {
		data, err := readFile(in, g.values)
		if err != nil {
			return err
		}
		file = fileName(g.values)
		if places, err = values.Read(file, data); err != nil {
			return err
		}
	}
	for _, one := range g.given {
		if len(one.texts) == 0 {
			continue
		}
		values.Clear(&one.setting)
		delete(places, one.setting.Name)
		for _, text := range one.texts {
			if err := values.Set(&one.setting, text); err != nil {
				return usageError{fmt.Errorf("--%s: %w", one.setting.FlagName(), err)}
			}
		}
	}
	if err := values.Check(file, places); err != nil {
		if g.values == "" {
			return usageError{err}
		}
		return err
	}
	manifest, err := values.Manifest()
	if err != nil {
		return err
	}
	for _, note := range values.Notes() {
		fmt.Fprintln(errs, "note: "+note)
	}
	return printObject(out, g.output, manifest)
}

// readFile reads a file, or standard input for "-".
func readFile(in io.Reader, name string) ([]byte, error) {
	if name == "-" {
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	return data, nil
}

// fileName is what a file is called in messages.
func fileName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}
