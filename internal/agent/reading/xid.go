package reading

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

// XID is what a number that NVIDIA's driver writes into the kernel log means.
type XID struct {
	Code    int
	Meaning string
	// Result of one; that of an application's mistake is Passed: another job has nothing to fear from it.
	Result health.Result
}

// application reports whether programs cause it.
func (x *XID) application() bool { return x.Result == health.Passed }

// XIDs is the table, after NVIDIA's catalogue of XID errors. What programs cause is no fault of the node unless
// different programs run into it again and again, and even then the node is only warned about: whoever runs a
// faulty program must not be able to take nodes from others.
func XIDs() []XID {
	return []XID{
		{13, "an exception of the graphics engine, by a program", health.Passed},
		{31, "a program used memory that it does not have", health.Passed},
		{43, "a program was stopped on the GPU", health.Passed},
		{45, "a program was cleaned up before its end", health.Passed},
		{48, "an error of memory that cannot be corrected", health.Fatal},
		{61, "an internal microcontroller took a breakpoint", health.Failed},
		{62, "an internal microcontroller halted", health.Fatal},
		{63, "a row of memory is to be remapped at the next reset", health.Warned},
		{64, "remapping a row of memory failed", health.Failed},
		{68, "an exception of the video processor, by a program", health.Passed},
		{69, "an exception of the graphics engine class, by a program", health.Passed},
		{74, "an error of NVLink", health.Fatal},
		{79, "the GPU has fallen off the bus", health.Fatal},
		{92, "many errors of memory that were corrected", health.Warned},
		{94, "an error of memory that hit one program only", health.Failed},
		{95, "an error of memory that may have hit every program", health.Fatal},
		{119, "the GPU's system processor does not answer", health.Fatal},
		{120, "the GPU's system processor failed", health.Fatal},
		{140, "an error of memory that was not recovered from", health.Fatal},
		{143, "the GPU could not be initialized", health.Fatal},
	}
}

// meaning is the row of a number; that of one which is not in the table is a warning.
func meaning(code int) XID {
	for _, x := range XIDs() {
		if x.Code == code {
			return x
		}
	}
	return XID{code, "not in mlbatch's table", health.Warned}
}

// often is how many different programs have to run into an application's XID on one GPU.
const often = 3

var (
	xidLine  = regexp.MustCompile(`^NVRM: Xid \(PCI:([0-9A-Fa-f:.]{5,20})\): ([0-9]{1,5})(?:, (.*))?$`)
	sxidLine = regexp.MustCompile(
		`^nvidia-nvswitch([0-9]{1,3}): SXid \(PCI:[0-9A-Fa-f:.]{5,20}\): ([0-9]{1,6}), (Fatal|Non-fatal)(.*)$`,
	)
	xidPID   = regexp.MustCompile(`pid='?([0-9]+|<unknown>)`)
	kmsgLine = regexp.MustCompile(`^([0-9]{1,4}),[0-9]+,([0-9]{1,19}),[^;]*;(.*)$`)
	bootLine = regexp.MustCompile(`^\[ *([0-9]{1,12})\.([0-9]{1,6})\] (.*)$`)
	sysLine  = regexp.MustCompile(
		`^([A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[^ ]{8,40}) [^ ]+ kernel: (?:\[ *[0-9.]+\] )?(.*)$`,
	)
)

// Record is one line of the kernel log that is about a GPU.
type Record struct {
	At time.Time
	// Bus is the address of the GPU, as longBus writes it; Switch the number of an NVSwitch.
	Bus, Switch string
	Code        int
	// Fatal is what the driver says itself of an error of an NVSwitch.
	Fatal   bool
	Process string
}

// Kernel finds what NVIDIA's driver wrote into the kernel log: lines of /dev/kmsg, of dmesg, or of a file that a
// system logger keeps. boot is when the system started, now the time, from which dates without a year get theirs.
// Lines that a process wrote are passed over, as far as the log tells.
func Kernel(text string, boot, now time.Time) []Record {
	var out []Record
	for line := range strings.Lines(text) {
		if r, is := record(strings.TrimRight(line, "\r\n"), boot, now); is {
			out = append(out, r)
		}
	}
	return out
}

func record(line string, boot, now time.Time) (Record, bool) {
	var r Record
	const long = 4096
	if len(line) > long || !strings.Contains(line, "Xid") {
		return r, false
	}
	said := ""
	if m := kmsgLine.FindStringSubmatch(line); m != nil {
		// The low three bits are the level, the others who wrote it: 0 is the kernel.
		if n, err := strconv.Atoi(m[1]); err != nil || n>>3 != 0 {
			return r, false
		}
		us, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return r, false
		}
		r.At, said = boot.Add(time.Duration(min(us, 1<<52))*time.Microsecond), m[3]
	} else if m := bootLine.FindStringSubmatch(line); m != nil {
		s, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil || s > 1<<33 {
			return r, false
		}
		r.At, said = boot.Add(time.Duration(s)*time.Second), m[3]
	} else if m := sysLine.FindStringSubmatch(line); m != nil {
		at, is := dated(m[1], now)
		if !is {
			return r, false
		}
		r.At, said = at, m[2]
	}
	if m := xidLine.FindStringSubmatch(said); m != nil {
		r.Bus = longBus(m[1])
		r.Code, _ = strconv.Atoi(m[2]) // digits
		if pid := xidPID.FindStringSubmatch(m[3]); pid != nil {
			r.Process = pid[1]
		}
		return r, true
	}
	if m := sxidLine.FindStringSubmatch(said); m != nil {
		r.Switch, r.Fatal = m[1], m[3] == "Fatal"
		r.Code, _ = strconv.Atoi(m[2]) // digits
		return r, true
	}
	return r, false
}

// oldDate begins lines of loggers that tell neither year nor zone.
var oldDate = regexp.MustCompile(`^[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} `)

// Zone is that of the dates in a file of a system logger, for those that tell none: how far the last of them is from
// when the file was written. The logger goes by the clock of the node, and who reads it may have another zone, as
// containers do.
func Zone(text string, written time.Time) *time.Location {
	const quarter, most = 15 * time.Minute, 14 * time.Hour
	text = strings.TrimRight(text, "\r\n")
	last := text[strings.LastIndexByte(text, '\n')+1:]
	date := strings.TrimSpace(oldDate.FindString(last))
	written = written.UTC()
	// Around New Year it may be of the year before or after.
	for _, year := range []int{written.Year(), written.Year() - 1, written.Year() + 1} {
		at, err := time.Parse("2006 Jan _2 15:04:05", strconv.Itoa(year)+" "+date)
		if off := at.Sub(written).Round(quarter); err == nil && date != "" && off.Abs() <= most {
			return time.FixedZone("", int(off.Seconds()))
		}
	}
	return time.UTC
}

// dated is the time of a line of a system logger. One without a year is of the past year.
func dated(text string, now time.Time) (time.Time, bool) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, true
	}
	at, err := time.ParseInLocation("2006 Jan _2 15:04:05", strconv.Itoa(now.Year())+" "+text, now.Location())
	if err != nil {
		return at, false
	}
	if at.After(now.Add(24 * time.Hour)) {
		at = at.AddDate(-1, 0, 0)
	}
	return at, true
}

// Errors judges records. Of what hardware causes those since a time count, of what programs cause those since
// another. indexes are those of GPUs by their addresses; a GPU without one is called by its address.
func Errors(records []Record, hardware, programs time.Time, indexes map[string]string) []Finding {
	type group struct {
		device string
		code   int
	}
	counts, who := map[group]int{}, map[group][]string{}
	results, means := map[group]health.Result{}, map[group]string{}
	var order []group
	for _, r := range records {
		x := meaning(r.Code)
		since := hardware
		if r.Switch == "" && x.application() {
			since = programs
		}
		if r.At.Before(since) {
			continue
		}
		g := group{r.Bus, r.Code}
		if i, known := indexes[r.Bus]; known {
			g.device = i
		}
		name := fmt.Sprintf("XID %d, %s", x.Code, x.Meaning)
		if r.Switch != "" {
			g.device, x.Result = "nvswitch"+r.Switch, health.Warned
			if r.Fatal {
				x.Result = health.Fatal
			}
			name = fmt.Sprintf("SXID %d of an NVSwitch", r.Code)
		}
		if counts[g]++; counts[g] == 1 {
			order = append(order, g)
		}
		results[g], means[g] = x.Result, name
		if !slices.Contains(who[g], r.Process) {
			who[g] = append(who[g], r.Process)
		}
	}
	var out []Finding
	for _, g := range order {
		f := Finding{Device: g.device, Result: results[g], Message: means[g], Value: float64(g.code)}
		if n := counts[g]; n > 1 {
			f.Message = fmt.Sprintf("%s, %d times", f.Message, n)
		}
		if f.Result == health.Passed && len(who[g]) >= often {
			f.Result = health.Warned
			f.Message += " by different programs: test the GPU"
		}
		out = append(out, f)
	}
	if out == nil {
		out = []Finding{{Result: health.Passed}}
	}
	return out
}
