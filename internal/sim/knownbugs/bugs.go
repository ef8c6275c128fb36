package knownbugs

import "time"

// Bug is a fault that another scheduler had in public.
type Bug struct {
	// Name is the project's and the number of the thread; File its world.
	Name, File string
	Link       string
	// There is what users saw.
	There      string
	Statements []Statement
}

// Play runs the world of a bug.
func (b *Bug) Play() (Story, error) { return play(b.File) }

const (
	kueueThread   = "https://github.com/kubernetes-sigs/kueue/issues/"
	volcanoThread = "https://github.com/volcano-sh/volcano/issues/"
	trainerThread = "https://github.com/kubeflow/trainer/issues/"
)

// soon is how long a job may wait for room that is being cleared: the pods of jobs that
// leave take half a minute.
const soon = time.Minute

// All are the bugs, loops of evictions first.
func All() []Bug {
	return []Bug{
		{
			Name:  "kueue#3779",
			File:  "kueue-3779",
			Link:  kueueThread + "3779",
			There: "A job that was evicted came back at once into the room that it had just made, and was evicted again, without end.",
			Statements: []Statement{
				starts("owner/first", soon), starts("owner/second", soon), sticky(), evictions(2),
				end("owner/first", "owner/second", "tenant-a/a", "tenant-a/a-1", "tenant-b/b", "tenant-b/b-1"),
			},
		},
		{
			Name:  "kueue#2821",
			File:  "kueue-2821",
			Link:  kueueThread + "2821",
			There: "The evicted job was the older one, so it went first, took the place of the more important one, and was evicted for it again.",
			Statements: []Statement{
				starts("upper/high", soon),
				sticky(),
				evictions(1),
				end("upper/high", "lower/old"),
			},
		},
		{
			Name:  "kueue#13662",
			File:  "kueue-13662",
			Link:  kueueThread + "13662",
			There: "Two jobs had to go. The one that was gone first came back while the other was still leaving; then they changed roles.",
			Statements: []Statement{
				starts("owner/needs", 6*time.Minute),
				sticky(),
				evictions(2),
				end("owner/needs", "a/wide", "b/long"),
			},
		},
		{
			Name:       "volcano#3869",
			File:       "volcano-3869",
			Link:       volcanoThread + "3869",
			There:      "Two jobs that did not fit beside each other took pods from each other in turn, and neither ever ran.",
			Statements: []Statement{starts("b/small", soon), sticky(), evictions(1), end("b/small", "a/large")},
		},
		{
			Name: "kueue#5243", File: "kueue-5243", Link: kueueThread + "5243",
			There: "Eight jobs were killed for one that could not run anyway, because no node could hold its pods.",
			Statements: []Statement{
				never("farm/giant", "TopologyPlacementFailed"), never("farm/gang", "TopologyPlacementFailed"),
				starts("farm/fits", soon), sticky(), evictions(4),
			},
		},
		{
			Name:  "kueue#6947",
			File:  "kueue-6947",
			Link:  kueueThread + "6947",
			There: "A job that can never run stood in front, so that room was cleared again and again and the job behind it never got it.",
			Statements: []Statement{
				never("owner/four", "ExceedsMaxQuota"),
				starts("owner/three", soon),
				sticky(),
				evictions(1),
				end("owner/three", "guest/one"),
			},
		},
		{
			Name:  "kueue#8064",
			File:  "kueue-8064",
			Link:  kueueThread + "8064",
			There: "One job that had to wait was tried forty times a second, and meanwhile no job of any other queue started.",
			Statements: []Statement{
				toldAtMost("modeling/waits", 2),
				starts("other/small-1", 10*time.Second),
				starts("other/small-39", 10*time.Second),
				evictions(0),
			},
		},
		{
			Name:  "kueue#15277",
			File:  "kueue-15277",
			Link:  kueueThread + "15277",
			There: "A job of many pods was charged for all of them and started a part; the rest waited without a word.",
			Statements: []Statement{
				whole("farm/ten", 10),
				whole("farm/five", 5),
				never("farm/thirteen", "TopologyPlacementFailed"),
				end("farm/ten", "farm/five"),
			},
		},
		{
			Name:  "volcano#3373",
			File:  "volcano-3373",
			Link:  volcanoThread + "3373",
			There: "Two jobs that each need every node came together, each got half of the nodes, and both waited for ever.",
			Statements: []Statement{
				whole("farm/one", 4),
				whole("farm/two", 4),
				apart("farm/one", "farm/two"),
				end("farm/one", "farm/two"),
			},
		},
		{
			Name: "trainer#2072", File: "trainer-2072", Link: trainerThread + "2072",
			There:      "A node died under a job, and the job stood still for ever, holding all of its other nodes.",
			Statements: []Statement{leaves("farm/train", "gpu-0", 30*time.Minute, 3*time.Minute), end("farm/train")},
		},
	}
}

// Judge says of each statement of a bug, the auditor's first, what is wrong in a story.
func (b *Bug) Judge(s *Story) []Verdict {
	var out []Verdict
	for _, st := range append([]Statement{audited()}, b.Statements...) {
		out = append(out, Verdict{st.Text, st.Check(s)})
	}
	return out
}

// Verdict is what became of a statement.
type Verdict struct {
	Text string
	// Err says what is wrong, nil if the statement holds.
	Err error
}
