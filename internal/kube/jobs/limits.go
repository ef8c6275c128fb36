package jobs

import (
	"slices"
	"strings"
	"time"
)

// Limits are what users may ask for in their jobs, and how many they may have.
type Limits struct {
	// PriorityClasses are the PriorityClasses that pods may name; nil allows all
	// but those of the system.
	PriorityClasses []string
	// Termination is the longest time that a stopped job may keep its pods; 0 is
	// without limit.
	Termination time.Duration
	// Jobs is how many a namespace may have, Size how many bytes of JSON each, TotalSize how
	// many all together, and Components how many an AppWrapper; 0 is without limit.
	Jobs       int
	Size       int64
	TotalSize  int64
	Components int
}

// systemPriority begins the names of the PriorityClasses that keep a cluster
// alive.
const systemPriority = "system-"

// PriorityClass reports whether pods may name a PriorityClass.
func (l Limits) PriorityClass(name string) bool {
	if l.PriorityClasses == nil {
		return !strings.HasPrefix(name, systemPriority)
	}
	return slices.Contains(l.PriorityClasses, name)
}
