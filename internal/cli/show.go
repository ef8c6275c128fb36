package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
	"github.com/mlbatch/mlbatch/internal/words"
)

// mostLog is how many bytes of a log are read at most.
const mostLog = 64 << 10

// PodLogs reads logs through the API server, with the user's own rights.
func PodLogs(c corev1client.PodsGetter) why.LogTail {
	return func(ctx context.Context, namespace, pod, container string, lines int64) (string, error) {
		from, err := c.Pods(namespace).
			GetLogs(pod, &corev1.PodLogOptions{Container: container, TailLines: &lines}).
			Stream(ctx)
		if err != nil {
			return "", err
		}
		defer from.Close()
		text, err := io.ReadAll(io.LimitReader(from, mostLog))
		return string(text), err
	}
}

// shownPods is how many pods are printed.
const shownPods = 20

// PrintDetails prints the details of a job for people; in says how times are told.
func PrintDetails(w io.Writer, s *why.Details, now time.Time, in *time.Location, l Layout) error {
	width := cmp.Or(l.Width, Width)
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			const column = 14
			b.WriteString(hanging(fmt.Sprintf("%-*s", column, name+":"), value, width))
		}
	}
	fmt.Fprintf(&b, "%s %s/%s\n\n", s.Kind, s.Namespace, s.Name)
	field("State", stateInFull(s, now))
	queue := s.Queue
	if s.ClusterQueue != "" {
		queue += " (ClusterQueue " + s.ClusterQueue + flavorsInFull(s.Flavors) + ")"
	}
	field("Queue", queue)
	field("User", s.User)
	if s.Priority != nil {
		text := strconv.Itoa(int(*s.Priority))
		if s.PriorityClass != "" {
			text += " (" + s.PriorityClass + ")"
		}
		field("Priority", text)
	}
	field("Workload", s.Workload)
	field("Evicted", s.Evicted)
	if s.Eviction != nil {
		field("Stopped", s.Eviction.Message)
		field("Rule", s.Eviction.Rule)
	}
	if s.Lost != nil {
		field("Lost", strings.TrimPrefix(why.LostText(*s.Lost), ", and had run for "))
	}
	if s.Resets > 0 {
		field("Reset", words.Times(s.Resets)+", pods were made anew within its quota")
	}
	if s.RequeueAt != nil {
		field("Comes back", "to its queue in "+duration.HumanDuration(s.RequeueAt.Sub(now)))
	}
	if s.Retries != nil {
		field("Retries", why.RetriesText(s.Retries))
	}
	if a := s.Attempts; a != nil && a.ETTR != nil {
		field("ETTR", ettrInFull(a))
	}
	if s.Hangs {
		field("Hangs", s.Progress)
	} else {
		field("Progress", s.Progress)
	}
	if s.Failure != nil {
		failureText(&b, s.Failure, width)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return printTables(w, s, in, l)
}

// hanging is a text in lines of a width, the first after something and the others below it.
func hanging(first, text string, width int) string {
	lines := strings.ReplaceAll(
		Wrap(text, max(width-len(first), shortest), ""),
		"\n",
		"\n"+strings.Repeat(" ", len(first)),
	)
	return first + lines + "\n"
}

// stateInFull is the state, since when, and why.
func stateInFull(s *why.Details, now time.Time) string {
	text := string(s.State)
	if s.Since != nil {
		text += " for " + duration.HumanDuration(max(now.Sub(*s.Since), 0).Round(time.Second))
		if s.State == view.Succeeded || s.State == view.Failed {
			text = string(
				s.State,
			) + " " + duration.HumanDuration(
				max(now.Sub(*s.Since), 0).Round(time.Second),
			) + " ago"
		}
	}
	switch s.State {
	case view.Running, view.Succeeded:
		return text
	default:
		if s.Reason != "" && s.Reason != string(s.State) {
			text += ", " + s.Reason
		}
		return strings.TrimSuffix(text+": "+why.Plain(settled(s.Message)), ": ")
	}
}

func flavorsInFull(flavors []string) string {
	if len(flavors) == 0 {
		return ""
	}
	return ", flavor " + strings.Join(flavors, ", ")
}

// failureText says how the pod failed that failed first.
func failureText(b *strings.Builder, f *why.Failure, width int) {
	who := "pod " + f.Pod
	if f.Rank != nil {
		who = fmt.Sprintf("%s %d (rank %d), pod %s", cmp.Or(f.Role, "pod"), *f.Index, *f.Rank, f.Pod)
	}
	if f.Node != "" {
		who += " on " + f.Node
	}
	b.WriteString("\n" + Wrap("First to fail: "+who+": "+strings.TrimSuffix(f.Why, ".")+".", width, "") + "\n")
	switch {
	case len(f.Log) > 0:
		b.WriteString("The end of its log:\n")
		for _, line := range f.Log {
			b.WriteString("  | " + words.Harmless(line) + "\n")
		}
	case f.NoLog != "":
		b.WriteString(Wrap(words.Sentence(f.NoLog), width, "") + "\n")
	}
}

// printTables prints roles, pods and the timeline.
func printTables(w io.Writer, s *why.Details, in *time.Location, l Layout) error {
	if len(s.Roles) > 0 {
		fmt.Fprintln(w)
		if err := PrintTable(w, roleColumns(), s.Roles, l); err != nil {
			return err
		}
	}
	if err := printAttempts(w, s.Attempts, in, l); err != nil {
		return err
	}
	if len(s.Pods) > 0 {
		fmt.Fprintln(w)
		shown := s.Pods
		if !l.Wide {
			shown = shown[:min(len(shown), shownPods)]
		}
		if err := PrintTable(w, podColumns(), shown, l); err != nil {
			return err
		}
		if more := s.Pods[len(shown):]; len(more) > 0 {
			fmt.Fprintf(w, "%s (-o wide lists all): %s\n", words.Count(len(more), "more pod"), sumOfPods(more))
		}
	}
	if len(s.Timeline) == 0 {
		return nil
	}
	width := cmp.Or(l.Width, Width)
	fmt.Fprintln(w)
	for i := range s.Timeline {
		m := &s.Timeline[i]
		if _, err := io.WriteString(w, hanging(clockTime(m.At, in)+"  ", m.Text, width)); err != nil {
			return err
		}
	}
	if len(s.Unread) > 0 {
		fmt.Fprintf(w, "\nYou may not read %s: what they tell is missing.\n", strings.Join(s.Unread, ", "))
	}
	return nil
}

// sumOfPods counts pods by state.
func sumOfPods(rows []why.Pod) string {
	n := map[string]int{}
	for i := range rows {
		n[rows[i].State]++
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[state], state))
	}
	return strings.Join(parts, ", ")
}

func roleColumns() []Column[why.Role] {
	request := func(title, name string) Column[why.Role] {
		return AmountColumn(
			Column[why.Role]{Title: title, Rank: 3},
			func(why.Role) string { return name },
			func(r why.Role) string { return r.Requests[name] },
		)
	}
	return []Column[why.Role]{
		{Title: "ROLE", Text: func(r why.Role) string { return r.Name }},
		{Title: "PODS", Text: func(r why.Role) string { return strconv.Itoa(r.Pods) }},
		{Title: "RUNNING", Text: func(r why.Role) string { return strconv.Itoa(r.Running) }},
		{Title: "ENDED", Rank: 2, Text: func(r why.Role) string { return strconv.Itoa(r.Ended) }},
		{Title: "GPUS EACH", Text: func(r why.Role) string { return devices(r.GPUs, r.Slices) }},
		request("CPU", string(corev1.ResourceCPU)),
		request("MEMORY", string(corev1.ResourceMemory)),
		{Title: "FLAVOR", Rank: 1, Text: func(r why.Role) string { return strings.Join(r.Flavors, ",") }},
	}
}

func podColumns() []Column[why.Pod] {
	return []Column[why.Pod]{
		{Title: "RANK", Text: func(r why.Pod) string { return strconv.Itoa(r.Rank) }},
		{
			Title: "ROLE",
			Rank:  1,
			Text:  func(r why.Pod) string { return strings.TrimSpace(r.Role + " " + strconv.Itoa(r.Index)) },
		},
		{Title: "POD", Text: func(r why.Pod) string { return r.Name }},
		{Title: "NODE", Rank: 2, Text: func(r why.Pod) string { return r.Node }},
		{Title: "GPUS", Rank: 4, Text: func(r why.Pod) string { return devices(r.GPUs, r.Slices) }},
		{Title: "RESTARTS", Rank: 5, Text: func(r why.Pod) string { return strconv.Itoa(int(r.Restarts)) }},
		{Title: "STATE", State: true, Text: func(r why.Pod) string {
			if r.Why == "" {
				return r.State
			}
			return r.State + ": " + r.Why
		}},
	}
}
