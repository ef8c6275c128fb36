// Package worldfile reads worlds for the simulator from YAML and from traces of
// real clusters, and knows a world to start with.
//
// It owns the format, its defaults and its error messages: every error names the
// field and says what to write instead. Decoding is strict. It makes jobs from
// distributions with the world's seed; the same file gives the same World. It
// opens no files: the caller does.
package worldfile
