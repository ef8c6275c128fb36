package actions

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Evidence prints what was kept of a job that hung, the last time that it did: also of one that is gone, by its name.
func Evidence(ctx context.Context, c client.Reader, ref view.Ref, out io.Writer) error {
	var all history.JobEvidenceList
	if err := c.List(ctx, &all, client.InNamespace(ref.Namespace)); apierrors.IsForbidden(err) {
		return fmt.Errorf(
			"what was kept of jobs of %s may only be read by members of the team: %w",
			ref.Namespace,
			err,
		)
	} else if err != nil {
		return fmt.Errorf("list JobEvidences of %s: %w", ref.Namespace, err)
	}
	var newest *history.JobEvidence
	for i := range all.Items {
		e := &all.Items[i]
		if e.Job == ref.Name && (newest == nil || e.Taken.After(newest.Taken.Time)) {
			newest = e
		}
	}
	if newest == nil {
		return fmt.Errorf("nothing was kept of %s/%s: it did not hang, or states no steps", ref.Namespace, ref.Name)
	}
	_, err := io.WriteString(out, evidenceText(newest))
	return err
}

func evidenceText(e *history.JobEvidence) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s at %s: %s\n", e.JobKind, e.Namespace, e.Job, e.Taken.UTC().Format(time.RFC3339),
		words.Harmless(e.Message))
	if more := int(e.Pods) - len(e.Ranks); more > 0 {
		fmt.Fprintf(&b, "%d of its %d pods are told of\n", len(e.Ranks), e.Pods)
	}
	for i := range e.Ranks {
		r := &e.Ranks[i]
		step := "none told"
		if r.Step != nil {
			step = fmt.Sprint(*r.Step)
		}
		fmt.Fprintf(&b, "\nrank %d: pod %s on %s, %s, step %s", r.Rank, r.Pod, r.Node, r.Phase, step)
		if r.Restarts > 0 {
			fmt.Fprintf(&b, ", its container was restarted %s", words.Times(r.Restarts))
		}
		if r.Reason != "" {
			fmt.Fprintf(&b, ", %s", words.Harmless(r.Reason))
		}
		b.WriteString("\n")
		if r.Log == "" {
			fmt.Fprintf(&b, "  no log: %s\n", words.Harmless(r.NoLog))
			continue
		}
		for line := range strings.Lines(r.Log) {
			b.WriteString("  | " + words.Harmless(strings.TrimRight(line, "\n")) + "\n")
		}
	}
	return b.String()
}
