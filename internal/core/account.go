package core

// Account tells two accounts of quota and nodes apart. They differ only while
// evictions are under way.
type Account uint8

const (
	// Current counts everything that holds quota or nodes at this moment; evicted
	// workloads hold both until their release is reported.
	Current Account = iota
	// Projected counts what will hold them once every eviction under way is done:
	// evicted workloads are gone, and plans that wait for them are in.
	Projected
	// Accounts is the number of accounts.
	Accounts
)
