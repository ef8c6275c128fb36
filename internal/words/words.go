// Package words has numbers of things in plain English, for all that people read.
package words

import (
	"fmt"
)

// Count prints a number of things: "1 pod", "3 pods".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Times says how often: "once", "3 times".
func Times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
