// Package whatif decides a recorded past again under other policies: it makes a world for
// the simulator of what a flight recorder wrote (World), lays the objects of a policy file
// over it (ReadPolicy), runs it, and tells what would have been different (Compare).
//
// There is one way from recordings to worlds, and it is this one. What recordings do not
// say, such as how long a job would have run that had not ended, is assumed; the
// assumptions are counted (Assumed), and how near a simulation of the recorded policy comes
// to what was recorded says how much to trust the rest (Trust). It reaches no cluster.
// It also prints for people what package replay found (PrintReplay).
package whatif
