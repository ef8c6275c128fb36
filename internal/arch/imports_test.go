package arch

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layer says what the packages below dir may use. The first layer whose dir
// matches a package applies to it; a package that no layer matches is free.
type layer struct {
	dir string
	// may lists folders of ours that it may reach, directly or not, besides dir.
	may []string
	// alone: packages below dir may not reach each other either.
	alone bool
	// outside lists what it may import of other modules. Nil: anything.
	outside []string
	// never lists packages it may not reach, directly or not; packages of the
	// standard library count only when imported directly.
	never []string
	why   string // printed when the rule is broken
}

var (
	none  = []string{}
	noIO  = []string{"net", "os", "log", "sync", "math/rand", "context"}
	apis  = []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/utils/ptr"}
	edges = []string{"internal/local", "internal/cli", "cmd", "test", "tools"}
)

// ladder is the table of the import ladder in ARCHITECTURE.md, most special first.
var ladder = slices.Concat(kubeLadder, outerLadder)

var outerLadder = []layer{
	{
		dir: "internal/core", outside: none, never: noIO,
		why: "core is vocabulary: values and arithmetic",
	},
	{
		dir: "internal/engine/ledger", outside: none, never: noIO,
		may: []string{"internal/core", "internal/engine/quota", "internal/engine/place"},
		why: "the ledger books on queues and nodes, and decides nothing",
	},
	{
		dir: "internal/engine/preempt", outside: none, never: noIO,
		may: []string{"internal/core", "internal/engine/quota", "internal/engine/place", "internal/engine/ledger"},
		why: "preempt asks the ledger whether an eviction helps, and nothing else",
	},
	{
		dir: "internal/engine/cycle", outside: none, never: noIO,
		may: []string{"internal/core", "internal/engine"},
		why: "cycle ties the engine together and does no I/O",
	},
	{
		dir:     "internal/engine/inquiry",
		outside: none,
		never:   noIO,
		may: []string{
			"internal/core",
			"internal/engine/cycle",
			"internal/engine/quota",
			"internal/engine/place",
			"internal/engine/ledger",
			"internal/engine/preempt",
			"internal/engine/order",
		},
		why: "inquiry reads an engine and lets copies of it decide",
	},
	{
		dir: "internal/engine/explain", outside: none, never: noIO,
		may: []string{"internal/core", "internal/engine"},
		why: "explain turns reasons into sentences and does no I/O",
	},
	{
		dir: "internal/engine/forecast", outside: none, never: noIO,
		may: []string{"internal/core", "internal/engine"},
		why: "forecast lets copies of the engine decide, and does no I/O",
	},
	{
		dir: "internal/engine", alone: true, outside: none, never: noIO,
		may: []string{"internal/core"},
		why: "a part of the engine knows core only; cycle puts the parts together",
	},
	{
		dir: "internal/record", may: []string{"internal/core"}, outside: none,
		why: "recordings are read wherever there is an engine, and need none themselves",
	},
	{
		dir: "internal/replay", may: []string{"internal/core", "internal/engine", "internal/record"}, outside: none,
		why: "a replay needs an engine and a file, and no cluster",
	},
	{
		dir: "internal/sim/kuberules", may: []string{
			"api",
			"config",
			"internal/core",
			"internal/engine",
			"internal/record",
			"internal/sim",
			"internal/kube/apply",
			"internal/kube/cache",
			"internal/kube/convert",
			"internal/kube/workloadlifecycle",
			"internal/kube/workloadstatus",
			"internal/kube/fairqueue",
			"internal/view",
			"internal/words",
		},
		never: []string{"os", "log", "sync", "net", "context"},
		why:   "kuberules runs the controllers' own rules on simulated jobs, and reaches no cluster",
	},
	{
		dir: "internal/sim/packing", may: none, outside: none,
		never: []string{"net", "os", "log", "sync", "context"},
		why:   "packing plays lists of pods for a benchmark, and no decision may come to depend on it",
	},
	{
		dir: "internal/sim",
		may: []string{"internal/core", "internal/engine", "internal/record"},
		outside: []string{
			"go.yaml.in/yaml/v3",
			"sigs.k8s.io/yaml",
		},
		never: []string{"net", "os", "log", "sync", "context"},
		why:   "the simulator runs the engine alone: no Kubernetes, no clock, no files",
	},
	{
		dir: "api", may: none,
		outside: append([]string{
			"sigs.k8s.io/controller-runtime/pkg/scheme",
			"sigs.k8s.io/controller-runtime/pkg/conversion",
		}, apis...),
		why: "api is what clients import: types, defaults, validation, conversion",
	},
	{
		dir: "config", may: []string{"api"},
		why: "config is data",
	},
	{
		dir: "internal/agent/reading", may: []string{"api"}, outside: none, never: noIO,
		why: "what tools print is read without running them; it may be hostile",
	},
	{
		dir: "internal/agent",
		may: []string{"api", "internal/strict"},
		never: []string{
			"k8s.io/kubernetes",
			"k8s.io/client-go/kubernetes",
			"k8s.io/client-go/informers",
			"sigs.k8s.io/controller-runtime/pkg/client",
		},
		why: "the agent is on every node: it brings no client for all of Kubernetes, watches nothing, and knows no queues",
	},
	{
		dir: "internal/words", outside: none, may: none, never: noIO,
		why: "numbers of things in plain English are text",
	},
	{
		dir: "internal/finding", outside: none, may: none, never: noIO,
		why: "what rules find is a value",
	},
	{
		dir: "internal/view/why",
		may: []string{
			"api",
			"internal/core",
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/scheme",
		},
		never: []string{"k8s.io/kubernetes", "sigs.k8s.io/controller-runtime/pkg/manager", "net", "os"},
		why:   "why says in sentences what objects and a controller's answer tell of a job; it prints nothing and connects to nothing",
	},
	{
		dir: "internal/view/gather",
		may: []string{
			"api",
			"internal/core",
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/scheme",
		},
		never: []string{"k8s.io/kubernetes", "sigs.k8s.io/controller-runtime/pkg/manager"},
		why:   "gather reads objects with the reader that it is given, and knows which belong together; it connects to nothing",
	},
	{
		dir: "internal/view",
		may: []string{
			"api",
			"internal/core",
			"internal/engine/nodehealth",
			"internal/words",
			"internal/kube/convert",
		},
		never: []string{
			"k8s.io/client-go",
			"sigs.k8s.io/controller-runtime/pkg/client",
			"context",
			"net",
			"os",
			"log",
			"sync",
		},
		why: "views are values for the packages that print; they reach no cluster and no engine that decides",
	},
	{
		dir: "internal/local/names", outside: none, may: none, never: noIO,
		why: "who names parts of the cluster need not link it",
	},
	{
		dir: "internal/local", may: none,
		why: "the embedded cluster is Kubernetes; what runs on it is told apart from it by cmd",
	},
	{
		dir: "internal/cli/demo/verdict", outside: none, may: none, never: noIO,
		why: "a verdict is text and an error",
	},
	{
		dir: "internal/cli/demo/scene", may: []string{
			"api",
			"internal/finding",
			"internal/cli",
			"internal/core",
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/scheme",
			"internal/record",
			"internal/sim",
			"internal/strict",
		},
		never: []string{"k8s.io/kubernetes", "sigs.k8s.io/controller-runtime/pkg/manager"},
		why:   "a scene types commands as users do, and simulates what takes days; it starts no cluster",
	},
	{
		dir: "internal/cli/demo", may: []string{
			"api",
			"internal/finding",
			"config",
			"internal/cli",
			"internal/core",
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/jobs",
			"internal/kube/scheme",
			"internal/local",
			"internal/kube/install",
			"examples",
		},
		why: "the demo is a user of the cluster and watches it through the API",
	},
	{
		dir: "internal/cli/whatif", may: []string{
			"api",
			"internal/finding",
			"internal/cli",
			"internal/core",
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/scheme",
			"internal/record",
			"internal/replay",
			"internal/sim",
			"internal/strict",
		},
		never: []string{"k8s.io/kubernetes"},
		why:   "what would have been needs recordings, the simulator and the manifests people know, and no cluster",
	},
	{
		dir: "internal/cli/migrate", may: []string{
			"api",
			"internal/finding",
			"internal/cli",
			"internal/core",
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/convert",
			"internal/kube/cache",
			"internal/kube/jobs",
			"internal/kube/scheme",
		},
		never: []string{"k8s.io/kubernetes"},
		why:   "a takeover asks the engine what it would decide, writes through the API, and runs no controller",
	},
	{
		dir: "internal/cli/actions",
		may: []string{
			"api",
			"internal/finding",
			"internal/cli",
			"internal/core",
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/scheme",
		},
		never: []string{"k8s.io/kubernetes"},
		why:   "what people do with their jobs is done through the API, with what the command line knows of jobs",
	},
	{
		dir: "internal/cli",
		may: []string{
			"api",
			"internal/finding",
			"internal/core",
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/scheme",
			"internal/strict",
		},
		never: []string{"k8s.io/kubernetes"},
		why:   "the command line shows what the API says",
	},
	{
		dir: "internal/page", may: none,
		never: []string{"k8s.io/kubernetes", "k8s.io/client-go/informers", "sigs.k8s.io/controller-runtime"},
		why:   "the page hands on what the API server says to whoever asks: it knows no view, and derives nothing",
	},
	{
		dir:     "internal/strict",
		may:     none,
		outside: []string{"go.yaml.in/yaml/v3", "k8s.io/apimachinery/pkg/util/validation/field"},
		never:   noIO,
		why:     "decoding is about text and Go types, whatever they mean and wherever the text is from",
	},
	{
		dir: "tools/testsummary", outside: none, may: none,
		why: "the summary of tests must build in an instant",
	},
	{
		dir: "tools/images", outside: []string{"github.com/google/go-containerregistry"}, may: none,
		why: "images are made of programs, not of their packages",
	},
	{
		dir: "tools/terminal", outside: []string{"golang.org/x/sys/unix"}, may: none,
		why: "pictures of terminals are made of programs, not of their packages",
	},
	{
		dir: "tools/mutate", outside: none, may: none,
		why: "mutants are made of source text",
	},
	{
		dir: "internal/testkit", may: none, outside: []string{"github.com/google/go-cmp"},
		why: "tests of any package may use it, and so it uses none",
	},
	{
		dir: "internal/arch", may: none,
		why: "the house rules are about packages, and use none",
	},
}

func TestImportsGoOneWay(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		l := layerOf(p.rel())
		if l == nil {
			if withinAny(p.rel(), []string{"internal", "api", "config", "tools"}) {
				t.Errorf("%s has no rung on the ladder: say what it may use, and why", p.rel())
			}
			continue
		}
		used[l.dir] = true
		for _, bad := range l.broken(p) {
			t.Errorf("%s: %s", bad, l.why)
		}
	}
	for _, l := range ladder {
		if !used[l.dir] {
			t.Errorf("no package lies below %s: the rule is stale", l.dir)
		}
	}
}

// What answers questions sees an engine as values: it cannot even name what an engine is made of.
func TestQuestionsNameNoPartOfTheEngine(t *testing.T) {
	may := []string{
		"internal/core",
		"internal/engine/cycle",
		"internal/engine/preempt",
	} // of preempt what policies mean
	asked := false
	for _, p := range packages(t) {
		if p.rel() != "internal/engine/inquiry" {
			continue
		}
		asked = true
		for _, dep := range p.Imports {
			if rel, is := strings.CutPrefix(dep, module); is && !slices.Contains(may, rel) {
				t.Errorf("%s imports %s: let cycle.View give the value", p.rel(), rel)
			}
		}
	}
	if !asked {
		t.Error("there is no package of questions: the rule is stale")
	}
}

// Pods are a kind among others: what all kinds read of a pod, and what may be written of one, is of package
// podmeta, and what pods do that are queued by themselves is known to their own controller alone.
func TestPodsAreKnownToTheirOwnController(t *testing.T) {
	const pods = "internal/kube/jobs/pod"
	var by []string
	for _, p := range packages(t) {
		if slices.Contains(p.Imports, module+pods) {
			by = append(by, p.rel())
		}
	}
	slices.Sort(by)
	if want := []string{"internal/kube/controllers/podgroup"}; !slices.Equal(by, want) {
		t.Errorf("%s is imported by %q, want %q", pods, by, want)
	}
}

// A kind of job is a folder and a line in a list: nothing else of the program imports it. The AppWrapper is
// the kind around the others, which its own controller runs, and which tools make and read.
func TestOnlyTheListsImportAKindOfJob(t *testing.T) {
	const kinds = "internal/kube/jobs/"
	lists := []string{"kinds", "native", "serving"}
	parts := []string{
		"podmeta",
		"pod",
		"sakkara",
	} // of every kind; of pods, see above; of another scheduler's objects
	for _, p := range packages(t) {
		if strings.HasPrefix(p.rel(), kinds) || withinAny(p.rel(), forTests) {
			continue
		}
		for _, dep := range p.Imports {
			kind, is := strings.CutPrefix(dep, module+kinds)
			if is && kind != "appwrapper" && !slices.Contains(lists, kind) && !slices.Contains(parts, kind) {
				t.Errorf(
					"%s imports the kind in %s: say what it needs to know in jobs.Kind or jobs.GroupedKind, and loop over the list",
					p.rel(),
					kind,
				)
			}
		}
	}
}

func TestNothingImportsTheEdges(t *testing.T) {
	for _, p := range packages(t) {
		if withinAny(p.rel(), edges) {
			continue
		}
		for _, dep := range p.Imports {
			if rel, is := strings.CutPrefix(dep, module); is && withinAny(rel, edges) {
				t.Errorf("%s imports %s: only cmd and other edges may", p.rel(), rel)
			}
		}
	}
}

// forTests are packages that hold nothing of the program. They may use each other.
var forTests = []string{"internal/testkit", "test"}

func TestTheProgramImportsNothingOfTests(t *testing.T) {
	for _, p := range packages(t) {
		if withinAny(p.rel(), forTests) {
			continue
		}
		for _, dep := range p.Imports { // not those of its tests
			if rel, is := strings.CutPrefix(dep, module); is && withinAny(rel, forTests) {
				t.Errorf("%s imports %s, which is for tests only", p.rel(), rel)
			}
		}
	}
}

func layerOf(rel string) *layer {
	for i := range ladder {
		if within(rel, ladder[i].dir) {
			return &ladder[i]
		}
	}
	return nil
}

// broken lists what p uses against the rules of its layer.
func (l *layer) broken(p pkg) []string {
	var bad []string
	for _, dep := range p.Deps {
		rel, our := strings.CutPrefix(dep, module)
		switch {
		case our && !l.mayReach(p.rel(), rel):
			bad = append(bad, p.rel()+" reaches "+rel)
		case !our && !standard(dep) && withinAny(dep, l.never):
			bad = append(bad, p.rel()+" reaches "+dep)
		}
	}
	for _, dep := range p.Imports {
		switch {
		case strings.HasPrefix(dep, module):
		case standard(dep):
			if withinAny(dep, l.never) {
				bad = append(bad, p.rel()+" imports "+dep)
			}
		case l.outside != nil && !withinAny(dep, l.outside):
			bad = append(bad, p.rel()+" imports "+dep)
		}
	}
	return bad
}

func (l *layer) mayReach(from, to string) bool {
	if within(to, l.dir) {
		return !l.alone || within(to, from)
	}
	return withinAny(to, l.may)
}

func TestBrokenRulesAreFound(t *testing.T) {
	engine, jobs := layerOf("internal/engine/quota"), layerOf("internal/kube/jobs/job")
	lifecycle, apply := layerOf("internal/kube/workloadlifecycle"), layerOf("internal/kube/apply")
	slack, manager := layerOf("internal/kube/controllers/slack"), layerOf("internal/kube/manager")
	kube := func(name string, deps ...string) pkg {
		for i := range deps {
			deps[i] = module + "internal/kube/" + deps[i]
		}
		return pkg{ImportPath: module + "internal/kube/" + name, Deps: deps}
	}
	cases := map[string]struct {
		why  string
		l    *layer
		p    pkg
		want int
	}{
		"sibling": {
			"parts of the engine do not know each other",
			engine,
			pkg{ImportPath: module + "internal/engine/quota", Deps: []string{module + "internal/engine/order"}},
			1,
		},
		"core is fine": {
			"core is the vocabulary of all",
			engine,
			pkg{
				ImportPath: module + "internal/engine/quota",
				Deps:       []string{module + "internal/core", "strings"},
				Imports:    []string{"strings"},
			},
			0,
		},
		"operating system": {
			"the engine does no I/O",
			engine,
			pkg{ImportPath: module + "internal/engine/quota", Imports: []string{"os/exec"}},
			1,
		},
		"other module": {
			"the engine needs no library",
			engine,
			pkg{ImportPath: module + "internal/engine/quota", Imports: []string{"k8s.io/api/core/v1"}},
			1,
		},
		"client, indirectly": {
			"a client hidden behind another package is a client",
			jobs,
			pkg{ImportPath: module + "internal/kube/jobs/job", Deps: []string{"k8s.io/client-go/rest"}},
			1,
		},
		"rule that writes": {
			"what the next write is must not depend on how it is written",
			lifecycle,
			kube("workloadlifecycle", "convert", "apply"),
			1,
		},
		"rule with a client": {
			"rules are given what they look at",
			lifecycle,
			pkg{
				ImportPath: module + "internal/kube/workloadlifecycle",
				Deps:       []string{"sigs.k8s.io/controller-runtime/pkg/client"},
			},
			1,
		},
		"up to a controller": {
			"controllers call what writes, and not the other way round",
			apply,
			kube("apply", "convert", "workloadlifecycle", "fairqueue", "controllers/job"),
			1,
		},
		"other controller": {
			"controllers meet in the API",
			slack,
			kube("controllers/slack", "convert", "controllers/job"),
			1,
		},
		"manager wires": {
			"it knows all controllers, and no configuration file",
			manager,
			kube("manager", "controllers/job", "controllers/slack", "settings"),
			1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.l.broken(c.p); len(got) != c.want {
				t.Errorf("%s: got %v, want %d complaints", c.why, got, c.want)
			}
		})
	}
}

// The program that end-to-end tests run is one, and they are another: linking Kubernetes into the
// tests, too, would take longer than many of them.
func TestEndToEndTestsLinkNoControlPlane(t *testing.T) {
	packages(t) // so that an edit runs this again
	cmd := exec.Command("go", "list", "-e", "-test", "-deps", "./test/e2e", "./test/rig")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		if dep = strings.TrimSpace(
			dep,
		); withinAny(
			dep,
			[]string{"k8s.io/kubernetes", "go.etcd.io/etcd/server", module + "internal/local/controlplane"},
		) {
			t.Errorf("test/e2e reaches %s: take names from internal/local/names, not from internal/local", dep)
		}
	}
}
