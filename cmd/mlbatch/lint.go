package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli/lint"
	"github.com/mlbatch/mlbatch/internal/cli/manifest"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/strict"
	"github.com/mlbatch/mlbatch/internal/words"
)

// lintFlags are those of lint.
type lintFlags struct {
	session

	files     []string
	namespace string
	disabled  []string
	cluster   bool
	strict    bool
	output    string
}

// newLintCommand judges manifests.
func newLintCommand() *cobra.Command {
	var l lintFlags
	cmd := clusterCommand{
		session: &l.session, check: l.check, offline: func() bool { return !l.cluster }, do: l.judge,
	}.command(&cobra.Command{
		Use:   "lint -f FILE",
		Short: "Judge manifests before a cluster does: what would be refused, and what would be regretted",
		Long: `Judge manifests: unknown fields, what mlbatch's webhooks refuse, and what is accepted and
regretted later, such as jobs without a queue or containers without requests. Files may be
YAML with several documents, JSON, Lists, folders, or - for standard input.

No cluster is asked, unless --cluster is given: then whether the queue is there, whether
the pods can ever run together, and whether the cluster would take the manifest, which is
tried without creating anything. Each rule has a name, by which --disable switches it off.

Of a folder all files are judged: those that are no manifests, such as values of a chart, are
named and left out.

Exit code 1 says that there are errors, or files that cannot be read; with --strict, warnings
count too.`,
		Example: `  # before a commit
  mlbatch lint -f job.yaml

  # also against the cluster, as a member of team blue
  mlbatch lint -f job.yaml --cluster -n blue

  # in a GitHub workflow, without two rules
  mlbatch lint -f manifests/ -o github --disable latest-image,no-queue`,
		Args: cobra.NoArgs,
	})
	f := cmd.Flags()
	filesFlag(cmd, &l.files)
	f.StringSliceVar(&l.disabled, "disable", nil, "`rules` to leave out, with commas")
	f.BoolVar(&l.cluster, "cluster", false, "ask the cluster too: its queues, nodes and classes, and a trial")
	f.StringVarP(&l.namespace, "namespace", "n", "",
		"`namespace` of objects that name none (default that of the kubeconfig's context)")
	f.BoolVar(&l.strict, "strict", false, "fail for warnings, too")
	f.StringVarP(&l.output, "output", "o", "", "json, yaml or github")
	offers(cmd, "disable", ruleNames())
	return cmd
}

func ruleNames() []string {
	var out []string
	for _, r := range lint.Rules() {
		out = append(out, r.Name)
	}
	return out
}

// check finds mistakes in what was typed.
func (l *lintFlags) check() error {
	if len(l.files) == 0 {
		return errNoManifests
	}
	for _, name := range l.disabled {
		if slices.Contains(ruleNames(), name) {
			continue
		}
		hint := "there are " + strings.Join(ruleNames(), ", ")
		if near := strict.Nearest(name, ruleNames()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return fmt.Errorf("--disable %s: there is no such rule; %s", name, hint)
	}
	return knownFormat(l.output, "json", "yaml", "github")
}

func (l *lintFlags) judge(ctx context.Context) error {
	unread := 0
	docs, err := readDocumentsBut(l.cmd.InOrStdin(), l.files, func(err error) {
		if manifest.IsNone(err) {
			fmt.Fprintf(l.errs, "%s: it is no manifest and left out\n", words.Harmless(err.Error()))
			return
		}
		unread++
		fmt.Fprintln(l.errs, err)
	})
	if err != nil {
		return err
	}
	options := lint.Options{Disabled: l.disabled, Namespace: l.namespace}
	if l.cluster {
		options.Namespace = cmp.Or(l.namespace, l.conn.Namespace())
		if options.Cluster, err = lint.Take(ctx, l.c, options.Namespace); err != nil {
			return err //nolint:wrapcheck // it says what it read
		}
		if unread := options.Cluster.Unread; len(unread) > 0 {
			fmt.Fprintf(l.errs, "You may not list %s: what needs them is not checked.\n", strings.Join(unread, ", "))
		}
	}
	found := lint.Judge(docs, options)
	if err := l.print(l.out, found); err != nil {
		return err
	}
	if unread > 0 || l.strict && len(found) > 0 || finding.Worst(found, finding.Error) {
		return errSilent
	}
	return nil
}

func (l *lintFlags) print(out io.Writer, found []finding.Finding) error {
	if l.output == "json" || l.output == "yaml" {
		return printObject(out, l.output, struct {
			Items []finding.Finding `json:"items"`
		}{found})
	}
	for i := range found {
		one := lint.Print
		if l.output == "github" {
			one = lint.PrintGitHub
		}
		if err := one(out, &found[i]); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}
