package reading

import (
	"slices"
	"strings"
	"testing"
	"time"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

func TestErrorsInTheKernelLogAreJudgedByWhoCausesThem(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	boot, since := now.Add(-48*time.Hour), now.Add(-24*time.Hour)
	const recently = "171000000000" // microseconds since boot: half an hour ago
	xid := func(rest string) string { return "3,1," + recently + ",-;NVRM: Xid (PCI:0000:1b:00): " + rest + "\n" }
	for name, c := range map[string]struct {
		text    string
		want    health.Result
		devices []string
		says    string
	}{
		"nothing": {"6,1,12,-;usb 1-1: new device\n", health.Passed, nil, ""},
		"a GPU that fell off the bus": {
			xid("79, pid=1234, name=python, GPU has fallen off the bus."), health.Fatal, []string{"2"}, "XID 79",
		},
		"of older drivers, without a process":       {xid("48, An uncorrectable double bit error"), health.Fatal, []string{"2"}, "XID 48"},
		"without anything behind it":                {xid("119"), health.Fatal, []string{"2"}, "XID 119"},
		"a row that waits for a reset":              {xid("63, pid=1, Row remapping event"), health.Warned, []string{"2"}, "XID 63"},
		"an error that hit one program":             {xid("94, pid=1, Contained"), health.Failed, []string{"2"}, "XID 94"},
		"a program's mistake is no fault of a node": {xid("31, pid=1, MMU Fault"), health.Passed, nil, ""},
		"one program again and again":               {strings.Repeat(xid("13, pid=7, Graphics"), 50), health.Passed, nil, ""},
		"different programs warn, and no more":      {xid("13, pid=7, x") + xid("13, pid=8, x") + xid("13, pid=9, x"), health.Warned, []string{"2"}, "different programs"},
		"one that is not in the table":              {xid("999, pid=7"), health.Warned, []string{"2"}, "XID 999"},
		"too long ago":                              {"3,1,60000000,-;NVRM: Xid (PCI:0000:1b:00): 79, x\n", health.Passed, nil, ""},
		"written by a process into /dev/kmsg":       {"12,1," + recently + ",-;NVRM: Xid (PCI:0000:1b:00): 79, x\n", health.Passed, nil, ""},
		"within the text of another line":           {"6,1," + recently + ",-;foo: NVRM: Xid (PCI:0000:1b:00): 79, x\n", health.Passed, nil, ""},
		"dmesg":                                     {"[171000.123456] NVRM: Xid (PCI:0000:1b:00): 79, pid=1\n", health.Fatal, []string{"2"}, "79"},
		"a file of rsyslog":                         {"Mar  1 11:30:00 node-1 kernel: [171000.1] NVRM: Xid (PCI:0000:1b:00.0): 74, pid=1\n", health.Fatal, []string{"2"}, "74"},
		"with a proper date":                        {"2026-03-01T11:30:00.123456+00:00 node-1 kernel: NVRM: Xid (PCI:0000:1b:00): 95, pid=1\n", health.Fatal, []string{"2"}, "95"},
		"of last year":                              {"Dec 31 11:30:00 node-1 kernel: NVRM: Xid (PCI:0000:1b:00): 95, pid=1\n", health.Passed, nil, ""},
		"a file that a process wrote to":            {"Mar  1 11:30:00 node-1 systemd[1]: NVRM: Xid (PCI:0000:1b:00): 79, pid=1\n", health.Passed, nil, ""},
		"a GPU that nvidia-smi does not list":       {"3,1," + recently + ",-;NVRM: Xid (PCI:0000:ff:00): 79, x\n", health.Fatal, []string{"00000000:ff:00.0"}, "79"},
		"an NVSwitch, fatal":                        {"3,1," + recently + ",-;nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 22013, Fatal, Link 27\n", health.Fatal, []string{"nvswitch3"}, "SXID 22013"},
		"an NVSwitch, not fatal":                    {"3,1," + recently + ",-;nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 27\n", health.Warned, []string{"nvswitch3"}, "SXID"},
		"cut off":                                   {"3,1," + recently + ",-;NVRM: Xid (PCI:0000:1b", health.Passed, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := Errors(Kernel(c.text, boot, now), since, since, map[string]string{"00000000:1b:00.0": "2"})
			o := Of(found)
			if o.Result != c.want || !slices.Equal(o.Concerned(), c.devices) || !strings.Contains(o.Message, c.says) {
				t.Errorf("%s of %v: %q", o.Result, o.Concerned(), o.Message)
			}
		})
	}
}

// Lines without a zone are of the node's. West of UTC all were taken for older than they are, and passed over.
func TestDatesWithoutAZoneAreTheNodes(t *testing.T) {
	const xid = "node-1 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=1\n"
	for name, c := range map[string]struct{ text, written, want string }{
		"UTC":                     {"Mar  1 11:30:00 " + xid, "2026-03-01T11:30:02Z", "2026-03-01T11:30:00Z"},
		"west":                    {"Mar  1 04:30:00 " + xid, "2026-03-01T11:30:02Z", "2026-03-01T11:30:00Z"},
		"east, by half an hour":   {"Mar  1 17:00:00 " + xid, "2026-03-01T11:30:02Z", "2026-03-01T11:30:00Z"},
		"another line after it":   {"Mar  1 04:30:00 " + xid + "Mar  1 05:00:00 node-1 kernel: usb\n", "2026-03-01T12:00:00Z", "2026-03-01T11:30:00Z"},
		"over New Year":           {"Dec 31 20:30:00 " + xid, "2026-01-01T03:30:00Z", "2026-01-01T03:30:00Z"},
		"over New Year, east":     {"Jan  1 05:30:00 " + xid, "2025-12-31T20:30:00Z", "2025-12-31T20:30:00Z"},
		"a last line of its own":  {"Mar  1 11:30:00 " + xid + "what?\n", "2026-03-01T11:30:02Z", "2026-03-01T11:30:00Z"},
		"a file that was touched": {"Mar  1 11:30:00 " + xid, "2026-03-09T11:30:02Z", "2026-03-01T11:30:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			written, err := time.Parse(time.RFC3339, c.written)
			if err != nil {
				t.Fatal(err)
			}
			got := Kernel(c.text, written, written.In(Zone(c.text, written)))
			if len(got) != 1 || got[0].At.UTC().Format(time.RFC3339) != c.want {
				t.Errorf("%+v, want %s", got, c.want)
			}
		})
	}
}

func TestHardwareErrorsThatWereClearedDoNotComeBack(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	old := []Record{{At: now.Add(-time.Hour), Bus: "a", Code: 79}}
	if o := Of(Errors(old, now.Add(-30*time.Minute), now.Add(-24*time.Hour), nil)); o.Result != health.Passed {
		t.Errorf("an error from before the last clearing is %s", o.Result)
	}
}

func FuzzKernel(f *testing.F) {
	f.Add("3,1,171000000000,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python\n")
	f.Add("Mar  1 11:30:00 node-1 kernel: [171000.1] NVRM: Xid (PCI:0000:1b:00.0): 74, pid=1\n")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if o := Of(Errors(Kernel(text, now, now), time.Time{}, time.Time{}, nil)); rank(o.Result) < 0 {
			t.Errorf("result %q", o.Result)
		}
	})
}
