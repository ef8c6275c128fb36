package sakkara_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// A group is told its place in Sakkara's own form.
func TestOutcome(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 500e6, time.UTC)
	got, err := sakkara.Outcome([]sakkara.Placed{
		{Pod: "b", Node: "n2", Rank: 1, Domains: []string{"r1"}},
		{Pod: "a", Node: "n1", Rank: 0, Domains: []string{"r1"}},
		{Pod: "c", Node: "n3", Rank: 10},
	}, at, at.Add(1500*time.Millisecond))
	want := map[string]string{
		"status":              "Bound",
		"placement":           `{"root":{"n3":{"c":{}},"r1":{"n1":{"a":{}},"n2":{"b":{}}}}}`,
		"rank":                "[(a,0) (b,1) (c,10)]",
		"schedBeginTime":      "2026-03-01T12:00:00.5Z",
		"schedEndTime":        "2026-03-01T12:00:02Z",
		"schedTotalTimeMilli": "1500",
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("(-want +got):\n%s%v", d, err)
	}
	for key := range want {
		if !strings.Contains(strings.Join(sakkara.Written(), " "), key) {
			t.Errorf("%s would stay when the group is stopped", key)
		}
	}
}

// No group had its nodes before it was there, though the last pod's time is cut to seconds.
func TestOutcomeWithinASecond(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 500e6, time.UTC)
	got, err := sakkara.Outcome(nil, at, at.Truncate(time.Second))
	if got["schedEndTime"] != got["schedBeginTime"] || got["schedTotalTimeMilli"] != "0" || err != nil {
		t.Errorf("it says %v, %v", got, err)
	}
}

// What is too long for a ConfigMap is left out, and the rest is told.
func TestOutcomeOfManyPods(t *testing.T) {
	var pods []sakkara.Placed
	for i := range 5000 {
		pods = append(pods, sakkara.Placed{Pod: strings.Repeat("p", 200), Node: "n", Rank: i})
	}
	got, err := sakkara.Outcome(pods, time.Time{}, time.Time{})
	if got["status"] != "Bound" || got["rank"] != "" || got["placement"] != "" || err != nil {
		t.Errorf("it is %d bytes long, %v", len(got["rank"]), err)
	}
}
