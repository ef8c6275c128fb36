package main

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// completionTimeout is how long a user who pressed Tab waits at most.
const completionTimeout = 2 * time.Second

// jobNames are the jobs that a shell offers for what was typed so far: names, if their
// namespace is given, or else NAMESPACE/NAME. When the cluster cannot be asked there are none.
func jobNames(ctx context.Context, conn cli.Connection, namespace, typed string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	_, c, err := connect(&conn)
	if err != nil {
		return nil
	}
	return jobsOf(ctx, c, namespace, typed)
}

// jobsOf names the jobs of a namespace, or with their namespaces those of all.
func jobsOf(ctx context.Context, c client.Reader, namespace, typed string) []string {
	if namespace == "" {
		return listJobs(ctx, c, typed)
	}
	out := listJobs(ctx, c, namespace+"/"+typed)
	for i := range out {
		out[i] = strings.TrimPrefix(out[i], namespace+"/")
	}
	return out
}

// listJobs names the jobs that belong to no other one. A user who may not list those
// of all namespaces is offered those of the one that was typed.
func listJobs(ctx context.Context, c client.Reader, typed string) []string {
	namespace, _, chosen := strings.Cut(typed, "/")
	var out []string
	for _, kind := range kinds.All() {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(kind.ListGVK())
		var opts []client.ListOption
		if chosen {
			opts = append(opts, client.InNamespace(namespace))
		}
		if err := c.List(ctx, &list, opts...); err != nil {
			continue
		}
		for i := range list.Items {
			o := &list.Items[i]
			if name := o.Namespace + "/" + o.Name; strings.HasPrefix(name, typed) && metav1.GetControllerOf(o) == nil {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
