package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/view"
)

// PastRow is a job that ended, in one line. Its fields are what scripts read.
type PastRow struct {
	Namespace string    `json:"namespace"`
	Kind      view.Kind `json:"kind"`
	Name      string    `json:"name"`
	// Queue is the LocalQueue that it was submitted to, ClusterQueue the one whose quota it had.
	Queue        string `json:"queue,omitempty"`
	ClusterQueue string `json:"clusterQueue,omitempty"`
	Flavor       string `json:"flavor,omitempty"`
	User         string `json:"user,omitempty"`
	Priority     *int32 `json:"priority,omitempty"`
	// State is Succeeded, Failed or Cancelled; Reason its code, Message a sentence.
	State   history.JobState `json:"state"`
	Reason  string           `json:"reason,omitempty"`
	Message string           `json:"message,omitempty"`
	// ExitCode is that of the pod that failed first, or 0 of a job that succeeded; nil if nobody
	// saw one.
	ExitCode   *int32    `json:"exitCode,omitempty"`
	FailedPod  string    `json:"failedPod,omitempty"`
	FailedNode string    `json:"failedNode,omitempty"`
	Submitted  time.Time `json:"submitted"`
	// Started is when it was admitted last, nil if it never was.
	Started *time.Time `json:"started,omitempty"`
	Ended   time.Time  `json:"ended"`
	// WaitedSeconds and RanSeconds are how long it was without quota and with it, in all of its
	// runs.
	WaitedSeconds int64 `json:"waitedSeconds"`
	RanSeconds    int64 `json:"ranSeconds"`
	Pods          int32 `json:"pods"`
	GPUs          int64 `json:"gpus"`
	// Slices is how many parts of GPUs it had, by their sort; GPU-hours are without.
	Slices    map[string]int64 `json:"slices,omitempty"`
	GPUHours  float64          `json:"gpuHours"`
	Evictions int32            `json:"evictions"`
	Restarts  int32            `json:"restarts"`

	uid types.UID
}

// pageSize is how many JobHistories are asked for at once.
const pageSize = 50

// TakePast reads which jobs ended since a moment, of a namespace, or of all if it is ""; the last
// to end comes first.
func TakePast(ctx context.Context, c client.Reader, namespace string, since time.Time) ([]PastRow, error) {
	var out []PastRow
	seen := map[types.UID]bool{}
	options := &client.ListOptions{Namespace: namespace, Limit: pageSize}
	for {
		var list history.JobHistoryList
		if err := c.List(ctx, &list, options); err != nil {
			return nil, pastUnread(err, namespace)
		}
		for i := range list.Items {
			page := &list.Items[i]
			for k := range page.Records {
				r := &page.Records[k]
				if seen[r.UID] || r.Ended.Time.Before(since) {
					continue
				}
				seen[r.UID] = true
				out = append(out, pastRow(page.Namespace, r))
			}
		}
		if list.Continue == "" {
			break
		}
		options.Continue = list.Continue
	}
	slices.SortFunc(out, func(a, b PastRow) int {
		return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.uid, b.uid))
	})
	return out, nil
}

// pastUnread says what to do where histories cannot be read.
func pastUnread(err error, namespace string) error {
	switch {
	case apierrors.IsForbidden(err) && namespace == "":
		return fmt.Errorf("you may not read the histories of all namespaces: -n NAMESPACE lists those of one: %w", err)
	case apimeta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return fmt.Errorf("this cluster keeps no history of jobs: its mlbatch is older, see mlbatch version: %w", err)
	}
	return fmt.Errorf("read the history of jobs: %w", err)
}

func pastRow(namespace string, r *history.JobRecord) PastRow {
	row := PastRow{
		Namespace: namespace, Kind: view.Kind(r.Kind), Name: r.Name, Queue: r.Queue, ClusterQueue: r.ClusterQueue, Flavor: r.Flavor, User: r.User, Priority: r.Priority,
		State: r.State, Reason: r.Reason, Message: r.Message, ExitCode: r.ExitCode, FailedPod: r.FailedPod, FailedNode: r.FailedNode,
		Submitted: r.Submitted.UTC(), Ended: r.Ended.UTC(), RanSeconds: r.RanSeconds,
		Pods: r.Pods, GPUs: r.GPUs, Slices: r.Slices, Evictions: r.Evictions, Restarts: r.Restarts, uid: r.UID,
	}
	if r.Started != nil {
		row.Started = new(r.Started.UTC())
	}
	if r.State == history.Succeeded {
		row.ExitCode = new(int32(0)) // records tell codes of failures only
	}
	row.WaitedSeconds = max(0, int64(r.Ended.Sub(r.Submitted.Time)/time.Second)-r.RanSeconds)
	row.GPUHours = float64(r.GPUs) * (time.Duration(r.RanSeconds) * time.Second).Hours()
	return row
}

// PastColumns are those of a list of jobs that ended; in says how times are told.
func PastColumns(in *time.Location, namespaces bool) []Column[PastRow] { //nolint:revive // whether there are several
	seconds := func(of func(PastRow) int64) (func(PastRow) string, func(a, b PastRow) int) {
		return func(r PastRow) string { return duration.HumanDuration(time.Duration(of(r)) * time.Second) },
			func(a, b PastRow) int { return cmp.Compare(of(a), of(b)) }
	}
	number := func(title string, rank int, wide bool, of func(PastRow) int64) Column[PastRow] {
		return Column[PastRow]{
			Title: title, Rank: rank, Wide: wide, Text: func(r PastRow) string { return strconv.FormatInt(of(r), 10) },
			Less: func(a, b PastRow) int { return cmp.Compare(of(a), of(b)) },
		}
	}
	gpus := number("GPUS", 3, false, func(r PastRow) int64 { return r.GPUs })
	gpus.Text = func(r PastRow) string { return devices(r.GPUs, r.Slices) }
	moment := func(t time.Time) string { return clockTime(t, in) }
	waited, lessWaited := seconds(func(r PastRow) int64 { return r.WaitedSeconds })
	ran, lessRan := seconds(func(r PastRow) int64 { return r.RanSeconds })
	columns := []Column[PastRow]{
		{Title: "NAME", Text: func(r PastRow) string { return r.Name }},
		{Title: "KIND", Rank: 8, Text: func(r PastRow) string { return string(r.Kind) }},
		{Title: "QUEUE", Rank: 10, Text: func(r PastRow) string { return r.Queue }},
		{Title: "USER", Rank: 5, Text: func(r PastRow) string { return r.User }},
		{Title: "STATE", State: true, Text: func(r PastRow) string { return string(r.State) }},
		{Title: "EXIT", Rank: 2, Text: exitOf},
		{Title: "ENDED", Rank: 4, Text: func(r PastRow) string { return moment(r.Ended) }, Less: func(a, b PastRow) int { return a.Ended.Compare(b.Ended) }},
		{Title: "SUBMITTED", Wide: true, Text: func(r PastRow) string { return moment(r.Submitted) }, Less: func(a, b PastRow) int { return a.Submitted.Compare(b.Submitted) }},
		{Title: "WAITED", Rank: 7, Text: waited, Less: lessWaited},
		{Title: "RAN", Rank: 1, Text: ran, Less: lessRan},
		gpus,
		gpuHours(6, func(r PastRow) float64 { return r.GPUHours }),
		number("EVICTIONS", 9, false, func(r PastRow) int64 { return int64(r.Evictions) }),
		number("RESTARTS", 9, false, func(r PastRow) int64 { return int64(r.Restarts) }),
		{Title: "CLUSTERQUEUE", Wide: true, Text: func(r PastRow) string { return r.ClusterQueue }},
		{Title: "FLAVOR", Wide: true, Text: func(r PastRow) string { return r.Flavor }},
		{Title: "WHY", Text: whyEnded},
	}
	if namespaces {
		columns = append([]Column[PastRow]{{Title: "NAMESPACE", Text: func(r PastRow) string { return r.Namespace }}}, columns...)
	}
	return columns
}

func gpuHours[T any](rank int, of func(T) float64) Column[T] {
	return Column[T]{
		Title: "GPU-HOURS", Rank: rank, Text: func(r T) string { return strconv.FormatFloat(of(r), 'f', 1, 64) },
		Less: func(a, b T) int { return cmp.Compare(of(a), of(b)) },
	}
}

func exitOf(r PastRow) string {
	if r.ExitCode == nil {
		return ""
	}
	return strconv.Itoa(int(*r.ExitCode))
}

// whyEnded says why a job ended that did not end well.
func whyEnded(r PastRow) string {
	switch {
	case r.State == history.Succeeded:
		return ""
	case r.Message == "" || r.State == history.Cancelled:
		return r.Reason
	case r.FailedPod != "" && r.FailedNode != "":
		return r.FailedPod + " on " + r.FailedNode + ": " + r.Message
	}
	return r.Message
}

// PastSum sums up jobs that ended.
type PastSum struct {
	// By is what the jobs have in common: month, user, queue, namespace or team; "" sums up jobs of
	// which it is not known. Name is all of it.
	By        map[string]string `json:"by"`
	Name      string            `json:"name"`
	Jobs      int               `json:"jobs"`
	Succeeded int               `json:"succeeded"`
	Failed    int               `json:"failed"`
	Cancelled int               `json:"cancelled"`
	// GPUHours are those of all, LostGPUHours those of jobs that failed.
	GPUHours     float64 `json:"gpuHours"`
	LostGPUHours float64 `json:"lostGPUHours"`
	// WaitedSeconds is how long one waited on average.
	WaitedSeconds int64 `json:"waitedSeconds"`
	Evictions     int32 `json:"evictions"`
}

// ByMonth sums up jobs by the month in which they ended.
const ByMonth = "month"

// pastKeys are what jobs can be summed up by; months are those of in.
func pastKeys(in *time.Location) map[string]func(*PastRow) string {
	namespace := func(r *PastRow) string { return r.Namespace }
	return map[string]func(*PastRow) string{
		ByMonth:     func(r *PastRow) string { return r.Ended.In(in).Format("2006-01") },
		"user":      func(r *PastRow) string { return r.User },
		"queue":     func(r *PastRow) string { return cmp.Or(r.ClusterQueue, r.Queue) },
		"namespace": namespace,
		"team":      namespace, // a team is a namespace
	}
}

// PastSums are what SumPast takes.
func PastSums() []string { return []string{ByMonth, "team", "user", "queue", "namespace"} }

// SumPast sums up jobs by months (of in), users, queues (ClusterQueues), namespaces or teams, or by
// several of these: the last month comes first, and in it who had most GPU-hours.
func SumPast(rows []PastRow, in *time.Location, by ...string) []PastSum {
	keys := pastKeys(in)
	at := map[string]int{}
	var out []PastSum
	for i := range rows {
		r := &rows[i]
		has, names := map[string]string{}, make([]string, len(by))
		for n, key := range by {
			names[n] = keys[key](r)
			has[key] = names[n]
		}
		key := strings.Join(names, "\x00") // names of users may have blanks
		if _, there := at[key]; !there {
			at[key] = len(out)
			out = append(out, PastSum{By: has, Name: strings.Join(names, " ")})
		}
		s := &out[at[key]]
		s.Jobs, s.GPUHours, s.WaitedSeconds, s.Evictions = s.Jobs+1, s.GPUHours+r.GPUHours, s.WaitedSeconds+r.WaitedSeconds, s.Evictions+r.Evictions
		switch r.State {
		case history.Succeeded:
			s.Succeeded++
		case history.Failed:
			s.Failed++
			s.LostGPUHours += r.GPUHours
		case history.Cancelled:
			s.Cancelled++
		}
	}
	for i := range out {
		out[i].WaitedSeconds /= int64(out[i].Jobs)
	}
	slices.SortFunc(out, func(a, b PastSum) int {
		return cmp.Or(cmp.Compare(b.By[ByMonth], a.By[ByMonth]), cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// PastSumColumns are those of sums.
func PastSumColumns(by ...string) []Column[PastSum] {
	number := func(title string, rank int, of func(PastSum) int) Column[PastSum] {
		return Column[PastSum]{
			Title: title, Rank: rank, Text: func(s PastSum) string { return strconv.Itoa(of(s)) },
			Less: func(a, b PastSum) int { return cmp.Compare(of(a), of(b)) },
		}
	}
	lost := gpuHours(2, func(s PastSum) float64 { return s.LostGPUHours })
	lost.Title = "LOST"
	var columns []Column[PastSum]
	for _, key := range by {
		columns = append(columns, Column[PastSum]{Title: strings.ToUpper(key), Text: func(s PastSum) string { return s.By[key] }})
	}
	return append(columns,
		number("JOBS", 0, func(s PastSum) int { return s.Jobs }),
		number("SUCCEEDED", 3, func(s PastSum) int { return s.Succeeded }),
		number("FAILED", 1, func(s PastSum) int { return s.Failed }),
		number("CANCELLED", 5, func(s PastSum) int { return s.Cancelled }),
		gpuHours(0, func(s PastSum) float64 { return s.GPUHours }),
		lost,
		number("EVICTIONS", 6, func(s PastSum) int { return int(s.Evictions) }),
		Column[PastSum]{
			Title: "WAITED", Rank: 4, Text: func(s PastSum) string { return duration.HumanDuration(time.Duration(s.WaitedSeconds) * time.Second) },
			Less: func(a, b PastSum) int { return cmp.Compare(a.WaitedSeconds, b.WaitedSeconds) },
		},
	)
}
