package progress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/progress"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Limits of what is kept of a job that hangs.
const (
	// mostTails are how many logs are read for that at the same time, tailTimeout bounds each, and
	// tailsTimeout all of a job; writing it has what is left of EvidenceDeadline.
	mostTails    = 32
	tailTimeout  = 5 * time.Second
	tailsTimeout = 20 * time.Second
	// longestTail is how much is read to find the last lines.
	longestTail = 64 << 10
	// mostReason and mostNoLog are how long texts may be.
	mostReason, mostNoLog, mostMessage = 256, 512, 1024
	// evidencePause is how long it is at least between two of a job that is only observed.
	evidencePause = 10 * time.Minute
	// mostLately is of how many hangs something is kept in a namespace within evidencePause: as many as stay when
	// controllers/history tidies up.
	mostLately = 32
	// longestEnd is how much of a log is gone through to find its end.
	longestEnd = 8 << 20
)

// evidenceNote is what became of what is to be kept of a job that hangs.
type evidenceNote struct {
	underway bool
	name     string
	failure  string
	at       time.Time
}

// mayKeep reports whether something may be kept of one more job of a namespace, and counts it.
func (r *reconciler) mayKeep(namespace string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := slices.DeleteFunc(r.lately[namespace], func(at time.Time) bool { return now.Sub(at) >= evidencePause })
	may := len(of) < mostLately
	if may {
		of = append(of, now)
	}
	r.lately[namespace] = of
	return may
}

// keep gathers what there is to know of a job that hangs, and has it looked at again when that is kept.
func (r *reconciler) keep(ctx context.Context, l *look, c *metav1.Condition) {
	n := l.note
	n.kept = evidenceNote{underway: true, at: l.now}
	e, ranks := r.evidence(l, c)
	name, uid := client.ObjectKeyFromObject(l.w), l.w.UID
	go func() {
		ctx := context.WithoutCancel(ctx)
		within, cancel := context.WithTimeout(ctx, EvidenceDeadline)
		defer cancel()
		r.tailsOf(within, e, ranks)
		err := r.Client.Create(within, e)
		if apierrors.IsAlreadyExists(err) { // by a process before this one
			err = nil
		}
		if n := r.of(name, uid); n != nil {
			n.mu.Lock()
			n.kept.underway = false
			if n.kept.name = e.Name; err != nil {
				n.kept.name, n.kept.failure = "", convert.Cut(err.Error(), mostReason)
			}
			n.mu.Unlock()
		}
		r.wake(ctx, name)
	}()
}

// evidence is what objects tell, and the pods whose logs belong to it: those that are behind, and the first ones.
func (r *reconciler) evidence(l *look, c *metav1.Condition) (*history.JobEvidence, []rank) {
	kind, job := "Pod", l.w.Name
	if owner := metav1.GetControllerOf(l.w); owner != nil {
		kind, job = owner.Kind, owner.Name
	}
	reports := l.reports()
	behind := map[string]bool{}
	for _, b := range progress.Behind(reports) {
		behind[b.Pod] = true
	}
	ranks := slices.Clone(l.ranks)
	slices.SortStableFunc(ranks, func(a, b rank) int {
		switch x, y := behind[a.pod.Name], behind[b.pod.Name]; {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	ranks = ranks[:min(len(ranks), history.MaxEvidenceRanks)]
	slices.SortFunc(ranks, func(a, b rank) int { return int(a.rank) - int(b.rank) })
	e := &history.JobEvidence{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.w.Namespace,
			Name:      evidenceName(job, l.w.UID, c.LastTransitionTime.Time),
			Labels:    map[string]string{history.WorkloadUIDLabel: string(l.w.UID)},
		},
		Workload: l.w.UID,
		JobKind:  kind,
		Job:      job,
		Taken:    metav1.NewTime(l.now.UTC().Truncate(time.Second)),
		Message:  convert.Cut(c.Message, mostMessage),
		Pods:     int32(len(l.ranks)), //nolint:gosec // the API bounds the number of pods
	}
	for i := range ranks {
		e.Ranks = append(e.Ranks, found(l, &ranks[i]))
	}
	return e, ranks
}

// evidenceName is unique in the namespace, where jobs of several kinds may have a name, and the same for a hang that
// was found by a process before this one.
func evidenceName(job string, uid types.UID, at time.Time) string {
	const longest, some = 180, 8
	id := string(uid)
	name := strings.TrimRight(job[:min(len(job), longest)], "-.")
	return fmt.Sprintf("%s-%s-%d", name, id[:min(len(id), some)], at.Unix())
}

func found(l *look, k *rank) history.EvidenceRank {
	p := k.pod
	out := history.EvidenceRank{
		Rank: k.rank, Pod: p.Name, Node: p.Spec.NodeName, Phase: string(p.Status.Phase), Reason: p.Status.Reason,
	}
	if t, known := l.note.steps[p.UID]; known {
		out.Step = new(t.step)
	} else if l.note.log.pod == p.UID && l.note.log.step > 0 {
		out.Step = new(l.note.log.step)
	}
	name := container(p)
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		if s.Name != name {
			continue
		}
		out.Restarts = s.RestartCount
		switch {
		case s.State.Waiting != nil:
			out.Reason = s.State.Waiting.Reason
		case s.State.Terminated != nil:
			out.Reason = s.State.Terminated.Reason
		}
	}
	out.Reason = convert.Cut(out.Reason, mostReason)
	return out
}

// tailsOf reads the last lines of each rank into the evidence.
func (r *reconciler) tailsOf(ctx context.Context, e *history.JobEvidence, ranks []rank) {
	ctx, cancel := context.WithTimeout(ctx, tailsTimeout)
	defer cancel()
	share := history.MaxEvidenceBytes / max(len(ranks), 1)
	share = min(share, longestTail/4)
	var all sync.WaitGroup
	for i := range ranks {
		all.Go(func() {
			is := &e.Ranks[i]
			text, err := r.tail(ctx, ranks[i].pod)
			if err != nil {
				is.NoLog = convert.Cut(err.Error(), mostNoLog)
				return
			}
			if is.Log = lastLines(text, share); is.Log == "" {
				is.NoLog = "it has written nothing"
			}
		})
	}
	all.Wait()
}

// tail reads the end of a log, when there is a slot for that.
func (r *reconciler) tail(ctx context.Context, p *corev1.Pod) ([]byte, error) {
	select {
	case r.tails <- struct{}{}:
		defer func() { <-r.tails }()
	case <-ctx.Done():
		return nil, fmt.Errorf("too many logs were to be read: %w", ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	in, err := r.Log(ctx, p.Namespace, p.Name, &corev1.PodLogOptions{
		Container: container(p),
		TailLines: new(int64(history.MaxEvidenceLines)),
	})
	if err != nil {
		return nil, fmt.Errorf("open the log of pod %s: %w", p.Name, err)
	}
	defer func() { _ = in.Close() }()
	end, err := endOf(io.LimitReader(in, longestEnd), longestTail)
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s: %w", p.Name, err)
	}
	return end, nil
}

// endOf is the end of a text: a kubelet that is told how many bytes to send leaves it out.
func endOf(in io.Reader, most int) ([]byte, error) {
	var end []byte
	part := make([]byte, most)
	for {
		n, err := in.Read(part)
		if end = append(end, part[:n]...); len(end) > 2*most {
			end = slices.Clone(end[len(end)-most:])
		}
		if errors.Is(err, io.EOF) {
			return end[max(len(end)-most, 0):], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// lastLines are the last lines of a text that fit into so many bytes, without what a terminal or a file would choke on.
func lastLines(text []byte, most int) string {
	clean := strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' || unicode.IsPrint(c) && c != unicode.ReplacementChar {
			return c
		}
		return -1
	}, string(bytes.ToValidUTF8(text, nil)))
	clean = strings.TrimRight(clean, "\n")
	if over := len(clean) - most; over > 0 {
		clean = strings.ToValidUTF8(clean[over:], "")
		if _, rest, more := strings.Cut(clean, "\n"); more {
			clean = rest
		}
	}
	return clean
}
