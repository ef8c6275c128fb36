//go:build !noembed

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/view"
)

// refreshEvery is the rhythm of the live screen.
const refreshEvery = 2 * time.Second

// showLive keeps one screen of status on a terminal until ctx ends.
func showLive(ctx context.Context, w io.Writer, c *local.Cluster) {
	cl, err := newClient(c.RESTConfig())
	if err != nil {
		fmt.Fprintf(w, "no live status: %v\n", err)
		return
	}
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	lines := 0
	for {
		text := liveScreen(ctx, cl, c)
		if ctx.Err() != nil {
			return
		}
		// Up to where the last screen began, and clear from there.
		if lines > 0 {
			fmt.Fprintf(w, "\x1b[%dA\x1b[J", lines)
		}
		fmt.Fprint(w, text)
		lines = strings.Count(text, "\n")
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// liveScreen is the text of one screen.
func liveScreen(ctx context.Context, cl client.Client, c *local.Cluster) string {
	ctx, cancel := context.WithTimeout(ctx, refreshEvery)
	defer cancel()
	var b strings.Builder
	st := c.State()
	_ = newReport(st, c.DataDir()).table(&b, time.Now()) // a builder takes everything
	b.WriteString("\n")
	if err := nodesAndQueues(ctx, &b, cl); err != nil {
		b.WriteString(whyNoQueues(err) + "\n")
	}
	return b.String()
}

func nodesAndQueues(ctx context.Context, w io.Writer, cl client.Client) error {
	var nodes corev1.NodeList
	if err := cl.List(ctx, &nodes); err != nil {
		return err
	}
	pods, err := countPods(ctx, cl)
	if err != nil {
		return err
	}
	var queues v1beta2.ClusterQueueList
	if err := cl.List(ctx, &queues); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d of %d nodes ready, %d pods\n\n", readyNodes(nodes.Items), len(nodes.Items), pods)
	if len(queues.Items) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, "QUEUE\tACTIVE\tWAITING\tADMITTED\tGPUS")
	for i := range queues.Items {
		q := &queues.Items[i]
		f := view.ClusterQueueOf(
			q,
			meta.FindStatusCondition(q.Status.Conditions, v1beta2.ClusterQueueActive),
			view.LoadOf(q.Status),
		)
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", f.Name, activity(&f), f.Waiting(), f.Admitted, gpus(&f))
	}
	return t.Flush()
}

// activity says whether a queue admits.
func activity(q *view.ClusterQueue) string {
	switch q.State {
	case view.QueueActive:
		return "yes"
	case view.QueuePending, view.QueueTerminating:
		return "no: " + q.Reason
	case view.QueueUnknown:
	}
	return "-"
}

// gpus says how many GPUs hold reservations of a queue, of all flavors together, and
// how many are its own: "24 of 8" borrows 16.
func gpus(q *view.ClusterQueue) string {
	reserved, own := q.Sum(core.GPU)
	if reserved == 0 && own == 0 {
		return "-"
	}
	r, o := convert.Quantity(core.GPU, reserved), convert.Quantity(core.GPU, own)
	return r.String() + " of " + o.String()
}

// countPods asks for one pod and how many more there are.
func countPods(ctx context.Context, cl client.Client) (int64, error) {
	var one metav1.PartialObjectMetadataList
	one.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := cl.List(ctx, &one, client.Limit(1)); err != nil {
		return 0, err
	}
	n := int64(len(one.Items))
	if more := one.RemainingItemCount; more != nil {
		n += *more
	}
	return n, nil
}

func readyNodes(nodes []corev1.Node) int {
	n := 0
	for _, node := range nodes {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
