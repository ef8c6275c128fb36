package submit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// said is what settings are, in one line each.
func said(settings []Setting) (out []string) {
	for _, s := range settings {
		out = append(out, strings.TrimSpace(s.Option+"="+s.Value+" "+s.Where))
	}
	return out
}

func TestReadScript(t *testing.T) {
	tests := map[string]struct {
		why, text string
		onTop     []Setting
		want      []string
		warns     []string
		fails     string
	}{
		"spellings": {
			"all forms of an option",
			"#!/bin/sh\n#SBATCH -J a -p q --time=5 --qos high # and a remark\n",
			nil,
			[]string{"job-name=a x:2", "queue=q x:2", "time=5 x:2", "priority=high x:2"},
			nil,
			"",
		},
		"ends": {
			"lines after the first command are not options",
			"#!/bin/sh\n\n# text\n#SBATCH -J a\ntrue\n#SBATCH -J b\n",
			nil,
			[]string{"job-name=a x:4"},
			nil,
			"",
		},
		"quotes": {
			"they keep words together",
			"#SBATCH --job-name=\"a b\" -D '/c d'\n",
			nil,
			[]string{"job-name=a b x:1", "chdir=/c d x:1"},
			nil,
			"",
		},
		"open quote": {
			"it cannot be meant",
			"#SBATCH --job-name=\"a\n",
			nil,
			nil,
			nil,
			`x:1: a quote " is not closed`,
		},
		"ours": {
			"lines of our own, after Slurm's",
			"#MLBATCH --image=i -g 2\n#SBATCH -J a\n",
			nil,
			[]string{"job-name=a x:2", "image=i x:1", "gpus=2 x:1"},
			nil,
			"",
		},
		"commented": {"## is how people take a line out", "##SBATCH -J a\n#SBATCHX -J b\n", nil, nil, nil, ""},
		"command line": {
			"it goes before the script",
			"#SBATCH -N 2 --gpus=4\n",
			[]Setting{{"gpus", "8", ""}},
			[]string{"nodes=2", "gpus=4"},
			nil,
			"",
		},
		"unknown": {
			"with its line, and what may be meant",
			"#SBATCH -J a\n#SBATCH --partitoin=p\n",
			nil,
			nil,
			nil,
			"x:2: --partitoin is not known; did you mean --partition?",
		},
		"elsewhere": {
			"it would run on any node",
			"#SBATCH -C ib\n",
			nil,
			nil,
			nil,
			"x:1: constraint: which nodes a job gets is a matter of its queue",
		},
		"tuning": {
			"it runs all the same",
			"#SBATCH --hint=nomultithread --nice\n",
			nil,
			nil,
			[]string{
				"x:1: --hint has no effect: processors are counted and not laid out",
				"x:1: --nice has no effect: the priority is that of --qos",
			},
			"",
		},
		"no effect": {
			"known, and yet not heeded",
			"#SBATCH -o out_%j -A me\n",
			nil,
			nil,
			[]string{
				"x:1: --output has no effect: what it prints is read with mlbatch logs",
				"x:1: --account has no effect: the queue says whose quota is used",
			},
			"",
		},
		"stray word": {
			"a value too many",
			"#SBATCH -J a b\n",
			nil,
			[]string{"job-name=a x:1"},
			[]string{`x:1: "b" is no option`},
			"",
		},
		"no value": {"it is missing", "#SBATCH -J\n", nil, nil, nil, "x:1: -J has no value"},
		"bad value": {
			"where it stands",
			"#SBATCH -N two\n",
			nil,
			nil,
			nil,
			`x:1: nodes: "two" is no number from 1`,
		},
		"tasks": {
			"amounts of tasks are added up",
			"#SBATCH -N 2 -n 8 -c 4 --gpus-per-task=1 --mem-per-cpu=2G\n",
			nil,
			[]string{"nodes=2", "ntasks-per-node=4", "gpus=4", "cpus=16", "mem=32768"},
			nil,
			"",
		},
		"tasks alone": {
			"they fit on one node",
			"#SBATCH -n 4\n",
			nil,
			[]string{"ntasks-per-node=4", "cpus=4"},
			nil,
			"",
		},
		"nodes of": {
			"as many as tasks need",
			"#SBATCH -n 8 --ntasks-per-node=4\n",
			nil,
			[]string{"nodes=2", "ntasks-per-node=4", "cpus=4"},
			nil,
			"",
		},
		"uneven":      {"nodes are alike", "#SBATCH -N 2 -n 3\n", nil, nil, nil, "use a multiple of 2"},
		"uneven GPUs": {"nodes are alike", "#SBATCH -N 2 -G 3\n", nil, nil, nil, "use a multiple of 2"},
		"gres": {
			"of each node",
			"#SBATCH --gres=gpu:a100:2 --mem-per-gpu=10G\n",
			nil,
			[]string{"gpus=a100:2", "mem=20480"},
			nil,
			"",
		},
		"other gres": {"nothing here has one", "#SBATCH --gres=shard:2\n", nil, nil, nil, "gpu is the only one"},
		"after": {
			"several",
			"#SBATCH -d afterok:a:b,afterany:c\n",
			nil,
			[]string{"after=ok:a x:1", "after=ok:b x:1", "after=any:c x:1"},
			nil,
			"",
		},
		"after one of": {
			"there is no such waiting",
			"#SBATCH -d afterok:a?afterok:b\n",
			nil,
			nil,
			nil,
			"waits for all",
		},
		"singleton":  {"there is no such waiting", "#SBATCH -d singleton\n", nil, nil, nil, "use afterok"},
		"export":     {"what is named", "#SBATCH --export=ALL,A=1\n", nil, []string{"env=A=1 x:1"}, nil, ""},
		"all memory": {"it is not known", "#SBATCH --mem=0\n", nil, nil, nil, "give an amount"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ReadScript("x", tc.text, tc.onTop)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("%s: %v, want %q", tc.why, err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.why, err)
			}
			if diff := cmp.Diff(
				[][]string{tc.want, tc.warns},
				[][]string{said(got.Settings), got.Warnings},
			); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func TestReadTask(t *testing.T) {
	tests := map[string]struct {
		why, text string
		want      []string
		script    string
		fails     string
	}{
		"all keys": {
			"what there is",
			"name: a\nresources: {gpus: 8, image: i, mount: ['a:/a', 'b:/b']}\nnodes: 2\nsetup: pip install x\nrun: python t.py\nenv: {A: 1, B: x}\n",
			[]string{
				"env=A=1 x",
				"env=B=x x",
				"job-name=a x",
				"nodes=2 x",
				"gpus=8 x",
				"image=i x",
				"mount=a:/a x",
				"mount=b:/b x",
			},
			"python t.py",
			"",
		},
		"run alone": {"the rest may be left out", "run: true && x\n", nil, "true && x", ""},
		"no run":    {"there is nothing to do", "name: a\n", nil, "", "run is missing"},
		"key": {
			"a slip of the finger",
			"rum: x\n",
			nil,
			"",
			"rum: a task has no such key; did you mean run?",
		},
		"other key": {"what there is", "zzzzzz: x\n", nil, "", "use name, resources, nodes, setup, run, env"},
		"resource": {
			"a slip of the finger",
			"run: x\nresources: {gpu: 1}\n",
			nil,
			"",
			"resources.gpu: there is no such key; did you mean gpus?",
		},
		"nested":  {"a value is no object", "run: {a: b}\n", nil, "", "run: it has to be a word or a number"},
		"flat":    {"an object is no value", "run: x\nenv: A=1\n", nil, "", "env: it has to be an object"},
		"no YAML": {"which file", "run: [\n", nil, "", "x: "},
		"interpreter": {
			"it may be another",
			"run: |\n  #!/usr/bin/env perl\n",
			nil,
			"",
			"scripts for a shell or python",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := New()
			got, err := r.ReadTask("x", []byte(tc.text))
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("%s: %v, want %q", tc.why, err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.why, err)
			}
			if diff := cmp.Diff(tc.want, said(got)); diff != "" || r.Script != tc.script {
				t.Errorf("%s: run is %q (-want +got):\n%s", tc.why, r.Script, diff)
			}
		})
	}
}

func TestInterpreter(t *testing.T) {
	for text, want := range map[string]string{
		"#!/bin/bash\nx": "/bin/bash", "#! /usr/bin/env python3\nx": "/usr/bin/env python3", "#!/bin/sh -e": "/bin/sh -e", "echo x": "", "#!": "", "#!/usr/bin/perl\n": "",
	} {
		got, err := Interpreter("x", text)
		if (err != nil) != (want == "") || strings.Join(got, " ") != want {
			t.Errorf("%q is run by %v, %v; want %q", text, got, err, want)
		}
	}
}
