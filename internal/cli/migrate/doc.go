// Package migrate brings a cluster that Kueue, or MLBatch's parts, run over to mlbatch, with its
// queues, its jobs that wait and its jobs that run.
//
// Take makes a Picture of the cluster. Survey is a pure function from it to a Report: what was
// found, what would be other, which jobs go on, and who would start first, as the engine decides
// it. Steps are what has to be done, in their order. Each looks in the cluster whether it is done,
// so that an import that was killed goes on where it was when it is called again, and one that is
// done changes nothing. What a step removes is written down before, in a ConfigMap, for the way
// back (Rollback).
//
// It does not install mlbatch: the steps before and after that are its.
package migrate
