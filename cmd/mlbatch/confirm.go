package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// readLine reads an answer, and waits for none any more when the command is told to end: a read of a
// terminal does not end by itself.
func readLine(cmd *cobra.Command) (string, error) {
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		read <- answer{line, err}
	}()
	ctx := cmd.Context()
	if ctx == nil { // as in a command that nobody executes
		ctx = context.Background()
	}
	select {
	case a := <-read:
		return a.line, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// confirm asks whether to go on. Without a terminal nobody answers: then --yes has to be said.
func confirm(cmd *cobra.Command, yes bool, question string) error { //nolint:revive // a fact
	if yes {
		return nil
	}
	if f, is := cmd.InOrStdin().(*os.File); is && !term.IsTerminal(int(f.Fd())) {
		return usageError{errors.New("there is no terminal to ask at: --yes says that you mean it")}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	line, err := readLine(cmd)
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	return errors.New("nothing was done")
}
