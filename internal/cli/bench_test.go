package cli_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/cli/slurm"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// crowd are the lists of a cluster of 1,000 nodes with 10,000 Jobs, of which 4,000 run with a pod
// of two GPUs each, and what else there is of them. It hands them out as they are, so that only
// the commands' own time is measured.
type crowd struct {
	client.Reader
	jobs      []metav1.PartialObjectMetadata
	workloads []kueue.Workload
	pods      []corev1.Pod
	nodes     []corev1.Node
	events    []corev1.Event
	queues    []kueue.ClusterQueue
	locals    []kueue.LocalQueue
	teams     []corev1.Namespace
	pages     []history.JobHistory
	pending   []visibility.PendingWorkload
}

// List implements client.Reader. What is asked for by namespace or label is picked, as by an API
// server.
func (c *crowd) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	if err := c.list(ctx, into); err != nil || asked.Namespace == "" && asked.LabelSelector == nil {
		return err
	}
	all, err := apimeta.ExtractList(into)
	if err != nil {
		return err //nolint:wrapcheck // of a test
	}
	return apimeta.SetList(
		into,
		slices.DeleteFunc(all, func(o runtime.Object) bool { //nolint:wrapcheck // of a test
			m := o.(client.Object)
			return asked.Namespace != "" && m.GetNamespace() != asked.Namespace ||
				asked.LabelSelector != nil && !asked.LabelSelector.Matches(labels.Set(m.GetLabels()))
		}),
	)
}

// Get implements client.Reader.
func (c *crowd) Get(
	_ context.Context,
	key client.ObjectKey,
	into client.Object,
	_ ...client.GetOption,
) error {
	is := func(o client.Object) bool { return client.ObjectKeyFromObject(o) == key }
	switch o := into.(type) {
	case *batchv1.Job:
		if i := slices.IndexFunc(c.jobs, func(j metav1.PartialObjectMetadata) bool { return is(&j) }); i >= 0 {
			o.ObjectMeta = c.jobs[i].ObjectMeta
			return nil
		}
	case *kueue.Workload:
		if i := slices.IndexFunc(c.workloads, func(w kueue.Workload) bool { return is(&w) }); i >= 0 {
			c.workloads[i].DeepCopyInto(o)
			return nil
		}
	case *kueue.LocalQueue:
		if i := slices.IndexFunc(c.locals, func(l kueue.LocalQueue) bool { return is(&l) }); i >= 0 {
			c.locals[i].DeepCopyInto(o)
			return nil
		}
	case *kueue.ClusterQueue:
		if i := slices.IndexFunc(c.queues, func(q kueue.ClusterQueue) bool { return is(&q) }); i >= 0 {
			c.queues[i].DeepCopyInto(o)
			return nil
		}
	case *corev1.Namespace:
		if i := slices.IndexFunc(c.teams, func(n corev1.Namespace) bool { return is(&n) }); i >= 0 {
			c.teams[i].DeepCopyInto(o)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// Explanation, Pending and Plan are what a controller would say, which costs it and not the command.
func (c *crowd) Explanation(context.Context, string, string) (*visibility.Explanation, error) {
	return &visibility.Explanation{Reason: string(core.WaitingForQuota), Message: "2 more needed"}, nil
}

// Pending implements cli.PendingAsker.
func (c *crowd) Pending(_ context.Context, namespace, _ string) (out []visibility.PendingWorkload, _ error) {
	for _, p := range c.pending {
		if p.Namespace == namespace {
			out = append(out, p)
		}
	}
	return out, nil
}

// Plan implements cli.Planner.
func (c *crowd) Plan(
	ctx context.Context,
	namespace string,
	spec visibility.WorkloadPlanSpec,
) (*visibility.WorkloadPlan, error) {
	return (&shelf{free: []int64{8, 8, 8}, quota: 20, own: 20}).Plan(ctx, namespace, spec)
}

func (c *crowd) list(_ context.Context, into client.ObjectList) error {
	switch list := into.(type) {
	case *metav1.PartialObjectMetadataList:
		if list.Kind == "JobList" {
			list.Items = c.jobs
		}
	case *kueue.WorkloadList:
		list.Items = c.workloads
	case *corev1.PodList:
		list.Items = c.pods
	case *corev1.NodeList:
		list.Items = c.nodes
	case *corev1.EventList:
		list.Items = c.events
	case *kueue.ClusterQueueList:
		list.Items = c.queues
	case *kueue.LocalQueueList:
		list.Items = c.locals
	case *corev1.NamespaceList:
		list.Items = c.teams
	case *history.JobHistoryList:
		list.Items = c.pages
	}
	return nil
}

func newCrowd() *crowd {
	const jobs, running, nodes = 10_000, 4_000, 1_000
	c := &crowd{}
	two := corev1.PodSpec{
		Containers: []corev1.Container{
			{
				Name:      "c",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{core.GPU: resource.MustParse("2")}},
			},
		},
	}
	for i := range nodes {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i)}}
		n.Status.Allocatable = corev1.ResourceList{core.GPU: resource.MustParse("8")}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		c.nodes = append(c.nodes, n)
	}
	for i := range 100 {
		c.queues = append(
			c.queues,
			kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("queue-", i)}},
		)
	}
	for i := range 50 {
		team := corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprint("team-", i),
				Labels: map[string]string{kueue.TeamNamespaceLabel: "true"},
			},
		}
		c.teams = append(c.teams, team)
		l := kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: team.Name, Name: "default-queue"}}
		l.Spec.ClusterQueue = kueue.ClusterQueueReference(fmt.Sprint("queue-", i))
		c.locals = append(c.locals, l)
	}
	for i := range jobs {
		uid, name, namespace := types.UID(fmt.Sprint("u", i)), fmt.Sprintf("job-%05d", i), fmt.Sprint("team-", i%50)
		made := metav1.NewTime(now().Add(-time.Duration(i) * time.Second))
		owner := []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: uid, Controller: new(true)},
		}
		c.jobs = append(
			c.jobs,
			metav1.PartialObjectMetadata{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, CreationTimestamp: made},
			},
		)
		w := kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:         namespace,
				Name:              "job-" + name,
				UID:               uid + "w",
				CreationTimestamp: made,
				Labels:            map[string]string{kueue.JobUIDLabel: string(uid)},
				OwnerReferences:   owner,
			},
		}
		w.Spec = kueue.WorkloadSpec{
			QueueName: "default-queue",
			Priority:  new(int32(5)),
			PodSets:   []kueue.PodSet{{Name: "main", Count: 1, Template: corev1.PodTemplateSpec{Spec: two}}},
		}
		if i < running {
			w.Status.Admission = &kueue.Admission{
				ClusterQueue:      "queue-1",
				PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: new(int32(1))}},
			}
			w.Status.Conditions = []metav1.Condition{
				{Type: kueue.WorkloadQuotaReserved, Status: "True"},
				{Type: kueue.WorkloadAdmitted, Status: "True"},
			}
			p := corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace:       namespace,
					Name:            name + "-x",
					UID:             uid + "p",
					OwnerReferences: owner,
					Annotations:     map[string]string{kueue.WorkloadAnnotation: w.Name},
				},
				Spec: two,
			}
			p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = c.nodes[i%nodes].Name, corev1.PodRunning, &made
			c.pods = append(c.pods, p)
		} else {
			w.Status.Conditions = []metav1.Condition{
				{
					Type:    kueue.WorkloadQuotaReserved,
					Status:  "False",
					Reason:  string(core.WaitingForQuota),
					Message: "2 more needed",
				},
			}
			c.pending = append(
				c.pending,
				visibility.PendingWorkload{ObjectMeta: w.ObjectMeta, LocalQueueName: "default-queue"},
			)
		}
		c.workloads = append(c.workloads, w)
		c.events = append(c.events, corev1.Event{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace,
			},
			InvolvedObject: corev1.ObjectReference{Kind: "Workload", Name: w.Name},
			Reason:         "Admitted",
			Message:        "Admitted by ClusterQueue queue-1 after 2s",
			LastTimestamp:  made,
		})
		if i%history.MaxRecords == 0 {
			c.pages = append(
				c.pages,
				history.JobHistory{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}},
			)
		}
		page := &c.pages[len(c.pages)-1]
		page.Records = append(
			page.Records,
			history.JobRecord{
				UID:        uid,
				Kind:       "Job",
				Name:       name,
				State:      history.Succeeded,
				Submitted:  made,
				Ended:      metav1.NewTime(now()),
				RanSeconds: 60,
				GPUs:       2,
			},
		)
	}
	return c
}

// BenchmarkLook is what lists of 10,000 jobs cost beside the API server's own time.
func BenchmarkLook(b *testing.B) {
	c := newCrowd()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	layout := cli.Layout{Width: 140}
	running, waiting := view.Ref{
		Kind:      view.KindJob,
		Namespace: "team-0",
		Name:      "job-00000",
	}, view.Ref{
		Kind:      view.KindJob,
		Namespace: "team-0",
		Name:      "job-09950",
	}
	noLogs := func(context.Context, string, string, string, int64) (string, error) { return "", nil }
	for name, look := range map[string]func(){
		"ps": func() {
			s, err := gather.Jobs(b.Context(), noNamespaces{c}, "", client.ListOptions{})
			must(err)
			must(cli.PrintTable(io.Discard, cli.RowColumns(now(), true), s.Items, layout))
			if len(s.Items) != len(c.jobs) {
				b.Fatal(len(s.Items))
			}
		},
		"squeue": func() {
			s, err := gather.Jobs(b.Context(), noNamespaces{c}, "", client.ListOptions{})
			must(err)
			must((&slurm.Queue{Now: now(), All: true, Width: layout.Width}).Print(io.Discard, (&slurm.Filter{}).Select(s.Items)))
		},
		"sacct": func() {
			s, err := gather.Jobs(b.Context(), noNamespaces{c}, "", client.ListOptions{})
			must(err)
			past, err := gather.Past(b.Context(), c, "", time.Time{})
			must(err)
			must((&slurm.Accounts{Now: now()}).Print(io.Discard, (&slurm.Filter{Ended: true}).Select(slurm.WithPast(s.Items, past))))
		},
		"users": func() {
			s, err := gather.Jobs(b.Context(), noNamespaces{c}, "", client.ListOptions{})
			must(err)
			must(cli.PrintTable(io.Discard, cli.UseColumns("users", now()), cli.Use(s.Items, "users", now()), layout))
		},
		"top": func() {
			s, err := gather.Jobs(b.Context(), noNamespaces{c}, "", client.ListOptions{})
			must(err)
			must(cli.PrintTable(io.Discard, cli.UseColumns("queues", now()), cli.Use(s.Items, "queues", now()), layout))
		},
		"queue": func() {
			rows, err := cli.WaitingRows(b.Context(), c, "", c.pending)
			must(err)
			must(cli.PrintTable(io.Discard, cli.WaitingColumns(now()), rows, layout))
		},
		"nodes": func() {
			rows, _, err := gather.Nodes(b.Context(), c)
			must(err)
			must(cli.PrintTable(io.Discard, cli.NodeColumns(now()), rows, layout))
		},
		"events": func() {
			l, err := why.ReadEvents(b.Context(), c, "", nil)
			must(err)
			rows, _, err := l.List(b.Context(), time.Time{})
			must(err)
			must(cli.PrintTable(io.Discard, cli.EventColumns(time.UTC, true), rows, layout))
		},
		"hist": func() {
			rows, err := gather.Past(b.Context(), c, "", time.Time{})
			must(err)
			must(cli.PrintTable(io.Discard, cli.PastColumns(time.UTC, true), rows, layout))
		},
		"team": func() {
			rows, _, err := cli.Teams(b.Context(), c)
			must(err)
			must(cli.PrintTable(io.Discard, admin.TeamColumns(), rows, layout))
			if len(rows) != len(c.teams) {
				b.Fatal(len(rows))
			}
		},
		"why": func() {
			p, err := why.Gather(b.Context(), c, c, waiting, now())
			must(err)
			if p.Workload == nil || p.Answer == nil {
				b.Fatal("nothing waits")
			}
			e := why.Explain(p)
			must(cli.PrintExplanation(io.Discard, &e, cli.Style{Width: layout.Width}))
		},
		"show": func() {
			s, err := why.Show(b.Context(), c, noLogs, running, 10, now())
			must(err)
			must(cli.PrintDetails(io.Discard, s, now(), time.UTC, layout))
		},
		"eta": func() {
			rows, err := cli.TakeStarts(b.Context(), c, c, "")
			must(err)
			must(cli.PrintTable(io.Discard, cli.StartColumns(now()), rows, layout))
			if len(rows) != len(c.pending) {
				b.Fatal(len(rows))
			}
		},
		"capacity": func() {
			queues, err := cli.CapacityQueues(b.Context(), c, "", "")
			must(err)
			var rows []cli.CapacityRow
			for _, q := range queues {
				q.Sizes = []int64{1, 2, 4, 8}
				some, err := cli.Capacity(b.Context(), c, q)
				must(err)
				rows = append(rows, some...)
			}
			must(cli.PrintTable(io.Discard, cli.CapacityColumns(false, false), rows, layout))
			if len(rows) != 4*len(c.locals) {
				b.Fatal(len(rows))
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			before := processorTime(b)
			for b.Loop() {
				look()
			}
			b.ReportMetric(float64((processorTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime is what this process used so far, which others on the machine do not change.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// noNamespaces reads the crowd, of which no namespace is a team's.
type noNamespaces struct{ *crowd }
