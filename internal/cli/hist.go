package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/view"
)

// PastColumns are those of a list of jobs that ended; in says how times are told.
func PastColumns( //nolint:revive // whether there are several
	in *time.Location,
	namespaces bool,
) []Column[view.PastJob] {
	seconds := func(of func(view.PastJob) int64) (func(view.PastJob) string, func(a, b view.PastJob) int) {
		return func(r view.PastJob) string { return duration.HumanDuration(time.Duration(of(r)) * time.Second) },
			func(a, b view.PastJob) int { return cmp.Compare(of(a), of(b)) }
	}
	gpus := NumberColumn(
		Column[view.PastJob]{Title: "GPUS", Rank: 3},
		func(r view.PastJob) int64 { return r.GPUs },
	)
	gpus.Text = func(r view.PastJob) string { return devices(r.GPUs, r.Slices) }
	moment := func(t time.Time) string { return clockTime(t, in) }
	waited, lessWaited := seconds(func(r view.PastJob) int64 { return r.WaitedSeconds })
	ran, lessRan := seconds(func(r view.PastJob) int64 { return r.RanSeconds })
	columns := []Column[view.PastJob]{
		{Title: "NAME", Text: func(r view.PastJob) string { return r.Name }},
		{Title: "KIND", Rank: 8, Text: func(r view.PastJob) string { return string(r.Kind) }},
		{Title: "QUEUE", Rank: 10, Text: func(r view.PastJob) string { return r.Queue }},
		{Title: "USER", Rank: 5, Text: func(r view.PastJob) string { return r.User }},
		{Title: "STATE", State: true, Text: func(r view.PastJob) string { return string(r.State) }},
		{Title: "EXIT", Rank: 2, Text: exitOf},
		{
			Title: "ENDED",
			Rank:  4,
			Text:  func(r view.PastJob) string { return moment(r.Ended) },
			Less:  func(a, b view.PastJob) int { return a.Ended.Compare(b.Ended) },
		},
		{
			Title: "SUBMITTED",
			Wide:  true,
			Text:  func(r view.PastJob) string { return moment(r.Submitted) },
			Less:  func(a, b view.PastJob) int { return a.Submitted.Compare(b.Submitted) },
		},
		{Title: "WAITED", Rank: 7, Text: waited, Less: lessWaited},
		{Title: "RAN", Rank: 1, Text: ran, Less: lessRan},
		gpus,
		gpuHours(6, func(r view.PastJob) float64 { return r.GPUHours }),
		NumberColumn(
			Column[view.PastJob]{Title: "EVICTIONS", Rank: 9},
			func(r view.PastJob) int32 { return r.Evictions },
		),
		NumberColumn(
			Column[view.PastJob]{Title: "RESTARTS", Rank: 9},
			func(r view.PastJob) int32 { return r.Restarts },
		),
		{
			Title: "ETTR",
			Rank:  11,
			Text:  func(r view.PastJob) string { return ratio(r.ETTR) },
			Less:  func(a, b view.PastJob) int { return cmp.Compare(ratioOrNone(a.ETTR), ratioOrNone(b.ETTR)) },
		},
		{Title: "ATTEMPTS", Wide: true, Text: attemptsOf},
		{Title: "CLUSTERQUEUE", Wide: true, Text: func(r view.PastJob) string { return r.ClusterQueue }},
		{Title: "FLAVOR", Wide: true, Text: func(r view.PastJob) string { return r.Flavor }},
		{Title: "WHY", Text: whyEnded},
	}
	if namespaces {
		columns = append(
			[]Column[view.PastJob]{{Title: "NAMESPACE", Text: func(r view.PastJob) string { return r.Namespace }}},
			columns...)
	}
	return columns
}

func gpuHours[T any](rank int, of func(T) float64) Column[T] {
	return Column[T]{
		Title: "GPU-HOURS", Rank: rank, Text: func(r T) string { return strconv.FormatFloat(of(r), 'f', 1, 64) },
		Less: func(a, b T) int { return cmp.Compare(of(a), of(b)) },
	}
}

func exitOf(r view.PastJob) string {
	if r.ExitCode == nil {
		return ""
	}
	return strconv.Itoa(int(*r.ExitCode))
}

// whyEnded says why a job ended that did not end well.
func whyEnded(r view.PastJob) string {
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
	// GPUHours are those of all, LostGPUHours those of attempts that were stopped or failed, since their
	// last checkpoints.
	GPUHours     float64 `json:"gpuHours"`
	LostGPUHours float64 `json:"lostGPUHours"`
	// ETTR is their effective training time ratio, each job by the time that it took; nil if none ran.
	ETTR *float64 `json:"ettr,omitempty"`
	// WaitedSeconds is how long one waited on average.
	WaitedSeconds int64 `json:"waitedSeconds"`
	Evictions     int32 `json:"evictions"`
}

// ByMonth sums up jobs by the month in which they ended.
const ByMonth = "month"

// pastKeys are what jobs can be summed up by; months are those of in.
func pastKeys(in *time.Location) map[string]func(*view.PastJob) string {
	namespace := func(r *view.PastJob) string { return r.Namespace }
	return map[string]func(*view.PastJob) string{
		ByMonth:     func(r *view.PastJob) string { return r.Ended.In(in).Format("2006-01") },
		"user":      func(r *view.PastJob) string { return r.User },
		"queue":     func(r *view.PastJob) string { return cmp.Or(r.ClusterQueue, r.Queue) },
		"namespace": namespace,
		"team":      namespace, // a team is a namespace
	}
}

// PastSums are what SumPast takes.
func PastSums() []string { return []string{ByMonth, "team", "user", "queue", "namespace"} }

// SumPast sums up jobs by months (of in), users, queues (ClusterQueues), namespaces or teams, or by
// several of these: the last month comes first, and in it who had most GPU-hours.
func SumPast(rows []view.PastJob, in *time.Location, by ...string) []PastSum {
	keys := pastKeys(in)
	at := map[string]int{}
	type times struct{ productive, wall float64 } // seconds
	var took []times
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
			took = append(took, times{})
		}
		s := &out[at[key]]
		if t := r.AttemptsTotal; t != nil {
			s.LostGPUHours += (time.Duration(t.LostGPUSeconds) * time.Second).Hours()
			if t.Start != nil {
				took[at[key]].productive += float64(t.ProductiveSeconds)
				took[at[key]].wall += r.Ended.Sub(t.Start.Time).Seconds()
			}
		} else if r.State == history.Failed { // an older record
			s.LostGPUHours += r.GPUHours
		}
		s.Jobs, s.GPUHours, s.WaitedSeconds, s.Evictions = s.Jobs+1, s.GPUHours+r.GPUHours, s.WaitedSeconds+r.WaitedSeconds, s.Evictions+r.Evictions
		switch r.State {
		case history.Succeeded:
			s.Succeeded++
		case history.Failed:
			s.Failed++
		case history.Cancelled:
			s.Cancelled++
		}
	}
	for i := range out {
		out[i].WaitedSeconds /= int64(out[i].Jobs)
		if took[i].wall >= 1 {
			out[i].ETTR = new(min(took[i].productive/took[i].wall, 1))
		}
	}
	slices.SortFunc(out, func(a, b PastSum) int {
		return cmp.Or(
			cmp.Compare(b.By[ByMonth], a.By[ByMonth]),
			cmp.Compare(b.GPUHours, a.GPUHours),
			cmp.Compare(b.Jobs, a.Jobs),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return out
}

// PastSumColumns are those of sums.
func PastSumColumns(by ...string) []Column[PastSum] {
	number := func(title string, rank int, of func(PastSum) int) Column[PastSum] {
		return NumberColumn(Column[PastSum]{Title: title, Rank: rank}, of)
	}
	lost := gpuHours(2, func(s PastSum) float64 { return s.LostGPUHours })
	lost.Title = "LOST"
	var columns []Column[PastSum]
	for _, key := range by {
		columns = append(
			columns,
			Column[PastSum]{Title: strings.ToUpper(key), Text: func(s PastSum) string { return s.By[key] }},
		)
	}
	return append(columns,
		number("JOBS", 0, func(s PastSum) int { return s.Jobs }),
		number("SUCCEEDED", 3, func(s PastSum) int { return s.Succeeded }),
		number("FAILED", 1, func(s PastSum) int { return s.Failed }),
		number("CANCELLED", 5, func(s PastSum) int { return s.Cancelled }),
		gpuHours(0, func(s PastSum) float64 { return s.GPUHours }),
		lost,
		Column[PastSum]{
			Title: "ETTR",
			Rank:  2,
			Text:  func(s PastSum) string { return ratio(s.ETTR) },
			Less:  func(a, b PastSum) int { return cmp.Compare(ratioOrNone(a.ETTR), ratioOrNone(b.ETTR)) },
		},
		number("EVICTIONS", 6, func(s PastSum) int { return int(s.Evictions) }),
		Column[PastSum]{
			Title: "WAITED",
			Rank:  4,
			Text:  func(s PastSum) string { return duration.HumanDuration(time.Duration(s.WaitedSeconds) * time.Second) },
			Less:  func(a, b PastSum) int { return cmp.Compare(a.WaitedSeconds, b.WaitedSeconds) },
		},
	)
}
