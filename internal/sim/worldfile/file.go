package worldfile

import "go.yaml.in/yaml/v3"

// File is a world as it is written down.
type File struct {
	// Name of the world, for reports.
	Name string `json:"name,omitempty"`
	// Seed of everything left to chance; 1 if not given.
	Seed *uint64 `json:"seed,omitempty"`
	// Start is the moment the world begins; for a trace its first job, else
	// 2026-01-01.
	Start string `json:"start,omitempty"`
	// Horizon ends the run; not given: when nothing can happen any more.
	Horizon      *Duration    `json:"horizon,omitempty"`
	Engine       Engine       `json:"engine,omitzero"`
	Flavors      []Flavor     `json:"flavors,omitempty"`
	Nodes        []Nodes      `json:"nodes,omitempty"`
	Cohorts      []Cohort     `json:"cohorts,omitempty"`
	Teams        []Team       `json:"teams,omitempty"`
	Jobs         []Jobs       `json:"jobs,omitempty"`
	Trace        *Trace       `json:"trace,omitempty"`
	ClusterModel ClusterModel `json:"clusterModel,omitzero"`
	Faults       Faults       `json:"faults,omitzero"`
	Events       []Happens    `json:"events,omitempty"`
	// root is the text, to say where something stands; nil if there is none.
	root *yaml.Node
}

// Engine are policies that hold for the whole cluster.
type Engine struct {
	// FairSharing shares by weight what no team owns; not given: off.
	FairSharing *FairSharing `json:"fairSharing,omitempty"`
	// BlockAdmission admits nothing while an admitted job's pods are not all ready
	// (waitForPodsReady.blockAdmission).
	BlockAdmission bool `json:"blockAdmission,omitempty"`
	// KeepNodes is for how long a job whose node failed keeps its quota and its other nodes; 5m if not given,
	// 0s gives them back at once.
	KeepNodes *Duration `json:"keepNodes,omitempty"`
	// AdmissionFairSharing says how past usage counts in teams that go by it.
	AdmissionFairSharing *AdmissionFairSharing `json:"admissionFairSharing,omitempty"`
}

// AdmissionFairSharing as in Kueue's configuration.
type AdmissionFairSharing struct {
	// HalfLife is 7 days, Sampling 5 minutes if not given.
	HalfLife Duration           `json:"usageHalfLifeTime,omitempty"`
	Sampling Duration           `json:"usageSamplingInterval,omitempty"`
	Weights  map[string]float64 `json:"resourceWeights,omitempty"`
}

// FairSharing as in Kueue's configuration.
type FairSharing struct {
	// Enable is true if not given.
	Enable *bool `json:"enable,omitempty"`
	// Strategies LessThanOrEqualToFinalShare and LessThanInitialShare; both if not
	// given.
	Strategies []string `json:"preemptionStrategies,omitempty"`
	// NonBorrowingFirst and ReclaimNominal as the gates
	// FairSharingPrioritizeNonBorrowing and FairSharingPreemptWithinNominal; on if
	// not given.
	NonBorrowingFirst *bool `json:"prioritizeNonBorrowing,omitempty"`
	ReclaimNominal    *bool `json:"preemptWithinNominal,omitempty"`
}

// Flavor is a kind of node that quota is given for.
type Flavor struct {
	Name string `json:"name"`
	// NodeLabels select the flavor's nodes; none: every node.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	Taints     []Taint           `json:"taints,omitempty"`
	// Topology lists the labels of its nodes that say how they are nested, the widest first: block, rack. Pods
	// that ask for nothing leave whole racks to others then.
	Topology []string `json:"topology,omitempty"`
	// OnDemand says that its nodes are made when jobs ask for them: quota is given
	// although no node has the labels.
	OnDemand bool `json:"onDemand,omitempty"`
}

// Taint keeps away jobs that do not tolerate its key.
type Taint struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// Nodes is a number of equal nodes.
type Nodes struct {
	// Name is the prefix of the nodes' names: gpu gives gpu-0, gpu-1, ...
	Name   string            `json:"name"`
	Count  int               `json:"count"`
	GPUs   int64             `json:"gpus,omitempty"`
	CPU    Quantity          `json:"cpu,omitempty"`
	Memory Quantity          `json:"memory,omitempty"`
	Pods   int64             `json:"pods,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Domains are labels of which so many nodes with consecutive numbers have one value: {rack: 16} gives
	// racks of 16 nodes.
	Domains map[string]int `json:"domains,omitempty"`
	Taints  []Taint        `json:"taints,omitempty"`
}

// Cohort is a group of teams, or of cohorts, that lend to each other.
type Cohort struct {
	Name   string   `json:"name"`
	Parent string   `json:"parent,omitempty"`
	Quotas []Quota  `json:"quotas,omitempty"`
	Weight *float64 `json:"weight,omitempty"`
}

// Team is a queue with a quota, and its local queue in a namespace of the same name.
type Team struct {
	Name   string  `json:"name"`
	Cohort string  `json:"cohort,omitempty"`
	Quotas []Quota `json:"quotas,omitempty"`
	// GPUs is short for one quota of so many GPUs in the only flavor.
	GPUs     *int64   `json:"gpus,omitempty"`
	Weight   *float64 `json:"weight,omitempty"`
	Strategy string   `json:"strategy,omitempty"`
	// Preemption as in a ClusterQueue.
	Preemption Preemption `json:"preemption,omitzero"`
	// Fungibility as flavorFungibility in a ClusterQueue.
	Fungibility Fungibility `json:"flavorFungibility,omitzero"`
	Stop        string      `json:"stopPolicy,omitempty"`
	// MinimumRuntime is for how long a job of the team is not evicted for others once it has started.
	MinimumRuntime Duration `json:"minimumRuntime,omitempty"`
	// LeastLostWork has its jobs evict those first, of the same standing, that lose the least work since their last
	// checkpoint, of which so much counts at most; the newest if not given.
	LeastLostWork Duration `json:"leastLostWork,omitempty"`
	// RelocationsPerHour is how many of its jobs may be moved to other nodes within an hour, so that a gang has those
	// that it needs.
	RelocationsPerHour int32 `json:"relocationsPerHour,omitempty"`
	// AdmissionMode as admissionScope.admissionMode in a ClusterQueue:
	// UsageBasedAdmissionFairSharing lets the local queue go first that used less.
	AdmissionMode string `json:"admissionMode,omitempty"`
	// LocalQueues in the team's namespace; one, default-queue, if not given.
	LocalQueues []LocalQueue `json:"localQueues,omitempty"`
	// Check must agree once a job has quota.
	Check *Check `json:"admissionCheck,omitempty"`
}

// LocalQueue is a local queue of a team.
type LocalQueue struct {
	Name   string   `json:"name"`
	Weight *float64 `json:"weight,omitempty"`
}

// Check answers after a time.
type Check struct {
	Answer Between `json:"answer"`
	// Retry and Reject are shares of the answers from 0 to 1: back to the queue for
	// Backoff, and for good. All others agree.
	Retry   float64  `json:"retry,omitempty"`
	Reject  float64  `json:"reject,omitempty"`
	Backoff Duration `json:"backoff,omitempty"`
}

// Quota is what one flavor offers.
type Quota struct {
	Flavor    string           `json:"flavor,omitempty"`
	Resources map[string]Limit `json:"resources"`
}

// Limit is a quota of one resource: a quantity, or with limits.
type Limit struct {
	Nominal   Quantity  `json:"nominalQuota"`
	Borrowing *Quantity `json:"borrowingLimit,omitempty"`
	Lending   *Quantity `json:"lendingLimit,omitempty"`
}

// Preemption says which jobs a team's jobs may evict.
type Preemption struct {
	WithinQueue string       `json:"withinClusterQueue,omitempty"`
	Reclaim     string       `json:"reclaimWithinCohort,omitempty"`
	WhileBorrow *WhileBorrow `json:"borrowWithinCohort,omitempty"`
}

// WhileBorrow says whether a team may evict others while it borrows.
type WhileBorrow struct {
	Policy      string `json:"policy"`
	MaxPriority *int32 `json:"maxPriorityThreshold,omitempty"`
}

// Fungibility says when to try the next flavor.
type Fungibility struct {
	WhenCanBorrow  string `json:"whenCanBorrow,omitempty"`
	WhenCanPreempt string `json:"whenCanPreempt,omitempty"`
	Preference     string `json:"preference,omitempty"`
}

// Near says how near to each other the pods of a job are. Levels are labels of nodes, such as rack.
type Near struct {
	// Required is the level of which one domain must hold all pods, Preferred of which one should.
	Required  string `json:"required,omitempty"`
	Preferred string `json:"preferred,omitempty"`
	// Balanced is the level of which domains should have equal shares of the pods.
	Balanced string `json:"balanced,omitempty"`
	// Slices are runs of pods that must each be in one domain, coarse to fine. Jobs with pods that cannot be cut
	// into such runs have none.
	Slices []Slice `json:"slices,omitempty"`
}

// Slice is a run of so many pods in one domain of a level.
type Slice struct {
	Level string `json:"level"`
	Size  int32  `json:"size"`
}

// Jobs are jobs made from distributions.
type Jobs struct {
	// Name is the prefix of the jobs' names.
	Name string `json:"name"`
	// Team, or Teams with how often each is drawn.
	Team  string             `json:"team,omitempty"`
	Teams map[string]float64 `json:"teams,omitempty"`
	// Count is how many there are; without it, as many as arrive until Until.
	Count int      `json:"count,omitempty"`
	From  Duration `json:"from,omitempty"`
	Until Duration `json:"until,omitempty"`
	// Arrival of the jobs.
	Arrival  Arrival       `json:"arrival,omitzero"`
	Duration *Distribution `json:"duration"`
	// GPUs in all; 1 if not given.
	GPUs *Distribution `json:"gpus,omitempty"`
	// GPUsPerPod: a job with more has several pods. It is 8 if not given.
	GPUsPerPod int64         `json:"gpusPerPod,omitempty"`
	CPU        Quantity      `json:"cpuPerPod,omitempty"`
	Memory     Quantity      `json:"memoryPerPod,omitempty"`
	Priority   *Distribution `json:"priority,omitempty"`
	Checkpoint Duration      `json:"checkpoint,omitempty"`
	// Silent jobs tell nobody of their checkpoints; others do.
	Silent bool `json:"silent,omitempty"`
	// NodeSelector and Tolerations (keys of taints) of the pods.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Tolerations  []string          `json:"tolerations,omitempty"`
	// Topology says how near to each other the pods are.
	Topology Near `json:"topology,omitzero"`
	// LocalQueue of the team; its first if not given.
	LocalQueue string `json:"localQueue,omitempty"`
	// MinPods is how many pods a job can do with (partial admission); all if not
	// given.
	MinPods int32 `json:"minPods,omitempty"`
	// GatedFor and PreemptionGatedFor are how long after its submission a job's gates
	// are opened: until then it is not considered, or no job is evicted for it.
	GatedFor           Duration `json:"gatedFor,omitempty"`
	PreemptionGatedFor Duration `json:"preemptionGatedFor,omitempty"`
	// Early are pods of a job that end before the others.
	Early *Early `json:"endEarly,omitempty"`
}

// Early pods give their quota and places back.
type Early struct {
	Pods  int32    `json:"pods"`
	After Duration `json:"after"`
}

// Arrival says when jobs come; exactly one of Every, Mean and At is given.
type Arrival struct {
	// Every is the fixed time between jobs.
	Every Duration `json:"every,omitempty"`
	// Mean is the mean time between jobs of a Poisson process.
	Mean Duration `json:"poisson,omitempty"`
	// Burst is how many come at once; 1 if not given.
	Burst int `json:"burst,omitempty"`
}

// Trace is a CSV file with one job a line.
type Trace struct {
	// File, relative to the world's file.
	File    string  `json:"file"`
	Columns Columns `json:"columns,omitzero"`
	// GPUsPerPod as for Jobs.
	GPUsPerPod int64    `json:"gpusPerPod,omitempty"`
	Checkpoint Duration `json:"checkpoint,omitempty"`
	// Topology as for Jobs.
	Topology Near `json:"topology,omitzero"`
	// Speed divides the time between jobs: 2 makes twice the load.
	Speed float64 `json:"speed,omitempty"`
}

// Columns names the columns of a trace.
type Columns struct {
	Submitted string `json:"submitted,omitempty"` // timestamp
	Duration  string `json:"duration,omitempty"`  // duration, in seconds
	GPUs      string `json:"gpus,omitempty"`      // num_gpus
	Team      string `json:"team,omitempty"`      // cluster
	Priority  string `json:"priority,omitempty"`  // none
}

// ClusterModel says how long things take around the engine; 0 is at once.
type ClusterModel struct {
	Write   *Between `json:"write,omitempty"`
	Observe *Between `json:"observe,omitempty"`
	Start   *Between `json:"start,omitempty"`
	Stop    *Between `json:"stop,omitempty"`
	Detect  *Between `json:"detect,omitempty"`
	// Refused writes and Repeated events, as shares from 0 to 1.
	Refused  float64 `json:"refused,omitempty"`
	Repeated float64 `json:"repeated,omitempty"`
}

// Between is a duration, or an even draw between two.
type Between struct {
	Min Duration `json:"min"`
	Max Duration `json:"max"`
}

// Faults happen by chance.
type Faults struct {
	// MTBF and MTTR of each node: mean time between failures and to repair.
	MTBF Duration `json:"mtbf,omitempty"`
	MTTR Duration `json:"mttr,omitempty"`
	// Restarts is the mean time between restarts of the controller.
	Restarts Duration `json:"restarts,omitempty"`
}

// Happens is something that happens at a time. One of Node, Team, Cohort and
// Restart says to what.
type Happens struct {
	At Duration `json:"at"`
	// Node is one node's name; State what becomes of it, for For or for good.
	Node  string   `json:"node,omitempty"`
	State string   `json:"state,omitempty"`
	For   Duration `json:"for,omitempty"`
	// Team's Quotas, GPUs or Stop change, or Cohort's Quotas.
	Team   string  `json:"team,omitempty"`
	Cohort string  `json:"cohort,omitempty"`
	Quotas []Quota `json:"quotas,omitempty"`
	GPUs   *int64  `json:"gpus,omitempty"`
	Stop   string  `json:"stopPolicy,omitempty"`
	// MoveTo is the team's new cohort, or the cohort's new parent.
	MoveTo *string `json:"moveTo,omitempty"`
	// Restart kills the controller.
	Restart bool `json:"restart,omitempty"`
}
