// Package kubeversion makes the Kubernetes libraries in this binary name the
// release that they were compiled from.
//
// The libraries take their version from linker flags of the upstream build and
// say "v0.0.0-master" without them. Setting it in code instead makes every
// build, test binaries included, report the same.
package kubeversion

import (
	"fmt"
	_ "unsafe" // go:linkname

	"k8s.io/component-base/version"
)

// Release is the version of k8s.io/kubernetes in go.mod.
const Release = "v1.37.2"

// gitVersion is what upstream's linker flags set. The library offers no
// function to change it: SetDynamicVersion accepts only the same release.
//
//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string //nolint:gochecknoglobals // stands for the library's own variable

// Claim makes servers and clients of this process report Release. It must be
// called before they are made.
func Claim() error {
	gitVersion = Release
	if err := version.SetDynamicVersion(Release); err != nil {
		return fmt.Errorf("set the Kubernetes version %s: %w", Release, err)
	}
	return nil
}
