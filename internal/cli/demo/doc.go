// Package demo runs the tutorial's three scenarios against a cluster and says
// for each statement of the tutorial whether it held.
//
// A scenario submits jobs as the tutorial's users do and waits for what the
// tutorial says happens next. Meanwhile a Recorder watches AppWrappers,
// Workloads, Pods and Nodes through the API, like any user could, and writes
// down a Timeline. Statements are pure functions over the timeline, so they are
// tested with timelines in which something went wrong.
//
// The package starts no cluster; the caller brings one.
package demo
