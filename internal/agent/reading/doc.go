// Package reading says what the output of tools that look at GPUs, of the kernel log and of ping means: text and
// exit code in, findings out. It runs nothing and reads no clock. What a tool says is not trusted: it may be cut
// off, of a version that nobody has seen, or hostile, and what was understood before that point still counts.
package reading
