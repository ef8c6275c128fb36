package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// story is one file in testdata/why: objects, and in comments on top what is
// asked and by whom.
type story struct {
	why, arg, kind string
	teamOnly       bool // the user may list nothing outside the namespace
	objects        []client.Object
	// answer is what the controller says, nil if none runs.
	answer *visibility.Explanation
}

// Explanation implements cli.Asker.
func (s story) Explanation(context.Context, string, string) (*visibility.Explanation, error) {
	if s.answer == nil {
		return nil, errors.New("no controller answers")
	}
	return s.answer, nil
}

// now is the moment at which all stories are told.
func now() time.Time { return time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC) }

func read(t *testing.T, path string) story {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s story
	decode := serializer.NewCodecFactory(scheme.New()).UniversalDeserializer()
	for part := range strings.SplitSeq(string(data), "\n---\n") {
		var yaml []string
		for line := range strings.SplitSeq(part, "\n") {
			switch key, value, _ := strings.Cut(line, ": "); key {
			case "# why":
				s.why = value
			case "# ask":
				s.arg, s.kind, _ = strings.Cut(value, " --kind ")
			case "# as":
				s.teamOnly = value == "team member"
			default:
				yaml = append(yaml, line)
			}
		}
		if strings.TrimSpace(strings.Join(yaml, "")) == "" {
			continue
		}
		o, _, err := decode.Decode([]byte(strings.Join(yaml, "\n")), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if x, is := o.(*visibility.Explanation); is {
			s.answer = x
			continue
		}
		object, ok := o.(client.Object)
		if !ok {
			t.Fatalf("%s: %T is no object", path, o)
		}
		s.objects = append(s.objects, object)
	}
	return s
}

func (s story) client() client.Client {
	b := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(s.objects...)
	if s.teamOnly {
		b = b.WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				var o client.ListOptions
				o.ApplyOptions(opts)
				if o.Namespace == "" {
					return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("only in your namespace"))
				}
				return c.List(ctx, list, opts...)
			},
		})
	}
	return b.Build()
}

func TestWhy(t *testing.T) {
	paths, err := filepath.Glob("testdata/why/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			s := read(t, path)
			golden := strings.TrimSuffix(path, ".yaml") + ".txt"
			t.Log(s.why)
			testkit.Golden(t, golden, s.tell(t))
		})
	}
}

// tell answers the story's question as the command would.
func (s story) tell(t *testing.T) string {
	t.Helper()
	ref, err := cli.ParseRef(s.arg, s.kind)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	about, err := why.Gather(t.Context(), s.client(), s, ref, now())
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	e := why.Explain(about)
	var out strings.Builder
	out.WriteString("[" + string(e.State) + " " + e.Reason + "]\n")
	if err := cli.PrintExplanation(&out, &e, cli.Style{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestParseRef(t *testing.T) {
	cases := map[string]struct {
		why       string
		arg, kind string
		want      view.Ref
		bad       bool
	}{
		"plain": {why: "the usual way", arg: "blue/a", want: view.Ref{Namespace: "blue", Name: "a"}},
		"short kind": {
			why:  "as kubectl has it",
			arg:  "blue/a",
			kind: "aw",
			want: view.Ref{Kind: view.KindAppWrapper, Namespace: "blue", Name: "a"},
		},
		"no namespace": {why: "guessing a namespace would answer for another job", arg: "a", bad: true},
		"too much":     {why: "kind/namespace/name is not a form of ours", arg: "job/blue/a", bad: true},
		"unknown kind": {why: "a typo must not be ignored", arg: "blue/a", kind: "pond", bad: true},
		"pod": {
			why:  "pods have a name, too",
			arg:  "blue/a",
			kind: "po",
			want: view.Ref{Kind: view.KindPod, Namespace: "blue", Name: "a"},
		},
		"empty name": {why: "a shell variable may be empty", arg: "blue/", bad: true},
		"plural, upper": {
			why:  "people type it so",
			arg:  "blue/a",
			kind: "Workloads",
			want: view.Ref{Kind: view.KindWorkload, Namespace: "blue", Name: "a"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := cli.ParseRef(c.arg, c.kind)
			if (err != nil) != c.bad {
				t.Fatalf("%s: %v", c.why, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%s", c.why, diff)
			}
		})
	}
}
