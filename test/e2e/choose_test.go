package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/test/rig"
)

// Which tests run, where -run does not say it.
const (
	// listVariable names a list in testdata (stock is testdata/stock.txt): its tests run, no others.
	listVariable = "MLBATCH_E2E_LIST"
	// shardVariable is 1/2 for the first of two clusters that divide the tests.
	shardVariable = "MLBATCH_E2E_SHARD"
)

// choose has only those tests run that a list and a shard, if there are any, leave. The list is
// divided by how long its tests take.
func choose(ctx context.Context) error {
	list, shard := os.Getenv(listVariable), os.Getenv(shardVariable)
	if flag.Lookup("test.run").Value.String() != "" || list == "" && shard == "" {
		return nil
	}
	tests, err := allTests(ctx)
	if err != nil {
		return err
	}
	if list != "" {
		if tests, err = listedIn(filepath.Join("testdata", list+".txt"), tests); err != nil {
			return err
		}
	}
	if shard != "" {
		at, of, err := rig.ParseShard(shard)
		if err != nil {
			return fmt.Errorf("%s: %w", shardVariable, err)
		}
		text, err := os.ReadFile("testdata/durations.txt")
		if err != nil {
			return fmt.Errorf("read how long tests take: %w", err)
		}
		took, err := rig.ParseDurations(string(text))
		if err != nil {
			return fmt.Errorf("read how long tests take: %w", err)
		}
		tests = rig.Shard(tests, took, at, of)
	}
	if err := flag.Set("test.run", "^("+strings.Join(tests, "|")+")$"); err != nil {
		return fmt.Errorf("choose tests: %w", err)
	}
	return nil
}

// allTests are the names of all tests of this program.
func allTests(ctx context.Context) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	out, err := exec.CommandContext(ctx, program, "-test.list", "^Test").Output()
	if err != nil {
		return nil, fmt.Errorf("list all tests: %w", err)
	}
	return rig.Lines(string(out)), nil
}

// listedIn are the tests that a file names. One that is not there is an error: it has another name now.
func listedIn(file string, tests []string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read which tests to run: %w", err)
	}
	listed := rig.Lines(string(text))
	for _, name := range listed {
		if !slices.Contains(tests, name) {
			return nil, fmt.Errorf("%s: there is no test %s", file, name)
		}
	}
	return slices.DeleteFunc(tests, func(t string) bool { return !slices.Contains(listed, t) }), nil
}
