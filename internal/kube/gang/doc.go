// Package gang says when pods that start together may start, and on which nodes each of
// their pod sets has room: by what the API shows of their Workload, or PodGroup, and of
// the pods that there are. All of it is decisions over values; the scheduler carries them out.
package gang
