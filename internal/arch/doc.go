// Package arch keeps the house in order by test: imports go one way, the
// engine stays pure, every package says what it is for, and no module gets
// into the program unseen. It holds no code of the program.
package arch
