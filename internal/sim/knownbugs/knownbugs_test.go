package knownbugs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// TestBugsDoNotShow: every statement holds in every world.
func TestBugsDoNotShow(t *testing.T) {
	for _, b := range All() {
		t.Run(b.Name, func(t *testing.T) {
			s, err := b.Play()
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range b.Judge(&s) {
				if v.Err != nil {
					t.Errorf("%s: %v", v.Text, v.Err)
				}
			}
			if !strings.Contains(b.Link, strings.TrimPrefix(b.Name, strings.Split(b.Name, "#")[0]+"#")) {
				t.Errorf("%s is linked to %s", b.Name, b.Link)
			}
			if t.Failed() {
				for _, m := range s.Moments {
					t.Logf("%8s %-9s %s %s %s %v %d", m.At, m.What, m.Job, m.For, m.Code, m.Nodes, m.Pods)
				}
			}
		})
	}
}

// TestStatementsNotice: each statement fails in a story in which the fault shows.
func TestStatementsNotice(t *testing.T) {
	at := func(minutes int, what What, job string, more ...string) Moment {
		m := Moment{At: time.Duration(minutes) * time.Minute, What: what, Job: job}
		switch {
		case len(more) == 0:
		case what == Evicted:
			m.For = more[0]
		case what == Refused:
			m.Code = core.Code(more[0])
		default:
			m.Nodes, m.Pods = more, int32(len(more))
		}
		return m
	}
	loop := []Moment{
		at(0, Submitted, "a"), at(0, Started, "a", "n0"), at(1, Submitted, "b"), at(1, Evicted, "a", "b"),
		at(2, Left, "a"), at(2, Started, "a", "n0"), at(3, Evicted, "a", "b"),
	}
	good := []Moment{
		at(
			0,
			Submitted,
			"a",
		),
		at(0, Started, "a", "n0"),
		at(1, Submitted, "b"),
		at(1, Refused, "b", "WaitingForQuota"),
		at(1, Evicted, "a", "b"),
		at(
			2,
			Left,
			"a",
		),
		at(2, Started, "b", "n0"),
		at(9, Ended, "b"),
		at(9, Started, "a", "n0"),
		at(20, Ended, "a"),
	}
	cases := map[string]struct {
		why       string
		statement Statement
		story     []Moment
		want      string // "" holds
	}{
		"room is kept":           {"who made room comes after", sticky(), good, ""},
		"room is taken":          {"the loop of kueue#3779", sticky(), loop, "before b"},
		"room is kept of nobody": {"nothing was shown", sticky(), good[:4], "nobody was evicted"},
		"once":                   {"", evictions(1), good, ""},
		"twice":                  {"a job is evicted again", evictions(2), loop, "again"},
		"more than foreseen":     {"somebody was evicted", evictions(0), good, "1 jobs"},
		"in time":                {"", starts("b", time.Minute), good, ""},
		"too late":               {"it came when all else had ended", starts("b", time.Second), good, "1m0s"},
		"never started":          {"", starts("b", time.Hour), loop, "never admitted"},
		"nobody asked":           {"a name is wrong", starts("c", time.Hour), good, "never submitted"},
		"ends":                   {"", end("a", "b"), good, ""},
		"does not end":           {"", end("a"), loop, "did not end"},
		"never": {
			"told, and costs nothing",
			never("c", "ExceedsMaxQuota"),
			[]Moment{at(0, Refused, "c", "ExceedsMaxQuota")},
			"",
		},
		"never and yet": {"it runs", never("b", "WaitingForQuota"), good, "was admitted"},
		"never and for another": {
			"it was told something else",
			never("c", "ExceedsMaxQuota"),
			[]Moment{at(0, Refused, "c", "WaitingForQuota")},
			"told",
		},
		"never and in vain": {
			"somebody had to go for it",
			never("b", "WaitingForQuota"),
			good[:5],
			"a was evicted",
		},
		"told once":     {"", toldAtMost("b", 1), good, ""},
		"told for ever": {"kueue#8064", toldAtMost("b", 1), []Moment{good[3], good[3]}, "2 times"},
		"told nothing":  {"it never waited", toldAtMost("b", 1), loop, "nothing"},
		"whole":         {"", whole("a", 1), good, ""},
		"in part":       {"a place is missing", whole("a", 2), good, "1 places"},
		"not at all":    {"", whole("c", 2), good, "never"},
		"apart": {
			"",
			apart("b", "a"),
			[]Moment{at(0, Started, "b"), at(2, Ended, "b"), at(2, Started, "a")},
			"",
		},
		"at once": {
			"half of the nodes each",
			apart("b", "a"),
			[]Moment{at(0, Started, "b"), at(0, Started, "a"), at(2, Ended, "b")},
			"began",
		},
		"both wait": {"for ever", apart("b", "a"), nil, "never ended"},
		"moves": {
			"",
			leaves("a", "n0", time.Minute, time.Minute),
			[]Moment{at(0, Started, "a", "n0"), at(2, Moved, "a", "n1"), at(3, Ended, "a")},
			"",
		},
		"stays": {
			"trainer#2072",
			leaves("a", "n0", time.Minute, time.Minute),
			[]Moment{at(0, Started, "a", "n0")},
			"left where",
		},
		"moves late": {
			"",
			leaves("a", "n0", time.Minute, time.Minute),
			[]Moment{at(0, Started, "a", "n0"), at(3, Moved, "a", "n1"), at(3, Ended, "a")},
			"took",
		},
		"moves back": {
			"onto the dead node",
			leaves("a", "n0", time.Minute, time.Minute),
			[]Moment{at(0, Started, "a", "n0"), at(2, Moved, "a", "n0"), at(3, Ended, "a")},
			"again",
		},
		"was elsewhere": {
			"the wrong node died",
			leaves("a", "n5", time.Minute, time.Minute),
			good,
			"did not run",
		},
		"moves and stops": {
			"",
			leaves("a", "n0", time.Minute, time.Minute),
			[]Moment{at(0, Started, "a", "n0"), at(2, Moved, "a", "n1")},
			"did not end",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.statement.Check(&Story{Moments: c.story})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: %v, want %q", c.why, c.statement.Text, err, c.want)
			}
		})
	}
	broken := &Story{Decisions: 1, Broken: errors.New("P2")}
	if audited().Check(broken) == nil || audited().Check(&Story{}) == nil {
		t.Error("a broken promise, and a world in which nothing happens, must be noticed")
	}
}
