package cycle_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
)

// TestScenarios runs test/scenarios/*.txt; test/scenarios/README.md explains the
// language. Run it with -rewrite to write the outcomes into the files.
func TestScenarios(t *testing.T) {
	if f := flag.Lookup("rewrite"); f == nil {
		t.Fatal("datadriven has no -rewrite flag any more")
	}
	datadriven.Walk(t, filepath.Join("..", "..", "..", "test", "scenarios"), func(t *testing.T, path string) {
		t.Helper()
		if filepath.Ext(path) != ".txt" {
			return
		}
		s := newScript()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			return s.run(t, d)
		})
	})
}

// script is one scenario file being run. It plays the controllers: every decision is
// carried out and observed at once, except that evicted workloads keep their
// nodes until the file says release or finish.
type script struct {
	engine  *cycle.Engine
	options cycle.Options
	// told is what every engine is told of beside workloads, in order.
	told      []core.Event
	now       time.Time
	workloads map[core.Key]*core.Workload
	nodes     map[string]core.Node
	queues    map[string]core.Queue
	flav      map[string]core.Flavor
	// cohorts are those that were defined.
	cohorts map[string]bool
	// late are jobs whose admission is not told until they are "seen".
	late map[core.Key]bool
}

func newScript() *script {
	return &script{
		engine:    cycle.New(cycle.Options{}),
		now:       time.Unix(0, 0).UTC(),
		workloads: map[core.Key]*core.Workload{},
		nodes:     map[string]core.Node{},
		queues:    map[string]core.Queue{},
		flav:      map[string]core.Flavor{},
		cohorts:   map[string]bool{},
		late:      map[core.Key]bool{},
	}
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var out strings.Builder
	switch d.Cmd {
	case "do":
		for line := range strings.Lines(d.Input) {
			if err := s.line(strings.Fields(line)); err != nil {
				d.Fatalf(t, "%s: %v", strings.TrimSpace(line), err)
			}
		}
		s.now = s.now.Add(time.Second)
		s.decide(t, d, &out)
	case "why":
		for _, arg := range d.CmdArgs {
			r, ok := s.engine.Why(parseKey(arg.Key))
			if !ok {
				out.WriteString("does not wait\n")
				continue
			}
			fmt.Fprintf(&out, "[%s/%s] %s\n", r.Code, r.Cause, explain.Paragraph(r))
		}
	case "explain":
		for _, arg := range d.CmdArgs {
			x, ok, _ := inquiry.Explain(inquiry.At(s.engine.View()), parseKey(arg.Key), s.now, []int64{1, 5, 10})
			if !ok {
				out.WriteString("does not wait\n")
				continue
			}
			printExplanation(&out, x)
		}
	case "usage":
		for _, arg := range d.CmdArgs {
			c := s.engine.Load(arg.Key)
			fmt.Fprintf(
				&out,
				"%s: active %d, inadmissible %d, reserving %d, evicting %d\n",
				arg.Key,
				c.Pending,
				c.Inadmissible,
				c.Reserving,
				c.Evicting,
			)
			for _, of := range slices.SortedFunc(maps.Keys(c.Reserved), core.FlavorResource.Compare) {
				reserved := c.Reserved[of]
				fmt.Fprintf(
					&out,
					"  %s %s: %s, borrowed %s\n",
					of.Flavor,
					short(of.Resource),
					explain.Amount(
						of.Resource,
						reserved,
					),
					explain.Amount(of.Resource, max(0, reserved.Sub(nominal(s.queues[arg.Key], of)))),
				)
			}
		}
	case "share":
		for _, arg := range d.CmdArgs {
			share := s.engine.Share(arg.Key)
			if s.cohorts[arg.Key] {
				share = s.engine.CohortShare(arg.Key)
			}
			if share == math.MaxInt64 {
				fmt.Fprintf(&out, "%s: infinite\n", arg.Key)
				continue
			}
			fmt.Fprintf(&out, "%s: %d\n", arg.Key, share)
		}
	case "consumed":
		for _, arg := range d.CmdArgs {
			k := parseKey(arg.Key)
			used, at, _ := s.engine.Consumed(k.Namespace, k.Name)
			fmt.Fprintf(&out, "%s at %s:", arg.Key, at.Format(time.TimeOnly))
			for _, u := range used {
				fmt.Fprintf(&out, " %s %d thousandths", u.Resource, u.Amount)
			}
			out.WriteString("\n")
		}
	case "positions":
		fmt.Fprintln(&out, s.engine.Positions(d.CmdArgs[0].Key))
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

// decide prints decisions and carries them out, until nothing more is decided.
func (s *script) decide(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	t.Helper()
	for round := range 10 {
		plan := s.engine.Decide(s.now)
		if err := s.engine.Check(); err != nil {
			d.Fatalf(t, "check: %v", err)
		}
		if len(plan) == 0 {
			return
		}
		if round > 0 {
			out.WriteString("then\n")
		}
		for _, dec := range plan {
			out.WriteString(printDecision(dec) + "\n")
		}
		for _, dec := range plan {
			s.carryOut(dec)
		}
	}
	d.Fatalf(t, "no end to decisions:\n%s", out.String())
}

// carryOut plays the controllers for one decision.
func (s *script) carryOut(d core.Decision) {
	switch d := d.(type) {
	case core.Admit:
		w := s.workloads[d.Key]
		w.Admission, w.Reserved, w.Admitted = &d.Admission, s.now, true
		w.Evicting, w.Interruption, w.Next = false, core.NotInterrupted, nil
		if !s.late[d.Key] {
			s.tell(w)
		}
	case core.Replace:
		w := s.workloads[d.Key]
		w.Admission = &d.Admission
		s.tell(w)
	case core.Evict:
		w := s.workloads[d.Key]
		w.Evicting, w.Interruption = true, core.NotInterrupted
		if d.Reason == core.Relocated {
			w.Relocated = s.now
		}
		w.Next = d.Next
		if d.Interrupts {
			w.Interruption = core.InterruptedStopping
		}
		s.tell(w)
	case core.Refuse: // the engine need not hear of its own words
		s.workloads[d.Key].Next = d.Next
	}
}

// apply tells the engine, and each one after it, of what is no workload.
func (s *script) apply(ev core.Event) {
	s.told = append(s.told, ev)
	s.engine.Apply(ev)
}

// restart begins with a new engine, which is told what there is, workloads first or last.
func (s *script) restart(workloadsFirst bool) { //nolint:revive // what the line says
	s.engine = cycle.New(s.options)
	workloads := func() {
		for _, k := range slices.SortedFunc(maps.Keys(s.workloads), core.Key.Compare) {
			s.tell(s.workloads[k])
		}
	}
	if workloadsFirst {
		workloads()
	}
	for _, ev := range s.told {
		s.engine.Apply(ev)
	}
	if !workloadsFirst {
		workloads()
	}
}

func (s *script) tell(w *core.Workload) { s.engine.Apply(core.WorkloadSet{Workload: *w}) }

func printDecision(d core.Decision) string {
	switch d := d.(type) {
	case core.Admit:
		return "admit " + d.Key.String() + printAdmission(d.Admission)
	case core.Replace:
		return "replace " + d.Key.String() + printAdmission(d.Admission)
	case core.Evict:
		if d.Interrupts {
			return fmt.Sprintf("interrupt %s (%s)", d.Key, d.Reason)
		}
		if d.For == (core.Key{}) {
			return fmt.Sprintf("evict %s (%s)", d.Key, d.Reason)
		}
		return fmt.Sprintf("evict %s for %s (%s)", d.Key, d.For, d.Reason)
	case core.Refuse:
		return fmt.Sprintf("refuse %s [%s] %s", d.Key, d.Why.Code, explain.Sentence(d.Why))
	}
	return fmt.Sprint(d)
}

func printAdmission(a core.Admission) string {
	var b strings.Builder
	b.WriteString(" to " + a.Queue)
	for _, p := range a.PodSets {
		fmt.Fprintf(&b, "; %s*%d", p.Name, p.Count)
		for i, f := range p.Flavors {
			fmt.Fprintf(&b, " %s=%s:%s", short(f.Resource), explain.Amount(f.Resource, p.Usage[i].Amount), f.Flavor)
		}
		for i, pl := range p.Places {
			fmt.Fprintf(&b, "%s%s*%d", map[bool]string{true: " on ", false: ", "}[i == 0], pl.Node, pl.Count)
		}
	}
	return b.String()
}

func short(resource string) string {
	if resource == core.GPU {
		return "gpu"
	}
	return resource
}

func long(resource string) string {
	if resource == "gpu" {
		return core.GPU
	}
	return resource
}

func parseKey(s string) core.Key {
	ns, name, _ := strings.Cut(s, "/")
	return core.Key{Namespace: ns, Name: name}
}

// parseAmount reads cores for cpu and Gi for memory, pieces for the rest, and
// "unlimited".
func parseAmount(resource, s string) (core.Amount, error) {
	if s == core.Unlimited.String() {
		return core.Unlimited, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch resource {
	case core.CPU:
		n *= 1000
	case core.Memory:
		n <<= 30
	}
	return core.Amount(n), err
}

func isResource(s string) bool { return slices.Contains([]string{"gpu", "cpu", "memory", "pods"}, s) }

// line runs one line of a "do" block.
func (s *script) line(f []string) error {
	if len(f) == 0 || strings.HasPrefix(f[0], "#") {
		return nil
	}
	if f[0] == "restart" { // restart [first]: a new process sees workloads first
		s.restart(len(f) > 1)
		return nil
	}
	args := f[2:]
	switch f[0] {
	case "after":
		d, err := time.ParseDuration(f[1])
		s.now = s.now.Add(d)
		return err
	case "options":
		return s.setOptions(f[1:])
	case "flavor":
		return s.flavor(f[1], args)
	case "cohort":
		return s.cohort(f[1], args)
	case "queue":
		return s.queue(f[1], args)
	case "local":
		return s.local(f[1], args)
	case "namespace":
		ns := core.Namespace{Name: f[1], Labels: pairs(args)}
		s.apply(core.NamespaceSet{Namespace: ns})
	case "node":
		return s.node(f[1], args)
	case "job":
		return s.job(f[1], args)
	case "gone":
		return s.gone(f[1], args)
	default:
		return s.happens(f[0], parseKey(f[1]), args)
	}
	return nil
}

// happens runs the lines about something that happened to a job.
func (s *script) happens(what string, k core.Key, args []string) error {
	w := s.workloads[k]
	if w == nil {
		return fmt.Errorf("no such job or word")
	}
	switch what {
	case "finish", "delete":
		delete(s.workloads, k)
		s.engine.Apply(core.WorkloadGone{Key: k})
		return nil
	case "release":
		w.Admission, w.Evicting, w.Reserved, w.Settled = nil, false, time.Time{}, nil
		w.Admitted, w.Ready, w.Interruption = false, false, core.NotInterrupted
	case "stopped": // the pods of an interrupted job have ended
		w.Admitted, w.Ready, w.Interruption, w.Settled = false, false, core.InterruptedStopped, nil
	case "agree": // the admission gate is gone
		w.GatedBy = ""
	case "opengate":
		w.PreemptionGate = ""
	case "ready":
		w.Ready = true
	case "asked": // an admission check is, so it has quota and is not admitted
		w.Admitted = false
	case "passed": // all its admission checks agree
		w.Admitted = true
	case "late": // its next admission takes a while
		s.late[k] = true
		return nil
	case "seen": // by now
		delete(s.late, k)
	case "taken": // the API accepted its admission, and it was not seen yet
		s.engine.Apply(core.Applied{Key: k, Seq: 1})
		return nil
	case "priority": // its label is changed
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return err
		}
		w.Priority = n
	case "move": // to another LocalQueue
		w.Queue = args[0]
	case "hold":
		w.Held = "Deactivated"
	case "resume":
		w.Held = ""
	case "serves": // it does not end by itself
		w.Endless = true
	case "backoff":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		w.NotBefore = s.now.Add(d)
	case "settle": // settle NS/JOB SET NODE*COUNT...
		ps := core.PodSetPlaces{Name: args[0]}
		for _, a := range args[1:] {
			node, count, _ := strings.Cut(a, "*")
			n, err := strconv.Atoi(count)
			if err != nil {
				return err
			}
			ps.Places = append(ps.Places, core.Place{Node: node, Count: int32(n)})
		}
		w.Settled = append(
			slices.DeleteFunc(slices.Clone(w.Settled), func(x core.PodSetPlaces) bool { return x.Name == ps.Name }),
			ps,
		)
	case "refused":
		s.engine.Apply(core.Refused{Key: k})
		return nil
	case "turnedaway": // nodes refused pods of its first pod set: NODE:MOST,...
		w.PodSets = slices.Clone(w.PodSets)
		w.PodSets[0].Filter.Refused = refusals(args[0])
	default:
		return fmt.Errorf("unknown word")
	}
	s.tell(w)
	return nil
}

func (s *script) gone(what string, args []string) error {
	switch what {
	case "node":
		s.apply(core.NodeGone{Name: args[0]})
	case "queue":
		s.apply(core.QueueGone{Name: args[0]})
	case "cohort":
		s.apply(core.CohortGone{Name: args[0]})
	case "flavor":
		s.apply(core.FlavorGone{Name: args[0]})
	default:
		return fmt.Errorf("cannot go")
	}
	return nil
}

// pairs reads KEY=VALUE words.
func pairs(args []string) map[string]string {
	m := map[string]string{}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		m[k] = v
	}
	return m
}

// nominal is what a queue owns of a flavor's resource.
func nominal(q core.Queue, of core.FlavorResource) core.Amount {
	for _, g := range q.Groups {
		for _, f := range g.Flavors {
			for _, own := range f.Quotas {
				if f.Flavor == of.Flavor && own.Resource == of.Resource {
					return own.Nominal
				}
			}
		}
	}
	return 0
}
