package reading

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

// smi is an answer of nvidia-smi -q -x with so many GPUs, each as a function changes it.
func smi(gpus int, change func(i int, gpu string) string) string {
	var b strings.Builder
	b.WriteString(
		"<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n",
	)
	b.WriteString("\t<driver_version>550.90.07</driver_version>\n")
	for i := range gpus {
		one := fmt.Sprintf(`<gpu id="00000000:%02X:00.0">
	<product_name>NVIDIA H100 80GB HBM3</product_name>
	<mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
	<pci><pci_gpu_link_info>
		<pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>5</current_link_gen></pcie_gen>
		<link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width></link_widths>
	</pci_gpu_link_info></pci>
	<performance_state>P0</performance_state>
	<clocks_event_reasons>
		<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
		<clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
	</clocks_event_reasons>
	<ecc_errors><volatile>
		<sram_correctable>2</sram_correctable><sram_uncorrectable_parity>0</sram_uncorrectable_parity>
		<dram_correctable>1</dram_correctable><dram_uncorrectable>0</dram_uncorrectable>
	</volatile><aggregate><dram_uncorrectable>7</dram_uncorrectable></aggregate></ecc_errors>
	<remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
	<retired_pages><pending_retirement>N/A</pending_retirement></retired_pages>
	<temperature><gpu_temp>35 C</gpu_temp></temperature>
	<gpu_power_readings><instant_power_draw>71.32 W</instant_power_draw></gpu_power_readings>
	<processes></processes>
</gpu>
`, 0x19+i)
		if change != nil {
			one = change(i, one)
		}
		b.WriteString(one)
	}
	return b.String() + "</nvidia_smi_log>\n"
}

// only changes one GPU.
func only(n int, from, to string) func(int, string) string {
	return func(i int, gpu string) string {
		if i != n {
			return gpu
		}
		return strings.ReplaceAll(gpu, from, to)
	}
}

func TestGPUsAreJudgedByWhatNvidiaSMITells(t *testing.T) {
	limits := DefaultLimits()
	remapped := func(g []GPU) []Finding { return Remapped(g) }
	power := func(g []GPU) []Finding { return Power(g, limits) }
	links := func(g []GPU) []Finding { return Links(g, limits) }
	for name, c := range map[string]struct {
		text    string
		judge   func([]GPU) []Finding
		want    health.Result
		devices []string
		says    string
	}{
		"nothing is wrong": {smi(8, nil), remapped, health.Passed, nil, ""},
		"a row waits: the next reset mends it, and jobs run on": {
			smi(8, only(3, "pending>No", "pending>Yes")), remapped, health.Warned, []string{"3"}, "reset",
		},
		"no rows are left: no new jobs": {
			smi(8, only(2, "failure>No", "failure>Yes")), remapped, health.Failed, []string{"2"}, "replaced",
		},
		"pages of older GPUs wait, under the name of older drivers": {
			smi(1, only(0, "<pending_retirement>N/A</pending_retirement>", "<pending_blacklist>Yes</pending_blacklist>")),
			remapped, health.Warned,
			[]string{"0"},
			"retired",
		},
		"hardware slows one down": {
			smi(2, only(1, "slowdown>Not Active", "slowdown>Active")), power, health.Warned, []string{"1"}, "hw_slowdown",
		},
		"the same under the names of drivers before 535": {
			smi(1, func(_ int, g string) string {
				g = strings.ReplaceAll(g, "clocks_event_reason", "clocks_throttle_reason")
				return strings.ReplaceAll(g, "hw_slowdown>Not Active", "hw_slowdown>Active")
			}), power, health.Warned, []string{"0"}, "hw_slowdown",
		},
		"software that slows it down, as at rest, is no fault": {
			smi(1, only(0, "gpu_idle", "sw_power_cap")), power, health.Passed, nil, "",
		},
		"too hot": {smi(1, only(0, "35 C", "91 C")), power, health.Warned, []string{"0"}, "91 degrees"},
		"an error of memory since the driver was loaded": {
			smi(4, only(1, "<dram_uncorrectable>0", "<dram_uncorrectable>2")), Memory, health.Failed, []string{"1"}, "2 errors",
		},
		"errors of earlier times are no news": {smi(1, nil), Memory, health.Passed, nil, ""},
		"ECC that a GPU does not have": {
			smi(1, only(0, "<dram_uncorrectable>0", "<dram_uncorrectable>N/A")), Memory, health.Passed, nil, "",
		},
		"a link with half its lanes": {
			smi(2, only(1, "current_link_width>16x", "current_link_width>8x")), links, health.Failed, []string{"1"}, "8 lanes of 16",
		},
		"a link that is slow at full speed": {
			smi(1, only(0, "current_link_gen>5", "current_link_gen>1")), links, health.Warned, []string{"0"}, "generation 1",
		},
		"a link that is slow at rest is as it should be": {
			smi(1, func(_ int, g string) string {
				return strings.ReplaceAll(strings.ReplaceAll(g, "current_link_gen>5", "current_link_gen>1"), ">P0<", ">P8<")
			}), links, health.Passed, nil, "",
		},
		"a host that has an older bus than the GPU": {
			smi(1, func(_ int, g string) string { return strings.ReplaceAll(g, "link_gen>5", "link_gen>4") }),
			links, health.Passed, nil, "",
		},
		"a GPU that the driver lost": {
			smi(8, only(5, "35 C", "GPU requires reset")), remapped, health.Fatal, []string{"5"}, "requires reset",
		},
	} {
		t.Run(name, func(t *testing.T) {
			gpus, err := NVIDIA([]byte(c.text), 0)
			if err != nil {
				t.Fatal(err)
			}
			o := Of(c.judge(gpus))
			if o.Result != c.want || !slices.Equal(o.Concerned(), c.devices) || !strings.Contains(o.Message, c.says) {
				t.Errorf("%s of %v: %q", o.Result, o.Concerned(), o.Message)
			}
		})
	}
}

func TestAnAnswerThatIsCutOffCountsAsFarAsItGoes(t *testing.T) {
	whole := smi(8, only(1, "pending>No", "pending>Yes"))
	before, _, _ := strings.Cut(whole, "00000000:1C")
	gpus, err := NVIDIA([]byte(before), 0)
	if len(gpus) != 3 || err == nil {
		t.Errorf("%d GPUs and %v, want the three before the cut, and an error", len(gpus), err)
	}
	if o := Of(Remapped(gpus)); o.Result != health.Warned {
		t.Errorf("what was read before the cut gives %s", o.Result)
	}
	for name, text := range map[string]string{
		"entities that grow": `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><nvidia_smi_log><gpu id="1"><product_name>&b;</product_name></gpu></nvidia_smi_log>`,
		"no XML":             "hello",
		"nothing":            "",
		"more GPUs than there can be": smi(
			100, nil,
		),
	} {
		if _, err := NVIDIA([]byte(text), 0); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestADriverThatDoesNotAnswerIsToldFromAGPUThatIsLost(t *testing.T) {
	var gone *LostError
	_, err := NVIDIA(
		[]byte(
			"Unable to determine the device handle for GPU 0000:C1:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
		),
		15,
	)
	if !errors.As(err, &gone) || gone.Bus != "00000000:c1:00.0" {
		t.Errorf("a lost GPU is %v", err)
	}
	_, err = NVIDIA([]byte("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"), 9)
	if _, is := errors.AsType[*DriverError](err); !is {
		t.Errorf("no driver is %v", err)
	}
}

func FuzzNVIDIA(f *testing.F) {
	f.Add([]byte(smi(2, nil)), 0)
	f.Add([]byte("GPU is lost"), 15)
	f.Add([]byte("<gpu><processes><process_info><type>C"), 0)
	f.Fuzz(func(t *testing.T, text []byte, exit int) {
		gpus, _ := NVIDIA(text, exit)
		if len(gpus) > maxGPUs {
			t.Errorf("%d GPUs", len(gpus))
		}
		for _, judge := range [][]Finding{Remapped(gpus), Memory(gpus), Power(gpus, DefaultLimits()), Links(gpus, DefaultLimits())} {
			if len(judge) != len(gpus) {
				t.Errorf("%d findings of %d GPUs", len(judge), len(gpus))
			}
			Of(judge)
		}
	})
}

// Names of processes are those of users.
func TestAGPUIsLostByWhatTheDriverSaysOnly(t *testing.T) {
	const gpu = `<nvidia_smi_log><gpu id="00000000:1B:00.0"><processes><process_info><process_name>GPU is lost</process_name>`
	var lost *LostError
	if _, err := NVIDIA([]byte(gpu), 0); err == nil || errors.As(err, &lost) {
		t.Errorf("an answer that is cut off behind a user's text: %v", err)
	}
	const said = "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.\n"
	if _, err := NVIDIA([]byte(said+gpu), 15); !errors.As(err, &lost) {
		t.Errorf("what the driver says: %v", err)
	}
}
