package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mlbatch/mlbatch/internal/cli"
)

// TestMCPOutlivesWhatItCannotRead: a line that is no message is answered as such, and the server
// goes on; requests before the end of the input are answered though it has ended.
func TestMCPOutlivesWhatItCannotRead(t *testing.T) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`
	const nodes = `{"jsonrpc":"2.0","id":"n","method":"tools/call","params":{"name":"nodes","arguments":{}}}` + "\n"
	type answer struct {
		ID     any
		Method string // of what the server tells by itself
		Error  *struct{ Code int }
	}
	for name, tc := range map[string]struct {
		input string
		want  []string // ids, or codes of errors
	}{
		"in flight":      {hello + nodes, []string{"1", "n"}},
		"no line end":    {hello + strings.TrimSpace(nodes), []string{"1", "n"}},
		"no JSON":        {"nonsense\n" + hello + "{\n" + nodes, []string{"-32700", "1", "-32700", "n"}},
		"no message":     {hello + "7\n[]\n{\"a\":1}\n" + nodes, []string{"1", "-32600", "-32600", "-32600", "n"}},
		"empty lines":    {"\n" + hello + "\r\n \n" + nodes, []string{"1", "n"}},
		"nothing at all": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			in := &endingReader{strings.NewReader(tc.input), ended}
			read, out := io.Pipe()
			talk := newPatientInput(in, out)
			execute := func(_ context.Context, _ []string, w io.Writer, _ io.Writer) int {
				<-ended // the answer comes after the end of the input
				fmt.Fprintln(w, "an answer")
				return exitOK
			}
			go func() {
				err := toolServer(
					cli.Connection{},
					execute,
				).Run(t.Context(), &mcp.IOTransport{Reader: talk, Writer: talk})
				out.CloseWithError(err)
			}()
			var got []string
			lines := bufio.NewScanner(read)
			for lines.Scan() {
				var a answer
				if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
					t.Fatalf("%v: %s", err, lines.Text())
				}
				if a.Method != "" {
					continue
				}
				if a.Error != nil {
					got = append(got, fmt.Sprint(a.Error.Code))
				} else {
					got = append(got, fmt.Sprint(a.ID))
				}
			}
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			count := func(all []string) map[string]int {
				out := map[string]int{}
				for _, x := range all {
					out[x]++
				}
				return out
			}
			if fmt.Sprint(count(got)) != fmt.Sprint(count(tc.want)) {
				t.Errorf("answers %q, want %q", got, tc.want)
			}
		})
	}
}

// endingReader tells when it has ended.
type endingReader struct {
	io.Reader
	ended chan struct{}
}

func (r *endingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil {
		close(r.ended)
	}
	return n, err
}

// TestMCPWaitsForNoCancelledRequest: what the assistant gave up may stay without an answer.
func TestMCPWaitsForNoCancelledRequest(t *testing.T) {
	p := newPatientInput(strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call"}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}
`), io.Discard)
	if _, err := io.ReadAll(p); err != nil {
		t.Fatal(err)
	}
}

// TestWatchingEndsAsInterrupted: what goes on until Ctrl-C says so by its exit code.
func TestWatchingEndsAsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	shown := 0
	err := watchScreen(ctx, io.Discard, func(io.Writer) error { shown++; interrupt(); return nil })
	var code exitError
	if !errors.As(err, &code) || code.code != exitInterrupted || shown != 1 {
		t.Errorf("%v after %d screens", err, shown)
	}
}
