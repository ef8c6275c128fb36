// Package supervise keeps child processes alive.
//
// A Supervisor starts processes from descriptions (Spec), watches their health,
// starts processes that die again with growing pauses, and stops all of them stage
// by stage. It owns nothing but processes and their logs: what runs and in
// which order is the caller's business.
//
// Invariants: a child never outlives the supervisor's process, however that
// ends (the kernel kills it); at most one process per Spec runs at a time;
// after Stop returns none runs.
package supervise
