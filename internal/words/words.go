// Package words has what plain English asks of texts that people read: numbers of things, verbs that go with
// them, whole sentences, and nothing that a terminal would obey.
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
