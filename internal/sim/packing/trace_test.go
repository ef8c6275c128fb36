package packing

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const (
	nodeList = "sn,cpu_milli,memory_mib,gpu,model\na,64000,1024,2,P100\nb,96000,2048,8,G2\n"
	podList  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n" +
		"x,1000,16,1,460,G2|P100,LS\ny,2000,32,4,1000,,LS\nz,500,8,0,0,,BE\n"
)

func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader(nodeList), strings.NewReader(podList))
	if err != nil {
		t.Fatal(err)
	}
	nodes := []Node{
		{CPU: 64000, Memory: 1024, GPUs: 2, Free: [8]int16{1000, 1000}},
		{
			CPU:    96000,
			Memory: 2048,
			GPUs:   8,
			Free:   [8]int16{1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
			Model:  1,
		},
	}
	pods := []Shape{{1000, 16, 1, 460, 0b11}, {2000, 32, 4, 1000, 0}, {500, 8, 0, 0, 0}}
	if !slices.Equal(got.Nodes, nodes) || !slices.Equal(got.Pods, pods) {
		t.Errorf("read %v, want %v and %v", got, nodes, pods)
	}
	noSpec := "cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,16,1,1000\n"
	if got, err := Read(
		strings.NewReader(nodeList),
		strings.NewReader(noSpec),
	); err != nil ||
		got.Pods[0].Models != 0 {
		t.Errorf("a list without gpu_spec is read as %v, %v; all models do", got, err)
	}
}

func TestReadNamesWhatIsWrong(t *testing.T) {
	cases := map[string]struct{ nodes, pods, want string }{
		"no header": {"", podList, "nodes: read the header: EOF"},
		"missing column": {
			strings.Replace(nodeList, "gpu,", "gpus,", 1),
			podList,
			"nodes: line 2: gpu is missing from the header",
		},
		"too many GPUs": {
			strings.Replace(nodeList, ",8,", ",9,", 1),
			podList,
			`nodes: line 3: gpu is "9" and has to be a whole number from 0 to 8`,
		},
		"not a number": {
			nodeList,
			strings.Replace(podList, "2000", "2 cores", 1),
			`pods: line 3: cpu_milli is "2 cores" and has to be`,
		},
		"below 0": {
			nodeList,
			strings.Replace(podList, "2000", "-1", 1),
			`pods: line 3: cpu_milli is "-1" and has to be`,
		},
		"shares of several": {
			nodeList, strings.Replace(podList, "4,1000", "4,500", 1),
			"pods: line 3: gpu_milli has to be 1 to 1000 for one GPU, and 1000 for several",
		},
		"nothing of a GPU": {
			nodeList,
			strings.Replace(podList, "1,460", "1,0", 1),
			"pods: line 2: gpu_milli has to be 1",
		},
		"unknown model": {
			nodeList,
			strings.Replace(podList, "G2|", "H100|", 1),
			`pods: line 2: gpu_spec names the model "H100", which no node has`,
		},
		"short line": {nodeList, podList + "w,1\n", "pods: record on line 5: wrong number of fields"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.nodes), strings.NewReader(c.pods))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
}

func TestSampleAsksForSoMuch(t *testing.T) {
	trace := &Trace{Nodes: []Node{node(8, 0), node(2, 0)}}
	for range 20 {
		trace.Pods = append(trace.Pods, shape(1, 300, 1), shape(1, Whole, 2), shape(0, 0, 3))
	}
	sum := func(pods []Shape) (sum int64) {
		for _, p := range pods {
			sum += p.Demand()
		}
		return sum
	}
	for _, percent := range []int64{50, 130, 260, 400} {
		s := trace.Sample(percent, rand.New(rand.NewPCG(1, 2)))
		if got, want := sum(s.Pods), 100*percent; got > want || got <= want-Whole {
			t.Errorf("pods ask for %d, want %d and less than a pod below it", got, want)
		}
		again := trace.Sample(percent, rand.New(rand.NewPCG(1, 2)))
		if !slices.Equal(s.Pods, again.Pods) || !slices.Equal(s.Nodes, again.Nodes) {
			t.Error("the same numbers drew another sample")
		}
		if percent == 400 { // the whole list is there, before any pod comes twice
			counts := counted(s.Pods[:len(trace.Pods)])
			for p, n := range counted(trace.Pods) {
				if counts[p] != n {
					t.Errorf("%d of %v come first, want all %d of the list", counts[p], p, n)
				}
			}
		}
	}
	if sum(trace.Pods) != 26000 || trace.Nodes[0].GPUs != 8 {
		t.Error("the trace itself was changed")
	}
	idle := &Trace{Nodes: trace.Nodes, Pods: []Shape{shape(0, 0, 1)}}
	if s := idle.Sample(130, rand.New(rand.NewPCG(1, 2))); len(s.Pods) != 1 {
		t.Errorf("%d pods were drawn, none of which asks for GPUs", len(s.Pods))
	}
}
