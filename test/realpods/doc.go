// Package realpods tests clusters whose pods are real containers: "mlbatch up --runtime
// containerd", on this machine. It needs root and Debian's packages, and skips with a
// message that names what is missing. It owns no code that runs outside of tests.
package realpods
