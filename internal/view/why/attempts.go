package why

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
)

// attempts are those of the job; nil if it was never admitted. trouble is what is wrong with the node of a pod; nil knows
// of none.
func (p *JobObjects) attempts(trouble func(*corev1.Pod) core.NodeTrouble) *view.Attempts {
	w := p.Workload
	if w == nil {
		return nil
	}
	last := view.LastAttempt(w, p.Pods, trouble)
	if root := p.Root(); last != nil && root != nil {
		view.NoteCheckpoint(last, root, p.Now)
	}
	if last != nil && last.Pod != "" {
		for _, m := range Members(w, p.Pods) {
			if m.Pod.Name == last.Pod {
				last.Rank = new(int32(m.Rank)) //nolint:gosec // the API bounds the number of pods
			}
		}
	}
	return view.AttemptsOf(w, p.attemptsWithin(), last, p.Now)
}

// troubleSeen is what is wrong with nodes, as far as their reader may see.
func troubleSeen(ctx context.Context, c client.Reader) func(*corev1.Pod) core.NodeTrouble {
	return func(pod *corev1.Pod) core.NodeTrouble {
		out, _ := view.TroubleAt(pod.Spec.NodeName, func(name string) (*corev1.Node, error) {
			var node corev1.Node
			err := c.Get(ctx, types.NamespacedName{Name: name}, &node)
			return &node, err
		}, func(node *corev1.Node) bool { return jobs.MustLeave(pod, node, jobs.AvoidBadGPUs()) != "" })
		return out
	}
}

// attemptsWithin are those that cost no quota.
func (p *JobObjects) attemptsWithin() history.Attempts {
	if r := p.Recovery; r != nil {
		return r.Attempts
	}
	if p.AppWrapper != nil {
		return view.RestartedAttempts(p.AppWrapper)
	}
	return history.Attempts{}
}

// AttemptText says how an attempt ended, in words.
func AttemptText(a *history.Attempt) string {
	if a.End == nil {
		return "under way"
	}
	if a.Category == "" {
		return string(view.Succeeded)
	}
	text := a.Category
	var more []string
	if a.Reason != "" && a.Reason != a.Category {
		more = append(more, a.Reason)
	}
	if a.ExitCode != nil {
		more = append(more, fmt.Sprintf("exit code %d", *a.ExitCode))
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	switch {
	case a.Pod != "" && a.Rank != nil:
		text += fmt.Sprintf(", pod %s, rank %d", a.Pod, *a.Rank)
	case a.Pod != "":
		text += ", pod " + a.Pod
	}
	if len(a.FailedNodes) > 0 {
		text += ", on " + strings.Join(a.FailedNodes, ", ")
	}
	if a.ReplacedPods > 0 {
		text += fmt.Sprintf("; only %d of its pods, the others ran on", a.ReplacedPods)
	}
	if a.RestartedPods > 0 {
		text += fmt.Sprintf("; its %d pods restarted in place", a.RestartedPods)
	}
	return text
}

// pastAttempts says what ended the attempts of a job before the one under way, where there were several.
func (e *Explanation) pastAttempts(all *view.Attempts) {
	if all == nil || all.Total.Attempts+all.Total.Replacements < 2 {
		return
	}
	for i := len(all.Attempts.Attempts) - 1; i >= 0; i-- {
		a := &all.Attempts.Attempts[i]
		if a.End == nil {
			continue
		}
		ran := duration.HumanDuration(max(a.End.Sub(a.Start.Time), 0).Round(time.Second))
		e.say(
			"Its last attempt of %d ended %s after %s: %s",
			all.Total.Attempts,
			a.End.UTC().Format(time.RFC3339),
			ran,
			AttemptText(a),
		)
		return
	}
}
