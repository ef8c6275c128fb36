// Package gather reads the objects that views are made of, and knows which of them belong together.
//
// It reads with whatever reader it is given: a command's, which has its user's rights, or a
// controller's cache on behalf of somebody who asks. What that reader may not read is left out and named, so
// that both see the same.
package gather
