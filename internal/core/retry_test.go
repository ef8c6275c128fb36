package core_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// ended is a failure of the pod j-worker-0.
func ended(c core.Category, code int32) core.Failure {
	return core.Failure{Category: c, ExitCode: code, Pod: "j-worker-0"}
}

func withProgress(f core.Failure) core.Failure {
	f.Progress = true
	return f
}

func of(pod string, f core.Failure) core.Failure {
	f.Pod = pod
	return f
}

func under(f core.Failure) core.Failure {
	f.Pressure = true
	return f
}

// written is a policy of rules as people write them, before the defaults, with three retries.
func written(t *testing.T, text string) core.RetryPolicy {
	t.Helper()
	p := core.RetryPolicy{Limit: 3}
	if text != "" {
		said, err := core.ParseRetryText(text, "the job")
		if err != nil {
			t.Fatal(err)
		}
		p.Rules = said.Rules
		if said.Limit != nil {
			p.Limit = *said.Limit
		}
		if said.Disruptions != nil {
			p.Disruptions = *said.Disruptions
		}
	}
	p.Rules = append(p.Rules, core.DefaultRetryRules()...)
	return p
}

func TestRetries(t *testing.T) {
	user := func(code int32) core.Failure { return ended(core.CategoryUserError, code) }
	node, oom := ended(core.CategoryNodeFailure, 1), ended(core.CategoryOutOfMemory, 137)
	const retry, spared, fail = "retry", "spared", "fail"
	for name, c := range map[string]struct {
		why     string
		policy  string
		retries int32
		before  []core.Failure
		fails   core.Failure
		want    string
		told    string
	}{
		"wrong usage": {
			"a program that is called wrongly is called wrongly again", "", 0, nil, user(2), fail, "no retry mends that",
		},
		"not executable": {"shells end so", "", 0, nil, user(126), fail, `"UserError exit 2,126,127: Fail" of the defaults`},
		"not found":      {"shells end so", "", 0, nil, user(127), fail, ""},
		"first exception": {
			"NCCL timeouts end with exit code 1, too", "", 0, nil, user(1), retry, "retry 1 of 3",
		},
		"same exception at once": {
			"two that end alike within minutes end alike for ever", "", 1,
			[]core.Failure{user(1)},
			user(1), fail, "the attempt before ended alike",
		},
		"same exception of another rank": {
			"which rank notices first is chance", "", 1,
			[]core.Failure{of("j-worker-7", user(1))},
			user(1), fail, "",
		},
		"same exception of a pod of a Job": {
			"its name ends with its index and what makes it unique", "", 1,
			[]core.Failure{of("js-workers-0-3-x7k2p", user(1))},
			of("js-workers-0-17-abcde", user(1)), fail, "",
		},
		"same code in another role": {
			"a launcher that fails and a worker that fails are two things", "", 1,
			[]core.Failure{of("j-master-0", user(1))},
			user(1), retry, "",
		},
		"another code":               {"it is another failure", "", 1, []core.Failure{user(3)}, user(1), retry, ""},
		"after hours":                {"it ran for long", "", 1, []core.Failure{user(1)}, withProgress(user(1)), retry, ""},
		"the one before was hours":   {"it made progress", "", 1, []core.Failure{withProgress(user(1))}, user(1), retry, ""},
		"a disruption in between":    {"it proves nothing", "", 1, []core.Failure{user(1), node}, user(1), fail, ""},
		"out of retries":             {"the limit is a limit", "", 3, nil, user(1), fail, "the limit of 3 retries is reached"},
		"crash":                      {"it may be a peer, or the hardware", "", 1, []core.Failure{ended(core.CategoryCrash, 139)}, ended(core.CategoryCrash, 139), retry, ""},
		"out of memory once":         {"it may have been a peak", "", 0, nil, oom, retry, ""},
		"out of memory twice":        {"the same memory is as little again", "", 1, []core.Failure{oom}, oom, fail, "OutOfMemory twice in a row"},
		"out of memory, hours later": {"it leaks: from its checkpoint it goes on", "", 1, []core.Failure{oom}, withProgress(oom), retry, ""},

		"node":                    {"it is not to blame", "", 3, nil, node, spared, "against no limit"},
		"network":                 {"nor here", "", 3, nil, ended(core.CategoryNetworkFailure, 1), spared, ""},
		"drained":                 {"nor here", "", 3, nil, ended(core.CategoryMaintenance, 143), spared, ""},
		"preempted":               {"nor here", "", 3, nil, ended(core.CategoryPreemption, 0), spared, ""},
		"relocated":               {"nor here", "", 3, nil, ended(core.CategoryRelocation, 0), spared, ""},
		"disk of the node full":   {"nor here", "", 3, nil, under(ended(core.CategoryStorageFailure, 137)), spared, ""},
		"own limit of disk":       {"that is its own", "", 3, nil, ended(core.CategoryStorageFailure, 137), fail, ""},
		"a rack that flaps":       {"it does not restart for ever", "", 0, slices.Repeat([]core.Failure{node}, 12), node, fail, "12 disruptions in a row"},
		"progress in between":     {"it gets on", "", 0, append(slices.Repeat([]core.Failure{node}, 11), withProgress(node)), node, spared, ""},
		"progress now":            {"it gets on", "", 0, slices.Repeat([]core.Failure{node}, 12), withProgress(node), spared, ""},
		"fewer are enough":        {"its author says so", "disruptions: 2", 0, []core.Failure{node, node}, node, fail, "2 disruptions"},
		"its author says Fail":    {"a rule of its own comes first", "UserError exit 1: Fail", 0, nil, user(1), fail, `of the job`},
		"its author says Retry":   {"and may say the contrary of the defaults", "UserError: Retry", 0, nil, user(2), retry, ""},
		"limit of a rule":         {"it has one of its own", "Crash: Retry limit 1", 1, []core.Failure{ended(core.CategoryCrash, 134)}, ended(core.CategoryCrash, 139), fail, "limit of 1"},
		"limit of another rule":   {"others do not count for it", "Crash: Retry limit 1", 1, []core.Failure{user(3)}, ended(core.CategoryCrash, 139), retry, ""},
		"limit of all":            {"a rule that says Retry does not raise it", "Crash: Retry; limit: 0", 0, nil, ended(core.CategoryCrash, 139), fail, "limit of 0"},
		"exit code of any kind":   {"exit codes go without a category", "exit 3: Fail", 0, nil, ended(core.CategoryCrash, 3), fail, ""},
		"exit code, but the node": {"on a node that failed it proves nothing", "exit 1: Fail", 0, nil, node, spared, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := written(t, c.policy)
			got := p.Decide(core.RetryHistory{Retries: c.retries, Last: c.before}, c.fails)
			is := fail
			switch {
			case got.Retry && got.Charged:
				is = retry
			case got.Retry:
				is = spared
			}
			if is != c.want || !strings.Contains(got.Why, c.told) {
				t.Errorf("%s: %s (%s), want %s (%s)", c.why, is, got.Why, c.want, c.told)
			}
		})
	}
}

// TestPausesAfterDisruptions: none after the first ones, then longer ones, up to a bound.
func TestPausesAfterDisruptions(t *testing.T) {
	h := core.RetryHistory{}
	var got []time.Duration
	for range 9 {
		h.Last = append(h.Last, ended(core.CategoryNodeFailure, 0))
		got = append(got, h.Pause())
	}
	want := []time.Duration{
		0,
		0,
		30 * time.Second,
		time.Minute,
		2 * time.Minute,
		4 * time.Minute,
		8 * time.Minute,
		10 * time.Minute,
		10 * time.Minute,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pauses are %v, want %v", got, want)
	}
	if h.Last = append(h.Last, ended(core.CategoryUserError, 1)); h.Pause() != 0 {
		t.Error("a failure of its own has the pause of its kind")
	}
}

// TestRetryTexts: what is read is what is meant, and what makes no sense is refused with what to do.
func TestRetryTexts(t *testing.T) {
	said, err := core.ParseRetryText(
		" UserError exit 3, 10: Fail;\n Crash, Unknown : Retry limit 2\nlimit: 5; disruptions: 9;",
		"x",
	)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for i := range said.Rules {
		rules = append(rules, said.Rules[i].String())
	}
	if got := strings.Join(
		rules,
		"; ",
	); got != "UserError exit 3,10: Fail; Crash,Unknown: Retry limit 2" || *said.Limit != 5 ||
		*said.Disruptions != 9 {
		t.Errorf("it was read as %s, limit %v, disruptions %v", got, said.Limit, said.Disruptions)
	}
	for text, cure := range map[string]string{
		"":                                 "it is empty",
		" ; ":                              "it is empty",
		"UserError":                        "no colon",
		": Fail":                           "no failure",
		"UserErorr: Fail":                  "use some of UserError, Crash",
		"NodeFailure: Fail":                "disruptions: N",
		"UserError,UserError: Fail":        "twice",
		"UserError: fail":                  "Fail, Retry, or Retry limit N",
		"UserError: Retry 3":               "Fail, Retry, or Retry limit N",
		"UserError: Fail limit 3":          "Fail, Retry, or Retry limit N",
		"UserError: Retry limit x":         "from 0 to 16",
		"UserError: Retry limit 17":        "from 0 to 16",
		"UserError exit 0: Fail":           "from 1 to 255",
		"exit 256: Fail":                   "from 1 to 255",
		"exit 3,3: Fail":                   "twice",
		"exit : Fail":                      "from 1 to 255",
		"limit: -1":                        "from 0 to 100",
		"limit: 2; limit: 3":               "twice",
		"disruptions: 0":                   "from 1 to 16",
		strings.Repeat("limit: ", 200):     "bytes",
		strings.Repeat("Crash: Fail;", 17): "more than 16",
	} {
		if _, err := core.ParseRetryText(text, "x"); err == nil || !strings.Contains(err.Error(), cure) {
			t.Errorf("%q: %v, want %s", text, err, cure)
		}
	}
}

// drawRetries draws policies and failures.
func drawFailure(t *rapid.T) core.Failure {
	return core.Failure{
		Category: rapid.SampledFrom(core.Categories()).Draw(t, "category"),
		ExitCode: rapid.SampledFrom([]int32{0, 1, 2, 3, 137}).Draw(t, "code"),
		Pod:      rapid.SampledFrom([]string{"", "j-0", "j-worker-1"}).Draw(t, "pod"),
		Pressure: rapid.Bool().Draw(t, "pressure"),
		Progress: rapid.Bool().Draw(t, "progress"),
	}
}

func drawPolicy(t *rapid.T) core.RetryPolicy {
	p := core.RetryPolicy{
		Limit:       rapid.Int32Range(0, 5).Draw(t, "limit"),
		Disruptions: rapid.Int32Range(0, 16).Draw(t, "disruptions"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "rules") {
		r := core.RetryRule{
			Categories: rapid.SliceOfNDistinct(rapid.SampledFrom(core.RuledCategories()), 0, 2, rapid.ID).
				Draw(t, "of"),
			ExitCodes: rapid.SliceOfNDistinct(rapid.Int32Range(1, 3), 0, 2, rapid.ID).Draw(t, "codes"),
			Action:    rapid.SampledFrom([]core.RetryAction{core.RetryOnFailure, core.FailOnFailure}).Draw(t, "then"),
		}
		if r.Action == core.RetryOnFailure && rapid.Bool().Draw(t, "limited") {
			r.Limit = new(rapid.Int32Range(0, 3).Draw(t, "limit of it"))
		}
		p.Rules = append(p.Rules, r)
	}
	p.Rules = append(p.Rules, core.DefaultRetryRules()...)
	return p
}

// TestRetryProperties: whatever the policy, disruptions never spend the retries; what a rule declares terminal is not
// tried again; and a job that only fails ends.
func TestRetryProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		h := core.RetryHistory{}
		charged, free := int32(0), 0
		for i := 0; ; i++ {
			if i > 500 {
				t.Fatal("it is retried for ever")
			}
			f := drawFailure(t)
			f.Progress = f.Progress && i < 20 // then it gets nowhere
			v := p.Decide(h, f)
			switch {
			case v.Why == "":
				t.Fatal("nothing says why")
			case v.Charged && f.Disrupts():
				t.Fatalf("a disruption (%s) spends a retry", f.Category)
			case v.Retry && !v.Charged && !f.Disrupts():
				t.Fatalf("a failure of its own (%s) spends none", f.Category)
			}
			for _, r := range p.Rules[:len(p.Rules)-len(core.DefaultRetryRules())] { // the first that fits
				fits := (len(r.Categories) == 0 && !f.Disrupts() || slices.Contains(r.Categories, f.Category)) &&
					(len(r.ExitCodes) == 0 || slices.Contains(r.ExitCodes, f.ExitCode))
				if fits && r.Action == core.FailOnFailure && v.Retry {
					t.Fatalf("%s is tried again, which %q rules out", f.Category, r.String())
				}
				if fits {
					break
				}
			}
			if !v.Retry {
				return
			}
			if v.Charged {
				charged++
				h.Retries++
			} else {
				free++
			}
			if charged > p.Limit {
				t.Fatalf("%d retries, %d are the limit", charged, p.Limit)
			}
			if h.Last = append(h.Last, f); len(h.Last) > 16 {
				h.Last = h.Last[1:]
			}
		}
	})
}
