package knownbugs

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Statement is one thing that has to hold in a world.
type Statement struct {
	Text string
	// Check says what is wrong with a story, nil if the statement holds.
	Check func(*Story) error
}

// audited: the simulator's auditor found no promise broken, of those about any world.
func audited() Statement {
	return Statement{
		"the auditor finds promises P1 to P7 and P9 to P11 kept after every decision",
		func(s *Story) error {
			if s.Broken == nil && s.Decisions == 0 {
				return errors.New("nothing was decided")
			}
			return s.Broken
		},
	}
}

// starts: a job is admitted so soon after it was submitted.
func starts(job string, within time.Duration) Statement {
	return Statement{fmt.Sprintf("%s has its place within %s", job, short(within)), func(s *Story) error {
		asked, got := s.of(job, Submitted), s.of(job, Started)
		switch {
		case len(asked) == 0:
			return errors.New("it was never submitted")
		case len(got) == 0:
			return errors.New("it was never admitted")
		case got[0].At-asked[0].At > within:
			return fmt.Errorf("it took %s", got[0].At-asked[0].At)
		}
		return nil
	}}
}

// sticky: what was cleared for a job is not given to another before it, least of all to those
// that had to leave.
func sticky() Statement {
	return Statement{
		"nobody who made room is let back in before the job that the room is for",
		func(s *Story) error {
			evicted := s.all(Evicted)
			if len(evicted) == 0 {
				return errors.New("nobody was evicted, so nothing was shown")
			}
			for _, e := range evicted {
				for _, m := range s.Moments[slices.IndexFunc(s.Moments, e.is):] {
					if m.What != Started {
						continue
					}
					if m.Job == e.For {
						break
					}
					if m.Job == e.Job {
						return fmt.Errorf("%s was admitted again at %s, before %s", e.Job, m.At, e.For)
					}
				}
			}
			return nil
		},
	}
}

func (m Moment) is(other Moment) bool {
	return m.At == other.At && m.What == other.What && m.Job == other.Job
}

// evictions: so many in all, and none twice of the same job.
func evictions(n int) Statement {
	text := fmt.Sprintf("%d evictions in all, and no job is evicted twice", n)
	switch n {
	case 0:
		text = "nobody is evicted"
	case 1:
		text = "one eviction in all"
	}
	return Statement{text, func(s *Story) error {
		seen := map[string]bool{}
		all := s.all(Evicted)
		for _, e := range all {
			if seen[e.Job] {
				return fmt.Errorf("%s was evicted again at %s", e.Job, e.At)
			}
			seen[e.Job] = true
		}
		if len(all) != n {
			return fmt.Errorf("%d jobs were evicted", len(all))
		}
		return nil
	}}
}

// end: these jobs come to their end.
func end(jobs ...string) Statement {
	return Statement{fmt.Sprintf("every job runs to its end (%d)", len(jobs)), func(s *Story) error {
		for _, j := range jobs {
			if len(s.of(j, Ended)) == 0 {
				return fmt.Errorf("%s did not end", j)
			}
		}
		return nil
	}}
}

// never: a job that cannot run costs nobody anything: it is told why, and nobody is evicted
// for it.
func never(job, code string) Statement {
	return Statement{
		fmt.Sprintf("%s can never run: it is told so (%s), and nobody has to leave for it", job, code),
		func(s *Story) error {
			if m := s.of(job, Started); len(m) > 0 {
				return fmt.Errorf("it was admitted at %s", m[0].At)
			}
			told := s.of(job, Refused)
			if len(told) == 0 || string(told[len(told)-1].Code) != code {
				return fmt.Errorf("it was told %v", told)
			}
			for _, e := range s.all(Evicted) {
				if e.For == job {
					return fmt.Errorf("%s was evicted for it", e.Job)
				}
			}
			return nil
		},
	}
}

// toldAtMost: a job that waits is told so seldom that nobody is busy with it.
func toldAtMost(job string, times int) Statement {
	return Statement{
		fmt.Sprintf("%s is told %d times at most why it waits: nothing tries it over and over", job, times),
		func(s *Story) error {
			switch n := len(s.of(job, Refused)); {
			case n == 0:
				return errors.New("it was told nothing")
			case n > times:
				return fmt.Errorf("it was told %d times", n)
			}
			return nil
		},
	}
}

// whole: a gang has a place for each of its pods whenever it is admitted.
func whole(job string, pods int32) Statement {
	return Statement{
		fmt.Sprintf(
			"%s has a place for each of its %d pods when it is admitted, and not a part of them",
			job,
			pods,
		),
		func(s *Story) error {
			got := s.of(job, Started)
			if len(got) == 0 {
				return errors.New("it was never admitted")
			}
			for _, m := range got {
				if m.Pods != pods {
					return fmt.Errorf("at %s it had %d places", m.At, m.Pods)
				}
			}
			return nil
		},
	}
}

// apart: of two gangs that do not fit beside each other one ends before the other begins.
func apart(one, two string) Statement {
	return Statement{
		fmt.Sprintf("%s has all of the nodes until it ends, and then %s has", one, two),
		func(s *Story) error {
			ended, begun := s.of(one, Ended), s.of(two, Started)
			switch {
			case len(ended) == 0:
				return fmt.Errorf("%s never ended", one)
			case len(begun) == 0:
				return fmt.Errorf("%s never began", two)
			case begun[0].At < ended[0].At:
				return fmt.Errorf("%s began at %s, %s ended at %s", two, begun[0].At, one, ended[0].At)
			}
			return nil
		},
	}
}

// leaves: a job gets other nodes so soon after a node of it died.
func leaves(job, node string, died, within time.Duration) Statement {
	return Statement{
		fmt.Sprintf("%s has other nodes within %s after %s died, and ends", job, short(within), node),
		func(s *Story) error {
			before, after := s.of(job, Started), slices.Concat(s.of(job, Moved), s.of(job, Started))
			if len(before) == 0 || !slices.Contains(before[0].Nodes, node) {
				return fmt.Errorf("it did not run on %s, so nothing was shown", node)
			}
			i := slices.IndexFunc(after, func(m Moment) bool { return m.At >= died })
			switch {
			case i < 0:
				return errors.New("it was left where it was")
			case after[i].At-died > within:
				return fmt.Errorf("it took %s", after[i].At-died)
			case slices.Contains(after[i].Nodes, node):
				return fmt.Errorf("it was put on %s again", node)
			case len(s.of(job, Ended)) == 0:
				return errors.New("it did not end")
			}
			return nil
		},
	}
}

// short writes minutes without their seconds.
func short(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return d.String()
}
