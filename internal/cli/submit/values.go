package submit

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// defaultGPU is the resource of GPUs whose maker nobody names.
const defaultGPU = "nvidia.com/gpu"

// mostTasks is how many indices a Job may have.
const mostTasks = 100_000

// Array are the indices of a job that runs once for each.
type Array struct {
	// Indices ascend.
	Indices []int
	// AtOnce is how many run at the same time at most, 0 for any number.
	AtOnce int
}

// Step is the distance of all indices to the next, 0 if they differ.
func (a *Array) Step() int {
	if len(a.Indices) == 1 {
		return 1
	}
	step := a.Indices[1] - a.Indices[0]
	for i := 2; i < len(a.Indices); i++ {
		if a.Indices[i]-a.Indices[i-1] != step {
			return 0
		}
	}
	return step
}

// ParseArray reads indices as Slurm has them: 0-99%10, 1,3,5-7, 0-15:4.
func ParseArray(text string) (*Array, error) {
	bad := func(why string) error {
		return fmt.Errorf(
			"%q %s: use indices such as 0-99, 1,3,5-7 or 0-15:4, and %%N behind them for N at once",
			text,
			why,
		)
	}
	list, most, limited := strings.Cut(text, "%")
	a := &Array{}
	if limited {
		n, err := strconv.Atoi(most)
		if err != nil || n < 1 {
			return nil, bad("has no number after %")
		}
		a.AtOnce = n
	}
	for part := range strings.SplitSeq(list, ",") {
		rangeOf, every, stepped := strings.Cut(part, ":")
		from, to, isRange := strings.Cut(rangeOf, "-")
		first, err := strconv.Atoi(from)
		last, step := first, 1
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err == nil && stepped {
			step, err = strconv.Atoi(every)
		}
		switch {
		case err != nil || first < 0 || last < first || step < 1 || stepped && !isRange:
			return nil, bad("is no list of indices")
		case (last-first)/step >= mostTasks-len(a.Indices):
			return nil, bad(fmt.Sprintf("has more than %d tasks", mostTasks))
		}
		for n := range (last-first)/step + 1 { // counted, since what follows the last may be no number any more
			a.Indices = append(a.Indices, first+n*step)
		}
	}
	slices.Sort(a.Indices)
	a.Indices = slices.Compact(a.Indices)
	return a, nil
}

// ParseTime reads a time as Slurm has it (MINUTES, MM:SS, HH:MM:SS, D-HH[:MM[:SS]]) or as Go has
// it (90m, 2h30m); unlimited is 0.
func ParseTime(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is no time: use minutes, HH:MM:SS, D-HH:MM:SS, or 90m, 2h30m", text)
	switch strings.ToLower(text) {
	case "unlimited", "infinite":
		return 0, nil
	}
	if d, err := time.ParseDuration(text); err == nil && text != "0" {
		if d < time.Second {
			return 0, bad
		}
		return d, nil
	}
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	var n []int64
	for _, w := range append([]string{days}, strings.Split(clock, ":")...) {
		x, err := strconv.ParseInt(w, 10, 32)
		if err != nil || x < 0 {
			return 0, bad
		}
		n = append(n, x)
	}
	units := []time.Duration{24 * time.Hour, time.Minute}
	switch {
	case hasDays && len(n) <= 4:
		units = []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	case len(n) == 3:
		units = []time.Duration{24 * time.Hour, time.Minute, time.Second}
	case len(n) == 4:
		units = []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	case len(n) > 2:
		return 0, bad
	}
	var d time.Duration
	for i, x := range n {
		d += time.Duration(x) * units[i]
	}
	if d < time.Second {
		return 0, bad
	}
	return d, nil
}

// Amounts that no node has, and that cannot be counted when there are a few of them.
const (
	mostCPUs   = 1_000_000
	mostMemory = 1 << 50
)

var memory = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([KMGTkmgt]?)(?:i?[Bb]?)$`)

// ParseMemory reads an amount of memory, in powers of 1024 as Slurm has them: 64G is 64 GiB, and a
// bare number is MiB.
func ParseMemory(text string) (*resource.Quantity, error) {
	m := memory.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf(
			"%q is no amount of memory: use 512M, 64G, 64Gi (both 64 GiB), or a number of MiB",
			text,
		)
	}
	q, err := resource.ParseQuantity(m[1] + cmp.Or(strings.ToUpper(m[2]), "M") + "i")
	if strings.EqualFold(m[2], "k") {
		q, err = resource.ParseQuantity(m[1] + "Ki")
	}
	if err != nil || q.Sign() <= 0 {
		return nil, fmt.Errorf("%q is no amount of memory: use more than 0", text)
	}
	if q.CmpInt64(mostMemory) > 0 {
		return nil, fmt.Errorf("%q is more memory than any node has: use less than a pebibyte (1024T)", text)
	}
	return &q, nil
}

// ParseCPU reads a number of processors: 8, 0.5, 500m.
func ParseCPU(text string) (*resource.Quantity, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return nil, fmt.Errorf("%q is no number of processors: use 8, 0.5 or 500m", text)
	}
	if q.CmpInt64(mostCPUs) > 0 {
		return nil, fmt.Errorf("%q is more processors than any node has: use up to %d", text, mostCPUs)
	}
	return &q, nil
}

// ParseGPUs reads [gpu:][TYPE:]COUNT. A TYPE with / is a resource, such as amd.com/gpu.
func ParseGPUs(text string) (GPUs, error) {
	bad := fmt.Errorf(
		"%q is no number of GPUs: use COUNT, TYPE:COUNT or RESOURCE:COUNT, such as 8, h100:8 or amd.com/gpu:8",
		text,
	)
	words := strings.Split(strings.TrimPrefix(text, "gpu:"), ":")
	if text == "gpu" {
		words = []string{"1"}
	}
	if len(words) > 2 {
		return GPUs{}, bad
	}
	n, err := strconv.ParseInt(words[len(words)-1], 10, 32)
	if err != nil || n < 0 {
		return GPUs{}, bad
	}
	g := GPUs{Resource: defaultGPU, Count: n}
	if len(words) == 2 {
		g.Type = words[0]
		if strings.Contains(g.Type, "/") {
			g.Resource, g.Type = g.Type, ""
			if len(validation.IsQualifiedName(g.Resource)) > 0 {
				return GPUs{}, bad
			}
		} else if len(validation.IsValidLabelValue(g.Type)) > 0 || g.Type == "" {
			return GPUs{}, bad
		}
	}
	return g, nil
}

// ParseElastic reads MIN:MAX.
func ParseElastic(text string) (*Elastic, error) {
	least, most, _ := strings.Cut(text, ":")
	a, err := strconv.Atoi(least)
	b, err2 := strconv.Atoi(most)
	if err != nil || err2 != nil || a < 1 || b < a {
		return nil, fmt.Errorf("%q is no MIN:MAX of nodes, such as 2:4", text)
	}
	return &Elastic{a, b}, nil
}

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseVar reads NAME=VALUE or, by lookup, the value that NAME has here.
func ParseVar(text string, lookup func(string) (string, bool)) (Var, error) {
	name, value, given := strings.Cut(text, "=")
	if !varName.MatchString(name) {
		return Var{}, fmt.Errorf("%q is no NAME=VALUE", name)
	}
	if !given {
		if value, given = lookup(name); !given {
			return Var{}, fmt.Errorf("%s has no value here: use %s=VALUE", name, name)
		}
	}
	return Var{name, value}, nil
}

// ParseMount reads [pvc:|secret:|cm:]NAME:/PATH[:ro].
func ParseMount(text string) (Mount, error) {
	bad := fmt.Errorf(
		"%q: use NAME:/PATH or pvc:NAME:/PATH for a PersistentVolumeClaim, secret:NAME:/PATH or cm:NAME:/PATH, and :ro behind it to read only",
		text,
	)
	words := strings.Split(text, ":")
	m := Mount{Kind: MountClaim}
	if last := len(words) - 1; last > 0 && words[last] == "ro" {
		m.ReadOnly, words = true, words[:last]
	}
	if slices.Contains([]MountKind{MountClaim, MountSecret, MountConfigMap}, MountKind(words[0])) &&
		len(words) > 2 {
		m.Kind, words = MountKind(words[0]), words[1:]
	}
	if len(words) != 2 || len(validation.IsDNS1123Subdomain(words[0])) > 0 || !path.IsAbs(words[1]) ||
		path.Clean(words[1]) == "/" {
		return m, bad
	}
	m.Name, m.Path = words[0], path.Clean(words[1])
	return m, nil
}
