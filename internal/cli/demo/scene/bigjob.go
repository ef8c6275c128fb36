package scene

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
)

func bigJob() Scene {
	return Scene{
		Name:  "big-job",
		Title: "a big job does not starve among small ones",
		Opening: "Where small jobs take every GPU that comes free, a job that needs many at once never finds them free " +
			"together: it starves. Here a flood of small jobs meets a job that needs 12 of 16 GPUs; its team's queue keeps what " +
			"comes free for it, and lends the gap meanwhile only to jobs that give way. Virtual time, decided by the real engine.",
		play: playBigJob,
	}
}

// span is one stay of a job on GPUs.
type span struct {
	job        string
	from, to   time.Duration
	gpus       int
	cut        bool // it had to leave
	unfinished bool
}

// stays writes down who is where. It is a sim.Log.
type stays struct {
	start time.Time
	size  map[string]int
	open  map[string]*span
	all   []*span
	pend  []func(time.Duration) // what was told since the last decision
}

// Began implements sim.Log.
func (s *stays) Began(cycle.Options) {}

// Event implements sim.Log.
func (s *stays) Event(ev core.Event) {
	switch ev := ev.(type) {
	case core.WorkloadGone:
		s.pend = append(s.pend, func(at time.Duration) { s.leave(ev.Key.String(), at) })
	case core.WorkloadSet:
		w := ev.Workload
		n := 0
		for i := range w.PodSets {
			n += int(int64(w.PodSets[i].Count) * int64(w.PodSets[i].Requests.Of(core.GPU)))
		}
		s.size[w.Key.String()] = n
		if sp := s.open[w.Key.String()]; sp != nil && sp.cut && w.Admission == nil {
			s.pend = append(s.pend, func(at time.Duration) { s.leave(w.Key.String(), at) })
		}
	}
}

func (s *stays) leave(job string, at time.Duration) {
	if sp := s.open[job]; sp != nil {
		sp.to, sp.unfinished = at, false
		delete(s.open, job)
	}
}

// Decided implements sim.Log.
func (s *stays) Decided(now time.Time, plan core.Plan) {
	at := now.Sub(s.start)
	for _, tell := range s.pend {
		tell(at)
	}
	s.pend = nil
	for _, d := range plan {
		switch d := d.(type) {
		case core.Admit:
			sp := &span{job: d.Key.String(), from: at, gpus: s.size[d.Key.String()], unfinished: true}
			s.open[sp.job] = sp
			s.all = append(s.all, sp)
		case core.Evict:
			if sp := s.open[d.Key.String()]; sp != nil {
				sp.cut = true
			}
		case core.Refuse, core.Replace:
		}
	}
}

// flood runs the world of the scene, with the rule or without it.
func flood(strategy string) (*stays, error) {
	return floodOf(func(f *worldfile.File) { f.Teams[0].Strategy = strategy })
}

// floodOf runs the world of the scene with a change.
func floodOf(change func(*worldfile.File)) (*stays, error) {
	world, err := worldOf("big-job", change)
	if err != nil {
		return nil, err
	}
	log := &stays{start: world.Start, size: map[string]int{}, open: map[string]*span{}}
	if _, err := sim.New(*world, sim.Watch{Check: true, Log: log}).Finish(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return log, nil
}

const (
	bigComes  = time.Hour
	bigName   = "rock/big-0"
	owned     = 4 // GPUs of sand, the team of the small jobs
	allGPUs   = 16
	gapMargin = time.Minute // for pods that stop, and what is told late
)

// use is how many GPUs jobs with a prefix have at a moment.
func (s *stays) use(prefix string, at time.Duration) int {
	n := 0
	for _, sp := range s.all {
		if strings.HasPrefix(sp.job, prefix) && sp.from <= at && (at < sp.to || sp.unfinished) {
			n += sp.gpus
		}
	}
	return n
}

func (s *stays) first(job string) (*span, error) {
	i := slices.IndexFunc(s.all, func(sp *span) bool { return sp.job == job })
	if i < 0 {
		return nil, fmt.Errorf("%s never started", job)
	}
	return s.all[i], nil
}

// line is when the last of what sand had borrowed when the big job came is back: nobody can
// start it earlier without stopping somebody.
func (s *stays) line() time.Duration {
	var ends []time.Duration
	for _, sp := range s.all {
		if strings.HasPrefix(sp.job, "sand/") && sp.from <= bigComes && sp.to > bigComes {
			ends = append(ends, sp.to)
		}
	}
	slices.Sort(ends)
	if len(ends) <= owned {
		return bigComes
	}
	return ends[len(ends)-owned-1]
}

func playBigJob(_ context.Context, s *show) error {
	with, err := flood("StrictFIFO")
	if err != nil {
		return err
	}
	big, err := with.first(bigName)
	if err != nil {
		return err
	}
	line := with.line()
	s.say(
		"Each row is a GPU, each column %d minutes. s is a small job of equal importance, - a short one that matters "+
			"least, B the big one. It comes at | (%s); the line above ! (%s) is when so many of those that ran then have ended "+
			"that 12 GPUs can be free together.",
		int(column.Minutes()),
		clockTime(bigComes),
		clockTime(line),
	)
	fmt.Fprintln(s.Out)
	fmt.Fprint(s.Out, gantt(with.all, allGPUs, map[time.Duration]rune{bigComes: '|', line: '!'}))
	inGap, cut, used := with.inGap(big.from)
	s.say(
		"The big job waited %s and started at %s. Until then %d short jobs ran to their end in the gap, on GPUs that were "+
			"kept for it; %d more were there when it started and gave way. Short jobs may have the gap because they can be "+
			"stopped, and not because of their time limits: limits are not looked at, and a job as important as the big one "+
			"waits, however short it is.",
		briefly(big.from-bigComes),
		clockTime(big.from),
		inGap,
		cut,
	)

	without, err := flood("BestEffortFIFO")
	if err != nil {
		return err
	}
	starved, err := without.first(bigName)
	if err != nil {
		return err
	}
	s.say(
		"The same flood without the rule (the queue's strategy is BestEffortFIFO, not StrictFIFO): the big job starts at %s, "+
			"when the flood is over.",
		clockTime(starved.from),
	)
	s.claim(
		"the big job starts on the line: as soon as 12 GPUs can be free together without stopping an equal",
		onLine(big.from, line),
	)
	s.claim(
		"no small job of equal importance that came after it takes what is kept for it",
		with.nobodyPasses(big.from),
	)
	s.claim(
		fmt.Sprintf("short jobs fill the gap meanwhile: %d of them end in it, %.1f GPU-hours", inGap, used.Hours()),
		atLeastOne(inGap),
	)
	s.claim("nobody is stopped but those that matter least", with.onlySpareCut())
	s.claim(
		"without the rule it would have waited more than twice as long",
		longer(starved.from-bigComes, 2*(big.from-bigComes)),
	)
	return nil
}

// inGap counts the short jobs that began after the big one came: jobs that ended before it
// started, jobs that had to leave for it, and GPU time of both.
func (s *stays) inGap(start time.Duration) (ended, cut int, used time.Duration) {
	for _, sp := range s.all {
		if !strings.HasPrefix(sp.job, "spare/") || sp.from < bigComes || sp.from >= start {
			continue
		}
		used += time.Duration(sp.gpus) * (min(sp.to, start) - sp.from)
		switch {
		case sp.cut:
			cut++
		case sp.to <= start:
			ended++
		}
	}
	return ended, cut, used
}

func onLine(start, line time.Duration) error {
	if start < line || start > line+gapMargin {
		return fmt.Errorf("it started at %s, the line is at %s", start, line)
	}
	return nil
}

// nobodyPasses: sand starts a job after the big one came only on what sand owns.
func (s *stays) nobodyPasses(start time.Duration) error {
	for _, sp := range s.all {
		if strings.HasPrefix(sp.job, "sand/") && sp.from > bigComes && sp.from < start &&
			s.use("sand/", sp.from) > owned {
			return fmt.Errorf("%s started at %s", sp.job, sp.from)
		}
	}
	return nil
}

func (s *stays) onlySpareCut() error {
	for _, sp := range s.all {
		if sp.cut && !strings.HasPrefix(sp.job, "spare/") {
			return fmt.Errorf("%s had to leave", sp.job)
		}
	}
	return nil
}

func atLeastOne(n int) error {
	if n < 1 {
		return errors.New("there is none")
	}
	return nil
}

func longer(is, than time.Duration) error {
	if is <= than {
		return fmt.Errorf("it waited %s", briefly(is))
	}
	return nil
}
