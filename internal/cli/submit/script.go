package submit

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Source is what a file says of a job.
type Source struct {
	// Settings in the order in which they count, the last one most.
	Settings []Setting
	// Warnings are about lines that are not heeded.
	Warnings []string
}

// ReadScript reads the lines of a script that begin with #SBATCH or #MLBATCH, up to the first
// command. name is that of the file, for warnings. Slurm holds the options that were given with
// sbatch's words on the command line; they go before those of the script.
func ReadScript(name, text string, onTop []Setting) (Source, error) {
	var out Source
	var given, own []Setting
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			break
		}
		where := fmt.Sprintf("%s:%d", name, n)
		if rest, is := directive(line, "#SBATCH"); is {
			settings, warnings, err := readLine(where, rest, lookupSlurm)
			if err != nil {
				return out, err
			}
			given, out.Warnings = append(given, settings...), append(out.Warnings, warnings...)
		} else if rest, is := directive(line, "#MLBATCH"); is {
			settings, warnings, err := readLine(where, rest, lookupOwn)
			if err != nil {
				return out, err
			}
			own, out.Warnings = append(own, settings...), append(out.Warnings, warnings...)
		}
	}
	settings, remarks, err := FromSlurm(append(given, onTop...))
	if err != nil {
		return out, err
	}
	out.Settings = append(settings, own...)
	out.Warnings = append(out.Warnings, remarks...)
	return out, nil
}

func directive(line, word string) (string, bool) {
	rest, is := strings.CutPrefix(line, word)
	return rest, is && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// known says of an option by its name or letter what it is called, and whether it has a value.
type known func(name string) (option string, bare, is bool)

func lookupSlurm(name string) (string, bool, bool) {
	if o := slurmOption(name); o != nil {
		return o.Long, o.Bare, true
	}
	return "", false, false
}

func lookupOwn(name string) (string, bool, bool) {
	all := Options()
	i := slices.IndexFunc(
		all,
		func(o Option) bool { return o.Name == name || o.Letter != "" && o.Letter == name },
	)
	if i < 0 {
		return "", false, false
	}
	return all[i].Name, false, true
}

// readLine reads the options of a line. Options that are not known are refused, as on a command line.
func readLine(where, text string, lookup known) (out []Setting, warnings []string, err error) {
	words, err := split(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", where, err)
	}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		var name, value string
		var given bool
		switch {
		case strings.HasPrefix(word, "--"):
			name, value, given = strings.Cut(word[2:], "=")
		case strings.HasPrefix(word, "-") && len(word) > 1:
			name, value = word[1:2], strings.TrimPrefix(word[2:], "=")
			given = len(word) > 2
		default:
			warnings = append(warnings, fmt.Sprintf("%s: %q is no option", where, word))
			continue
		}
		option, bare, is := lookup(name)
		if !is {
			return nil, nil, fmt.Errorf("%s: %s is not known%s", where, optionText(name), nearest(name))
		}
		if !bare && !given {
			if len(words) == 0 {
				return nil, nil, fmt.Errorf("%s: %s has no value", where, optionText(name))
			}
			value, words = words[0], words[1:]
		}
		out = append(out, Setting{option, value, where})
	}
	return out, warnings, nil
}

func optionText(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// split splits a line into words, as a shell does: quotes keep them together, and # begins a
// comment.
func split(text string) (out []string, err error) {
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range strings.TrimRight(text, "\r\n") {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			if begun {
				out = append(out, word.String())
			}
			word.Reset()
			begun = false
		case r == '#' && !begun:
			return out, nil
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if begun {
		out = append(out, word.String())
	}
	return out, nil
}

// Interpreter is what runs a script, by its first line.
func Interpreter(name, text string) ([]string, error) {
	first, _, _ := strings.Cut(text, "\n")
	line, is := strings.CutPrefix(strings.TrimSpace(first), "#!")
	if !is {
		return nil, fmt.Errorf("%s: its first line does not say what runs it: begin with #!/bin/bash", name)
	}
	words := strings.Fields(line)
	if len(words) == 0 || !isShell(words) && !isPython(words) {
		return nil, fmt.Errorf(
			"%s: %s: scripts for a shell or python are understood; others run by mlbatch run --workdir . -- ./%s",
			name,
			strings.TrimSpace(first),
			path.Base(name),
		)
	}
	return words, nil
}

func isShell(words []string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "zsh"}, program(words))
}

func isPython(words []string) bool { return strings.HasPrefix(program(words), "python") }

// program is what an interpreter line starts.
func program(words []string) string {
	if path.Base(words[0]) == "env" && len(words) > 1 {
		return path.Base(words[1])
	}
	return path.Base(words[0])
}

// nearest proposes an option that is called alike.
func nearest(name string) string {
	var all []string
	for _, o := range SlurmOptions() {
		all = append(all, o.Long)
	}
	for _, o := range Options() {
		all = append(all, o.Name)
	}
	if like := Closest(name, all); like != "" {
		return "; did you mean --" + like + "?"
	}
	return ""
}

// Closest is the word that differs least from a name, "" if all differ much.
func Closest(name string, words []string) (best string) {
	least := 3
	if len(name) < 4 {
		least = 2
	}
	for _, w := range words {
		if d := distance(name, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance is how many letters have to be changed, added or left out.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			same := last
			if a[i] != b[j] {
				same++
			}
			last = row[j+1]
			row[j+1] = min(row[j]+1, last+1, same)
		}
	}
	return row[len(b)]
}
