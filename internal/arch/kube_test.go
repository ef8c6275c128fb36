package arch

import "slices"

// The rungs inside internal/kube, from the lowest up. What a package of a rung is
// given is decided below it: rules are pure, what reads and writes calls them,
// controllers call that, and the manager wires controllers.
var (
	// values are what all of it may use.
	values = []string{"api", "internal/core", "internal/engine/nodehealth"}
	// clients are what pure rules must not reach.
	clients = []string{
		"k8s.io/client-go/rest",
		"k8s.io/client-go/kubernetes",
		"sigs.k8s.io/controller-runtime/pkg/client",
		"context",
		"net",
		"os",
		"log",
		"sync",
	}
	// controlPlane is linked by internal/local alone.
	controlPlane = []string{"k8s.io/kubernetes/cmd"}
)

func plus(some []string, more ...string) []string { return slices.Concat(some, more) }

var kubeLadder = []layer{
	{
		dir: "internal/kube/convert", may: values, never: clients,
		why: "convert turns objects into values; it reads no cluster and decides nothing",
	},
	{
		dir: "internal/kube/jobs/pod",
		may: plus(
			values,
			"internal/engine/lifecycle",
			"internal/engine/podplan",
			"internal/kube/convert",
			"internal/kube/jobs",
		),
		never: clients,
		why:   "pods that are one job are counted by what each holds, which convert says; they are a translation all the same",
	},
	{
		dir:   "internal/kube/jobs",
		may:   plus(values, "internal/engine/lifecycle", "internal/engine/podplan"),
		never: clients,
		why:   "a job kind is a translation; it gets no client",
	},
	{
		dir:   "internal/kube/workloadlifecycle",
		may:   plus(values, "internal/kube/convert", "internal/view", "internal/words"),
		never: clients,
		why:   "the life of a Workload is a set of rules: what is and the time in, the next write out",
	},
	{
		dir: "internal/kube/foreign", may: plus(values), never: controlPlane,
		why: "who else runs jobs is found in one way, by every controller that stands back",
	},
	{
		dir: "internal/kube/fairqueue", may: none, never: controlPlane,
		why: "the order of work queues knows names of namespaces, and no objects",
	},
	{
		dir: "internal/kube/memo", may: none, never: controlPlane,
		why: "what a controller remembers of objects is kept by name, and lost with it",
	},
	{
		dir: "internal/kube/fanout", may: none, never: controlPlane,
		why: "objects are told of without a look into them",
	},
	{
		dir: "internal/kube/trim", may: plus(values), never: controlPlane,
		why: "what is kept of pods and nodes is said for the cache, which is all that it knows",
	},
	{
		dir: "internal/kube/crowd", may: plus(values, "internal/kube/convert"), never: controlPlane,
		why: "how many workloads are stopped is counted for all who yield; it does not know what they put off",
	},
	{
		dir:   "internal/kube/events",
		may:   plus(values, "internal/kube/convert", "internal/kube/crowd"),
		never: controlPlane,
		why:   "news makes events fit the API, whatever they tell",
	},
	{
		dir:   "internal/kube/scheme",
		may:   plus(values, "internal/engine/lifecycle", "internal/engine/podplan", "internal/kube/jobs"),
		never: controlPlane,
		why:   "the scheme lists kinds of objects, and knows nothing that uses them",
	},
	{
		dir:   "internal/kube/metrics",
		may:   plus(values, "internal/engine", "internal/view", "internal/words", "internal/kube/convert"),
		never: controlPlane,
		why:   "metrics count what they are told; they call nothing that they count",
	},
	{
		dir:   "internal/kube/cache",
		may:   plus(values, "internal/kube/convert"),
		never: plus(controlPlane, "k8s.io/client-go/kubernetes/typed", "context"),
		why:   "the cache makes events of what watches show; it reads no cluster itself and decides nothing",
	},
	{
		dir: "internal/kube/leaderelection", may: none, never: controlPlane,
		why: "lead keeps a Lease and what is announced in it; it does not know what is decided",
	},
	{
		dir: "internal/kube/workloadstatus", may: []string{"api"}, never: controlPlane,
		why: "one write for every package with a status to write: it does not know what is in it",
	},
	{
		dir: "internal/kube/apply",
		may: plus(
			values,
			"internal/kube/convert",
			"internal/kube/fairqueue",
			"internal/kube/workloadlifecycle",
			"internal/kube/workloadstatus",
			"internal/view",
			"internal/words",
		),
		never: controlPlane,
		why:   "apply writes what was decided, by the rules below it; it does not know where decisions come from",
	},
	{
		dir:   "internal/kube/composite",
		may:   plus(values, "internal/engine/lifecycle", "internal/engine/podplan", "internal/kube/jobs"),
		never: controlPlane,
		why:   "how PodGroups are nested is read in one way, by webhooks and controllers; nothing is written",
	},
	{
		dir: "internal/kube/webhook",
		may: plus(
			values,
			"internal/kube/composite",
			"internal/engine/lifecycle",
			"internal/engine/podplan",
			"internal/kube/convert",
			"internal/kube/jobs",
		),
		never: controlPlane,
		why:   "a webhook judges one object by what it says and by its kind; no controller and no engine has a say",
	},
	{
		dir: "internal/kube/certs",
		may: plus(
			values,
			"config",
			"internal/engine/lifecycle",
			"internal/engine/podplan",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/composite",
			"internal/kube/webhook",
		),
		never: controlPlane,
		why:   "certs keeps one Secret and tells those who call webhooks; it knows what they are called, and no controller",
	},
	{
		dir: "internal/kube/views",
		may: plus(
			values,
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/scheme",
		),
		never: controlPlane,
		why:   "views are made of what controllers watch and of the order that they are told; nothing is changed, and no controller knows of them",
	},
	{
		dir: "internal/kube/visibility",
		may: plus(
			values,
			"internal/engine",
			"internal/view",
			"internal/words",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/scheme",
			"internal/kube/views",
		),
		never: controlPlane,
		why:   "visibility prints what the engine says; it changes nothing, and no controller knows of it",
	},
	{
		dir: "internal/kube/admission",
		may: plus(
			values,
			"internal/engine/lifecycle",
			"internal/engine/podplan",
			"internal/kube/convert",
			"internal/kube/jobs",
		),
		never: controlPlane,
		why:   "admission reads what jobs ask for and were given, for every controller of jobs; it writes nothing",
	},
	{
		dir: "internal/kube/controllers/decision", may: plus(controllerMay,
			"internal/engine", "internal/record", "internal/kube/cache", "internal/kube/metrics"),
		never: controlPlane,
		why:   "the decision loop is the one controller with an engine",
	},
	{
		dir: "internal/kube/controllers", alone: true, may: controllerMay, never: controlPlane,
		why: "a controller reads, decides and writes; controllers meet in the API and not in each other",
	},
	{
		dir: "internal/kube/eviction",
		may: plus(
			values,
			"internal/engine/lifecycle",
			"internal/engine/podplan",
			"internal/kube/convert",
			"internal/kube/jobs",
		),
		never: controlPlane,
		why:   "which pods a job survives the loss of is one rule, whichever controller has them leave",
	},
	{
		dir: "internal/kube/gang", may: plus(values, "internal/kube/convert"), never: clients,
		why: "when pods start together, and where, is decided over values; who carries it out has the clients",
	},
	{
		dir: "internal/kube/scheduler",
		may: plus(
			values,
			"internal/kube/convert",
			"internal/kube/gang",
			"internal/kube/leaderelection",
			"internal/kube/trim",
			"internal/kube/crowd",
			"internal/kube/events",
		),
		never: controlPlane,
		why:   "the scheduler is a process of its own: plans reach it through the API alone",
	},
	{
		dir: "internal/kube/install", may: plus(
			values,
			"config",
			"internal/finding",
			"internal/engine/lifecycle",
			"internal/engine/podplan",
			"internal/kube/convert",
			"internal/kube/jobs",
			"internal/kube/composite",
			"internal/kube/webhook",
			"internal/kube/certs",
			"internal/kube/controllers/rights",
			"internal/kube/controllers/slack",
			"internal/strict",
		),
		never: controlPlane,
		why:   "install puts into the cluster what the parts need, and runs none of them",
	},
	{
		dir: "internal/kube/manager", may: plus(
			controllerMay,
			"internal/engine",
			"internal/record",
			"internal/kube/cache",
			"internal/kube/fanout",
			"internal/kube/trim",
			"internal/kube/metrics",
			"internal/kube/crowd",
			"internal/kube/events",
			"internal/kube/scheme",
			"config",
			"internal/kube/certs",
			"internal/kube/leaderelection",
			"internal/kube/webhook",
			"internal/kube/views",
			"internal/kube/visibility",
			"internal/kube/controllers",
		),
		never: controlPlane,
		why:   "the manager wires all that one process runs; it reads no file and installs nothing",
	},
	{
		dir: "internal/kube/settings", may: plus(
			controllerMay,
			"internal/engine",
			"internal/record",
			"internal/kube/cache",
			"internal/kube/fanout",
			"internal/kube/trim",
			"internal/kube/metrics",
			"internal/kube/crowd",
			"internal/kube/events",
			"internal/kube/scheme",
			"config",
			"internal/kube/certs",
			"internal/kube/leaderelection",
			"internal/kube/webhook",
			"internal/kube/views",
			"internal/kube/visibility",
			"internal/kube/controllers",
			"internal/kube/manager",
			"internal/strict",
		),
		never: controlPlane,
		why:   "settings turn a file into the manager's options; nothing else reads that file",
	},
}

// controllerMay is what every controller may use.
var controllerMay = plus(
	values,
	"internal/engine/lifecycle",
	"internal/view",
	"internal/words",
	"internal/engine/podplan",
	"internal/engine/progress",
	"internal/kube/admission",
	"internal/kube/composite",
	"internal/kube/convert",
	"internal/kube/jobs",
	"internal/kube/workloadlifecycle",
	"internal/kube/workloadstatus",
	"internal/kube/memo",
	"internal/kube/crowd",
	"internal/kube/fairqueue",
	"internal/kube/foreign",
	"internal/kube/apply",
	"internal/kube/eviction",
	"internal/kube/gang",
)
