package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/actions"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/cli/submit"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// offer lists what a shell offers while a value is typed.
type offer func(ctx context.Context, c client.Reader, cmd *cobra.Command) []string

// flagOffers are the offers for values of flags, by the names that flags have in all commands, and for
// arguments, by what the help calls them. Commands that know better say so themselves.
func flagOffers() map[string]offer {
	namespaces, priorities := coreNames("Namespace"), kueueNames("WorkloadPriorityClass")
	return map[string]offer{
		"namespace":    namespaces,
		"account":      namespaces,
		"queue":        offeredQueues,
		"partition":    offeredQueues,
		"localqueue":   kueueNames("LocalQueue"),
		"clusterqueue": kueueNames("ClusterQueue"),
		"user":         offeredUsers,
		"flavor":       kueueNames("ResourceFlavor"),
		"priority":     priorities,
		"qos":          priorities,
		"pod-priority": listNames(schedulingv1.SchemeGroupVersion.WithKind("PriorityClass")),
		"profile":      offeredProfiles,
		"jobs":         offeredJobs,
		"nodelist":     coreNames("Node"),
		"role":         offeredRoles,
	}
}

// argumentOffers are by what the help calls an argument, where that is no name.
func argumentOffers() map[string]offer {
	return map[string]offer{"NAMESPACE": coreNames("Namespace"), "NODE": coreNames("Node"), "JOB": offeredJobs}
}

// argumentOffer is what is offered for the arguments of a command; nil if nothing is.
func argumentOffer(cmd *cobra.Command) offer {
	_, argument, _ := strings.Cut(cmd.Use, " ")
	return argumentOffers()[strings.Trim(argument, "[].")]
}

func kueueNames(kind string) offer { return listNames(kueue.GroupVersion.WithKind(kind)) }

func coreNames(kind string) offer { return listNames(corev1.SchemeGroupVersion.WithKind(kind)) }

// listNames offers the names of all objects of a kind, of the namespace that was typed if one was.
func listNames(gvk schema.GroupVersionKind) offer {
	return func(ctx context.Context, c client.Reader, cmd *cobra.Command) []string {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		var opts []client.ListOption
		if within := valueOf(
			cmd,
			"namespace",
		); within != "" &&
			(gvk.Kind == "LocalQueue" || gvk.Kind == "Workload") {
			opts = append(opts, client.InNamespace(within))
		}
		if c.List(ctx, &list, opts...) != nil {
			return nil
		}
		var out []string
		for i := range list.Items {
			out = append(out, list.Items[i].Name)
		}
		return out
	}
}

// offeredQueues offers LocalQueues, of the namespace that was typed if one was, and ClusterQueues,
// to which no job can be submitted.
func offeredQueues(ctx context.Context, c client.Reader, cmd *cobra.Command) []string {
	out := kueueNames("LocalQueue")(ctx, c, cmd)
	if cmd.Flags().Lookup("pod-priority") != nil { // it submits
		return out
	}
	return append(out, kueueNames("ClusterQueue")(ctx, c, cmd)...)
}

// offeredAnyQueues offers the LocalQueues of the namespace that was typed, or else the ClusterQueues.
func offeredAnyQueues(ctx context.Context, c client.Reader, cmd *cobra.Command) []string {
	if valueOf(cmd, "namespace") != "" {
		return kueueNames("LocalQueue")(ctx, c, cmd)
	}
	return kueueNames("ClusterQueue")(ctx, c, cmd)
}

func offeredTeams(ctx context.Context, c client.Reader, _ *cobra.Command) []string {
	names, err := admin.TeamNames(ctx, c)
	if err != nil {
		return nil
	}
	return names
}

// offeredJobs offers the jobs of the namespace that was typed, or all with their namespaces.
func offeredJobs(ctx context.Context, c client.Reader, cmd *cobra.Command) []string {
	return jobsOf(ctx, c, valueOf(cmd, "namespace"), "")
}

// offeredRoles offers the roles of the job that was typed before.
func offeredRoles(ctx context.Context, c client.Reader, cmd *cobra.Command) []string {
	if cmd.Flags().NArg() == 0 {
		return nil
	}
	name := cmd.Flags().Arg(0)
	if namespace := valueOf(cmd, "namespace"); namespace != "" && !strings.Contains(name, "/") {
		name = namespace + "/" + name
	}
	ref, err := cli.ParseRef(name, "")
	if err != nil {
		return nil
	}
	t, err := actions.Find(ctx, c, ref)
	if err != nil || t.Workload == nil {
		return nil
	}
	var out []string
	for i := range t.Workload.Spec.PodSets {
		out = append(out, string(t.Workload.Spec.PodSets[i].Name))
	}
	return out
}

// offeredUsers offers those whose jobs have a Workload.
func offeredUsers(ctx context.Context, c client.Reader, cmd *cobra.Command) []string {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
	if c.List(ctx, &list, client.InNamespace(valueOf(cmd, "namespace"))) != nil {
		return nil
	}
	seen := map[string]bool{}
	for i := range list.Items {
		if user := list.Items[i].Annotations[history.UserAnnotation]; user != "" {
			seen[user] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// offeredProfiles offers those of the namespace that was typed, and those of everybody.
func offeredProfiles(ctx context.Context, c client.Reader, cmd *cobra.Command) (out []string) {
	in := []string{submit.ProfileNamespace}
	if namespace := valueOf(cmd, "namespace"); namespace != "" {
		in = append(in, namespace)
	}
	for _, namespace := range in {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		if c.List(ctx, &list, client.InNamespace(namespace)) != nil {
			continue // those of the other one are offered still
		}
		for i := range list.Items {
			if name, is := strings.CutPrefix(list.Items[i].Name, submit.ProfilePrefix); is {
				out = append(out, name)
			}
		}
	}
	return out
}

// valueOf is the value of a flag, "" if there is no such flag.
func valueOf(cmd *cobra.Command, flag string) string {
	if f := cmd.Flags().Lookup(flag); f != nil {
		return f.Value.String()
	}
	return ""
}

// completes adds to a command, and to all below it, what shells offer.
func completes(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		completes(below)
	}
	for name, of := range flagOffers() { // each by itself
		if valueFlag(cmd, name) && cmd.Flags().Lookup("kubeconfig") != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, asking(of)) // it fails only for a flag that has one
		}
	}
	for name, words := range map[string][]string{ // each by itself
		"output": outputs(cmd), "kind": offeredKinds(), "framework": frameworks(),
	} {
		if valueFlag(cmd, name) && len(words) > 0 {
			_ = cmd.RegisterFlagCompletionFunc(name, offering(words)) // as above
		}
	}
	if of := argumentOffer(cmd); of != nil && cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = asking(of)
	}
}

// valueFlag reports whether a command has a flag of its own that takes a value.
func valueFlag(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && f.NoOptDefVal == ""
}

// outputs are the formats that the help of a command names.
func outputs(cmd *cobra.Command) (out []string) {
	f := cmd.Flags().Lookup("output")
	if f == nil {
		return nil
	}
	for _, format := range []string{"wide", "name", "json", "yaml", "github", cli.CustomColumnsFormat} {
		if strings.Contains(f.Usage, format) {
			out = append(out, format)
		}
	}
	return out
}

// titles are columns as people type them.
func titles[T any](columns []cli.Column[T]) (out []string) {
	for _, c := range columns {
		out = append(out, strings.ToLower(c.Title))
	}
	return out
}

// frameworks are those of "run" and "submit".
func frameworks() (out []string) {
	for _, f := range submit.Frameworks() {
		out = append(out, string(f))
	}
	return out
}

func offeredKinds() (out []string) {
	for _, k := range kinds.All() {
		out = append(out, strings.ToLower(k.GVK().Kind))
	}
	return out
}

// offers has a flag of a command offer words, if there are any.
func offers[S ~string](cmd *cobra.Command, flag string, of []S) {
	if len(of) == 0 {
		return
	}
	known := make([]string, len(of))
	for i := range of {
		known[i] = string(of[i])
	}
	_ = cmd.RegisterFlagCompletionFunc(flag, offering(known)) // it fails only for a flag that is not there
}

// offering offers words that are known.
func offering(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return beginning(words, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// asking offers what the cluster knows. When it cannot be asked there is nothing.
func asking(of offer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		conn := cli.Connection{
			Kubeconfig: valueOf(cmd, "kubeconfig"),
			DataDir:    valueOf(cmd, "data-dir"),
			As:         valueOf(cmd, "as"),
		}
		_, c, err := connect(&conn)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return beginning(of(ctx, c, cmd), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// first offers nothing after the first argument.
func first(of cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return of(cmd, args, typed)
	}
}

// others offers what is no argument yet.
func others(of cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		words, directive := of(cmd, args, typed)
		return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(args, w) }), directive
	}
}

// beginning are the words that begin so, each once, in order.
func beginning(words []string, typed string) []string {
	out := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, typed) })
	slices.Sort(out)
	return slices.Compact(out)
}

// explainCompletion adds an example to the command that prints what shells need. The command
// remembers where the root printed when it was made, so that this comes after SetOut.
func explainCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil && cmd != root {
		cmd.Short = "Print what a shell needs to complete commands, and names of jobs, queues, nodes and users"
		cmd.Example = `  # for this bash, zsh or fish
  source <(mlbatch completion bash)
  source <(mlbatch completion zsh)
  mlbatch completion fish | source`
	}
}
