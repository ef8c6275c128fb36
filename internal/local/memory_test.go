package local

import "testing"

// TestMemoryOf: what is there to use, as files of the kernel say it.
func TestMemoryOf(t *testing.T) {
	const machine = "MemTotal:       24689620 kB\nMemFree:        18000000 kB\n"
	for name, tc := range map[string]struct {
		why, meminfo, limit string
		want                int64
	}{
		"machine":            {"", machine, "", 24689620 << 10},
		"without a limit":    {"a control group that may use all", machine, "max\n", 24689620 << 10},
		"in a container":     {"the machine's is not for it", machine, "4294967296\n", 4 << 30},
		"more than there is": {"a limit adds nothing", machine, "1099511627776\n", 24689620 << 10},
		"not known":          {"then what is usual holds", "", "", 0},
	} {
		if got := memoryOf(tc.meminfo, tc.limit); got != tc.want {
			t.Errorf("%s: %d, want %d: %s", name, got, tc.want, tc.why)
		}
	}
}
