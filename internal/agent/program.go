package agent

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// LetGo has the system forget the pages of this program that were read when it started: the program can far more than
// the agent needs, and on every node that would be a hundred megabytes for nothing. What is needed again is read from
// the file again. Nothing is lost: only mappings of the file that nobody can write to are given back.
func LetGo() error {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	for line := range strings.Lines(string(text)) {
		var from, to uintptr
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); n != 3 || strings.Contains(rights, "w") ||
			!strings.HasSuffix(strings.TrimSpace(line), own) {
			continue
		}
		if _, _, failed := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); failed != 0 {
			return fmt.Errorf("give pages of the program back: %w", failed)
		}
	}
	return nil
}
