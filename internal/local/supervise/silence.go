package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// silence begins with the last answer of a process.
type silence struct {
	since time.Time
	// used is the processor time that it had used by then.
	used time.Duration
}

// patienceWithBusy is how many times longer a process may be silent that works: on
// a machine with too much to do answers come too late, and a new process would be
// slower still.
const patienceWithBusy = 10

// busyShare is the least share of a processor that counts as work.
const busyShare = 0.05

func silenceSince(now time.Time, pid int) silence { return silence{now, processorTime(pid)} }

// hung reports whether a process is to be given up after the given time. One that
// uses no processor does nothing.
func (s silence) hung(now time.Time, pid int, after time.Duration) bool {
	lasted := now.Sub(s.since)
	if after <= 0 || lasted < after {
		return false
	}
	works := float64(processorTime(pid)-s.used) > busyShare*float64(lasted)
	return !works || lasted >= patienceWithBusy*after
}

// processorTime is what a process has used so far; zero if there is none.
func processorTime(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field, a name in parentheses, may hold anything.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const userTime, systemTime, tick = 11, 12, time.Second / 100 // USER_HZ is 100 on every architecture of Go
	if len(fields) <= systemTime {
		return 0
	}
	var ticks int64
	for _, i := range []int{userTime, systemTime} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * tick
}
