package actions

import (
	"bufio"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
	"github.com/mlbatch/mlbatch/internal/words"
)

// printer prints lines with the names of their pods.
type printer struct {
	to         io.Writer
	terminal   bool
	timestamps bool
	// named says that lines begin with the name of their pod, which is padded to width.
	named bool
	width int
	lock  sync.Mutex
}

// name decides whether lines are named: those of a job of one pod are not.
func (p *printer) name(t *Target, shown []logSource, one bool) {
	pods := 0
	if t.Workload != nil {
		for i := range t.Workload.Spec.PodSets {
			pods += int(t.Workload.Spec.PodSets[i].Count)
		}
	}
	labels := map[string]bool{}
	for i := range shown {
		label := Label(&shown[i].member)
		labels[label] = true
		p.width = max(p.width, utf8.RuneCountInString(label))
	}
	p.named = !one && max(pods, len(labels)) > 1
}

// line prints one.
func (p *printer) line(m *why.Member, l line) error {
	text := l.text
	if p.terminal {
		text = ForTerminal(text)
	}
	if p.timestamps {
		text = l.stamp + " " + text
	}
	if label := Label(m); p.named {
		text = label + strings.Repeat(" ", max(p.width-utf8.RuneCountInString(label), 0)) + " | " + text
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	_, err := io.WriteString(p.to, text+"\n")
	return err
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// ForTerminal is a line as a terminal may show it: colours are dropped, of a line that was
// written over again and again what came last is left, and all else that a terminal would obey
// is written out.
func ForTerminal(text string) string {
	text = strings.TrimRight(colours.ReplaceAllString(text, ""), "\r")
	if i := strings.LastIndexByte(text, '\r'); i >= 0 {
		text = text[i+1:]
	}
	parts := strings.Split(text, "\t")
	for i := range parts {
		parts[i] = words.Harmless(parts[i])
	}
	return strings.Join(parts, "\t")
}

// line of a log: when it was written, as the node says it, and what.
type line struct {
	at    time.Time
	stamp string
	text  string
}

// longest is where lines are broken that do not end, in bytes.
const longest = 64 << 10

// reader reads the lines of a log with timestamps.
type reader struct {
	from *bufio.Reader
	last line
}

func newReader(r io.Reader) *reader { return &reader{from: bufio.NewReaderSize(r, longest)} }

// next is the next line; io.EOF if there is none.
func (r *reader) next() (line, error) {
	text, more, err := r.from.ReadLine()
	if err != nil {
		return line{}, err
	}
	stamp, rest, found := strings.Cut(string(text), " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil || !found && more { // what follows a line that was broken
		return line{ //nolint:nilerr // it has no time of its own
			at:    r.last.at,
			stamp: r.last.stamp,
			text:  string(text),
		}, nil
	}
	r.last = line{at: at, stamp: stamp, text: rest}
	return r.last, nil
}

// merge prints the logs of sources in the order of time, and returns how many could be read and
// why one could not.
func (l *logs) merge(ctx context.Context, sources []logSource) (read int, failure error) {
	open := make([]*cursor, len(sources))
	errs := make([]error, len(sources))
	var opening sync.WaitGroup
	for i, s := range sources {
		opening.Go(func() {
			stream, err := l.open(ctx, s.member.Pod, l.request(s))
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", Label(&s.member), err)
				return
			}
			open[i] = &cursor{source: s, place: i, stream: stream, reader: newReader(stream)}
		})
	}
	opening.Wait()
	var lines cursors
	for i, c := range open {
		if c == nil {
			failure = errs[i]
			l.note("%v", errs[i])
			continue
		}
		defer c.stream.Close()
		read++
		if c.advance(l) {
			lines = append(lines, c)
		}
	}
	heap.Init(&lines)
	for len(lines) > 0 {
		c := lines[0]
		if err := l.printer.line(&c.source.member, c.current); err != nil {
			return read, err
		}
		if c.advance(l) {
			heap.Fix(&lines, 0)
		} else {
			heap.Pop(&lines)
		}
	}
	return read, failure
}

// cursor is a log that is being read.
type cursor struct {
	source  logSource
	place   int
	stream  io.ReadCloser
	reader  *reader
	current line
}

func (c *cursor) advance(l *logs) bool {
	next, err := c.reader.next()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			l.note("%s: the log breaks off: %v", Label(&c.source.member), err)
		}
		return false
	}
	c.current = next
	return true
}

// cursors are a heap: first what was written first, and of that the lower rank.
type cursors []*cursor //nolint:recvcheck // as container/heap has it

func (c cursors) Len() int { return len(c) }
func (c cursors) Less(i, j int) bool {
	if d := c[i].current.at.Compare(c[j].current.at); d != 0 {
		return d < 0
	}
	return c[i].place < c[j].place
}
func (c cursors) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

func (c *cursors) Push(
	x any,
) {
	*c = append(*c, x.(*cursor)) //nolint:forcetypeassert // heap passes what it was given
}

func (c *cursors) Pop() any {
	old := *c
	last := old[len(old)-1]
	*c = old[:len(old)-1]
	return last
}

// container of a pod.
type container struct {
	pod  types.UID
	name string
}

// run is one run of a container: its log is read once.
type run struct {
	container
	restarts int32
}

// telling is what was told of a container. Its runs are read one after the other, because a
// node that is asked for a run may have begun the next one, and then tells that.
type telling struct {
	next *logSource // as it is when its next run is to be read
	busy bool
	read bool
	// from and to are when the first and the last line that was printed were written.
	from, to time.Time
}

// has reports whether a line was printed already.
func (t *telling) has(l line) bool {
	return !t.to.IsZero() && !l.at.Before(t.from) && !l.at.After(t.to)
}

// add notes that a line was printed.
func (t *telling) add(l line) {
	if l.at.IsZero() {
		return
	}
	if t.from.IsZero() || l.at.Before(t.from) {
		t.from = l.at
	}
	if l.at.After(t.to) {
		t.to = l.at
	}
}

// follow prints what there is and what is written, of pods that come later and of containers
// that start again too, until the job has ended.
func (l *logs) follow(ctx context.Context, c client.WithWatch) error {
	f := newFollower(l)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := Follow(ctx, c, l.target, true, func(gone bool) (bool, error) { return f.see(ctx, gone) })
	if err == nil {
		err = f.rest(ctx, c)
	}
	ended := make(chan struct{})
	go func() { f.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-clock.RealClock{}.After(patience): // of pods that go on though the job has ended
	}
	stop()
	<-ended
	if err == nil && f.read == 0 {
		return f.failure
	}
	return err
}

// patience is how long the logs of a job that has ended may take to end.
const patience = 5 * time.Second

// rest reads what began to run just before the job ended: that it ended may be known before.
func (f *follower) rest(ctx context.Context, c client.Reader) error {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(f.target.Asked.Namespace)); err != nil {
		return fmt.Errorf("list the pods of %s: %w", f.target.title(), err)
	}
	for i := range list.Items {
		f.target.update(&list.Items[i], false)
	}
	chosen, err := f.chosen()
	if err != nil {
		return err
	}
	all, _ := f.sources(chosen)
	for _, s := range f.fresh(all) {
		f.stream(ctx, s)
	}
	return nil
}

// follower follows the logs of a job.
type follower struct {
	*logs
	begun   map[run]bool
	told    map[string]bool
	running sync.WaitGroup

	lock     sync.Mutex // of what streams change
	tellings map[container]*telling
	streams  int // containers that are being read
	read     int
	failure  error
}

func newFollower(l *logs) *follower {
	return &follower{logs: l, begun: map[run]bool{}, told: map[string]bool{}, tellings: map[container]*telling{}}
}

// once tells something the first time.
func (f *follower) once(key, format string, args ...any) {
	if !f.told[key] {
		f.told[key] = true
		f.note(format, args...)
	}
}

// see begins to read what has begun to run, and reports whether the job has ended.
func (f *follower) see(ctx context.Context, gone bool) (bool, error) { //nolint:revive // a fact
	t := f.target
	j := t.Facts()
	ended := gone || j.Stage == view.Ended || j.Stage == view.Finished
	if alone := t.Pod; t.Set == nil && alone != nil && len(t.Pods) > 0 && t.Object() == client.Object(alone) {
		phase := t.Pods[0].Status.Phase
		ended = ended || phase == corev1.PodSucceeded || phase == corev1.PodFailed
	}
	chosen, err := f.chosen()
	if err != nil {
		return false, err
	}
	all, _ := f.sources(chosen)
	switch {
	case len(all) == 0 && ended && len(f.begun) == 0:
		if gone {
			return true, fmt.Errorf("%s was deleted", t.title())
		}
		return true, errors.New(f.nothing())
	case len(all) == 0 && !ended && (j.State == view.Waiting || j.State == view.Held):
		f.once(
			"waits "+j.Reason,
			"%s is %s (%s): its logs follow when it runs",
			t.title(),
			strings.ToLower(string(j.State)),
			j.Reason,
		)
	}
	if len(f.begun) == 0 && len(all) > 0 {
		f.printer.name(t, all, f.Ranks.one())
	}
	for _, s := range f.fresh(all) {
		f.stream(ctx, s)
	}
	return ended, nil
}

// fresh are the sources that are not read yet, as many as may be. A container that is being read
// keeps its place when it starts again.
func (f *follower) fresh(all []logSource) []logSource {
	var kept, out []logSource
	f.lock.Lock()
	free := max(f.Most-f.streams, 0)
	for _, s := range all {
		r := runOf(s)
		if f.begun[r] {
			continue
		}
		if t := f.tellings[r.container]; t != nil && t.busy {
			kept = append(kept, s)
		} else {
			out = append(out, s)
		}
	}
	f.lock.Unlock()
	if f.Most <= 0 || len(out) <= free {
		return append(kept, out...)
	}
	left := len(out) - free
	f.once(
		"bound",
		"%d logs are not shown, because %d are followed at the same time, those of failed pods first: choose with --role and --rank, or show more with --most",
		left,
		f.Most,
	)
	if free == 0 {
		return kept
	}
	shown, _ := bounded(out, free)
	return append(kept, shown...)
}

func runOf(s logSource) run {
	r := run{container: container{s.member.Pod.UID, s.container}}
	if status := statusOf(s.member.Pod, s.container); status != nil {
		r.restarts = status.RestartCount // also that of the last run while it waits for the next
	}
	return r
}

// stream follows the log of one run until it ends, after those of the runs before it.
func (f *follower) stream(ctx context.Context, s logSource) {
	r := runOf(s)
	f.begun[r] = true
	f.lock.Lock()
	defer f.lock.Unlock()
	t := f.tellings[r.container]
	if t == nil {
		t = &telling{}
		f.tellings[r.container] = t
	}
	t.next = &s
	if t.busy {
		return
	}
	t.busy = true
	f.streams++
	f.running.Go(func() {
		for s := f.after(ctx, t, nil, nil); s != nil; {
			s = f.after(ctx, t, s, f.tell(ctx, t, *s))
		}
	})
}

// after notes how a run was read, and is the next one; nil if there is none yet.
func (f *follower) after(ctx context.Context, t *telling, s *logSource, err error) (next *logSource) {
	f.lock.Lock()
	defer f.lock.Unlock()
	switch {
	case s == nil:
	case err != nil && ctx.Err() != nil: // it was stopped
	case err != nil:
		f.failure = fmt.Errorf("%s: %w", Label(&s.member), err)
		f.note("%v", f.failure)
	default:
		t.read = true
		f.read++
	}
	if next, t.next = t.next, nil; next == nil {
		t.busy = false
		f.streams--
	}
	return next
}

// tell prints the log of a run, after what was not printed of the run before it.
func (f *follower) tell(ctx context.Context, t *telling, s logSource) error {
	o := f.request(s)
	if t.read { // since then there is nothing else
		o.TailLines, o.SinceSeconds = nil, nil
	}
	if runOf(s).restarts > 0 && !o.Previous && o.TailLines == nil && o.SinceSeconds == nil {
		before := o.DeepCopy()
		before.Previous = true
		_ = f.copy(ctx, t, s, before) // a node need not keep it
	}
	o.Follow = true
	return f.copy(ctx, t, s, o)
}

// copy prints what a log says and was not printed before.
func (f *follower) copy(ctx context.Context, t *telling, s logSource, o *corev1.PodLogOptions) error {
	stream, err := f.open(ctx, s.member.Pod, o)
	if err != nil {
		return err
	}
	defer stream.Close()
	lines, before := newReader(stream), *t
	for {
		next, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if before.has(next) {
			continue
		}
		t.add(next)
		if err := f.printer.line(&s.member, next); err != nil {
			return err
		}
	}
}
