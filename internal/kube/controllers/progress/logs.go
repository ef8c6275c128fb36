package progress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/engine/progress"
)

// Limits of what is read of logs that tell of steps.
const (
	// mostReads are how many are read at the same time, mostReadsOfNode how many of them of one node: a slow
	// one holds up no jobs elsewhere.
	mostReads, mostReadsOfNode = 16, 2
	// readTimeout bounds a read, longestRead and mostLines what it brings, longestLine how much of a line counts.
	readTimeout = 5 * time.Second
	longestRead = 1 << 20
	mostLines   = 5000
	longestLine = 4 << 10
	// overlap is how much of what was read before is read again: moments of nodes are whole seconds.
	overlap = 2 * time.Second
	// shortestPause is how long it is between two reads at least.
	shortestPause = 15 * time.Second
	// slotPause is how soon one that found no slot is tried again.
	slotPause = time.Second
)

// slots bounds how many logs are read at the same time.
type slots struct {
	mu    sync.Mutex
	all   int
	nodes map[string]int
}

func (s *slots) take(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= mostReads || s.nodes[node] >= mostReadsOfNode {
		return false
	}
	s.all++
	s.nodes[node]++
	return true
}

func (s *slots) give(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.nodes[node]--; s.nodes[node] <= 0 {
		delete(s.nodes, node)
	}
}

// logNote is what is known of the log of a job.
type logNote struct {
	// pod is the one whose log it is, heard when it was read last, asked when that was tried last.
	pod          types.UID
	heard, asked time.Time
	underway     bool
	// step is the last one that it tells of, at when that was read.
	step int64
	at   time.Time
	// last is when its node wrote the last line that counts.
	last time.Time
}

// logged is what the log said.
func (l *look) logged() []progress.Report {
	n := &l.note.log
	for i := range l.ranks {
		if p := l.ranks[i].pod; p.UID == n.pod && n.step > 0 {
			return []progress.Report{
				{Rank: l.ranks[i].rank, Pod: p.Name, Node: p.Spec.NodeName, Step: n.step, At: n.at},
			}
		}
	}
	return nil
}

// readLog has the log of the first pod read if that is due, or by the time at which silence would tell of a hang, and
// says when to look again.
func (r *reconciler) readLog(ctx context.Context, l *look, decisive time.Time) time.Time {
	n := &l.note.log
	first := l.ranks[0].pod
	if n.pod != first.UID {
		*n = logNote{pod: first.UID, underway: n.underway}
	}
	due := n.asked.Add(max(l.rule.Every/4, shortestPause))
	if decisive.After(n.asked) && decisive.Before(due) {
		due = decisive
	}
	switch {
	case n.underway:
		return l.now.Add(readTimeout)
	case due.After(l.now):
		return due
	case !r.logs.take(first.Spec.NodeName):
		return l.now.Add(slotPause)
	}
	n.underway, n.asked = true, l.now
	since := l.began
	if !n.heard.IsZero() {
		since = n.heard
	}
	o := &corev1.PodLogOptions{
		Container:    container(first),
		Timestamps:   true,
		SinceSeconds: new(max(int64((l.now.Sub(since)+overlap)/time.Second), 1)),
		TailLines:    new(int64(mostLines)),
		LimitBytes:   new(int64(longestRead)),
	}
	name := client.ObjectKeyFromObject(l.w)
	read := logRead{
		name: name, uid: l.w.UID, pod: first.UID, podName: first.Name, node: first.Spec.NodeName, at: l.now,
		steps: l.rule.Log,
		job:   l,
	}
	go r.read(context.WithoutCancel(ctx), read, o)
	return l.now.Add(readTimeout)
}

// logRead is one read of a log.
type logRead struct {
	name          types.NamespacedName
	uid, pod      types.UID
	podName, node string
	at            time.Time
	steps         *regexp.Regexp
	job           *look
}

// read reads a log and notes what it tells. Nobody else waits for that: one read of a job is under way at a time.
func (r *reconciler) read(ctx context.Context, x logRead, o *corev1.PodLogOptions) {
	defer r.wake(ctx, x.name)
	defer r.logs.give(x.node)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	text, err := r.text(ctx, x.name.Namespace, x.podName, o)
	n := r.of(x.name, x.uid)
	if n == nil {
		return
	}
	n.mu.Lock()
	before := n.log
	n.mu.Unlock()
	var step int64
	var last time.Time
	if err == nil {
		step, last, err = stepOf(ctx, text, x.steps, before.step, before.last)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	g := &n.log
	g.underway = false
	switch {
	case g.pod != x.pod:
		return
	case err == nil && step == before.step && cut(text):
		err = errors.New("more is written than is read of it")
	}
	if err != nil {
		r.tell(x.job, corev1.EventTypeWarning, EventLogUnread, fmt.Sprintf(
			"Whether it takes steps is not known while the log of pod %s cannot be read: %v", x.podName, err))
		return
	}
	g.heard = x.at
	if g.last.IsZero() && x.steps.NumSubexp() == 0 && !n.mark.None() && !n.mark.At.Before(x.job.began) {
		step, g.step, g.at = n.mark.Step, n.mark.Step, n.mark.At // what was counted before this process began
	}
	if step != g.step {
		g.step, g.at = step, x.at
	}
	g.last = last
}

// cut reports whether there may be more than was read: lines before, or bytes after.
func cut(text []byte) bool {
	return len(text) >= longestRead || bytes.Count(text, []byte("\n")) >= mostLines
}

// text reads a log.
func (r *reconciler) text(
	ctx context.Context,
	namespace, pod string,
	o *corev1.PodLogOptions,
) ([]byte, error) {
	in, err := r.Log(ctx, namespace, pod, o)
	if err != nil {
		return nil, fmt.Errorf("open the log of pod %s: %w", pod, err)
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, *o.LimitBytes))
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	return text, nil
}

// stepOf is the last step that lines tell of, each with the moment in front at which its node wrote it: the number
// in them, or, where there is none, how many of them there were. last is when the last line was written
// that counts, before and after.
func stepOf(
	ctx context.Context,
	text []byte,
	steps *regexp.Regexp,
	step int64,
	last time.Time,
) (int64, time.Time, error) {
	counts := steps.NumSubexp() == 0
	newest := last
	for line := range bytes.Lines(text) {
		if err := ctx.Err(); err != nil {
			return 0, last, fmt.Errorf("look for steps in it: %w", err)
		}
		stamp, said, found := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(" "))
		at, err := time.Parse(time.RFC3339Nano, string(stamp[:min(len(stamp), len(time.RFC3339Nano))]))
		if !found || err != nil || counts && !at.After(last) {
			continue
		}
		m := steps.FindSubmatch(said[:min(len(said), longestLine)])
		if m == nil {
			continue
		}
		if at.After(newest) {
			newest = at
		}
		if counts {
			step++
		} else if n, err := strconv.ParseInt(string(m[1]), 10, 64); err == nil && n > 0 {
			step = n
		}
	}
	return step, newest, nil
}
