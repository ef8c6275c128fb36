// Command mutate asks whether the tests of a package would notice a mistake. It
// makes small mistakes in the package's code, one at a time, runs the tests, and
// lists the mistakes that no test noticed, with the share of mistakes that one did.
//
//	go run ./tools/mutate [-n 60] [-seed 1] ./internal/engine/quota
//
// The mistakes are a random sample: the same seed takes the same ones. A mutant
// lives in an overlay of the go command, so that the source is never touched, and
// its tests end with the first that fails. tests.txt says which other packages
// test a package and which of its own tests go first, equivalent.txt lists mutants that behave as the code
// does, with the reason; they are left out. docs/testing.md has the scores.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	n := flag.Int("n", 60, "how many mutants to try")
	seed := flag.Uint64("seed", 1, "which ones")
	most := flag.Duration("for", 0, "stop after this time, 0 for never")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutate [-n 60] [-seed 1] [-for 5m] PACKAGE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *most)
		defer cancel()
	}
	if err := run(ctx, flag.Arg(0), *n, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run tries n mutants of a package and prints what came of them.
func run(ctx context.Context, dir string, n int, seed uint64) error {
	dir = strings.TrimSuffix(strings.TrimPrefix(dir, "./"), "/")
	l, err := newLab(ctx, dir)
	if err != nil {
		return err
	}
	defer l.close()
	all, err := mutantsOf(dir)
	if err != nil {
		return err
	}
	shuffle(all, seed)
	began, tried, noticed, known := time.Now(), 0, 0, 0
	for i := range all {
		m := &all[i]
		if tried == n || ctx.Err() != nil {
			break
		}
		if l.equivalent(m) {
			known++
			continue
		}
		outcome, err := l.try(ctx, m)
		if err != nil {
			return err
		}
		switch outcome {
		case buildFailed:
			continue
		case survived:
			fmt.Printf("%s:%d: %s\n- %s\n+ %s\n", m.file, m.line, m.what, m.was(), m.is())
		case killed:
			noticed++
		}
		tried++
	}
	if tried == 0 {
		return fmt.Errorf("no mutant of %s could be tried", dir)
	}
	fmt.Printf(
		"%s: %d of %d mutants noticed, %d %% (seed %d, of %d places; %d known to be equivalent left out; %s)\n",
		dir,
		noticed,
		tried,
		noticed*100/tried,
		seed,
		len(all),
		known,
		time.Since(began).Round(time.Second),
	)
	return nil
}
