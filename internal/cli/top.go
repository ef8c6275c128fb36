package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/view"
)

// UseRow is who uses GPUs, in one line: a job, or all jobs of a user, a queue, a namespace or on
// a node.
type UseRow struct {
	// Name is that of the user, queue, namespace or node, or NAMESPACE/NAME of the job; "" sums
	// up jobs of which it is not known.
	Name string `json:"name"`
	// Kind, Queue, User and Nodes are those of a job.
	Kind  view.Kind `json:"kind,omitempty"`
	Queue string    `json:"queue,omitempty"`
	User  string    `json:"user,omitempty"`
	Nodes []string  `json:"nodes,omitempty"`
	// Jobs is how many have GPUs, Waiting how many wait for some.
	Jobs    int `json:"jobs"`
	Waiting int `json:"waiting"`
	// GPUs is how many they keep from others, Share which part that is of all that jobs have or,
	// of a node, of the GPUs that it offers.
	GPUs  int64   `json:"gpus"`
	Share float64 `json:"share"`
	// Slices is how many parts of GPUs they keep, by their sort; GPUs and GPU-hours are without.
	Slices map[string]int64 `json:"slices,omitempty"`
	// GPUHours is what they used since they were admitted last.
	GPUHours float64 `json:"gpuHours"`
	// Started is when a job was admitted last.
	Started *time.Time `json:"started,omitempty"`
}

// uses are what jobs can be summed up by.
func uses(by string) func(*view.Job) string {
	return map[string]func(*view.Job) string{
		"users":      func(r *view.Job) string { return r.User },
		"queues":     func(r *view.Job) string { return cmp.Or(r.ClusterQueue, r.Target, r.Queue) },
		"namespaces": func(r *view.Job) string { return r.Namespace },
	}[by]
}

// Use sums up jobs by users, queues or namespaces, or lists them one by one (jobs): who has the
// most GPUs at a moment comes first.
func Use(rows []view.Job, by string, now time.Time) []UseRow {
	var out []UseRow
	at, of := map[string]int{}, uses(by)
	for i := range rows {
		r := &rows[i]
		holds := r.Held > 0 || len(r.SlicesHeld) > 0
		waits := r.State == view.Waiting && !holds && (r.GPUs > 0 || len(r.Slices) > 0)
		if !holds && !waits || by == "jobs" && waits {
			continue
		}
		one := useOf(r, now)
		if of != nil {
			name := of(r)
			if _, there := at[name]; !there {
				at[name] = len(out)
				out = append(out, UseRow{Name: name})
			}
			sum := &out[at[name]]
			sum.Jobs, sum.Waiting, sum.GPUs, sum.GPUHours = sum.Jobs+one.Jobs, sum.Waiting+one.Waiting, sum.GPUs+one.GPUs, sum.GPUHours+one.GPUHours
			sum.Slices = view.AddSlices(sum.Slices, one.Slices)
			continue
		}
		out = append(out, one)
	}
	var all int64
	for i := range out {
		all += out[i].GPUs
	}
	for i := range out {
		if all > 0 {
			out[i].Share = float64(out[i].GPUs) / float64(all)
		}
	}
	sortUse(out)
	return out
}

// useOf is what one job uses.
func useOf(r *view.Job, now time.Time) UseRow {
	out := UseRow{
		Name:    r.Namespace + "/" + r.Name,
		Kind:    r.Kind,
		Queue:   r.Queue,
		User:    r.User,
		Nodes:   r.Nodes,
		GPUs:    r.Held,
		Slices:  r.SlicesHeld,
		Started: r.Started,
	}
	if r.Held == 0 && len(r.SlicesHeld) == 0 {
		out.Waiting = 1
		return out
	}
	out.Jobs = 1
	if r.Started != nil {
		out.GPUHours = float64(r.Held) * max(now.Sub(*r.Started), 0).Hours()
	}
	return out
}

// UseOfNodes is how much of each node is used.
func UseOfNodes(nodes []view.Node, now time.Time) []UseRow {
	var out []UseRow
	for i := range nodes {
		n := &nodes[i]
		row := UseRow{Name: n.Name, Jobs: len(n.Jobs), GPUs: n.GPUs - ptr.Deref(n.Free, n.GPUs)}
		for name, all := range n.Slices {
			if used := all - n.FreeSlices[name]; n.FreeSlices != nil && used > 0 {
				row.Slices = view.AddSlices(row.Slices, map[string]int64{name: used})
			}
		}
		if n.GPUs > 0 {
			row.Share = float64(row.GPUs) / float64(n.GPUs)
		}
		if n.UsedSince != nil {
			row.GPUHours = float64(row.GPUs) * max(now.Sub(*n.UsedSince), 0).Hours()
		}
		out = append(out, row)
	}
	sortUse(out)
	return out
}

func sortUse(rows []UseRow) {
	slices.SortFunc(rows, func(a, b UseRow) int {
		return cmp.Or(
			cmp.Compare(b.GPUs, a.GPUs),
			cmp.Compare(b.GPUHours, a.GPUHours),
			cmp.Compare(view.SliceSum(b.Slices), view.SliceSum(a.Slices)),
			cmp.Compare(b.Waiting, a.Waiting),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// UseColumns are those of a list of users of GPUs of a sort: jobs, users, queues, namespaces or
// nodes.
func UseColumns(by string, now time.Time) []Column[UseRow] {
	name := Column[UseRow]{
		Title: strings.ToUpper(strings.TrimSuffix(by, "s")),
		Text:  func(r UseRow) string { return r.Name },
	}
	gpus := NumberColumn(Column[UseRow]{Title: "GPUS"}, func(r UseRow) int64 { return r.GPUs })
	gpus.Text = func(r UseRow) string { return devices(r.GPUs, r.Slices) }
	share := Column[UseRow]{
		Title: "SHARE", Rank: 2, Text: func(r UseRow) string { return fmt.Sprintf("%.0f%%", r.Share*100) },
		Less: func(a, b UseRow) int { return cmp.Compare(a.Share, b.Share) },
	}
	hours := gpuHours(1, func(r UseRow) float64 { return r.GPUHours })
	jobs := NumberColumn(Column[UseRow]{Title: "JOBS", Rank: 3}, func(r UseRow) int { return r.Jobs })
	switch by {
	case "jobs":
		return []Column[UseRow]{
			name, gpus, share, hours,
			AgeColumn(Column[UseRow]{Title: "TIME", Rank: 3}, now, func(r UseRow) *time.Time { return r.Started }),
			{Title: "KIND", Rank: 6, Text: func(r UseRow) string { return string(r.Kind) }},
			{Title: "QUEUE", Rank: 5, Text: func(r UseRow) string { return r.Queue }},
			{Title: "USER", Rank: 4, Text: func(r UseRow) string { return r.User }},
			{Title: "NODES", Text: func(r UseRow) string { return strings.Join(r.Nodes, ",") }},
		}
	case "nodes":
		return []Column[UseRow]{name, gpus, share, hours, jobs}
	}
	return []Column[UseRow]{
		name,
		gpus,
		share,
		hours,
		jobs,
		NumberColumn(Column[UseRow]{Title: "WAITING", Rank: 4}, func(r UseRow) int { return r.Waiting }),
	}
}
