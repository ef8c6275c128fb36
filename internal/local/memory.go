package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is the resident memory of a process in bytes, zero if there is none.
// Pages that several processes share are divided among them: all components
// run the same large binary, and the sum is then what the cluster really takes.
func Memory(pid int) int64 {
	if pid == 0 {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		v, ok := strings.CutPrefix(line, "Pss:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
		if err != nil {
			return 0
		}
		return kb << 10
	}
	return 0
}

// machineMemory is how many bytes of memory the machine has, or the container that this is in; zero
// if that is not known.
func machineMemory() int64 {
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	limit, _ := os.ReadFile("/sys/fs/cgroup/memory.max") // there is none outside of containers
	return memoryOf(string(meminfo), string(limit))
}

// memoryOf is the memory of a machine with this /proc/meminfo in a control group with this
// memory.max, in bytes.
func memoryOf(meminfo, limit string) int64 {
	var all int64
	for line := range strings.Lines(meminfo) {
		if v, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64); err == nil {
				all = kb << 10
			}
		}
	}
	if most, err := strconv.ParseInt(strings.TrimSpace(limit), 10, 64); err == nil && most > 0 {
		return min(all, most)
	}
	return all
}
