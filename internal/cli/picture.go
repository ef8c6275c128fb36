package cli

import (
	"fmt"
	"strings"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// KindList is all kinds that a job can be named by, as a sentence has them.
func KindList() string {
	var all []string
	for _, k := range why.Kinds() {
		all = append(all, string(k))
	}
	for _, s := range gather.Sets() {
		all = append(all, string(s.Kind))
	}
	return Either(all)
}

// Either is words of which one is chosen, as a sentence has them.
func Either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// ShortNames are the short names of the kinds that have one.
func ShortNames() []string {
	var out []string
	for _, k := range kinds.All() {
		out = append(out, append(k.Naming.ShortNames, strings.ToLower(k.GVK().Kind))[0])
	}
	return append(out, "wl", "pg", "deploy", "po")
}

// kindNames are the names that people use for kinds, as kubectl knows them.
func kindNames() map[string]view.Kind {
	out := map[string]view.Kind{
		"workload":     view.KindWorkload,
		"workloads":    view.KindWorkload,
		"wl":           view.KindWorkload,
		"podgroup":     view.KindPodGroup,
		"podgroups":    view.KindPodGroup,
		"pg":           view.KindPodGroup,
		"deployment":   view.KindDeployment,
		"deployments":  view.KindDeployment,
		"deploy":       view.KindDeployment,
		"pod":          view.KindPod,
		"pods":         view.KindPod,
		"po":           view.KindPod,
		"statefulset":  view.KindStatefulSet,
		"statefulsets": view.KindStatefulSet,
		"sts":          view.KindStatefulSet,
		"replicaset":   view.KindReplicaSet,
		"replicasets":  view.KindReplicaSet,
		"rs":           view.KindReplicaSet,
		"daemonset":    view.KindDaemonSet,
		"daemonsets":   view.KindDaemonSet,
		"ds":           view.KindDaemonSet,
		"cronjob":      view.KindCronJob,
		"cronjobs":     view.KindCronJob,
		"cj":           view.KindCronJob,
	}
	for _, k := range serving.Grouped() {
		for _, name := range k.Names() {
			out[name] = view.Kind(k.GVK.Kind)
		}
	}
	for _, k := range kinds.All() {
		for _, name := range k.Names() {
			out[name] = view.Kind(k.GVK().Kind)
		}
	}
	return out
}

// ParseRef reads NAMESPACE/NAME and the name of a kind, which may be empty, in
// any case, plural or short.
func ParseRef(arg, kind string) (view.Ref, error) {
	namespace, name, ok := strings.Cut(arg, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return view.Ref{}, fmt.Errorf("%q is not NAMESPACE/NAME, for example blue/short-x7k2p", arg)
	}
	ref := view.Ref{Namespace: namespace, Name: name}
	if kind != "" {
		known, ok := kindNames()[strings.ToLower(kind)]
		if !ok {
			return view.Ref{}, fmt.Errorf("--kind %s is not known: use %s", kind, KindList())
		}
		ref.Kind = known
	}
	return ref, nil
}
