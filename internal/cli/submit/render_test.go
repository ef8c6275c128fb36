package submit

import (
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/testkit"
)

// request applies options, each NAME=VALUE, to a request.
func request(t *testing.T, options ...string) *Request {
	t.Helper()
	r := New()
	var settings []Setting
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		settings = append(settings, Setting{Option: name, Value: value})
	}
	if err := r.Apply(Host{Lookup: func(string) (string, bool) { return "", false }}, settings); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRender(t *testing.T) {
	command := func(r *Request, words ...string) *Request { r.Command = words; return r }
	script := func(r *Request, name, text string, args ...string) *Request {
		r.File, r.Script, r.Command = name, text, args
		var err error
		if r.Interpreter, err = Interpreter(name, text); err != nil {
			t.Fatal(err)
		}
		return r
	}
	setup := func(r *Request, text string) *Request { r.Setup = text; return r }
	types := func(r *Request) *Request {
		r.GPUTypes = map[string]string{"h100": "gpu.example.com/model=H100-SXM"}
		return r
	}
	tests := map[string]struct {
		why string
		r   *Request
	}{
		"one": {
			"one pod, with everything",
			command(
				types(
					request(
						t,
						"image=i",
						"gpus=h100:8",
						"cpus=4",
						"mem=8G",
						"time=90",
						"queue=q",
						"priority=high",
						"pod-priority=low",
						"retries=2",
						"env=A=$(x)",
						"mount=data:/data",
						"mount=secret:key:/key",
						"mount=cm:c:/c",
						"chdir=/x",
					),
				),
				"python",
				"t.py",
				"$HOME",
			),
		},
		"array": {
			"an indexed Job of which some run at once",
			script(
				request(t, "image=i", "array=1-9:2%2"),
				"dir/sweep.sh",
				"#!/bin/bash\necho $SLURM_ARRAY_TASK_ID $(hostname)\n",
				"a b",
			),
		},
		"plain": {
			"a JobSet of pods that know each other",
			command(request(t, "image=i", "nodes=2", "retries=1", "ntasks-per-node=2"), "python", "t.py"),
		},
		"srun": {
			"tasks of a script",
			script(request(t, "image=i", "nodes=2"), "t.sh", "#!/bin/sh\nsrun hostname\n"),
		},
		"torch": {"a PyTorchJob", command(request(t, "image=i", "nodes=2", "gpus=4"), "torchrun", "t.py", "a'b")},
		"rack": {
			"a PyTorchJob whose master and workers are in one rack, and as near there as can be had",
			command(
				request(
					t, "image=i", "nodes=4", "gpus=8", "required-topology=example.com/rack",
					"preferred-topology=example.com/link",
				),
				"torchrun", "t.py",
			),
		},
		"elastic": {
			"a PyTorchJob of workers",
			command(request(t, "image=i", "elastic=2:4", "gpus=4"), "torchrun", "t.py"),
		},
		"python": {
			"a script of python that needs a line of shell",
			script(
				request(t, "image=i", "nodes=2", "framework=torch"),
				"t.py",
				"#!/usr/bin/env python3\nprint(1)\n",
				"x",
			),
		},
		"task": {
			"setup before a task",
			setup(script(request(t, "image=i"), "task.yaml", "#!/bin/sh\npython t.py\n"), "pip install x\n"),
		},
		"jax": {"a JAXJob", command(request(t, "image=i", "nodes=2", "framework=jax"), "python", "t.py")},
		"mpi": {
			"an MPIJob, whose launcher has no GPUs",
			command(request(t, "image=i", "nodes=2", "gpus=4", "cpus=8", "retries=1"), "mpirun", "./a.out"),
		},
		"ray": {
			"a RayJob, whose head is one of the nodes",
			command(request(t, "image=i", "nodes=3", "gpus=1", "framework=ray"), "python", "-c", "import ray; x"),
		},
		"rayline": {
			"the one line of a task",
			script(request(t, "image=i", "framework=ray"), "task.yaml", "#!/bin/sh\npython t.py\n"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := tc.r.Render("ns", tc.r.NameWith(12345), "")
			if err != nil {
				t.Fatalf("%s: %v", tc.why, err)
			}
			got, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(tc.why)
			testkit.Golden(t, filepath.Join("testdata", name+".yaml"), string(got))
		})
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		why     string
		options []string
		command []string
		says    string
	}{
		"good":     {"nothing is wrong", []string{"image=i"}, []string{"x"}, ""},
		"nothing":  {"no command", []string{"image=i"}, nil, "nothing to run"},
		"no image": {"with the cure", nil, []string{"x"}, "--image is missing"},
		"array, nodes": {
			"a task is one pod",
			[]string{"image=i", "array=0-1", "nodes=2"},
			[]string{"x"},
			"each task of an array is one pod",
		},
		"array, rack": {
			"tasks need not be near to each other",
			[]string{"image=i", "array=0-1", "required-topology=rack"},
			[]string{"x"},
			"know nothing of each other",
		},
		"array, ray": {
			"a task is one pod",
			[]string{"image=i", "array=0-1", "framework=ray"},
			[]string{"x"},
			"each task of an array is one pod",
		},
		"elastic plain": {
			"who would notice?",
			[]string{"image=i", "elastic=1:2"},
			[]string{"x"},
			"only torch and ray",
		},
		"elastic nodes": {
			"outside of its own bounds",
			[]string{"image=i", "elastic=1:2", "nodes=5", "framework=torch"},
			[]string{"x"},
			"not within --elastic 1:2",
		},
		"ray script": {
			"Ray would have a shell read it twice",
			[]string{"image=i", "framework=ray"},
			[]string{"x"},
			"one command and no script",
		},
		"type alone": {"how many?", []string{"image=i", "gpus=h100:0"}, []string{"x"}, "how many"},
		"same path": {
			"one would hide the other",
			[]string{"image=i", "mount=a:/x", "mount=b:/x/"},
			[]string{"x"},
			"mounted at /x already",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := request(t, tc.options...)
			r.Command = tc.command
			if name == "ray script" {
				r.Script, r.Interpreter = "a=1\necho $a\n", []string{"/bin/sh"}
			}
			_, err := r.Render("ns", "x", "")
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v, want %q", tc.why, err, tc.says)
			}
		})
	}
}

func TestKind(t *testing.T) {
	tests := map[string]struct {
		why     string
		options []string
		command []string
		script  string
		want    Framework
	}{
		"one node": {"nothing has to be found", []string{"nodes=1"}, []string{"torchrun", "x"}, "", Plain},
		"torchrun": {"by its name", []string{"nodes=2"}, []string{"/opt/bin/torchrun", "x"}, "", Torch},
		"module": {
			"as python starts it",
			[]string{"nodes=2"},
			[]string{"python", "-m", "torch.distributed.run"},
			"",
			Torch,
		},
		"mpirun": {"by its name", []string{"nodes=2"}, []string{"mpirun", "x"}, "", MPI},
		"shell": {
			"what it is given",
			[]string{"nodes=2"},
			[]string{"sh", "-c", "cd x && torchrun y"},
			"",
			Torch,
		},
		"script":      {"what is in it", []string{"nodes=2"}, nil, "#!/bin/sh\n# mpirun\ntorchrun x\n", Torch},
		"said":        {"by whoever asks", []string{"nodes=2", "framework=plain"}, []string{"torchrun"}, "", Plain},
		"nothing":     {"all else", []string{"nodes=2"}, []string{"python", "x"}, "", Plain},
		"elastic one": {"it may be more", []string{"elastic=1:2"}, []string{"torchrun"}, "", Torch},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := request(t, tc.options...)
			r.Command, r.Script = tc.command, tc.script
			if got := r.Kind(); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.why, got, tc.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	tests := map[string]struct {
		why  string
		r    Request
		want string
	}{
		"exact":   {"as it was asked for", Request{Name: "a", Prefix: "b"}, "a"},
		"prefix":  {"in letters that a name may have", Request{Prefix: "My Job_1"}, "my-job-1-12345"},
		"script":  {"by its file", Request{File: "/x/Train.sh"}, "train-12345"},
		"command": {"by what it starts", Request{Command: []string{"/bin/sleep", "5"}}, "sleep-12345"},
		"python": {
			"by the script that it runs",
			Request{Command: []string{"python", "-u", "x/train.py"}},
			"train-12345",
		},
		"digits": {"a letter comes first", Request{Prefix: "123"}, "job-12345"},
		"long":   {"cut", Request{Prefix: strings.Repeat("a", 80)}, strings.Repeat("a", 39) + "-12345"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.r.NameWith(12345); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.why, got, tc.want)
			}
		})
	}
}
