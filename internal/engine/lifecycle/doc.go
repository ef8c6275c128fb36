// Package lifecycle is the state machine of a job that mlbatch itself runs: what
// happens next to it, given what was observed of its components and pods. It knows
// attempts, budgets, graces and when quota may be given back, and not how a kind of
// job words them: phases, condition types and reasons are those that an AppWrapper
// has in its status, another kind translates them.
//
// Decide is pure: facts and a time in, one Step out. The caller carries the
// step out in this order: finalizer, create, one status write, delete, events;
// and calls Decide again whenever something changed or Step.RecheckAfter is
// over. Every step may be repeated, and a step lost half way is decided again
// from what is then observed, so a crash between two writes does no harm.
//
// Invariants (checked by the property tests):
//   - The condition QuotaReserved is true while an unfinished pod exists, and
//     becomes false only when none is left (P10 of docs/promises.md).
//   - Retries never grow beyond the limit, and what the job is not to blame for never adds to them.
//   - With time going on and the pods obeying, every state reaches one that
//     rests: Suspended, Running, Succeeded, Failed, or gone.
//
// It does not know how a component is created, how pods are found, or what a
// kind's status looks like; those are facts. Durations and limits are in
// Policy; how users set them is the kind's.
package lifecycle
