// Package rollout brings what package install renders into a cluster, and takes it out again:
// it looks first at what stands in the way (Preflight), applies stage after stage, waits until
// all of it works and says what does not and why, compares what is there with what would be
// (Compare), and uninstalls.
//
// It decides nothing about what an installation is made of; that is package install.
package rollout
