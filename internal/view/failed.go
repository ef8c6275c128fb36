package view

import (
	"regexp"
	"strconv"
)

// failedPod is how package lifecycle names the first pod of an AppWrapper that failed.
var failedPod = regexp.MustCompile(`\bpod (\S+) (?:failed|ended)(?: on (\S+))? with exit code (\d+)`)

// FailedPod finds in the message of a job that failed the pod that failed first, its node, "" if
// it had none, and its exit code. AppWrappers say so; their pods are gone by then.
func FailedPod(message string) (pod, node string, exitCode int32, found bool) {
	m := failedPod.FindStringSubmatch(message)
	if m == nil {
		return "", "", 0, false
	}
	code, err := strconv.ParseInt(m[3], 10, 32)
	return m[1], m[2], int32(code), err == nil
}
