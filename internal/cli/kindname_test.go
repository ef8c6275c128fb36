package cli_test

import (
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/cli"
)

func TestKindAndName(t *testing.T) {
	for arg, want := range map[string]struct{ why, kind, name, fails string }{
		"pod/x":               {"as kubectl has it", "pod", "x", ""},
		"Deploy/x":            {"in any case", "deploy", "x", ""},
		"job.batch/x":         {"as kubectl prints what it made", "job", "x", ""},
		"sts/db":              {"a short name", "sts", "db", ""},
		"blue/x":              {"a namespace", "", "", ""},
		"x":                   {"a name", "", "", ""},
		"pod/":                {"no name", "", "", ""},
		"pod/blue/x":          {"no form of ours", "", "", ""},
		"configmap/x":         {"nothing of it waits", "", "", "nothing of that kind waits or runs"},
		"svc/x":               {"nor of that", "", "", "nothing of that kind waits or runs"},
		"node/node-1":         {"another command knows", "", "", "mlbatch nodes"},
		"clusterqueue/blue":   {"another command knows", "", "", "mlbatch queue"},
		"foos.example.com/x":  {"no namespace is called so", "", "", "kind foos.example.com is not known"},
		"localqueues.kueue/q": {"with its group", "", "", "mlbatch queue"},
	} {
		kind, name, is, err := cli.KindAndName(arg)
		if kind != want.kind || name != want.name || is != (want.kind != "") ||
			(err != nil) != (want.fails != "") ||
			err != nil && !strings.Contains(err.Error(), want.fails) {
			t.Errorf("%s: %q %q %v %v, want %+v", arg, kind, name, is, err, want)
		}
	}
}
