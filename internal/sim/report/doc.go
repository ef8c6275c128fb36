// Package report prints what came of simulated worlds: tables, a timeline, a
// comparison, JSON and CSV. It computes nothing but differences, and the same
// result always prints the same bytes.
package report
