// Package record keeps what an engine was told and what it decided, so that any
// decision can be reproduced later (P7).
//
// A recording is text, one JSON object a line:
//
//	{"recording":1,"options":{...},"state":{...}}   the header: format version, engine options, state
//	{"NodeSet":{"Node":{...}}}                      an event, named by its type
//	{"decide":"2026-01-02T03:04:05.6Z","plan":[...]} a decision: when, and what
//
// Names are those of the Go fields of package core. What is zero is left out; a
// list that is empty but not nil is written as []. So nothing is lost, equal
// values give equal bytes, and a field added to core is recorded without a line
// of code here.
//
// Marshal and Unmarshal are the encoding, Writer and Reader one recording, Ring
// a directory of recordings bounded in size, and Recorder the flight recorder of
// a running controller: it never blocks and never fails the one it records. The
// package knows nothing of the engine: options and state are values that it
// encodes. It makes no decisions and judges none; package replay does.
package record
