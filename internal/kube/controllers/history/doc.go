// Package history keeps what is worth knowing of jobs that ended, for longer than they are there:
// one record of each in the JobHistories of its namespace, which are pages of records.
//
// A Workload carries a finalizer from its creation until its end is recorded, so that nothing is
// lost whatever is deleted and whenever the controller dies: what was not recorded yet is still
// there, and says so itself. Records are written in batches, a namespace at a time, away from
// whoever decides; nothing is kept in memory. A page that was written while the controller died
// before it took the finalizers off is recognised by the UIDs in it.
//
// It owns JobHistories and that finalizer. It does not judge how a job ended: that is the Workload's
// condition.
package history
