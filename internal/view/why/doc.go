// Package why says of one job why it is where it is, what happened to it, and how it stands beside another:
// from its objects and what a controller's engine says.
//
// Gather, Show and ReadEvents read the objects with whatever reader they are given; everything else is pure.
// Nothing here prints: an Explanation, the Details and a Comparison are values, with the sentences that
// people read.
package why
