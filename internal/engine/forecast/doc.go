// Package forecast says when waiting workloads will start.
//
// Starts plays several futures of a picture: copies of the engine in which running
// workloads end after runtimes drawn from what is known of jobs like them, and the engine
// decides who starts then. Over the futures, a workload's start has quantiles. Runtimes is
// what is known: limits, how long like jobs ran, or a prior. Arrivals is what came of late,
// and comes again in futures. What futures do not know Calibration makes up for: it follows what became of
// earlier estimates and stretches or shrinks the next ones, so that they are right as often as they say.
//
// It is pure, as the engine is: the same picture and history give the same estimates.
package forecast
