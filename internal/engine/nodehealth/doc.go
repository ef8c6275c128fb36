// Package nodehealth says what the signals of a node mean: whether it may take
// work (Classify), which state what sources found on it has given it (Findings,
// Judge), and how much of the promised capacity is out of service
// (Account), from which the lending of the slack queue follows (Lending).
//
// Everything here is pure: signals in, state out, no clock and no I/O. The
// memory of nodes that went away is a value too, the Inventory, and so is what is remembered
// of nodes that are not healthy (Health); the caller keeps both.
//
// One choice is worth knowing. The health label speaks of GPUs only, so a node
// under test could still serve pods that ask for none. The engine nevertheless
// takes no new work at all on a labelled node that has GPUs: Classify answers
// for the whole node. The accounts are finer: a label takes away the GPUs, and
// only a cordon, a lost or a deleted node takes away everything.
package nodehealth
