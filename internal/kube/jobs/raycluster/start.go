package raycluster

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
)

// node is what one of Ray's nodes is started with.
type node struct {
	head            bool
	params          map[string]string
	resources       map[string]string
	labels          map[string]string
	container       *corev1.Container
	autoscaled      bool
	address         string // of the head; "" on the head itself
	redis, redisUse bool   // state is kept outside, with a password, with a user
}

// Names of options that are told here.
const (
	optMetrics   = "metrics-export-port"
	optAgent     = "dashboard-agent-listen-port"
	optDashboard = "dashboard-host"
	optBlock     = "block"
	optCPUs      = "num-cpus"
	optGPUs      = "num-gpus"
	optMemory    = "memory"
	optResources = "resources"
	optAddress   = "address"
)

// options are what the author wrote, completed by what the container may use.
func (n *node) options() map[string]string {
	p := maps.Clone(n.params)
	if p == nil {
		p = map[string]string{}
	}
	fill := func(key, value string) {
		if _, says := p[key]; !says && value != "" {
			p[key] = value
		}
	}
	p[optBlock] = "true"
	if n.head {
		fill(optDashboard, "0.0.0.0")
		if n.autoscaled {
			p["no-monitor"] = "true"
		}
		if n.redis {
			fill("redis-password", "$REDIS_PASSWORD")
		}
		if n.redisUse {
			fill("redis-username", "$REDIS_USERNAME")
		}
	} else {
		fill(optAddress, n.address)
	}
	fill(optMetrics, "8080")
	fill(optAgent, "52365")
	n.tell(fill)
	if len(n.labels) > 0 {
		var all []string
		for _, key := range slices.Sorted(maps.Keys(n.labels)) {
			all = append(all, key+"="+n.labels[key])
		}
		fill("labels", strings.Join(all, ","))
	}
	return p
}

// accelerators are what Ray calls resources that are no GPUs.
func accelerators() map[corev1.ResourceName]string {
	return map[corev1.ResourceName]string{"google.com/tpu": "TPU", "aws.amazon.com/neuroncore": "neuron_cores"}
}

// tell fills in what the container may use, as its limits say or its author did.
func (n *node) tell(fill func(key, value string)) {
	limits, requests := n.container.Resources.Limits, n.container.Resources.Requests
	custom := map[string]float64{}
	for name, q := range n.resources {
		switch strings.ToUpper(name) {
		case "CPU":
			fill(optCPUs, q)
		case "GPU":
			fill(optGPUs, q)
		case "MEMORY":
			fill(optMemory, q)
		default:
			if v, err := strconv.ParseFloat(q, 64); err == nil {
				custom[name] = v
			}
		}
	}
	cpu := limits[corev1.ResourceCPU]
	if cpu.IsZero() {
		cpu = requests[corev1.ResourceCPU]
	}
	if !cpu.IsZero() {
		fill(optCPUs, strconv.FormatInt(cpu.Value(), 10))
	}
	if memory := limits[corev1.ResourceMemory]; !memory.IsZero() {
		fill(optMemory, strconv.FormatInt(memory.Value(), 10))
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		q := limits[name]
		if q.IsZero() {
			continue
		}
		if strings.HasSuffix(string(name), "gpu") {
			fill(optGPUs, strconv.FormatInt(q.Value(), 10))
		}
		if called := accelerators()[name]; called != "" && custom[called] == 0 {
			custom[called] = float64(q.Value())
		}
	}
	if len(custom) > 0 {
		if text, err := json.Marshal(custom); err == nil { // keys are sorted
			fill(optResources, "'"+string(text)+"'")
		}
	}
}

// command is what starts Ray.
func (n *node) command() string {
	var b strings.Builder
	b.WriteString("ulimit -n 65536; ray start")
	if n.head {
		b.WriteString(" --head")
	}
	p := n.options()
	for _, key := range slices.Sorted(maps.Keys(p)) {
		value := p[key]
		// These ask for an argument; all others are there or not.
		asks := key == "log-color" || key == "include-dashboard"
		switch is := strings.ToLower(value); {
		case is == "true" && !asks:
			b.WriteString(" --" + key)
		case is == "false" && !asks:
		default:
			b.WriteString(" --" + key + "=" + value)
		}
	}
	return b.String()
}

// startWord is how a command says that it starts Ray itself.
const startWord = "ray start"

// run puts a command into a container: after what its author wrote, unless that starts Ray
// by itself.
func run(c *corev1.Container, command string, leave bool) { //nolint:revive // the author's annotation
	if leave {
		return
	}
	words := slices.Concat(c.Command, c.Args)
	written := strings.TrimSpace(strings.Join(words, " "))
	if strings.Contains(written, startWord) {
		return
	}
	if written != "" {
		command = written + " && " + command
	}
	c.Command, c.Args = shell(), []string{command}
}

func shell() []string { return []string{"/bin/bash", "-c", "--"} }

// leavesCommand reports whether the author starts Ray.
func leavesCommand(c *api.RayCluster) bool {
	return c.Annotations[api.OverwriteCommandAnnotation] == "true"
}
