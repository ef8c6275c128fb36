package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// patientInput stands between an assistant and a server of the Model Context Protocol: a line that
// cannot be read is answered and does not end the server, and the end of the input reaches it only
// when all requests before it are answered.
type patientInput struct {
	in  io.Reader
	out io.Writer
	// lines are the lines that the server reads.
	lines *io.PipeReader
	to    *io.PipeWriter

	mu sync.Mutex // of out and of what follows
	// open are the ids of requests that are not answered.
	open map[string]bool
	// answered is told of every answer.
	answered *sync.Cond
	closed   bool
}

func newPatientInput(in io.Reader, out io.Writer) *patientInput {
	p := &patientInput{in: in, out: out, open: map[string]bool{}}
	p.lines, p.to = io.Pipe()
	p.answered = sync.NewCond(&p.mu)
	go p.pump()
	return p
}

// envelope is what of a message says which answer belongs to which request.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// envelopes are those of a message, or of all in a batch.
func envelopes(line []byte) (out []envelope) {
	if json.Unmarshal(line, &out) == nil {
		return out
	}
	var one envelope
	_ = json.Unmarshal(line, &one) // what it does not say stays empty
	return []envelope{one}
}

// pump hands lines on until the input ends.
func (p *patientInput) pump() {
	read := bufio.NewReader(p.in)
	for {
		line, err := read.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if p.take(line) != nil {
				return // nobody reads any more
			}
		}
		if err != nil {
			p.drain()
			if errors.Is(err, io.EOF) {
				err = nil // the pipe's own end
			}
			p.to.CloseWithError(err)
			return
		}
	}
}

// take hands one line on, or answers it if it is no message.
func (p *patientInput) take(line []byte) error {
	const parseError, invalidRequest = -32700, -32600
	switch {
	case !json.Valid(line):
		return p.refuse(parseError, "this line is no JSON")
	case !messages(line):
		return p.refuse(invalidRequest, "this line is no JSON-RPC message")
	}
	p.mu.Lock()
	for _, e := range envelopes(line) {
		switch {
		case e.Method == "notifications/cancelled":
			delete(p.open, string(e.Params.RequestID)) // it may stay without an answer
		case e.Method != "" && len(e.ID) > 0:
			p.open[string(e.ID)] = true
		}
	}
	p.mu.Unlock()
	_, err := p.to.Write(append(line, '\n'))
	return err
}

// messages reports whether a line is one message, or a batch of some.
func messages(line []byte) bool {
	batch := []json.RawMessage{line}
	if line[0] == '[' && (json.Unmarshal(line, &batch) != nil || len(batch) == 0) {
		return false
	}
	for _, m := range batch {
		if _, err := jsonrpc.DecodeMessage(m); err != nil {
			return false
		}
	}
	return true
}

// refuse answers a line that has no id which could be read.
func (p *patientInput) refuse(code int, why string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintf(p.out, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, why)
	return err
}

// drain waits until all requests are answered.
func (p *patientInput) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.open) > 0 && !p.closed {
		p.answered.Wait()
	}
}

// Read reads what the server is to know.
func (p *patientInput) Read(b []byte) (int, error) { return p.lines.Read(b) }

// Write writes one message of the server, or one batch.
func (p *patientInput) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.out.Write(b)
	for _, e := range envelopes(b) {
		if e.Method == "" {
			delete(p.open, string(e.ID))
		}
	}
	p.answered.Broadcast()
	return n, err
}

// Close ends both directions; what is read meanwhile may stay.
func (p *patientInput) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.answered.Broadcast()
	return p.lines.Close()
}
