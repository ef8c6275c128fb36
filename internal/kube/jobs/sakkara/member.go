package sakkara

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Schedulers are the names by which pods ask for Sakkara: that of its chart, and that of the programs that write for it.
func Schedulers() []string { return []string{"sakkara-scheduler", "sakkara"} }

// GroupName is the pod group, and so the Workload, of the pods of a group: its name or, where that is no name of an
// object, one that is made of it and of no other.
func GroupName(name string) string {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	const longest, hashLength = 50, 8
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	clean = strings.Trim(clean[:min(len(clean), longest)], "-")
	sum := sha256.Sum256([]byte(name))
	return strings.TrimLeft(clean+"-"+hex.EncodeToString(sum[:])[:hashLength], "-")
}

// ReadsRank reports whether containers of a pod are given its rank in a variable, which they cannot be once they run.
func ReadsRank(spec *corev1.PodSpec) bool {
	const path = "metadata.labels['" + RankLabel + "']"
	reads := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			return e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == path
		})
	}
	return slices.ContainsFunc(spec.Containers, reads) || slices.ContainsFunc(spec.InitContainers, reads)
}

// Master reports whether a pod is the one that the others of its group call: rank 0 is its.
func Master(pod string) bool { return strings.Contains(pod, "master") }

// Compare orders the names of pods as their ranks do: the master first, then as names count.
func Compare(a, b string) int {
	if x, y := Master(a), Master(b); x != y {
		if x {
			return -1
		}
		return 1
	}
	return core.CompareNames(a, b)
}
