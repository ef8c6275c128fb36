package calibration

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// mostOver is how many times as long as they take people say that jobs may take, at most.
const mostOver = 10

// AskedLimits is the AskedLimit of each job of a world.
func AskedLimits(jobs []sim.Job) func(core.Key) time.Duration {
	takes := make(map[core.Key]time.Duration, len(jobs))
	for i := range jobs {
		takes[jobs[i].Key] = jobs[i].Work
	}
	return func(k core.Key) time.Duration { return AskedLimit(k, takes[k]) }
}

// AskedLimit is the time limit that a careful user may have asked for, for a job that takes
// so long: between what it takes and ten times as much, by the name of the job and the same
// each time, rounded up to what people type. Traces do not say it.
func AskedLimit(k core.Key, takes time.Duration) time.Duration {
	h := sha256.Sum256([]byte(k.String()))
	over := math.Pow(mostOver, float64(binary.BigEndian.Uint64(h[:8])>>11)/(1<<53))
	wanted := time.Duration(float64(takes) * over)
	const day = 24 * time.Hour
	for _, usual := range []time.Duration{
		15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 12 * time.Hour,
		day, 2 * day, 3 * day, 5 * day, 7 * day, 14 * day, 30 * day,
	} {
		if wanted <= usual {
			return usual
		}
	}
	return max(60*day, takes)
}
