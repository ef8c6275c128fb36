package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// confirm asks whether to go on. Without a terminal nobody answers: then --yes has to be said.
func confirm(cmd *cobra.Command, yes bool, question string) error { //nolint:revive // a fact
	if yes {
		return nil
	}
	if f, is := cmd.InOrStdin().(*os.File); is && !term.IsTerminal(int(f.Fd())) {
		return usageError{errors.New("there is no terminal to ask at: --yes says that you mean it")}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	return errors.New("nothing was done")
}
