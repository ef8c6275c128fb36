// Command images puts programs into container images without a container engine: an OCI
// archive for all platforms, which containerd imports ("ctr images import") and registries
// take. An image has the program, a user that is not root, a list of what it was built from
// (SBOM, SPDX 2.3), and nothing else: no shell, no package manager, no libraries.
//
//	go run ./tools/images -version v1.2.3 -o mlbatch.oci.tar linux/amd64=bin/a linux/arm64=bin/b
//
// The same programs, version and time give the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	var s spec
	var created, out string
	flag.StringVar(&s.name, "name", "localhost/mlbatch", "name of the image, without tag")
	flag.StringVar(&s.version, "version", "", "version of the program, and tag of the image")
	flag.StringVar(&s.revision, "revision", "", "commit that it was built from")
	flag.StringVar(
		&created,
		"created",
		"1970-01-01T00:00:00Z",
		"time of the image (RFC 3339), that of the commit for example",
	)
	flag.StringVar(&out, "o", "", "archive to write")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: images -version V -o FILE PLATFORM=PROGRAM...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(&s, created, out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(s *spec, created, out string, programs []string) error {
	var err error
	if s.created, err = time.Parse(time.RFC3339, created); err != nil {
		return fmt.Errorf("-created %q: must be a time such as 2026-01-31T12:00:00Z", created)
	}
	switch {
	case s.version == "":
		return fmt.Errorf("-version is missing")
	case out == "":
		return fmt.Errorf("-o is missing: the archive to write")
	case len(programs) == 0:
		return fmt.Errorf("name programs, such as linux/amd64=bin/mlbatch")
	}
	for _, p := range programs {
		platform, path, ok := strings.Cut(p, "=")
		system, arch, two := strings.Cut(platform, "/")
		if !ok || !two || system == "" || arch == "" || path == "" {
			return fmt.Errorf("%q: must be SYSTEM/ARCHITECTURE=PROGRAM, such as linux/amd64=bin/mlbatch", p)
		}
		s.programs = append(s.programs, program{system: system, arch: arch, path: path})
	}
	sizes, err := s.write(out)
	if err != nil {
		return err
	}
	for i, p := range s.programs {
		fmt.Printf("%s/%s  %.1f MB compressed\n", p.system, p.arch, float64(sizes[i])/1e6)
	}
	fmt.Printf("%s  %s:%s\n", out, s.name, s.tag())
	return nil
}
