package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// WorkloadRow is a Workload in a line.
type WorkloadRow struct {
	Namespace    string    `json:"namespace"`
	Name         string    `json:"name"`
	JobType      string    `json:"jobType,omitempty"`
	JobName      string    `json:"jobName,omitempty"`
	LocalQueue   string    `json:"localQueue,omitempty"`
	ClusterQueue string    `json:"clusterQueue,omitempty"`
	Status       string    `json:"status"`
	Created      time.Time `json:"created"`
}

// WorkloadStatuses are those of Workloads, as kueuectl calls them.
func WorkloadStatuses() []string {
	return []string{"pending", "quotareserved", "admitted", "finished"}
}

// WorkloadFilter says which Workloads are listed; what is "" or empty is any.
type WorkloadFilter struct {
	Namespace, LocalQueue, ClusterQueue string
	Statuses                            []string
}

// TakeWorkloads lists Workloads, those of one namespace after the other by name.
func TakeWorkloads(ctx context.Context, c client.Reader, f WorkloadFilter) ([]WorkloadRow, error) {
	var list kueue.WorkloadList
	if err := c.List(ctx, &list, client.InNamespace(f.Namespace)); err != nil {
		return nil, fmt.Errorf("list Workloads: %w", err)
	}
	behind := map[string]string{} // of waiting ones, their LocalQueue tells
	var locals kueue.LocalQueueList
	if err := gather.Readable(c.List(ctx, &locals, client.InNamespace(f.Namespace))); err != nil {
		return nil, fmt.Errorf("list LocalQueues: %w", err)
	}
	for i := range locals.Items {
		l := &locals.Items[i]
		behind[l.Namespace+"/"+l.Name] = string(l.Spec.ClusterQueue)
	}
	var out []WorkloadRow
	for i := range list.Items {
		w := &list.Items[i]
		row := WorkloadRow{
			Namespace:    w.Namespace,
			Name:         w.Name,
			LocalQueue:   string(w.Spec.QueueName),
			Status:       statusOf(w),
			Created:      w.CreationTimestamp.UTC(),
			ClusterQueue: behind[w.Namespace+"/"+string(w.Spec.QueueName)],
		}
		if w.Status.Admission != nil {
			row.ClusterQueue = string(w.Status.Admission.ClusterQueue)
		}
		if o := metav1.GetControllerOf(w); o != nil {
			row.JobType, row.JobName = o.Kind, o.Name
		}
		if f.wants(&row) {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b WorkloadRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func (f *WorkloadFilter) wants(r *WorkloadRow) bool {
	return (f.LocalQueue == "" || r.LocalQueue == f.LocalQueue) &&
		(f.ClusterQueue == "" || r.ClusterQueue == f.ClusterQueue) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, "all") || slices.Contains(f.Statuses, r.Status))
}

// statusOf is how far a Workload has come.
func statusOf(w *kueue.Workload) string {
	is := func(condition string) bool { return apimeta.IsStatusConditionTrue(w.Status.Conditions, condition) }
	switch {
	case is(kueue.WorkloadFinished):
		return "finished"
	case is(kueue.WorkloadAdmitted):
		return "admitted"
	case is(kueue.WorkloadQuotaReserved):
		return "quotareserved"
	}
	return "pending"
}

// WorkloadColumns are those of a list of Workloads.
func WorkloadColumns(now time.Time) []cli.Column[WorkloadRow] {
	return []cli.Column[WorkloadRow]{
		{Title: "NAMESPACE", Rank: 3, Text: func(r WorkloadRow) string { return r.Namespace }},
		{Title: "NAME", Text: func(r WorkloadRow) string { return r.Name }},
		{Title: "JOB TYPE", Rank: 4, Text: func(r WorkloadRow) string { return r.JobType }},
		{Title: "JOB NAME", Rank: 2, Text: func(r WorkloadRow) string { return r.JobName }},
		{Title: "LOCALQUEUE", Rank: 5, Text: func(r WorkloadRow) string { return r.LocalQueue }},
		{Title: "CLUSTERQUEUE", Rank: 6, Text: func(r WorkloadRow) string { return r.ClusterQueue }},
		{Title: "STATUS", Text: func(r WorkloadRow) string { return r.Status }},
		cli.AgeColumn(
			cli.Column[WorkloadRow]{Title: "AGE", Rank: 1},
			now,
			func(r WorkloadRow) *time.Time { return &r.Created },
		),
	}
}

// DeleteWorkload removes a Workload with its job: a Workload that is deleted alone comes again. It
// returns what was deleted, or would be in a dry run.
func DeleteWorkload( //nolint:revive // a fact
	ctx context.Context,
	c client.Client,
	namespace, name string,
	dryRun bool,
) (string, error) {
	var w kueue.Workload
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &w); err != nil {
		return "", notThere(err, "Workload", namespace+"/"+name, "mlbatch list workload -n "+namespace)
	}
	var o client.Object = typed(&w, kueue.GroupVersion.String(), "Workload")
	if owner := metav1.GetControllerOf(&w); owner != nil {
		o = typed(
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: owner.Name}},
			owner.APIVersion,
			owner.Kind,
		)
	}
	if dryRun {
		return Name(o), nil
	}
	if err := c.Delete(
		ctx,
		o,
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	); client.IgnoreNotFound(
		err,
	) != nil {
		return "", fmt.Errorf("delete %s: %w", Name(o), err)
	}
	return Name(o), nil
}
