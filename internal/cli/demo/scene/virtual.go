package scene

import (
	"bytes"
	"embed"
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
)

//go:embed worlds/*.yaml
var worlds embed.FS

// worldOf reads a world of this package. Change, if not nil, edits it before it is built.
func worldOf(name string, change func(*worldfile.File)) (*sim.World, error) {
	text, err := worlds.ReadFile("worlds/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("read the world: %w", err)
	}
	f, err := worldfile.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read the world %s: %w", name, err)
	}
	if change != nil {
		change(f)
	}
	w, err := worldfile.Build(f, bytes.NewReader(nil))
	if err != nil {
		return nil, fmt.Errorf("build the world %s: %w", name, err)
	}
	return w, nil
}

// clockTime writes a time since the start of a world as hours and minutes.
func clockTime(d time.Duration) string {
	d = d.Round(time.Minute)
	return fmt.Sprintf("%d:%02d", int(d.Hours()), int(d.Minutes())%60)
}

// briefly writes how long something takes, to the minute or, below an hour, the second.
func briefly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Round(time.Minute).Minutes()))
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
