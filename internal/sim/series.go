package sim

// perTeam and inTotal are what is kept over time.
type perTeam int

const (
	perTeamUsed perTeam = iota
	perTeamWaiting
	perTeamBorrowed
	perTeamLent
	perTeams = iota
)

type inTotal int

const (
	totalUsed inTotal = iota
	totalWorking
	totalOffered
	totals = iota
)

// buckets is how many intervals a series has at most. When a run outgrows them,
// each two become one of double the width.
const buckets = 512

// series are sums over time in intervals of equal width.
type series struct {
	width int64 // nanoseconds
	end   int64
	teams [][perTeams][]float64
	all   [totals][]float64
}

func (s *series) init(teams int) {
	s.width = 1e9
	s.teams = make([][perTeams][]float64, teams)
	for i := range s.teams {
		for k := range s.teams[i] {
			s.teams[i][k] = make([]float64, buckets)
		}
	}
	for k := range s.all {
		s.all[k] = make([]float64, buckets)
	}
}

// fit widens the intervals until a moment is covered.
func (s *series) fit(at int64) {
	for at > s.width*buckets {
		s.width *= 2
		for i := range s.teams {
			for k := range s.teams[i] {
				halve(s.teams[i][k])
			}
		}
		for k := range s.all {
			halve(s.all[k])
		}
	}
}

func halve(b []float64) {
	for i := range len(b) / 2 {
		b[i] = b[2*i] + b[2*i+1]
	}
	clear(b[len(b)/2:])
}

func (s *series) add(team int, what perTeam, from, to int64, v float64) {
	if v != 0 {
		s.fit(to)
		s.spread(s.teams[team][what], from, to, v)
	}
}

func (s *series) total(what inTotal, from, to int64, v float64) {
	if v != 0 {
		s.fit(to)
		s.spread(s.all[what], from, to, v)
	}
}

func (s *series) reach(at int64) { s.fit(at); s.end = at }

// spread adds v times the time to each interval between two moments.
func (s *series) spread(b []float64, from, to int64, v float64) {
	for from < to {
		i := from / s.width
		next := min(to, (i+1)*s.width)
		b[i] += v * float64(next-from)
		from = next
	}
}

// mean are averages over a number of intervals of equal width up to the end.
func (s *series) mean(b []float64) []float64 {
	const n = steps
	out := make([]float64, n)
	if s.end == 0 {
		return out
	}
	step := float64(s.end) / float64(n)
	for i := range out {
		from, to := float64(i)*step, float64(i+1)*step
		var sum float64
		for k := int(from / float64(s.width)); k < buckets && float64(k)*float64(s.width) < to; k++ {
			low, high := float64(k)*float64(s.width), float64(k+1)*float64(s.width)
			// The last interval is filled up to the end only.
			if filled := min(high, float64(s.end)); filled > low {
				sum += b[k] * max(0, min(filled, to)-max(low, from)) / (filled - low)
			}
		}
		out[i] = sum / step
	}
	return out
}
