package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// devices are GPUs and parts of them in a cell: 8, or 3 mig-1g.5gb, or both.
func devices(gpus int64, parts map[string]int64) string {
	var out []string
	if gpus != 0 || len(parts) == 0 {
		out = append(out, strconv.FormatInt(gpus, 10))
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		out = append(out, fmt.Sprintf("%d %s", parts[name], name))
	}
	return strings.Join(out, ", ")
}
