package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// ContestAsker asks a controller how a workload that waits stands to another one.
type ContestAsker interface {
	// Contest is about the workload NAMESPACE/NAME and another one, which is named so too or
	// by its UID. It fails if no controller answers, or the user may not ask.
	Contest(ctx context.Context, namespace, name, against string) (*visibility.Explanation, error)
}

// Rivals are everything that is known of two jobs.
type Rivals struct {
	Waits JobObjects
	// Other is the other one; only UID is known of one that is not the user's to read.
	Other JobObjects
	UID   types.UID
	// Answer is what a controller says of both, nil if the first does not wait; Unanswered is
	// why none does.
	Answer     *visibility.Explanation
	Unanswered error
}

// Other names the job that another one is compared with: by a reference or, if UID is set, by
// the UID of its Workload.
type Other struct {
	view.Ref
	UID types.UID
}

// GatherRivals fetches what there is to know about two jobs.
func GatherRivals(
	ctx context.Context,
	c client.Reader,
	ask ContestAsker,
	ref view.Ref,
	of Other,
	now time.Time,
) (Rivals, error) {
	var r Rivals
	var err error
	other, uid := of.Ref, of.UID
	if r.Waits, err = Gather(ctx, c, unasked{}, ref, now); err != nil {
		return Rivals{}, err
	}
	against := string(uid)
	if r.UID = uid; uid == "" {
		if r.Other, err = Gather(ctx, c, unasked{}, other, now); apierrors.IsForbidden(err) {
			return Rivals{}, fmt.Errorf(
				"%w; a job of another team is named by the UID that mlbatch why tells of it",
				err,
			)
		} else if err != nil {
			return Rivals{}, err
		}
		if r.Waits.Asked == r.Other.Asked {
			return Rivals{}, fmt.Errorf("%s and %s are the same job, %s: name two", ref, other, r.Waits.Asked)
		}
		w := r.Other.Workload
		if w == nil {
			return r, nil
		}
		against = w.Namespace + "/" + w.Name
	}
	w := r.Waits.Workload
	if w == nil || !IsWaiting(w) {
		return r, nil
	}
	if uid != "" && w.UID == uid {
		return Rivals{}, fmt.Errorf("%s is the UID of %s itself: name two jobs", uid, r.Waits.Asked)
	}
	r.Answer, r.Unanswered = ask.Contest(ctx, w.Namespace, w.Name, against)
	if missing := (*NoWorkloadError)(nil); errors.As(r.Unanswered, &missing) && uid != "" {
		return Rivals{}, fmt.Errorf("no Workload has the UID %s; it may have ended", uid)
	}
	return r, nil
}

// unasked asks nobody: the answer about two jobs has what one about the first would say.
type unasked struct{}

func (unasked) Explanation(context.Context, string, string) (*visibility.Explanation, error) {
	return nil, nil //nolint:nilnil // nobody was asked
}

// Verdict is the code of why one job runs and another does not.
type Verdict string

// The verdicts.
const (
	NotWaiting     Verdict = "NotWaiting"     // the first one has quota, or has ended
	HeldByItself   Verdict = "HeldByItself"   // what it waits for has nothing to do with any other
	HoldsNothing   Verdict = "HoldsNothing"   // the other has no quota, and is not ahead
	InTheWay       Verdict = "InTheWay"       // without the other it would start
	NotInTheWay    Verdict = "NotInTheWay"    // without the other it would wait still
	StartsAnyway   Verdict = "StartsAnyway"   // in a moment
	UnknownVerdict Verdict = "Unknown"        // nobody could be asked
	OthersAreAhead Verdict = "OthersAreAhead" // without the other, others would start instead
)

// Comparison says why one job runs and another does not.
type Comparison struct {
	// Object is the job that waits, Other the one that it is compared with.
	Object string `json:"object"`
	Other  string `json:"other"`
	// State and OtherState are theirs in one word; "" if that is not the user's to know.
	State      view.State `json:"state"`
	OtherState view.State `json:"otherState,omitempty"`
	// Verdict is the code, stable for scripts.
	Verdict Verdict `json:"verdict"`
	// Lines are the numbers of both.
	Lines []ComparedLine `json:"lines,omitempty"`
	// Sentences say what follows from them.
	Sentences []string `json:"sentences"`
	// Answer is what a controller said, with all numbers; nil if none was asked, or none
	// answered.
	Answer *visibility.Explanation `json:"explanation,omitempty"`
	// Title is above the numbers of the other, "" for its name.
	Title string `json:"-"`
}

// ComparedLine is one number of both jobs.
type ComparedLine struct {
	What   string `json:"what"`
	Mine   string `json:"mine"`
	Theirs string `json:"theirs"`
}

// Compare turns what is known of two jobs into a comparison. It is pure.
func Compare(r Rivals) Comparison {
	mine := view.StandingOf(r.Waits.objects())
	out := Comparison{
		Object: r.Waits.Asked.String(),
		State:  mine.State,
		Other:  "the job of UID " + string(r.UID),
	}
	var theirs view.Standing
	if r.UID == "" {
		theirs = view.StandingOf(r.Other.objects())
		out.Other, out.OtherState = r.Other.Asked.String(), theirs.State
	}
	switch {
	case mine.Stage != view.Queued:
		out.notQueued(r, mine, theirs)
	case r.UID == "" && (theirs.Stage == view.Ended || theirs.Stage == view.Finished):
		out.Verdict = HoldsNothing
		out.waits(r)
		out.say(
			"%s has ended, %s: it holds nothing any more and stands in nobody's way",
			out.Other,
			strings.ToLower(string(theirs.State)),
		)
		out.why(r)
	case r.UID == "" && r.Other.Workload == nil:
		out.Verdict = HoldsNothing
		out.waits(r)
		out.say("%s has no Workload, so that no queue knows it and it holds no quota", out.Other)
		if n := len(theirs.Pods.Running); n > 0 {
			out.say(
				"Its %s on %s %s what nodes have",
				words.Count(n, "pod"),
				nodes(theirs.Pods.Running),
				words.Verb(n, "takes of", "take of"),
			)
		}
		out.why(r)
	case r.Answer == nil || r.Answer.Contest == nil:
		out.unanswered(r, mine, theirs)
	default:
		out.Answer = r.Answer
		out.contest(r, r.Answer.Contest)
	}
	return out
}

func (t *Comparison) say(format string, args ...any) {
	t.Sentences = append(t.Sentences, words.Sentence(fmt.Sprintf(format, args...)))
}

// notQueued tells of a first job that waits for no quota: it runs, or something of its own
// holds it.
func (t *Comparison) notQueued(r Rivals, mine, theirs view.Standing) {
	t.Verdict = HeldByItself
	switch mine.Stage {
	case view.Ended, view.Finished, view.Admitted, view.Checking, view.Evicted:
		t.Verdict = NotWaiting
	default:
		// It is held.
	}
	t.Sentences = append(t.Sentences, Explain(r.Waits).Sentences...)
	if t.Verdict == HeldByItself {
		t.say("Until that is mended %s does not stand in its way", t.Other)
	} else {
		t.say("So it does not wait for %s", t.Other)
	}
	if theirs.Stage == view.Queued {
		t.say(
			"It is %s that waits: mlbatch why-not %s %s asks the other way round",
			t.Other,
			named(r.Other.Asked),
			named(r.Waits.Asked),
		)
	}
}

func named(r view.Ref) string { return r.Namespace + "/" + r.Name }

// waits begins with how long the first one has waited.
func (t *Comparison) waits(r Rivals) {
	t.say("%s has waited for %s", t.Object, r.Waits.ago(view.StandingOf(r.Waits.objects()).Since))
}

// why ends with what the first one waits for, as the cluster has it.
func (t *Comparison) why(r Rivals) {
	if x := r.Answer; x != nil && x.Message != "" {
		t.say("%s waits for something else: %s", t.Object, Plain(x.Message))
	}
	t.say("See mlbatch why %s", named(r.Waits.Asked))
}

// unanswered tells what the objects say where no controller does.
func (t *Comparison) unanswered(r Rivals, mine, theirs view.Standing) {
	t.Verdict = UnknownVerdict
	if r.Answer != nil {
		t.Verdict = StartsAnyway
		t.say("%s waits no longer: it got its quota just now", t.Object)
		return
	}
	t.waits(r)
	if d := mine.Decision; d != nil {
		t.say("What it waited for %s ago: %s", r.Waits.ago(d.At), Plain(d.Message))
	}
	if r.UID == "" {
		t.say("%s is %s%s", t.Other, strings.ToLower(string(theirs.State)), since(&r.Other, theirs))
	}
	t.say("No controller says how both stand to each other (%v)", r.Unanswered)
}

func since(p *JobObjects, j view.Standing) string {
	if j.Since.IsZero() {
		return ""
	}
	return ", for " + p.ago(j.Since)
}

// contest tells what a controller said of both.
func (t *Comparison) contest(r Rivals, c *visibility.Contest) {
	if r.UID != "" {
		t.Other, t.OtherState = refer(c.Other.WorkloadReference), stateOf(core.Stage(c.Other.Stage))
	}
	if c.Other.Name == "" && c.Other.ClusterQueue != "" {
		t.Title = "a job of " + c.Other.ClusterQueue
	}
	now := r.Answer.At.Time
	t.lines(c, r.Answer, now)
	t.waits(r)
	t.say("%s", Plain(r.Answer.Message))
	t.stands(c, now)
	t.queues(c)
	t.shares(c)
	t.flavors(c, r.Answer)
	t.spared(c)
	t.gone(c, r.Answer)
	e := Explanation{}
	e.starts(r.Answer.Start, now)
	t.Sentences = append(t.Sentences, e.Sentences...)
	for i, s := range t.Sentences {
		t.Sentences[i] = r.Waits.withJobNames(s)
	}
}

// stateOf is the state of a job of which only its stage in the queues is known.
func stateOf(s core.Stage) view.State {
	switch s {
	case core.StageRunning:
		return view.Running
	case core.StageLeaving:
		return view.Stopping
	case core.StageWaiting, core.StagePromised:
		return view.Waiting
	}
	return ""
}

// compared is the resource of the numbers: what is short or else GPUs, or else the first that both have
// to do with.
func compared(c *visibility.Contest, x *visibility.Explanation) string {
	if x.Shortage != nil {
		return x.Shortage.Resource
	}
	for _, uses := range [][]visibility.FlavorAmount{c.Self.Uses, c.Other.Uses} {
		for _, u := range uses {
			if view.IsGPU(u.Resource) {
				return u.Resource
			}
		}
	}
	if len(c.Self.Uses) > 0 {
		return c.Self.Uses[0].Resource
	}
	return ""
}

// lines are the numbers of both, one below the other.
func (t *Comparison) lines(c *visibility.Contest, x *visibility.Explanation, now time.Time) {
	resource := compared(c, x)
	add := func(what, mine, theirs string) {
		if mine != "" || theirs != "" {
			t.Lines = append(t.Lines, ComparedLine{what, mine, theirs})
		}
	}
	add("STAGE", c.Self.Stage, c.Other.Stage)
	add("QUEUE", c.Self.ClusterQueue, c.Other.ClusterQueue)
	priority := ""
	if c.Other.Stage != "" {
		priority = fmt.Sprint(c.Other.Priority)
	}
	add("PRIORITY", fmt.Sprint(c.Self.Priority), priority)
	add("QUEUED", clockOf(c.Self.QueueTime, now), clockOf(c.Other.QueueTime, now))
	add("ADMITTED", clockOf(c.Self.ReservedTime, now), clockOf(c.Other.ReservedTime, now))
	asks, holds := usesText(c.Other.Uses, resource), ""
	if stage := core.Stage(c.Other.Stage); stage == core.StageRunning || stage == core.StageLeaving {
		asks, holds = "", asks
	}
	add("ASKS", usesText(c.Self.Uses, resource), asks)
	add("HOLDS", "", holds)
	for _, q := range c.Quotas {
		if q.Resource != resource || q.ClusterQueue != c.Self.ClusterQueue {
			continue
		}
		other := ""
		if i := slices.IndexFunc(c.Quotas, func(o visibility.ContestQuota) bool {
			return o.ClusterQueue != q.ClusterQueue && o.Flavor == q.Flavor && o.Resource == q.Resource
		}); i >= 0 {
			other = quotaText(c.Quotas[i])
		} else if c.Other.ClusterQueue == c.Self.ClusterQueue {
			other = "the same"
		}
		add("QUEUE USES", quotaText(q), other)
	}
	if len(c.Shares) == 2 {
		a, b := c.Shares[0], c.Shares[1]
		add("SHARE", shareText(a.Now), shareText(b.Now))
		add("WEIGHT", a.Weight, b.Weight)
		add("SHARE THEN", shareText(a.Then), shareText(b.Then))
	}
}

// age is how much time passed between two moments.
func age(from, to time.Time) string {
	return duration.HumanDuration(max(to.Sub(from), 0).Round(time.Second))
}

func clockOf(at *metav1.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	if now.Sub(at.Time) < 20*time.Hour {
		return at.Local().Format("15:04:05")
	}
	return at.Local().Format("Jan 2 15:04")
}

// usesText is what is taken of a resource, by flavor.
func usesText(uses []visibility.FlavorAmount, resource string) string {
	var parts []string
	for _, u := range uses {
		if u.Resource == resource {
			parts = append(
				parts,
				fmt.Sprintf("%s %s of %s", view.AmountOf(u.Resource, &u.Amount), u.Resource, u.Flavor),
			)
		}
	}
	return strings.Join(parts, ", ")
}

func quotaText(q visibility.ContestQuota) string {
	amounts := view.Amounts(q.Resource, q.Used.String(), q.Nominal.String(), q.Borrowed.String())
	return fmt.Sprintf("%s of its %s, %s borrowed", amounts[0], amounts[1], amounts[2])
}

// shareText is a share in thousandths.
func shareText(s int64) string {
	if s == math.MaxInt64 {
		return "infinite"
	}
	return fmt.Sprint(s)
}

// stands says where the other one is, and which of both came first.
func (t *Comparison) stands(c *visibility.Contest, now time.Time) {
	holds := ""
	if len(c.Other.Uses) > 0 {
		holds = ", with " + allUses(c.Other.Uses)
	}
	switch core.Stage(c.Other.Stage) {
	case core.StageRunning:
		when := ""
		if at := c.Other.ReservedTime; at != nil {
			when = " " + age(at.Time, now) + " ago"
			if queued := c.Self.QueueTime; queued != nil {
				switch d := queued.Sub(at.Time); {
				case d >= time.Second:
					when += fmt.Sprintf(", %s before %s was queued", age(at.Time, queued.Time), t.Object)
				case d <= -time.Second:
					when += fmt.Sprintf(", %s after %s was queued", age(queued.Time, at.Time), t.Object)
				}
			}
		}
		t.say("%s was admitted%s%s", t.Other, when, holds)
	case core.StageLeaving:
		t.say("%s is being stopped already, and its quota comes free when its pods have ended%s", t.Other, holds)
	case core.StagePromised:
		t.say("%s waits too, and what others are being stopped for is reserved for it", t.Other)
	case core.StageWaiting:
		t.say("%s waits too", t.Other)
	default:
		t.say("No queue knows %s: it holds no quota and is not ahead of anybody", t.Other)
	}
}

func allUses(uses []visibility.FlavorAmount) string {
	for _, u := range uses {
		if view.IsGPU(u.Resource) {
			return usesText(uses, u.Resource)
		}
	}
	return usesText(uses, uses[0].Resource)
}

// queues says in which queues both are, and who stands first in one that they share.
func (t *Comparison) queues(c *visibility.Contest) {
	a, b := c.Self.ClusterQueue, c.Other.ClusterQueue
	switch {
	case c.Order != "":
		first, second := t.Object, t.Other
		if c.OtherFirst {
			first, second = second, first
		}
		t.say("Both are in ClusterQueue %s, where %s comes before %s: %s", a, first, second, orderText(c))
		waiting := core.Stage(c.Other.Stage) == core.StageWaiting || core.Stage(c.Other.Stage) == core.StagePromised
		switch {
		case c.Strict && c.OtherFirst && waiting:
			t.say("The queue is StrictFIFO (spec.queueingStrategy), so nobody passes it there")
		case !c.OtherFirst && !waiting && !c.Strict:
			t.say(
				"The queue is BestEffortFIFO (spec.queueingStrategy): what comes later may pass where its own request fits",
			)
		}
	case a == "" || b == "":
	case a == b: // what has quota there and was submitted to another
		t.say("Both have to do with ClusterQueue %s", a)
	case c.Cohort == "":
		t.say(
			"ClusterQueues %s and %s have no cohort in common: no quota passes from one to the other, and only nodes are shared",
			a,
			b,
		)
	default:
		t.say("ClusterQueues %s and %s lend to each other in cohort %s", a, b, c.Cohort)
	}
}

// orderText says by which rule one of both comes first.
func orderText(c *visibility.Contest) string {
	first, second := c.Self, c.Other
	if c.OtherFirst {
		first, second = second, first
	}
	switch core.OrderRule(c.Order) {
	case core.ByPastUsage:
		return "its LocalQueue used less in the past, for its weight"
	case core.ByPriority:
		return fmt.Sprintf("priority %d is higher than %d", first.Priority, second.Priority)
	case core.ByTime:
		return fmt.Sprintf("both have priority %d, and it was queued earlier, at %s and not %s",
			first.Priority, first.QueueTime.Local().Format("15:04:05"), second.QueueTime.Local().Format("15:04:05"))
	case core.ByName:
	}
	return "all else is equal, and one has to be"
}

// shares says what fair sharing compares.
func (t *Comparison) shares(c *visibility.Contest) {
	if len(c.Shares) != 2 {
		return
	}
	side := func(s visibility.ContestShare) string {
		kind := "ClusterQueue"
		if s.Cohort {
			kind = "cohort"
		}
		return fmt.Sprintf("%s %s (weight %s)", kind, s.Name, s.Weight)
	}
	a, b := c.Shares[0], c.Shares[1]
	t.say(
		"Fair sharing, in thousandths of what cohort %s can lend: %s has %s, and would have %s with %s; %s has %s, and %s without the other job",
		c.Cohort,
		side(a),
		shareText(a.Now),
		shareText(a.Then),
		t.Object,
		side(b),
		shareText(b.Now),
		shareText(b.Then),
	)
}

// flavors says which flavors of the other one the first may not use.
func (t *Comparison) flavors(c *visibility.Contest, x *visibility.Explanation) {
	if len(x.Tried) == 0 {
		return
	}
	var seen []string
	for _, u := range c.Other.Uses {
		if slices.Contains(seen, u.Flavor) {
			continue
		}
		seen = append(seen, u.Flavor)
		i := slices.IndexFunc(x.Tried, func(a visibility.FlavorAttempt) bool { return a.Flavor == u.Flavor })
		switch {
		case i < 0:
			t.say(
				"%s uses flavor %s, of which ClusterQueue %s has no quota for %s",
				t.Other,
				u.Flavor,
				c.Self.ClusterQueue,
				t.Object,
			)
		case core.Code(x.Tried[i].Reason) == core.NoMatchingFlavor:
			t.say("%s uses flavor %s, which %s may not: %s", t.Other, u.Flavor, t.Object, Plain(x.Tried[i].Message))
		}
	}
}

// spared says why the other one is not stopped for the first.
func (t *Comparison) spared(c *visibility.Contest) {
	field := fmt.Sprintf(
		"%s of ClusterQueue %s is %s",
		c.Field,
		c.Self.ClusterQueue,
		cmp.Or(c.Policy, string(core.PreemptNever)),
	)
	not := t.Object + " may not stop it: "
	switch core.SpareRule(c.Spared) {
	case core.SparedByPolicy:
		t.say("%s%s", not, field)
	case core.SparedByPriority:
		than := fmt.Sprintf("its priority %d is not below %d", c.Other.Priority, c.Self.Priority)
		if core.PreemptionPolicy(c.Policy) == core.PreemptLowerOrNewerEqualPrio &&
			c.Other.Priority == c.Self.Priority {
			than = "of jobs of the same priority only those may be stopped that were queued later"
		}
		t.say("%s%s, and %s", not, field, than)
	case core.SparedWithinNominal:
		t.say(
			"%sonly what is borrowed is taken back, and its side borrows nothing of what %s asks for",
			not,
			t.Object,
		)
	case core.SparedByBorrowing:
		t.say(
			"%sit asks for more than the nominal quota of ClusterQueue %s would leave it, and spec.preemption.borrowWithinCohort there does not let it stop %s in order to borrow",
			not,
			c.Self.ClusterQueue,
			t.Other,
		)
	case core.SparedByShare:
		t.say("%sits side would have the larger share then (fairSharing.preemptionStrategies)", not)
	case core.SparedAsBenefactor:
		t.say("%s%s was stopped for it before, and does not stop it in turn", not, t.Object)
	case core.SparedUnseen:
		t.say("It was admitted only just now: ask again in a moment")
	case core.SparedByRuntime:
		t.say("%sits minimum runtime has not ended", not)
	case core.SparedByGate:
		t.say("%sa preemption gate of %s is closed", not, t.Object)
	case core.SparedOtherQuota:
		t.say("It uses no quota that %s may use: stopping it would give it nothing", t.Object)
	case core.SparedApart:
		if core.Stage(c.Other.Stage) == core.StageRunning {
			t.say("%sits quota is of another tree of cohorts", not)
		}
	case core.SparedNotRunning: // it was told
	case "":
		if core.Stage(c.Other.Stage) == core.StageRunning && c.Policy != "" {
			t.say(
				"By %s of ClusterQueue %s, which is %s, it could be stopped; that does not happen unless all that is needed comes free with it",
				c.Field,
				c.Self.ClusterQueue,
				c.Policy,
			)
		}
	}
}

// gone says what would become of the first were the other not there, and rules.
func (t *Comparison) gone(c *visibility.Contest, x *visibility.Explanation) {
	g := c.OtherGone
	switch {
	case g == nil:
		t.Verdict = UnknownVerdict
		t.say("Whether %s would start without it cannot be told here", t.Object)
	case g.Anyway:
		t.Verdict = StartsAnyway
		t.say("Tried: %s starts in a moment, with it or without it", t.Object)
	case g.Starts:
		t.Verdict = InTheWay
		how := "would start"
		if g.Awaits {
			how = "would start once what is being stopped has ended"
		}
		if g.Preempts > 0 {
			how += fmt.Sprintf(", and %s would be stopped for it", words.Count(int(g.Preempts), "more job"))
		}
		t.say("Tried: without it %s %s", t.Object, how)
	case g.Instead > 0:
		t.Verdict = OthersAreAhead
		t.say(
			"Tried: without it %s would start instead, and %s would wait still: %s",
			words.Count(int(g.Instead), "other job"),
			t.Object,
			Plain(g.Message),
		)
	default:
		t.Verdict = NotInTheWay
		if core.Stage(c.Other.Stage) == "" || ofItsOwn(x) {
			t.Verdict = HeldByItself
		}
		t.say("Tried: without it %s would wait still: %s", t.Object, Plain(g.Message))
	}
}

// ofItsOwn reports whether what a workload waits for has nothing to do with others.
func ofItsOwn(x *visibility.Explanation) bool {
	switch core.Code(x.Reason) {
	case core.Misconfigured, core.Suspended, core.OnHold, core.NoMatchingFlavor, core.ExceedsMaxQuota:
		return true
	case core.AdmissionGated:
		return core.Cause(x.Cause) != core.PreemptionGated
	default:
		return false
	}
}
