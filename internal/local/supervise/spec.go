package supervise

import (
	"context"
	"errors"
	"time"
)

// Spec describes one process to keep alive.
type Spec struct {
	// Name is unique within a supervisor.
	Name string
	// Path is the program to execute; Args is the command line that it sees,
	// its own name included. Env is added to our environment.
	Path string
	Args []string
	Env  []string
	// LogFile gets what the process prints.
	LogFile string
	// Stage orders stopping: higher stages stop first.
	Stage int
	// Probe says whether the process can do its work. It is called again and
	// again, never twice at a time, with a context that bounds one call. Nil
	// means that a running process is a ready one.
	Probe func(ctx context.Context) error
	// Hung is how long a process that was ready may leave its probe without any
	// answer (ErrSilent) before it is killed and started again; zero is for ever. An
	// answer that it is not ready is an answer: it waits for others.
	Hung time.Duration
	// Grace is how long the process may take to stop before it is killed.
	Grace time.Duration
	// Namespaces are the namespaces that the process gets for itself, as flags of clone(2); zero
	// is none. With CLONE_NEWPID among them, the kernel ends with it all that runs there.
	Namespaces uintptr
	// Inside names the component in whose namespaces the process runs. It is started
	// while that one is ready, tried again otherwise, and ends with it.
	Inside string
}

// ErrSilent is what probes return, or wrap, if they got no answer at all.
var ErrSilent = errors.New("no answer")

// Health is the state of one process.
type Health string

// The states of a process.
const (
	// Starting runs, but was not ready yet since it was started.
	Starting Health = "starting"
	// Ready runs and answers its probe.
	Ready Health = "ready"
	// Unhealthy runs, was ready before, and does not answer its probe.
	Unhealthy Health = "unhealthy"
	// Waiting died and is about to be started again.
	Waiting Health = "restarting"
	// Stopped was asked to stop, and did.
	Stopped Health = "stopped"
)

// Status is what is known of one process.
type Status struct {
	Name string `json:"name"`
	// PID is zero while no process runs.
	PID    int    `json:"pid,omitempty"`
	Health Health `json:"health"`
	// Message says why the process is not ready.
	Message string `json:"message,omitempty"`
	// Restarts counts how often it was started again.
	Restarts int `json:"restarts"`
	// Started is when the running process was started.
	Started time.Time `json:"started,omitzero"`
}

// The pauses before a restart: the first is short because most deaths are
// accidents, and the cap keeps a broken component from eating the machine.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
	// healthyAfter is how long a run must last for its end to count as a first
	// death again.
	healthyAfter = 30 * time.Second
)

// pause is how long to wait before the next start after this many deaths in a
// row.
func pause(deaths int) time.Duration {
	d := firstPause
	for range deaths - 1 {
		if d *= 2; d >= longestPause {
			return longestPause
		}
	}
	return d
}

// deathsAfter counts deaths in a row, given the last run's length.
func deathsAfter(before int, ran time.Duration) int {
	if ran >= healthyAfter {
		return 1
	}
	return before + 1
}
