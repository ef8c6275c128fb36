package cli

import "strings"

// The colours in which states are printed, as a terminal takes them.
const (
	red      = "\x1b[31m"
	green    = "\x1b[32m"
	yellow   = "\x1b[33m"
	noColour = "\x1b[0m"
)

// colourOf is the colour of each state, in the words of all lists: what failed, what waits, what runs.
// Other states have none.
func colourOf(state string) string {
	switch state {
	case "Failed", "Lost", "Evicted", "FAILED", "F", "TIMEOUT", "TO", "down":
		return red
	case "Held",
		"Waiting",
		"Starting",
		"Resetting",
		"Closed",
		"Warned",
		"Pending",
		"PENDING",
		"PD",
		"CONFIGURING",
		"CF",
		"drain",
		"drng":
		return yellow
	case "Running", "Ready", "active", "RUNNING", "R":
		return green
	}
	return ""
}

// coloured is the text of a cell that begins with a state, in its colour.
func coloured(text string) string {
	state, _, _ := strings.Cut(text, ":")
	colour := colourOf(strings.TrimSpace(state))
	if colour == "" {
		return text
	}
	return colour + text[:len(state)] + noColour + text[len(state):]
}
