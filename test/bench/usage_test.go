package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/mlbatch/mlbatch/test/rig"
)

// usage is what the cluster has used so far.
type usage struct {
	// cpu is processor time by component.
	cpu map[string]time.Duration
	// writes counts successful writes by "verb resource/subresource".
	writes map[string]float64
}

// used reads what the cluster has used since it started.
func (bd bed) used(b *testing.B) usage {
	b.Helper()
	return usage{cpu: bd.processorTime(b), writes: bd.writes(b)}
}

// since is what was used between two readings.
func (u usage) since(before usage) usage {
	d := usage{cpu: map[string]time.Duration{}, writes: map[string]float64{}}
	for k, v := range u.cpu {
		d.cpu[k] = v - before.cpu[k]
	}
	for k, v := range u.writes {
		if n := v - before.writes[k]; n > 0 {
			d.writes[k] = n
		}
	}
	return d
}

func (u usage) totals() (cpu time.Duration, writes float64) {
	for _, v := range u.cpu {
		cpu += v
	}
	for _, v := range u.writes {
		writes += v
	}
	return cpu, writes
}

// perJob prints what one of n jobs took.
func (u usage) perJob(n int) string {
	var out strings.Builder
	names := make([]string, 0, len(u.cpu))
	for k := range u.cpu {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		fmt.Fprintf(&out, "\n%10.2f ms  %s", u.cpu[k].Seconds()*1000/float64(n), k)
	}
	rows := make([]string, 0, len(u.writes))
	for k := range u.writes {
		rows = append(rows, k)
	}
	slices.Sort(rows)
	for _, k := range rows {
		if per := u.writes[k] / float64(n); per >= 0.05 {
			fmt.Fprintf(&out, "\n%10.2f     %s", per, k)
		}
	}
	return out.String()
}

// processorTime reads the user and system time of every component.
func (bd bed) processorTime(b *testing.B) map[string]time.Duration {
	b.Helper()
	const tick = time.Second / 100 // USER_HZ is 100 on every architecture of Go
	components, err := bd.Components(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	out := map[string]time.Duration{}
	components = append(components, rig.Component{Name: "benchmark itself", PID: os.Getpid()})
	for _, c := range components {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.PID), "stat"))
		if err != nil {
			b.Fatal(err)
		}
		// The second field, a name in parentheses, may hold anything.
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		const userTime, systemTime = 11, 12
		var ticks int64
		for _, i := range []int{userTime, systemTime} {
			n, err := strconv.ParseInt(fields[i], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
		out[short(c.Name)] = time.Duration(ticks) * tick
	}
	return out
}

// writes reads the API server's own count of requests that changed something.
func (bd bed) writes(b *testing.B) map[string]float64 {
	b.Helper()
	cl, err := kubernetes.NewForConfig(bd.RESTConfig())
	if err != nil {
		b.Fatal(err)
	}
	data, err := cl.RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	label := regexp.MustCompile(`(\w+)="([^"]*)"`)
	out := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		if !ok {
			continue
		}
		l := map[string]string{}
		for _, m := range label.FindAllStringSubmatch(rest, -1) {
			l[m[1]] = m[2]
		}
		if !slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, l["verb"]) ||
			l["resource"] == "leases" {
			continue
		}
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			b.Fatal(err)
		}
		name := l["verb"] + " " + l["resource"]
		if l["subresource"] != "" {
			name += "/" + l["subresource"]
		}
		if !strings.HasPrefix(l["code"], "2") {
			name += " answered " + l["code"]
		}
		out[name] += n
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	return out
}

// memory reads resident memory in bytes: with all that a process maps, and with
// its share of what it has in common with others.
func memory(b *testing.B, pid int) (rss, pss float64) {
	b.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "Rss:" && f[0] != "Pss:" {
			continue
		}
		n, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		if f[0] == "Rss:" {
			rss = n * 1024
		} else {
			pss = n * 1024
		}
	}
	return rss, pss
}
