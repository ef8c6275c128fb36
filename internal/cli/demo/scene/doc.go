// Package scene has the scenes of mlbatch demo: short plays, each of which shows one thing to
// somebody who has never heard of queues for GPUs.
//
// A scene opens with a sentence, types commands as a user would and prints what they say, and
// judges at the end each statement that it made by what it saw. Scenes about a cluster run the
// program itself, as the users of a real embedded cluster, through a Shell; scenes about days
// and weeks run the production engine in the simulator.
//
//   - scene.go lists the scenes and plays one; show.go is what they are made of; shell.go runs
//     command lines;
//   - the others are a scene each, worlds/*.yaml what the simulated ones play in.
//
// The package starts no cluster, except by typing mlbatch up; the caller brings one.
package scene
