package worldfile

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// traceJob is one line of a trace.
type traceJob struct {
	at       time.Time
	work     time.Duration
	gpus     int64
	team     string
	priority int32
}

// readTrace reads a CSV file with a header, and sorts it by time.
func readTrace(t *Trace, in io.Reader) ([]traceJob, error) {
	r := csv.NewReader(in)
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	c := t.Columns
	cols := columns{
		at:       find(header, cmp.Or(c.Submitted, "timestamp")),
		duration: find(header, cmp.Or(c.Duration, "duration")),
		gpus:     find(header, cmp.Or(c.GPUs, "num_gpus")),
		team:     find(header, cmp.Or(c.Team, "cluster")),
		priority: -1,
	}
	if c.Priority != "" {
		cols.priority = find(header, c.Priority)
	}
	for name, i := range map[string]int{"submitted": cols.at, "duration": cols.duration, "gpus": cols.gpus} {
		if i < 0 {
			return nil, fmt.Errorf(
				"the header %q has no column for %s: name it in trace.columns.%s",
				strings.Join(header, ","),
				name,
				name,
			)
		}
	}
	var jobs []traceJob
	for line := 2; ; line++ {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		j, err := cols.job(record)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		jobs = append(jobs, j)
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("there are no jobs in it")
	}
	slices.SortStableFunc(jobs, func(a, b traceJob) int { return a.at.Compare(b.at) })
	return jobs, nil
}

// columns are the numbers of the columns, -1 for none.
type columns struct{ at, duration, gpus, team, priority int }

func find(header []string, name string) int { return slices.Index(header, name) }

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func (c columns) job(record []string) (traceJob, error) {
	var j traceJob
	var err error
	if j.at, err = moment(record[c.at]); err != nil {
		return j, err
	}
	sec, err := strconv.ParseFloat(record[c.duration], 64)
	if err != nil || sec < 0 || sec > maxWork {
		return j, fmt.Errorf("duration %q is no number of seconds", record[c.duration])
	}
	j.work = time.Duration(sec * float64(time.Second))
	gpus, err := strconv.ParseFloat(record[c.gpus], 64)
	if err != nil || gpus < 0 || gpus > 1<<20 || gpus != math.Trunc(gpus) {
		return j, fmt.Errorf("%q is no number of GPUs", record[c.gpus])
	}
	j.gpus, j.team, j.priority = int64(gpus), "all", defaultPriority
	if c.team >= 0 {
		j.team = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(record[c.team]), "-"), "-")
	}
	if c.priority >= 0 {
		p, err := strconv.ParseInt(record[c.priority], 10, 32)
		if err != nil {
			return j, fmt.Errorf("%q is no priority", record[c.priority])
		}
		j.priority = int32(p)
	}
	return j, nil
}

// moment reads a time, or seconds.
func moment(s string) (time.Time, error) {
	for _, layout := range []string{time.DateTime, time.RFC3339} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	if sec, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(sec) < 1e11 {
		return time.UnixMicro(int64(sec * 1e6)).UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time: use 2017-10-09 07:01:55, 2017-10-09T07:01:55Z or seconds", s)
}

// replay makes jobs of a trace.
func (b *builder) replay(traced []traceJob) error {
	if len(traced) == 0 {
		return nil
	}
	t := b.file.Trace
	speed := cmp.Or(t.Speed, 1)
	if speed <= 0 {
		return wrong("trace.speed", "is %g: it must be above 0", speed)
	}
	topology, err := t.Topology.request("trace.topology")
	if err != nil {
		return err
	}
	s := shapes{
		perPod:   cmp.Or(t.GPUsPerPod, defaultPerPod),
		topology: topology,
		known:    map[int64][]core.PodSet{},
	}
	for i, j := range traced {
		if _, ok := b.queues[j.team]; !ok {
			return wrong(
				"trace",
				"it has jobs of %q, which is not listed under teams (leave teams out and they are made)",
				j.team,
			)
		}
		b.job(sim.Job{
			Key:      core.Key{Namespace: j.team, Name: fmt.Sprintf("job-%d", i)},
			Priority: j.priority, PodSets: s.of(j.gpus),
			Submit: time.Duration(float64(j.at.Sub(b.world.Start)) / speed), Work: j.work,
			Checkpoint: time.Duration(t.Checkpoint), Reports: b.reports(time.Duration(t.Checkpoint)),
		})
	}
	return nil
}
