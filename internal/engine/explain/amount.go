package explain

import (
	"strconv"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Amount prints an amount of a resource the way Kubernetes writes it: cores for
// cpu, powers of 1024 for memory and other storage, powers of 1000 for the rest,
// without losing a unit.
func Amount(resource string, a core.Amount) string {
	switch {
	case a == core.Unlimited:
		return "unlimited"
	case resource == core.CPU:
		if a%1000 != 0 {
			return strconv.FormatInt(int64(a), 10) + "m"
		}
		return suffixed(int64(a)/1000, 1000, []string{"", "k", "M", "G", "T", "P", "E"})
	case resource == core.Memory,
		strings.HasSuffix(resource, "-storage"),
		strings.HasPrefix(resource, "hugepages-"):
		return suffixed(int64(a), 1024, []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"})
	}
	return suffixed(int64(a), 1000, []string{"", "k", "M", "G", "T", "P", "E"})
}

func suffixed(n, base int64, suffixes []string) string {
	i := 0
	for n != 0 && n%base == 0 && i < len(suffixes)-1 {
		n /= base
		i++
	}
	return strconv.FormatInt(n, 10) + suffixes[i]
}
