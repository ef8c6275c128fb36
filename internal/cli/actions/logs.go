package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
	"github.com/mlbatch/mlbatch/internal/words"
)

// LogOptions say which lines of which pods are wanted.
type LogOptions struct {
	// Role and Ranks choose pods.
	Role  string
	Ranks Ranks
	// Container of each pod; "" is its first or the one that its annotation names.
	Container string
	// Follow goes on until the job has ended.
	Follow bool
	// Previous asks for the run of the container before this one.
	Previous bool
	// Timestamps are printed before each line.
	Timestamps bool
	// Since is how old a line may be, Tail how many lines of each container are printed; zero
	// and nil are all.
	Since time.Duration
	Tail  *int64
	// Most is how many logs are read at the same time.
	Most int
	// Terminal says that what is printed goes to one: what it would obey is not passed on.
	Terminal bool
}

// Opener opens the log of a container of a pod.
type Opener func(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error)

// Logs prints the logs of a job's pods to out, and what there is to say about them to notes.
// It fails if there is nothing to print, saying why.
func Logs( //nolint:revive // none of them belong together
	ctx context.Context,
	c client.WithWatch,
	open Opener,
	t *Target,
	o LogOptions,
	out, notes io.Writer,
) error {
	l := &logs{
		target:     t,
		open:       open,
		LogOptions: o,
		notes:      notes,
		printer:    &printer{to: out, terminal: o.Terminal, timestamps: o.Timestamps},
	}
	if o.Follow {
		return l.follow(ctx, c)
	}
	return l.read(ctx)
}

type logs struct {
	LogOptions
	target  *Target
	open    Opener
	notes   io.Writer
	printer *printer
}

// logSource is where lines come from: a container of a member of the job.
type logSource struct {
	member    why.Member
	container string
}

func (l *logs) note(format string, args ...any) {
	fmt.Fprintln(l.notes, words.Harmless(fmt.Sprintf(format, args...)))
}

// read prints what there is by now, in the order of time.
func (l *logs) read(ctx context.Context) error {
	chosen, err := l.chosen()
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		return errors.New(l.nothing())
	}
	all, quiet := l.sources(chosen)
	if len(all) == 0 && l.Previous {
		return fmt.Errorf(
			"no container of %s was started again in its pod, so there is no run before this one: without --previous its logs are those of all pods, old ones too",
			l.target.title(),
		)
	}
	if len(all) == 0 {
		return fmt.Errorf(
			"no pod of %s has started yet, so there are no logs: mlbatch logs -f waits for them; %s",
			l.target.title(),
			quiet,
		)
	}
	shown, left := bounded(all, l.Most)
	if left > 0 {
		l.note(
			"%d of %d logs are shown, those of failed pods first: choose with --role and --rank, or show more with --most",
			len(shown),
			len(all),
		)
	}
	l.printer.name(l.target, shown, l.Ranks.one())
	read, failure := l.merge(ctx, shown)
	if read == 0 && failure != nil {
		return failure
	}
	return nil
}

// chosen are the pods that were asked for.
func (l *logs) chosen() ([]why.Member, error) {
	members := why.Members(l.target.Workload, l.target.Pods)
	chosen, err := Choose(members, l.Role, l.Ranks)
	if err != nil && len(members) > 0 && !l.Follow {
		return nil, err
	}
	if pod := l.target.Through; pod.Kind == view.KindPod {
		chosen = slices.DeleteFunc(chosen, func(m why.Member) bool { return m.Pod.Name != pod.Name })
	}
	return chosen, nil
}

// nothing says why there are no pods.
func (l *logs) nothing() string {
	t, j := l.target, l.target.Facts()
	switch {
	case t.Set != nil:
		return t.title() + " has no pods"
	case j.Stage == view.Ended, j.Stage == view.Finished:
		text := "the pods of " + t.title() + " are gone, and their logs with them: it has " + strings.ToLower(
			string(j.State),
		)
		if j.Message != "" {
			text += " (" + strings.TrimSuffix(j.Message, ".") + ")"
		}
		return text
	case len(t.Pods) > 0:
		return "none of the " + pods(len(t.Pods)) + " of " + t.title() + " is the one that was asked for"
	case j.State == view.Waiting, j.State == view.Held:
		return t.title() + " has no pods: it is " + strings.ToLower(
			string(j.State),
		) + " (" + j.Reason + "); mlbatch why " + t.name() + " says more, mlbatch logs -f waits for its logs"
	}
	return t.title() + " has no pods yet; mlbatch logs -f waits for their logs"
}

// sources are the containers of members that have something to tell, and why others have not.
func (l *logs) sources(members []why.Member) (all []logSource, quiet string) {
	waiting := map[string]int{}
	for _, m := range members {
		name := containerOf(m.Pod, l.Container)
		status := statusOf(m.Pod, name)
		if begun(status) && (!l.Previous || status.LastTerminationState.Terminated != nil) {
			all = append(all, logSource{m, name})
			continue
		}
		waiting[whyQuiet(m.Pod, status)]++
	}
	var why []string
	for reason, n := range waiting {
		why = append(why, fmt.Sprintf("%s: %s", pods(n), reason))
	}
	slices.Sort(why)
	return all, strings.Join(why, ", ")
}

// whyQuiet says why a container has no log yet.
func whyQuiet(p *corev1.Pod, status *corev1.ContainerStatus) string {
	switch {
	case status != nil && status.State.Waiting != nil && status.State.Waiting.Reason != "":
		return status.State.Waiting.Reason
	case p.Status.Phase == corev1.PodFailed && p.Status.Reason != "":
		return p.Status.Reason
	case p.Spec.NodeName == "":
		return "waits for a node"
	}
	return string(cmp.Or(p.Status.Phase, corev1.PodPending))
}

// containerOf is the container that is meant in a pod.
func containerOf(p *corev1.Pod, name string) string {
	if name == "" {
		name = p.Annotations["kubectl.kubernetes.io/default-container"]
	}
	if name == "" && len(p.Spec.Containers) > 0 {
		name = p.Spec.Containers[0].Name
	}
	return name
}

// statusOf is the status of a container, nil if there is none.
func statusOf(p *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, all := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range all {
			if all[i].Name == container {
				return &all[i]
			}
		}
	}
	return nil
}

// begun reports whether a container has ever begun.
func begun(s *corev1.ContainerStatus) bool {
	return s != nil &&
		(s.State.Running != nil || s.State.Terminated != nil && !s.State.Terminated.StartedAt.IsZero() || s.LastTerminationState.Terminated != nil)
}

// failed reports whether a pod has failed, or its container has and starts again.
func failed(s logSource) bool {
	status := statusOf(s.member.Pod, s.container)
	bad := func(t *corev1.ContainerStateTerminated) bool { return t != nil && t.ExitCode != 0 }
	return s.member.Pod.Status.Phase == corev1.PodFailed ||
		status != nil && (bad(status.State.Terminated) || bad(status.LastTerminationState.Terminated))
}

// bounded are at most so many of all pods, failed ones before others, in the order in which they were.
func bounded(all []logSource, most int) (shown []logSource, left int) {
	if most <= 0 || len(all) <= most {
		return all, 0
	}
	places := make([]int, len(all))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		x, y := failed(all[a]), failed(all[b])
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	places = places[:most]
	slices.Sort(places)
	for _, i := range places {
		shown = append(shown, all[i])
	}
	return shown, len(all) - most
}

// request is what is asked of the node for a source.
func (l *logs) request(s logSource) *corev1.PodLogOptions {
	o := &corev1.PodLogOptions{Container: s.container, Previous: l.Previous, Timestamps: true, TailLines: l.Tail}
	if l.Since > 0 {
		o.SinceSeconds = new(max(int64(l.Since.Round(time.Second)/time.Second), 1))
	}
	return o
}

// Ranks are the ranks that were chosen; none are all.
type Ranks struct {
	numbers []span
	names   []string
}

type span struct{ from, to int }

// one reports whether a single pod was chosen.
func (r Ranks) one() bool {
	return len(r.numbers)+len(r.names) == 1 && (len(r.names) == 1 || r.numbers[0].from == r.numbers[0].to)
}

// All reports whether none was chosen.
func (r Ranks) All() bool { return len(r.numbers)+len(r.names) == 0 }

// ParseRanks reads ranks such as "0", "0,4..7", "worker-1" or "all".
func ParseRanks(text string) (Ranks, error) {
	var r Ranks
	if text == "" || text == "all" {
		return r, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "..")
		if !ranged {
			if a, b, dashed := strings.Cut(part, "-"); dashed && digits(a) && digits(b) {
				from, to, ranged = a, b, true
			}
		}
		if !ranged {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		role, number, named := cutLast(part, "-")
		switch {
		case err == nil && err2 == nil && first >= 0 && first <= last:
			r.numbers = append(r.numbers, span{first, last})
		case !ranged && named && role != "" && digits(number):
			r.names = append(r.names, part)
		default:
			return Ranks{}, fmt.Errorf(
				"--rank %s: use numbers and ranges such as 0 or 0..3, names such as worker-1, or all",
				text,
			)
		}
	}
	return r, nil
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func cutLast(text, at string) (before, after string, found bool) {
	i := strings.LastIndex(text, at)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(at):], true
}

// wants reports whether a member was chosen. Numbers count in the job, or in the role if one
// was chosen.
func (r Ranks) wants(m *why.Member, inRole bool) bool { //nolint:revive // a fact
	if r.All() {
		return true
	}
	n := m.Rank
	if inRole {
		n = m.Index
	}
	return slices.ContainsFunc(r.numbers, func(s span) bool { return s.from <= n && n <= s.to }) ||
		slices.Contains(r.names, Label(m))
}

// Choose are the members of a role and of some ranks. The error says which roles there are if
// none is meant.
func Choose(members []why.Member, role string, ranks Ranks) ([]why.Member, error) {
	var out []why.Member
	roles := map[string]bool{}
	for i := range members {
		m := &members[i]
		roles[m.Role] = true
		if (role == "" || strings.EqualFold(m.Role, role)) && ranks.wants(m, role != "") {
			out = append(out, *m)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	var names []string
	for name := range roles {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch {
	case role != "" && len(names) == 0:
		return nil, fmt.Errorf("--role %s: the pods of this job are all alike and have no roles", role)
	case role != "" && !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, role) }):
		return nil, fmt.Errorf("--role %s: its pods have the roles %s", role, strings.Join(names, ", "))
	case !ranks.All() && len(members) > 0:
		return nil, fmt.Errorf(
			"--rank: there is no such pod: there %s %s, from %s to %s",
			verb(len(members), "is", "are"),
			pods(len(members)),
			Label(&members[0]),
			Label(&members[len(members)-1]),
		)
	}
	return nil, nil
}

// Label is what a member is called in front of its lines: worker-1, or 1 where all pods are
// alike. Those of a group have that before it, as in 0/worker-1.
func Label(m *why.Member) string {
	name := strconv.Itoa(m.Index)
	if m.Role != "" {
		name = m.Role + "-" + name
	}
	for _, k := range serving.Grouped() {
		if group := m.Pod.Labels[k.GroupIndexLabel]; group != "" {
			return group + "/" + name
		}
	}
	return name
}

// pods prints a number of pods: "1 pod", "3 pods".
func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return strconv.Itoa(n) + " pods"
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
