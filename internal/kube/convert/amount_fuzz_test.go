package convert_test

import (
	"math/big"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// FuzzAmount compares amounts with exact arithmetic: what is asked for is never
// counted as less, by no more than a base unit as more, never wraps around, and
// survives the way to the API and back.
func FuzzAmount(f *testing.F) {
	for _, s := range []string{
		"0", "1", "500m", "1n", "1.5", "4Gi", "1e3", "1E", "9223372036854775807", "9223372036854775807m",
		"220M", "1G", "1536Mi", "9223372036854775", "9223372036854774999m", "9223372036854775808", "1e30", "-1", "-500m", "-1e30", "0.1Ki",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 64 {
			return
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return
		}
		for name, perUnit := range map[corev1.ResourceName]int64{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 1, "nvidia.com/gpu": 1} {
			a := convert.Amount(name, q)
			if a == core.Unlimited || a == -core.Unlimited {
				if exact := units(t, q, perUnit); exact.Abs(exact).Cmp(new(big.Rat).SetInt64(1<<62)) < 0 {
					t.Errorf("%s of %s is unlimited", text, name)
				}
				continue
			}
			over := new(big.Rat).Sub(new(big.Rat).SetInt64(int64(a)), units(t, q, perUnit))
			if over.Sign() < 0 || over.Cmp(big.NewRat(1, 1)) >= 0 {
				if q.Sign() >= 0 {
					t.Errorf("%s of %s counts as %d base units, %s too many", text, name, a, over.RatString())
				}
			}
			spelled := convert.Quantity(string(name), a)
			if read := resource.MustParse(spelled.String()); read.String() != spelled.String() {
				t.Errorf(
					"%s of %s is written as %s, and as %s by the reader of that",
					text,
					name,
					spelled.String(),
					read.String(),
				)
			}
			if again := convert.Amount(name, convert.Quantity(string(name), a)); again != a {
				t.Errorf("%s of %s: %d becomes %d on the way to the API and back", text, name, a, again)
			}
		}
	})
}

// units is a quantity in base units, exactly.
func units(t *testing.T, q resource.Quantity, perUnit int64) *big.Rat {
	t.Helper()
	d := q.AsDec()
	r := new(big.Rat).SetInt(d.UnscaledBig())
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(d.Scale(), -d.Scale()))), nil)
	if d.Scale() > 0 {
		r.Quo(r, new(big.Rat).SetInt(ten))
	} else {
		r.Mul(r, new(big.Rat).SetInt(ten))
	}
	return r.Mul(r, new(big.Rat).SetInt64(perUnit))
}
