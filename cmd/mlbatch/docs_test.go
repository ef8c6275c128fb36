//go:build !noembed

package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docLine is a command line in a document.
type docLine struct {
	line int
	args []string
	// whole is one that people copy, and no mention of a command with what it takes.
	whole bool
}

// sheets are the documents whose mentions of commands are to be typed as they are.
var sheets = []string{"slurm.md", "from-kueue.md", "from-runai.md", "runbook.md"}

var (
	span       = regexp.MustCompile("`([^`]+)`")
	assignment = regexp.MustCompile(`^\w+=`)
)

// argsOf are the arguments of the program in a simple command, false if that is another one.
func argsOf(words []string) ([]string, bool) {
	for len(words) > 0 && (slices.Contains([]string{"do", "then", "time", "exec", "if", "while", "until", "!"}, words[0]) || assignment.MatchString(words[0])) {
		words = words[1:]
	}
	if len(words) > 1 && words[0] == "kubectl" {
		words = words[1:]
	}
	if len(words) == 0 || path.Base(words[0]) != "mlbatch" || strings.HasPrefix(words[0], "/") {
		return nil, false
	}
	return words[1:], true
}

// commandLines are the lines of a document that begin with the program: in blocks of code what
// is typed at a prompt or in a script, elsewhere what stands between backquotes.
func commandLines(page, text string) []docLine {
	var found []docLine
	keep := func(line int, command string, whole bool) {
		for _, words := range split(command) {
			if args, ok := argsOf(words); ok {
				found = append(found, docLine{line, args, whole})
			}
		}
	}
	block, more := false, ""
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block, more = !block, ""
			continue
		}
		if !block {
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				keep(i+1, m[1], slices.Contains(sheets, path.Base(page)) && strings.HasPrefix(line, "|"))
			}
			continue
		}
		line = more + strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if more = ""; strings.HasSuffix(line, `\`) {
			more = strings.TrimSuffix(line, `\`)
			continue
		}
		keep(i+1, line, true)
	}
	return found
}

// split takes a line of a shell apart as shells do: quotes hold words together.
func split(line string) [][]string {
	var all [][]string
	var words []string
	var word strings.Builder
	begun, quote := false, rune(0)
	endWord := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, begun = r, true
		case r == '#' && !begun:
			endCommand()
			return all
		case strings.ContainsRune(";&|<>", r):
			endCommand()
			if r == '<' || r == '>' {
				words = []string{"file"} // what follows is no command
			}
		case r == ' ' || r == '\t':
			endWord()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	endCommand()
	return all
}

// wrong says what is wrong with a command line, "" if nothing is. Of a mention the flags need
// no values and the arguments may be missing.
func (l docLine) wrong() string {
	args := l.args
	root := newRootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Sprintf("there is no command %q", cmp.Or(strings.Join(args, " "), "mlbatch"))
	}
	if cmd.DisableFlagParsing {
		return ""
	}
	cmd.InitDefaultHelpFlag()
	if l.whole {
		if err := cmd.ParseFlags(rest); err != nil {
			return err.Error()
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			return err.Error()
		}
		return ""
	}
	return unknownFlag(cmd, rest)
}

// unknownFlag names the first flag that a command does not have.
func unknownFlag(cmd *cobra.Command, args []string) string {
	for i := 0; i < len(args); i++ {
		arg := strings.Trim(args[i], "[]")
		if arg == "--" {
			return ""
		}
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			continue
		}
		var flag *pflag.Flag
		name, _, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "--") {
			flag = cmd.Flag(name)
		} else {
			for j := range name {
				if flag = cmd.Flags().ShorthandLookup(name[j : j+1]); flag == nil {
					flag = cmd.InheritedFlags().ShorthandLookup(name[j : j+1])
				}
				if flag == nil || flag.NoOptDefVal == "" {
					given = given || j+1 < len(name)
					break
				}
			}
		}
		if flag == nil {
			return "there is no flag " + arg
		}
		if !given && flag.NoOptDefVal == "" {
			i++
		}
	}
	return ""
}

// TestDocumentsNameWhatThereIs: every command line of the documents has a command and flags that
// the program has; those in blocks of code, and in the tables of the sheets for people who come
// from elsewhere, can be typed as they are.
func TestDocumentsNameWhatThereIs(t *testing.T) {
	pages := []string{"../../README.md", "../../ARCHITECTURE.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md"}
	err := filepath.WalkDir("../../docs", func(page string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(page, ".md") && path.Base(page) != "commands.md" {
			pages = append(pages, page)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commandLines(page, string(text)) {
			checked++
			if wrong := c.wrong(); wrong != "" {
				t.Errorf("%s:%d: mlbatch %s: %s", page, c.line, strings.Join(c.args, " "), wrong)
			}
		}
	}
	if checked < 200 {
		t.Errorf(
			"only %d command lines were found in %d documents: the rest was not understood",
			checked,
			len(pages),
		)
	}
}

// TestHelpNamesWhatThereIs: the examples and texts of help can be typed, too.
func TestHelpNamesWhatThereIs(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			for _, words := range split(strings.TrimSpace(line)) {
				args, ok := argsOf(words)
				if !ok {
					continue
				}
				if wrong := (docLine{args: args, whole: true}).wrong(); wrong != "" {
					t.Errorf("example of %s: %q: %s", c.CommandPath(), strings.TrimSpace(line), wrong)
				}
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand())
}

// TestStaleDocumentsAreFound: what the two tests above look for.
func TestStaleDocumentsAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		why, page, text string
		want            []string // what is wrong, in order
	}{
		"good":              {"what there is", "x.md", "`mlbatch ps -A` and\n```\n$ mlbatch why blue/x --as alice   # a comment; mlbatch nothing\n```\n", nil},
		"command":           {"a command that went", "x.md", "see `mlbatch ship`", []string{`there is no command "ship"`}},
		"subcommand's flag": {"it belongs to another", "x.md", "`mlbatch queue stop Q --gpus 3`", []string{"there is no flag --gpus"}},
		"shorthand":         {"several at once", "x.md", "`mlbatch exec -itZ J -- sh -Q`", []string{"there is no flag -itZ"}},
		"mention":           {"what it takes may be left out", "x.md", "`mlbatch why` and `mlbatch hist --since`", nil},
		"block":             {"who copies it gets an error", "x.md", "```sh\nmlbatch why\n```", []string{"accepts 1 arg(s), received 0"}},
		"sheet":             {"the same in a table of a sheet", "slurm.md", "| `mlbatch why` |", []string{"accepts 1 arg(s), received 0"}},
		"value":             {"a value that the flag cannot have", "slurm.md", "| `mlbatch run --strict=maybe -- x` |", []string{`invalid argument "maybe"`}},
		"pipe":              {"all parts of a line", "x.md", "```\nfor i in 1 2; do mlbatch ps -X | head; done\n```", []string{"unknown shorthand flag: 'X'"}},
		"continued":         {"a line that goes on", "x.md", "```\n$ mlbatch ps \\\n  --nothing\n```", []string{"unknown flag: --nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			var wrong []string
			for _, c := range commandLines(tc.page, tc.text) {
				if w := c.wrong(); w != "" {
					wrong = append(wrong, w)
				}
			}
			if !slices.EqualFunc(wrong, tc.want, strings.Contains) {
				t.Errorf("%s: %q, want %q", tc.why, wrong, tc.want)
			}
		})
	}
}
