// Command testsummary reads the output of `go test -json` and prints what a person
// wants to see of it: a line for each package and each slow test, everything a
// failing test said, what took longest, and at the very end the sum of all tests.
//
//	go test -json ./... | go run ./tools/testsummary
//	go run ./tools/testsummary -jobs FILE -clusters 3
//
// With -jobs it runs the commands of a file side by side (see parseJobs), and those tests of a
// cluster that failed once more: the closing line names the tests that passed then.
//
// It exits with 1 if anything failed, or if nothing was run at all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	jobs := flag.String("jobs", "", "run the commands of this `file`")
	durations := flag.String("durations", "", "write for how long tests with a cluster ran into this `file`")
	clusters := flag.Int("clusters", 2, "`how many` jobs with a cluster run at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sum, err := results(ctx, *jobs, *durations, *clusters)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	fmt.Println(sum)
	if err != nil || !sum.good() {
		os.Exit(1)
	}
}

func results(ctx context.Context, file, durations string, clusters int) (counts, error) {
	out := &printer{to: os.Stdout}
	if file == "" {
		r := newReport(out, "")
		err := r.read(os.Stdin)
		r.slowest(out)
		return r.counts(), err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return counts{}, fmt.Errorf("read the jobs: %w", err)
	}
	jobs, err := parseJobs(string(text))
	if err != nil {
		return counts{}, err
	}
	s := suite{out: out, runner: shell{clock: time.Now}, reports: map[job]*report{}}
	sum, err := s.runAll(ctx, jobs, clusters)
	if durations != "" {
		err = errors.Join(err, os.WriteFile(durations, []byte(s.durations()), 0o600))
	}
	return sum, err
}
