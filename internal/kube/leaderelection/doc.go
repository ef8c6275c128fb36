// Package leaderelection lets one of several processes lead, and keeps what one that led
// before had begun from taking effect later.
//
// It owns a Lease. Whoever holds it renews it; the others watch it, and take it
// when it was not renewed for its duration, or at once when it was given back. Each
// change of hands is a new term (spec.leaseTransitions).
//
// Time alone proves nothing: a process may be stopped, or its network cut, between
// the look at its clock and the arrival of what it sends. So a decision that must not
// count once another process leads is announced: the names of the objects that are about
// to be written are stored in the Lease (AnnouncedAnnotation) before the write is
// sent, which is what renews it, too. A successor finds them in the Lease that it
// took, and touches these objects before it decides. Writes are on condition of the
// version that was read before the announcement, which is not the version
// any more. After its Lease was taken a process can announce nothing. Why so:
// docs/adr/0026-announced-decisions.md.
//
// What needs no such proof, because it is the same whoever does it, asks Valid first:
// it is refused as soon as the Lease may be taken by another.
//
// The package decides nothing, and does not know what is announced.
package leaderelection
