package cli

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/view"
)

// TestAmountsAreShort: large amounts are told in units that people read, and never more than there is.
func TestAmountsAreShort(t *testing.T) {
	for _, c := range []struct{ of, text, want string }{
		{"cpu", "149333332m", "149333"},
		{"cpu", "149333000m", "149333"},
		{"cpu", "149333m", "149.3"},
		{"cpu", "64500m", "64.5"},
		{"cpu", "1999m", "1.999"},
		{"cpu", "19999m", "19.99"},
		{"cpu", "500m", "500m"},
		{"cpu", "1234567891m", "1.2M"},
		{"cpu", "8", "8"},
		{"nvidia.com/gpu", "123456", "123456"},
		{"nvidia.com/gpu", "1234567", "1.2M"},
		{"nvidia.com/gpu", "1999999999", "1.9G"},
		{"memory", "1302082031250Ki", "1.1Pi"},
		{"memory", "64Gi", "64Gi"},
		{"memory", "2000Gi", "2000Gi"},
		{"memory", "1953125000Ki", "1.8Ti"},
		{"memory", "2147483647Ki", "1.9Ti"},
		{"memory", "1048575Mi", "1023Gi"},
		{"memory", "1234567890", "1.1Gi"},
		{"memory", "1G", "1G"},
		{"hugepages-2Mi", "1073741824", "1Gi"},
		{"ephemeral-storage", "1000000001", "953.6Mi"},
		{"memory", "-1953125000Ki", "-1.8Ti"},
		{"memory", "9223372036854775807", "any number"},
		{"nvidia.com/gpu", "0", "0"},
		{"", "any number", "any number"},
		{"", "", ""},
	} {
		if got := view.Amount(c.of, c.text); got != c.want {
			t.Errorf("%s of %s is told as %s, want %s", c.text, c.of, got, c.want)
		}
		q, err := resource.ParseQuantity(view.Amount(c.of, c.text))
		if was, known := resource.ParseQuantity(
			c.text,
		); err == nil && known == nil && was.Sign() > 0 &&
			q.Cmp(was) > 0 {
			t.Errorf("%s of %s is told as %s, which is more", c.text, c.of, q.String())
		}
	}
}

// TestAmountsAreToldApart: what is compared does not read the same where it differs.
func TestAmountsAreToldApart(t *testing.T) {
	if got := view.Amounts("memory", "1953125000Ki", "4Ti"); !slices.Equal(got, []string{"1.8Ti", "4Ti"}) {
		t.Error(got)
	}
	if got := view.Amounts(
		"memory",
		"1953125000Ki",
		"1953125001Ki",
	); !slices.Equal(
		got,
		[]string{"1953125000Ki", "1953125001Ki"},
	) {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"insufficient quota for cpu in flavor f, request 149333332m > maximum capacity (149333331m)":                   "insufficient quota for cpu in flavor f, request 149333332m > maximum capacity (149333331m)",
		"insufficient unused quota for memory in flavor f, 1953125000Ki more needed":                                   "insufficient unused quota for memory in flavor f, 1.8Ti more needed",
		"workload team-1/job-1234567 is ahead, and took 12345s":                                                        "workload team-1/job-1234567 is ahead, and took 12345s",
		"insufficient quota for memory in flavor f, request 1302082031250Ki > maximum capacity (1953125000Ki); retry.": "insufficient quota for memory in flavor f, request 1.1Pi > maximum capacity (1.8Ti); retry.",
	} {
		if got := view.ShortAmounts(text); got != want {
			t.Errorf("%q is told as %q, want %q", text, got, want)
		}
	}
}
