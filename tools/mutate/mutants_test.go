package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every kind of mistake, on one function.
func TestMutants(t *testing.T) {
	const source = `package p

func f(a, b int) (int, bool) {
	for i := 0; i < a; i++ {
		if g(b) {
			continue
		}
		b += a
	}
	return a + b, a == 7
}
`
	found, err := mutantsIn("f.go", source)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range found {
		got = append(got, found[i].what+": "+found[i].is())
		if found[i].was() == found[i].is() {
			t.Errorf("%s changes nothing", got[i])
		}
	}
	want := []string{
		"number: for i := 1; i < a; i++ {",
		"number: for i := -1; i < a; i++ {",
		"operator: for i := 0; i <= a; i++ {",
		"operator: for i := 0; i >= a; i++ {",
		"statement left out: for i := 0; i < a; {",
		"condition: if !(g(b)) {",
		"statement left out: ",
		"statement left out: ",
		"result: return 0, a == 7",
		"operator: return a - b, a == 7",
		"result: return a + b, false",
		"operator: return a + b, a != 7",
		"number: return a + b, a == 8",
		"number: return a + b, a == 6",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Lines of the two files have the form that they are read with.
func TestFiles(t *testing.T) {
	for _, line := range lines(testsFile) {
		if _, _, ok := strings.Cut(line, ": "); !ok {
			t.Errorf("tests.txt: %q has no package", line)
		}
	}
	for _, line := range lines(equivalentFile) {
		what, why, _ := strings.Cut(line, " | ")
		if !strings.Contains(what, " => ") || why == "" {
			t.Errorf("equivalent.txt: %q has no mutant, or no reason", line)
		}
	}
}
