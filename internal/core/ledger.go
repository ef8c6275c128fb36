package core

// Ledger tells two accounts of quota and nodes apart. They differ only while
// evictions are under way.
type Ledger uint8

const (
	// Now counts everything that holds quota or nodes at this moment; evicted
	// workloads hold both until their release is reported.
	Now Ledger = iota
	// Then counts what will hold them once every eviction under way is done:
	// evicted workloads are gone, and plans that wait for them are in.
	Then
	// Ledgers is the number of ledgers.
	Ledgers
)
