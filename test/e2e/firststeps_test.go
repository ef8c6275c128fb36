package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// step is a command of a transcript and what it prints.
type step struct{ command, prints string }

// transcript are the steps in the blocks of a page that begin with a prompt. What stands
// between two prompts is what the first command prints; a here-document belongs to its command.
func transcript(page string) []step {
	var steps []step
	for i, block := range strings.Split(page, "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "\n$ ") {
			continue
		}
		document := false
		for line := range strings.SplitSeq(strings.Trim(block, "\n"), "\n") {
			command, prompt := strings.CutPrefix(line, "$ ")
			last := len(steps) - 1
			switch {
			case document:
				steps[last].command += "\n" + line
				document = line != "EOF"
			case prompt && typedByPeople.MatchString(command):
				steps = append(steps, step{command: command})
				document = strings.HasSuffix(command, "<<'EOF'")
			default:
				steps[last].prints += line + "\n"
			}
		}
	}
	return steps
}

// typedByPeople are commands of the page; simulated pods print others behind a prompt.
var typedByPeople = regexp.MustCompile(`^(mlbatch|cat) `)

// varies is what differs from one run to the next, each with what stands for it.
var varies = []struct {
	is *regexp.Regexp
	as string
}{
	// Before the times: 1400d is a number, too.
	{regexp.MustCompile(`\b(sleep|job-train-\d)-[0-9a-f]+\b`), "$1-NUMBER"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "MOMENT"},
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(h|ms|m|s|d))+\b`), "TIME"},
	{regexp.MustCompile(`\b\d+\.\d{1,2}\b`), "HOURS"},
	{regexp.MustCompile(`\bnode-\d\b`), "NODE"},
}

// onTheWay are lines in which "run" says what it sees while a job gets on: how many states it
// sees depends on how fast they pass.
var onTheWay = regexp.MustCompile(`(?m)^blue/sleep-\S+ (waits|starts|runs).*\n`)

// plain is a text without what varies, its words one blank apart: where lines break depends on
// it as well.
func plain(text string) string {
	text = onTheWay.ReplaceAllString(text, "")
	for _, v := range varies {
		text = v.is.ReplaceAllString(text, v.as)
	}
	return strings.Join(strings.Fields(text), " ")
}

// agree reports whether a command printed what the page shows, in which ... is any text.
func agree(page, printed string) bool {
	parts := strings.Split(regexp.QuoteMeta(plain(page)), `\.\.\.`)
	return regexp.MustCompile(`^` + strings.Join(parts, `.*`) + `$`).MatchString(plain(printed))
}

// Who follows the first page sees what it says, from "up" to "down".
func TestFirstStepsAreAsThePageSays(t *testing.T) {
	page, err := os.ReadFile("../../docs/first-steps.md")
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	bin, home := filepath.Join(work, "bin"), filepath.Join(work, "home")
	for _, dir := range []string{bin, home} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(cluster.Binary, filepath.Join(bin, "mlbatch")); err != nil {
		t.Fatal(err)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MLBATCH_DATA_DIR=") || strings.HasPrefix(v, "XDG_DATA_HOME=") ||
			strings.HasPrefix(v, "KUBECONFIG=")
	})
	env = append(env, "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"))
	shell := func(command string) (string, error) {
		sh := exec.Command("sh", "-c", command) // not bound to the test: "down" has to run in the end
		sh.Dir, sh.Env = work, env
		out, err := sh.CombinedOutput()
		return strings.ReplaceAll(string(out), home, "/home/you"), err
	}
	t.Cleanup(func() { _, _ = shell("mlbatch down --delete") })

	steps := transcript(string(page))
	if len(steps) < 20 {
		t.Fatalf("the page has %d steps: they were not understood", len(steps))
	}
	for _, s := range steps {
		once := regexp.MustCompile(`^(cat|mlbatch (up|down|run|submit|cancel|wait)) `).MatchString(s.command)
		eventually(t, s.command, func() string {
			out, err := shell(s.command)
			wrong := ""
			if err != nil || !agree(s.prints, out) {
				wrong = fmt.Sprintf("(%v)\n%s\nThe page has:\n%s", err, out, s.prints)
			}
			if once && wrong != "" {
				t.Fatalf("%s: %s", s.command, wrong)
			}
			return wrong
		})
	}
}
