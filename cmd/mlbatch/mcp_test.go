package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mlbatch/mlbatch/internal/cli"
)

// assistant connects to a server whose commands are executed by a function.
func assistant(t *testing.T, execute runner) *mcp.ClientSession {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	server, err := toolServer(
		cli.Connection{Kubeconfig: "k", As: "alice"},
		execute,
	).Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close() //nolint:errcheck // it may have ended
		server.Close()  //nolint:errcheck // the same
	})
	return session
}

func call(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) (string, bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), false
	}
	text, is := r.Content[0].(*mcp.TextContent)
	if !is {
		t.Fatalf("%s answers with %T", tool, r.Content[0])
	}
	return text.Text, !r.IsError
}

// TestMCPToolsAreCommands: each tool is a command line with the server's own connection, in
// which nothing that was asked can become a flag.
func TestMCPToolsAreCommands(t *testing.T) {
	var ran []string
	s := assistant(t, func(_ context.Context, args []string, out, _ io.Writer) int {
		ran = args
		fmt.Fprintln(out, "an answer")
		return exitOK
	})
	connection := "--as=alice --kubeconfig=k"
	for name, tc := range map[string]struct {
		why, tool string
		arguments map[string]any
		want      string
	}{
		"why":        {"about one job", "why", map[string]any{"job": "blue/a"}, "why " + connection + " -- blue/a"},
		"kind":       {"of a kind", "why", map[string]any{"job": "blue/a", "kind": "Job"}, "why --kind=Job " + connection + " -- blue/a"},
		"no flag":    {"a job is no flag, whatever it is called", "why", map[string]any{"job": "--as=admin"}, "why " + connection + " -- --as=admin"},
		"no command": {"nor is a value", "ps", map[string]any{"namespace": "blue --as=admin"}, "ps -o wide --namespace=blue --as=admin " + connection},
		"ps":         {"all namespaces", "ps", nil, "ps -o wide --all-namespaces " + connection},
		"queues":     {"all queues", "queue", nil, "queue " + connection},
		"queue":      {"one that is called as a command is", "queue", map[string]any{"name": "create", "namespace": "blue"}, "queue show --namespace=blue " + connection + " -- create"},
		"capacity":   {"of a size", "capacity", map[string]any{"namespace": "blue", "gpusPerPod": 4}, "capacity --namespace=blue --gpus-per-pod=4 " + connection},
		"nodes":      {"nothing is asked", "nodes", nil, "nodes -o wide " + connection},
		"eta":        {"of a namespace", "eta", map[string]any{"namespace": "blue"}, "eta -o wide --namespace=blue " + connection},
		"hist":       {"of a time", "hist", map[string]any{"since": "24h"}, "hist --all-namespaces --since=24h " + connection},
		"show":       {"about one job", "show", map[string]any{"job": "blue/a"}, "show " + connection + " -- blue/a"},
	} {
		t.Run(name, func(t *testing.T) {
			if text, ok := call(t, s, tc.tool, tc.arguments); !ok || text != "an answer" {
				t.Fatalf("%q, %v", text, ok)
			}
			if diff := cmp.Diff(tc.want, strings.Join(ran, " ")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if i := slices.IndexFunc(
				ran,
				func(a string) bool { return strings.Contains(a, " ") },
			); name == "no command" &&
				(i < 0 || ran[i] != "--namespace=blue --as=admin") {
				t.Errorf("%s: %q", tc.why, ran)
			}
		})
	}
}

// TestMCPOnlyLooks: all tools say that they change nothing, and none is a command that does.
func TestMCPOnlyLooks(t *testing.T) {
	s := assistant(t, func(context.Context, []string, io.Writer, io.Writer) int { return exitOK })
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint || tool.Description == "" {
			t.Errorf("%s does not say that it only looks", tool.Name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(
		[]string{"capacity", "eta", "hist", "nodes", "ps", "queue", "show", "why"},
		names,
	); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// TestMCPAnswers: what a command says of its failure is the answer, and long ones are cut
// at a line.
func TestMCPAnswers(t *testing.T) {
	s := assistant(t, func(_ context.Context, args []string, out, errs io.Writer) int {
		if args[0] == "nodes" {
			fmt.Fprint(out, strings.Repeat(strings.Repeat("x", 99)+"\n", 1000))
			return exitOK
		}
		fmt.Fprintln(errs, "there is no such job")
		return exitFailure
	})
	if text, ok := call(t, s, "why", map[string]any{"job": "blue/a"}); ok || text != "there is no such job" {
		t.Errorf("%q, %v", text, ok)
	}
	if text, ok := call(t, s, "why", nil); ok || !strings.Contains(text, "job") {
		t.Errorf("no job was named: %q, %v", text, ok)
	}
	text, ok := call(t, s, "nodes", nil)
	if !ok || len(text) > mostText+100 || !strings.Contains(text, "x\n... 67") ||
		!strings.HasSuffix(text, "more lines: ask about a namespace, a queue or a state") {
		t.Errorf("%d bytes, %v, ending in %q", len(text), ok, text[len(text)-150:])
	}
}
