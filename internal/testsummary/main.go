// Command testsummary reads the output of `go test -json` and prints what a person
// wants to see of it: a line for each package and each slow test, everything a
// failing test said, and at the very end the sum of all tests.
//
//	go test -json ./... | go run ./internal/testsummary
//
// It exits with 1 if anything failed, or if nothing was run at all.
package main

import (
	"fmt"
	"os"
)

func main() {
	sum, err := summarize(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
	fmt.Println(sum)
	if !sum.good() {
		os.Exit(1)
	}
}
