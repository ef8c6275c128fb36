package rig

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shard picks the tests that one of several clusters runs, so that all have about as much to do:
// took says for how long tests ran, as far as that is known. Each test is in one shard. Shards are
// counted from 1, and tests stay in their order.
func Shard(tests []string, took map[string]float64, shard, of int) []string {
	const unknown = 5 // seconds, as most take
	duration := func(test string) float64 {
		if d, known := took[test]; known {
			return d
		}
		return unknown
	}
	longest := slices.SortedStableFunc(
		slices.Values(tests),
		func(a, b string) int { return cmp.Compare(duration(b), duration(a)) },
	)
	sums, mine := make([]float64, of), map[string]bool{}
	for _, test := range longest {
		at := slices.Index(sums, slices.Min(sums))
		sums[at] += duration(test)
		mine[test] = at == shard-1
	}
	return slices.DeleteFunc(slices.Clone(tests), func(t string) bool { return !mine[t] })
}

// ParseShard reads "2/3", the second of three shards.
func ParseShard(text string) (shard, of int, err error) {
	first, second, _ := strings.Cut(text, "/")
	shard, err = strconv.Atoi(first)
	if err == nil {
		of, err = strconv.Atoi(second)
	}
	if err != nil || shard < 1 || shard > of {
		return 0, 0, fmt.Errorf("shard %q: want 1/2 for the first of two", text)
	}
	return shard, of, nil
}

// ParseDurations reads lines of a number of seconds and a test.
func ParseDurations(text string) (map[string]float64, error) {
	took := map[string]float64{}
	for _, line := range Lines(text) {
		seconds, test, _ := strings.Cut(line, " ")
		d, err := strconv.ParseFloat(seconds, 64)
		if err != nil || test == "" {
			return nil, fmt.Errorf("duration %q: want seconds and the name of a test", line)
		}
		took[test] = d
	}
	return took, nil
}

// Lines are those of a list, without empty ones and remarks, which begin with #.
func Lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}
