package core

// Event is one change of the world, told to the engine in order.
type Event interface{ event() }

// The events. Set events carry the whole object and replace what was known.
type (
	// FlavorSet says that a flavor appeared or changed.
	FlavorSet struct{ Flavor Flavor }
	// FlavorGone says that a flavor was deleted.
	FlavorGone struct{ Name string }
	// CohortSet says that a cohort object appeared or changed.
	CohortSet struct{ Cohort Cohort }
	// CohortGone says that a cohort object was deleted.
	CohortGone struct{ Name string }
	// QueueSet says that a queue appeared or changed.
	QueueSet struct{ Queue Queue }
	// QueueGone says that a queue was deleted.
	QueueGone struct{ Name string }
	// LocalQueueSet says that a local queue appeared or changed.
	LocalQueueSet struct{ LocalQueue LocalQueue }
	// LocalQueueGone says that a local queue was deleted.
	LocalQueueGone struct{ Namespace, Name string }
	// NamespaceSet says that a namespace appeared or its labels changed.
	NamespaceSet struct{ Namespace Namespace }
	// NamespaceGone says that a namespace was deleted.
	NamespaceGone struct{ Name string }
	// NodeSet says that a node appeared or changed.
	NodeSet struct{ Node Node }
	// NodeGone says that a node was deleted.
	NodeGone struct{ Name string }
	// WorkloadSet says that a workload appeared or changed.
	WorkloadSet struct{ Workload Workload }
	// WorkloadGone says that a workload finished, or was deleted, and holds
	// nothing any more: its pods are gone.
	WorkloadGone struct{ Key Key }
	// Refused says that a decision could not be carried out (the API server
	// rejected the write): an assumed admission is taken back and decided again.
	Refused struct{ Key Key }
	// Applied says that the last decision about a workload was written and that
	// its states from Seq on contain it. It is optional: without it, an admission
	// is confirmed when it is observed, and states like those before the decision
	// are taken for late echoes.
	Applied struct {
		Key Key
		Seq uint64
	}
)

func (FlavorSet) event()      {}
func (FlavorGone) event()     {}
func (CohortSet) event()      {}
func (CohortGone) event()     {}
func (QueueSet) event()       {}
func (QueueGone) event()      {}
func (LocalQueueSet) event()  {}
func (LocalQueueGone) event() {}
func (NamespaceSet) event()   {}
func (NamespaceGone) event()  {}
func (NodeSet) event()        {}
func (NodeGone) event()       {}
func (WorkloadSet) event()    {}
func (WorkloadGone) event()   {}
func (Refused) event()        {}
func (Applied) event()        {}
