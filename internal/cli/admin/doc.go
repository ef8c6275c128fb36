// Package admin is what administrators do with teams, queues, flavors and nodes:
// it makes their objects, changes them one value at a time, and takes them away
// again. Everything is checked before anything is written, and each thing that
// takes several writes does them in an order in which being cut off leaves nothing
// that must not be, and being done again finishes it.
//
// It asks no questions and prints nothing: what would be done, to whom and why not
// are values, which the commands show.
package admin
