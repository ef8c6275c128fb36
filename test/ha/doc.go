// Package ha runs several controllers against one API server, each a process of its own, and
// does to them what machines and networks do: kills them, stops them, cuts them off. Its
// tests say what must hold then, its benchmarks how long it takes, and what a controller
// needs where there is much to know.
package ha
