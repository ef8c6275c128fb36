// Package chaos makes up worlds to break the engine in: small, hostile and
// seeded. It runs them with the auditor looking on, replays what the engine was
// told to see that it decides the same again, and shortens the script of a world
// in which something broke until nothing can be left out.
//
// A shortened world is written as lines of text that read well and run again:
// internal/sim/testdata/regressions keeps those of bugs that were found.
package chaos
