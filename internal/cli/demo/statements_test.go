package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// story reads a timeline: on each line seconds, a job or node, and what
// happens to it. "holds" stands for being submitted, queued, admitted and
// running its pods, "holds-off" for being submitted, queued and refused.
func story(t *testing.T, text string) Timeline {
	t.Helper()
	var line Timeline
	queued := 0
	for row := range strings.Lines(text) {
		f := strings.Fields(row)
		if len(f) == 0 {
			continue
		}
		var seconds float64
		if _, err := fmt.Sscan(f[0], &seconds); err != nil || len(f) < 3 {
			t.Fatalf("cannot read %q", row)
		}
		at, job, args := time.Duration(seconds*float64(time.Second)), f[1], f[3:]
		add := func(m Moment) {
			m.At = at
			m.rev = uint64(len(line))
			if m.What != Labelled {
				m.Job = job
			}
			line = append(line, m)
		}
		submit := func() {
			queued++
			add(Moment{What: Submitted, Who: "alice"})
			add(Moment{What: Queued, Created: time.Unix(int64(queued), 0)})
		}
		start := func(nodes []string) {
			add(Moment{What: Admitted, Node: strings.Join(nodes, " ")})
			runPods(add, job, "a", nodes)
		}
		switch f[2] {
		case "holds":
			submit()
			start(args)
		case "holds-off":
			submit()
			add(Moment{What: Waits, Reason: "WaitingForQuota", Message: "no quota"})
		case "submitted":
			submit()
		case "waits":
			add(Moment{What: Waits, Reason: "WaitingForQuota", Message: strings.Join(args, " ")})
		case "starts":
			start(args)
		case "admitted":
			add(Moment{What: Admitted})
		case "evicted": // REASON FOR
			add(Moment{What: Evicted, Reason: args[0], For: args[1]})
		case "ends":
			for pod := range line.pods(job) {
				add(Moment{What: PodEnded, Pod: pod})
			}
		case "released":
			add(Moment{What: Released})
			add(Moment{What: Waits, Reason: "WaitingForQuota", Message: "no quota"})
		case "succeeds":
			for pod := range line.pods(job) {
				add(Moment{What: PodEnded, Pod: pod})
			}
			add(Moment{What: Phase, Reason: succeeded})
		case "leaves":
			for pod, node := range line.pods(job) {
				add(Moment{What: PodLeaves, Pod: pod, Node: node})
			}
		case "reruns":
			runPods(add, job, "b", args)
		case "retries":
			add(Moment{What: Retries, Reason: "1"})
		case "label":
			add(Moment{What: Labelled, Node: job, Reason: strings.Join(args, "")})
		default:
			t.Fatalf("cannot read %q", row)
		}
	}
	return line
}

// runPods runs two pods of 4 GPUs on each node.
func runPods(add func(Moment), job, generation string, nodes []string) {
	for i, n := range nodes {
		for j := range 2 {
			add(Moment{What: PodRuns, Pod: fmt.Sprintf("%s-%s%d", job, generation, 2*i+j), Node: n, GPUs: 4})
		}
	}
}

const goodQueueing = `
	0.1 blue/short-1 holds n0
	0.2 blue/short-2 holds n1
	0.3 blue/short-3 holds n2
	0.4 blue/short-4 holds-off
	0.5 blue/short-5 holds-off
	0.6 blue/short-6 holds-off
	0.7 blue/short-7 holds-off
	3.0 blue/short-1 succeeds
	3.0 blue/short-4 starts n0
	3.1 blue/short-2 succeeds
	3.1 blue/short-5 starts n1
	3.2 blue/short-3 succeeds
	3.2 blue/short-6 starts n2
	6.0 blue/short-4 succeeds
	6.0 blue/short-7 starts n0
	6.1 blue/short-5 succeeds
	6.2 blue/short-6 succeeds
	9.0 blue/short-7 succeeds
`

const goodPreemption = `
	0.1 blue/normal-1 holds n0
	0.2 blue/normal-2 holds n1
	0.3 blue/normal-3 holds n2
	0.4 blue/normal-4 holds-off
	1.0 blue/important-1 holds-off
	1.1 blue/normal-3 evicted InClusterQueue blue/important-1
	1.2 blue/normal-3 ends
	1.2 blue/normal-3 released
	1.3 blue/important-1 starts n2
	2.0 red/normal-1 holds-off
	2.1 blue/normal-2 evicted InCohortReclamation red/normal-1
	2.2 red/normal-2 holds-off
	2.3 blue/normal-2 ends
	2.3 blue/normal-2 released
	2.4 red/normal-1 starts n1
`

const goodFault = `
	0.1 blue/large-1 holds n0 n1
	1.0 n1 label EVICT
	1.2 blue/large-1 leaves
	1.3 blue/large-1 ends
	6.3 blue/large-1 reruns n0 n2
	7.0 blue/short-1 holds-off
	8.0 n1 label
	8.2 blue/short-1 starts n1
`

// change replaces lines of a story; an empty line drops one.
func change(text string, lines ...string) string {
	for i := 0; i < len(lines); i += 2 {
		if !strings.Contains(text, lines[i]) {
			panic("no such line: " + lines[i])
		}
		text = strings.Replace(text, lines[i], lines[i+1], 1)
	}
	return text
}

func TestStatements(t *testing.T) {
	cases := map[string]struct {
		why        string
		statements []Statement
		story      string
		fails      []int // indices of the statements that do not hold
	}{
		"queueing as promised":   {"the tutorial's own course", queueingStatements(), goodQueueing, nil},
		"preemption as promised": {"the tutorial's own course", preemptionStatements(), goodPreemption, nil},
		"fault as promised":      {"the tutorial's own course", faultStatements(), goodFault, nil},
		"nothing happened": {
			"an empty cluster must not pass", queueingStatements(), "", []int{0, 1, 2, 3},
		},
		"no preemption happened": {
			"an empty cluster must not pass", preemptionStatements(), "", []int{0, 1, 2, 3, 4},
		},
		"no fault happened": {
			"an empty cluster must not pass", faultStatements(), "", []int{0, 1, 2, 3, 4, 5},
		},
		"only two run": {
			"borrowing from the slack queue does not work",
			queueingStatements(),
			change(
				goodQueueing,
				"0.3 blue/short-3 holds n2",
				"0.3 blue/short-3 holds-off",
				"3.2 blue/short-3 succeeds",
				"3.2 blue/short-3 starts n2\n4.0 blue/short-3 succeeds",
			),
			[]int{0, 1, 2},
		},
		"half a gang": {
			"jobs have quota, but one lacks a pod", queueingStatements(),
			change(goodQueueing, "0.3 blue/short-3 holds n2", "0.3 blue/short-3 submitted\n0.3 blue/short-3 admitted"),
			[]int{0},
		},
		"admitted twice over": {
			"more GPUs than there are",
			queueingStatements(),
			change(
				goodQueueing,
				"0.4 blue/short-4 holds-off",
				"0.4 blue/short-4 holds n0",
				"3.0 blue/short-4 starts n0",
				"",
			),
			[]int{0, 1, 4},
		},
		"silent refusal": {
			"a job that waits must say why", queueingStatements(),
			change(goodQueueing, "0.7 blue/short-7 holds-off", "0.7 blue/short-7 submitted"),
			[]int{1},
		},
		"overtaken": {
			"the queue is in order of arrival",
			queueingStatements(),
			change(
				goodQueueing,
				"3.0 blue/short-4",
				"3.0 blue/short-7",
				"6.0 blue/short-4",
				"6.0 blue/short-X",
				"6.0 blue/short-7",
				"6.0 blue/short-4",
				"6.0 blue/short-X",
				"6.0 blue/short-7",
				"9.0 blue/short-7",
				"9.0 blue/short-4",
			),
			[]int{2},
		},
		"one never ends": {
			"a lost job must be seen", queueingStatements(),
			change(goodQueueing, "9.0 blue/short-7 succeeds", ""),
			[]int{3},
		},
		"the oldest gave way": {
			"the newest has lost least", preemptionStatements(),
			change(goodPreemption,
				"blue/normal-3 evicted", "blue/normal-1 evicted", "blue/normal-3 ends", "blue/normal-1 ends",
				"blue/normal-3 released", "blue/normal-1 released"),
			[]int{1},
		},
		"two gave way to bob": {
			"one is enough",
			preemptionStatements(),
			change(
				goodPreemption,
				"2.2 red/normal-2 holds-off",
				"2.2 red/normal-2 holds-off\n2.2 blue/normal-1 evicted InCohortReclamation red/normal-1\n2.2 blue/normal-1 ends\n2.2 blue/normal-1 released",
			),
			[]int{2, 4},
		},
		"bob's second ran too": {
			"his quota is 8 GPUs, and alice's team has its own",
			preemptionStatements(),
			change(
				goodPreemption,
				"2.4 red/normal-1 starts n1",
				"2.4 red/normal-1 starts n1\n2.5 red/normal-2 admitted",
			),
			[]int{3},
		},
		"evicted in vain": {
			"nothing is evicted without a better use", preemptionStatements(),
			change(goodPreemption, "2.4 red/normal-1 starts n1", ""),
			[]int{2, 4},
		},
		"the important one was evicted": {
			"bob's claim is on what is borrowed, least important first",
			preemptionStatements(),
			change(
				goodPreemption,
				"2.1 blue/normal-2 evicted",
				"2.1 blue/important-1 evicted",
				"2.3 blue/normal-2 ends",
				"2.3 blue/important-1 ends",
				"2.3 blue/normal-2 released",
				"2.3 blue/important-1 released",
			),
			[]int{1, 4},
		},
		"an evicted job is lost": {
			"it must come back to its queue", preemptionStatements(),
			change(goodPreemption, "2.3 blue/normal-2 released", ""),
			[]int{5},
		},
		"quota came before the pods went": {
			"two jobs share GPUs for a while",
			preemptionStatements(),
			change(
				goodPreemption,
				"1.2 blue/normal-3 ends",
				"",
				"1.3 blue/important-1 starts n2",
				"1.3 blue/important-1 starts n2\n1.4 blue/normal-3 ends",
			),
			[]int{6, 7},
		},
		"slow": {
			"watching, not polling",
			faultStatements(),
			change(
				goodFault,
				"1.2 blue/large-1 leaves",
				"2.2 blue/large-1 leaves",
				"1.3 blue/large-1 ends",
				"2.3 blue/large-1 ends",
			),
			[]int{1},
		},
		"not reset": {
			"the job was left where it was",
			faultStatements(),
			change(
				goodFault,
				"1.2 blue/large-1 leaves",
				"",
				"1.3 blue/large-1 ends",
				"",
				"6.3 blue/large-1 reruns n0 n2",
				"",
			),
			[]int{1, 2},
		},
		"back on the bad node": {
			"it would fail again", faultStatements(),
			change(goodFault, "reruns n0 n2", "reruns n0 n1"),
			[]int{3},
		},
		"paid for by the job": {
			"a bad node is not the job's fault", faultStatements(),
			change(goodFault, "6.3 blue/large-1 reruns", "6.2 blue/large-1 retries\n6.3 blue/large-1 reruns"),
			[]int{4},
		},
		"never used again": {
			"a mended node is capacity", faultStatements(),
			change(goodFault, "8.2 blue/short-1 starts n1", ""),
			[]int{5},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var fails []int
			var said []string
			for i, v := range judge("", c.statements, story(t, c.story)) {
				if v.Err != nil {
					fails = append(fails, i)
					said = append(said, fmt.Sprintf("%d: %s: %v", i, v.Text, v.Err))
				}
			}
			if diff := cmp.Diff(c.fails, fails); diff != "" {
				t.Errorf("%s\n%s\n%s", c.why, diff, strings.Join(said, "\n"))
			}
		})
	}
}

func TestScenariosByName(t *testing.T) {
	for _, name := range Names() {
		if got, err := Choose(name); err != nil || len(got) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Choose("nothing"); err == nil || !strings.Contains(err.Error(), "queueing") {
		t.Errorf("a wrong name must say which there are: %v", err)
	}
	all, _ := Choose("all")
	if !slices.Equal(Names()[:3], []string{all[0].Name, all[1].Name, all[2].Name}) {
		t.Error("all runs every scenario in order")
	}
}
