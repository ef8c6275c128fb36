package demo

import (
	"slices"
	"strings"
	"time"
)

// What says what happened.
type What string

// What can happen to a job, a pod or a node.
const (
	Submitted What = "submitted"  // a user created the job; Who
	Queued    What = "queued"     // its Workload exists; Created
	Waits     What = "waits"      // it was refused; Reason, Message
	Admitted  What = "admitted"   // it has quota and places; Node lists them
	Evicted   What = "evicted"    // it must give its quota back; Reason, For, Message
	Released  What = "released"   // it gave its quota back
	Phase     What = "phase"      // the AppWrapper's phase changed; Reason
	PodRuns   What = "pod runs"   // Pod on Node with GPUs
	PodLeaves What = "pod leaves" // Pod is being deleted
	PodEnded  What = "pod ended"  // Pod succeeded, failed or is gone
	Retries   What = "retries"    // the AppWrapper counts another fault of its own
	Removed   What = "removed"    // the job was deleted
	Labelled  What = "labelled"   // the health label of Node changed; Reason is its value
)

// Moment is one thing that was seen to happen.
type Moment struct {
	At      time.Duration // since the scenario began
	What    What
	Job     string // NAMESPACE/NAME of the AppWrapper, "" for nodes
	Who     string
	Node    string
	Pod     string
	GPUs    int64
	Reason  string
	Message string
	For     string    // the job that an eviction makes room for
	Created time.Time // when the Workload was made, for the order of the queue
	// rev is the revision of the object that told. Watches of different kinds
	// run at different speeds; revisions tell what came first.
	rev uint64
}

// Timeline is what was seen, in the order in which it was seen.
type Timeline []Moment

// jobs are the names of submitted jobs with the given prefix, e.g.
// "blue/short-", in the order of submission.
func (t Timeline) jobs(prefix string) []string {
	var names []string
	for _, m := range t {
		if m.What == Submitted && strings.HasPrefix(m.Job, prefix) {
			names = append(names, m.Job)
		}
	}
	return names
}

// first finds the first moment of a kind in the life of a job.
func (t Timeline) first(job string, what What) (Moment, bool) {
	i := slices.IndexFunc(t, func(m Moment) bool { return m.Job == job && m.What == what })
	if i < 0 {
		return Moment{}, false
	}
	return t[i], true
}

// all finds every moment of a kind.
func (t Timeline) all(what What) Timeline {
	return slices.DeleteFunc(slices.Clone(t), func(m Moment) bool { return m.What != what })
}

// after is the part of the timeline that follows m, m excluded.
func (t Timeline) after(m Moment) Timeline {
	return t[slices.Index(t, m)+1:]
}

// upTo is the timeline until m, m included.
func (t Timeline) upTo(m Moment) Timeline {
	return t[:slices.Index(t, m)+1]
}

// standing is where a job stands at the end of a timeline.
type standing struct {
	job      string
	admitted bool
	evicting bool
	reason   string // of the last refusal, while it waits
	message  string
	phase    string
	removed  bool
}

// waiting reports whether the job waits and says why.
func (s standing) waiting() bool { return !s.admitted && s.reason != "" && s.phase != succeeded }

const succeeded = "Succeeded"

// stand returns where a job stands at the end of t.
func (t Timeline) stand(job string) standing {
	s := standing{job: job}
	for _, m := range t {
		if m.Job != job {
			continue
		}
		switch m.What {
		case Admitted:
			s.admitted, s.evicting, s.reason, s.message = true, false, "", ""
		case Evicted:
			s.evicting = true
		case Released:
			s.admitted, s.evicting = false, false
		case Waits:
			s.reason, s.message = m.Reason, m.Message
		case Phase:
			s.phase = m.Reason
		case Removed:
			s.removed = true
		case Submitted, Queued, PodRuns, PodLeaves, PodEnded, Retries, Labelled:
		}
	}
	return s
}

// pods returns the running pods of a job by name, with their nodes, at the end
// of t.
func (t Timeline) pods(job string) map[string]string {
	pods := map[string]string{}
	for _, m := range t {
		if m.Job != job {
			continue
		}
		switch m.What {
		case PodRuns:
			pods[m.Pod] = m.Node
		case PodEnded:
			delete(pods, m.Pod)
		default:
		}
	}
	return pods
}

// mostGPUs is the largest number of GPUs that running pods used at one time.
func (t Timeline) mostGPUs() int64 {
	var now, most int64
	running := map[string]int64{}
	for _, m := range t {
		switch m.What {
		case PodRuns:
			running[m.Pod] = m.GPUs
			now += m.GPUs
		case PodEnded:
			now -= running[m.Pod]
			delete(running, m.Pod)
		default:
		}
		most = max(most, now)
	}
	return most
}

// mostAdmitted is the largest number of jobs that had quota at one time.
func (t Timeline) mostAdmitted() int {
	have := map[string]bool{}
	most := 0
	for _, m := range t {
		switch m.What {
		case Admitted:
			have[m.Job] = true
		case Released, Removed:
			delete(have, m.Job)
		case Phase:
			if m.Reason == succeeded {
				delete(have, m.Job)
			}
		default:
		}
		most = max(most, len(have))
	}
	return most
}

// running counts those of the jobs of which n pods run at the end of t.
func (t Timeline) running(jobs []string, n int) int {
	count := 0
	for _, j := range jobs {
		if len(t.pods(j)) == n {
			count++
		}
	}
	return count
}
