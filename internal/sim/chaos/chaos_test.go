package chaos_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/chaos"
)

// number reads an environment variable, 0 if it is not set.
func number(t *testing.T, name string) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s is %q: it must be a number", name, s)
	}
	return n
}

// TestWorlds tries made-up worlds: MLBATCH_SIM_WORLDS of them from seed
// MLBATCH_SIM_SEED, or as many as there is time for in MLBATCH_SIM_MINUTES.
func TestWorlds(t *testing.T) {
	worlds, seed, minutes := number(t, "MLBATCH_SIM_WORLDS"), max(1, number(t, "MLBATCH_SIM_SEED")), number(t, "MLBATCH_SIM_MINUTES")
	if worlds == 0 && minutes == 0 {
		worlds = 1000 // some seconds
	}
	began, said := time.Now(), time.Now()
	for n := 0; (worlds == 0 || n < worlds) && (minutes == 0 || time.Since(began) < time.Duration(minutes)*time.Minute); n++ {
		w := chaos.World(uint64(seed + n))
		if err := chaos.Try(w); err != nil {
			report(t, w, err)
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			fmt.Fprintf(os.Stderr, "%d worlds, seeds %d to %d, %s\n", n+1, seed, seed+n, time.Since(began).Round(time.Second))
		}
	}
}

// report shortens a broken world and writes it where it can be run again.
func report(t *testing.T, w sim.World, err error) {
	t.Helper()
	short, why := chaos.Shorten(w, err)
	var b bytes.Buffer
	if err := chaos.Write(&b, short); err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("MLBATCH_SIM_OUT") // else gone with the test, unless it runs with -artifacts
	if dir == "" {
		dir = t.ArtifactDir()
	}
	path := filepath.Join(dir, fmt.Sprintf("seed-%d.jsonl", w.Seed))
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Errorf("seed %d: %v\n\nshortened from %d to %d entries (to keep: copy %s to internal/sim/testdata/regressions):\n%v\n\n%s",
		w.Seed, err, len(w.Script), len(short.Script), path, why, b.String())
}

// TestRegressions runs the worlds in which something broke once.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("../testdata/regressions/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w, err := chaos.Read(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := chaos.Try(w); err != nil {
				t.Error(err)
			}
		})
	}
}
