package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

// statusWriters are the packages that write statuses through a client, and of what.
// Workloads are written by many, so one package does it for all of them: it has the
// policy for writers that come too late.
func statusWriters() map[string]string {
	return map[string]string{
		"internal/cli/migrate":                   "CustomResourceDefinition, which versions are stored",
		"internal/kube/workloadstatus":           "Workload, and no other package writes that",
		"internal/kube/controllers/appwrapper":   "AppWrapper",
		"internal/kube/controllers/basis":        "jobs, what they are based on",
		"internal/kube/controllers/groups":       "objects that consist of groups of pods, such as LeaderWorkerSets",
		"internal/kube/controllers/nativegroup":  "PodGroup and CompositePodGroup of Kubernetes, whether their pods have nodes",
		"internal/kube/controllers/nodehealth":   "Node, how it is, in mode Act",
		"internal/kube/controllers/operator":     "jobs whose pods are made here",
		"internal/kube/controllers/podgroup":     "Pod, the condition of one that is deleted",
		"internal/kube/controllers/provisioning": "AdmissionCheck",
		"internal/kube/controllers/queues":       "ClusterQueue, LocalQueue and Cohort",
		"internal/kube/controllers/termination":  "Pod, that one failed whose node is out of reach",
		"internal/kube/controllers/ungating":     "Pod, why one that waits to be told its node is not",
		"internal/kube/eviction":                 "Eviction of a Pod",
		"internal/local":                         "Node, before there is a controller",
	}
}

func TestOnePackageWritesTheStatusOfWorkloads(t *testing.T) {
	found := map[string]bool{}
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range statusWrites(file) {
				if found[p.rel()] = true; statusWriters()[p.rel()] == "" {
					t.Errorf(
						"%s writes a status: of a Workload that is for internal/kube/workloadstatus, of anything else for the list here",
						fset.Position(at),
					)
				}
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(statusWriters())) {
		if !found[dir] {
			t.Errorf("%s writes no status: the list is stale", dir)
		}
	}
}

// statusWrites finds X.Status().Update(...), Patch, Apply and Create, and the same of
// X.SubResource(...).
func statusWrites(file *ast.File) []token.Pos {
	var out []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		write, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Update", "Patch", "Apply", "Create"}, write.Sel.Name) {
			return true
		}
		if inner, ok := write.X.(*ast.CallExpr); ok {
			if of, ok := inner.Fun.(*ast.SelectorExpr); ok &&
				(of.Sel.Name == "Status" || of.Sel.Name == "SubResource") {
				out = append(out, call.Pos())
			}
		}
		return true
	})
	return out
}

func TestStatusWritesAreFound(t *testing.T) {
	for src, want := range map[string]int{
		"c.Status().Update(ctx, w)":               1,
		"r.Client.Status().Patch(ctx, w, p)":      1,
		`c.SubResource("status").Update(ctx, w)`:  1,
		"c.Update(ctx, w)":                        0,
		"equality.DeepEqual(c.Status(), w.Other)": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p; func f() { "+src+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := statusWrites(file); len(got) != want {
			t.Errorf("%s: %d writes, want %d", src, len(got), want)
		}
	}
}
