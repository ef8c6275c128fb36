// Package packing measures how full policies pack GPUs that pods share: it plays a list of pods
// on nodes with several GPUs each, one after the other. Pods never leave, and one that has no
// place when it comes fails. What counts is how much of all GPUs is in use at the end.
//
// The method, the list and two of the policies, BestFit and FGD, are those of the paper that
// published figures for them (Weng et al., Beware of Fragmentation, USENIX ATC 2023), so that
// figures can be compared. mlbatch itself gives out whole GPUs only: Fullest is the order of
// engine/place, LeastWaste one that packs better.
//
//   - node.go is what pods ask for and nodes have left, run.go plays;
//   - bestfit.go, fgd.go, fullest.go and leastwaste.go are the policies, popularity.go is
//     what the last two of the four expect to come;
//   - trace.go reads lists and samples them.
//
// Nothing here runs in a cluster, and no decision of the engine depends on it. The package opens
// no file and reads no clock.
package packing
