package kubeversion

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"k8s.io/component-base/version"
)

func TestClaim(t *testing.T) {
	if err := Claim(); err != nil {
		t.Fatal(err)
	}
	if got := version.Get().GitVersion; got != Release {
		t.Errorf("the library reports %q, want %q", got, Release)
	}
}

// The constant must follow go.mod, or the cluster lies about what it is.
func TestReleaseIsTheOneInGoMod(t *testing.T) {
	f, err := os.Open("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(strings.TrimSpace(s.Text()), "k8s.io/kubernetes "); ok {
			if v != Release {
				t.Errorf("go.mod has k8s.io/kubernetes %s, Release is %s", v, Release)
			}
			return
		}
	}
	t.Error("go.mod does not name k8s.io/kubernetes")
}
