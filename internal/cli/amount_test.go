package cli

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestAmountsAreShort: large amounts are told in units that people read, and never more than there is.
func TestAmountsAreShort(t *testing.T) {
	for text, want := range map[string]string{
		"149333332m": "149333", "1302082031250Ki": "1.2Pi", "500m": "500m", "8": "8", "64Gi": "64Gi", "1953125000Ki": "1.8Ti", "149333000m": "149333",
	} {
		q := resource.MustParse(text)
		if got := shortAmount(&q); got != want {
			t.Errorf("%s is told as %s, want %s", text, got, want)
		}
	}
}
