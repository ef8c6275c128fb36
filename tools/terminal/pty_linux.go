package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// rows is the height of the terminal: more than any of our screens.
const rows = 60

// openTerminal opens a terminal: our end, and that of the program.
func openTerminal(columns int) (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(
			fd,
			unix.TIOCSWINSZ,
			&unix.Winsize{Row: rows, Col: uint16(columns)}, //nolint:gosec // few
		)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	return ours, theirs, nil
}

// inTerminal makes the terminal that of the program, so that Ctrl-C reaches it.
func inTerminal(cmd *exec.Cmd, terminal *os.File) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
}
