package agent

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/agent/reading"
	"github.com/mlbatch/mlbatch/internal/strict"
)

// Config is the agent's file. What it does not say is as in DefaultConfig.
type Config struct {
	// Checks are run periodically, by name.
	Checks []string `json:"checks,omitempty"`
	// Every is the period of the checks, drawn out by a tenth at most so that not all nodes check at once.
	Every metav1.Duration `json:"every"`
	// DeepEvery is the period of the deep test of nodes whose GPUs nobody uses; 0 is never.
	DeepEvery metav1.Duration `json:"deepEvery"`
	// DeepLevel is that of dcgmi diag in deep tests: 2 to 4.
	DeepLevel int `json:"deepLevel,omitempty"`
	// FatalTests are names of DCGM's tests whose failure takes what runs off the GPU.
	FatalTests []string `json:"fatalTests,omitempty"`
	// DeepTests are names of DCGM's tests that a deep test has to have run on each GPU to clear what is fatal; left out,
	// they are those of the level.
	DeepTests []string `json:"deepTests,omitempty"`
	// Limits are what is expected of GPUs, by model, before the defaults.
	Limits reading.Limits `json:"limits,omitempty"`
	// Neighbours is how many other nodes ping and iperf choose at random.
	Neighbours int `json:"neighbours,omitempty"`
	// StorageClass is that of the claims of the check pvc; "" is the cluster's default.
	StorageClass string `json:"storageClass,omitempty"`
	// SlowPart is the part of the median below which a neighbour is a straggler.
	SlowPart float64 `json:"slowPart,omitempty"`
}

// DefaultConfig is that of an agent that nobody said anything to.
func DefaultConfig() Config {
	return Config{
		Checks:     []string{"pciebw", "remapped", "gpumem", "dcgm", "gpupower", "xid", "ping"},
		Every:      metav1.Duration{Duration: time.Hour},
		DeepLevel:  3,
		FatalTests: reading.FatalTests(),
		Limits:     reading.DefaultLimits(),
		Neighbours: 5,
		SlowPart:   0.5,
	}
}

// ReadConfig reads a file over the defaults, and says what is wrong with it, by line and field.
func ReadConfig(name string, data []byte) (Config, error) {
	c := DefaultConfig()
	own := c.Limits
	c.Limits = nil
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return c, strict.Failed(name, []strict.Problem{*strict.SyntaxError(err)})
	}
	d := strict.Decoder{Places: strict.Places{}}
	if len(doc.Content) > 0 {
		d.Value(doc.Content[0], reflect.ValueOf(&c).Elem(), nil)
	}
	if err := strict.Failed(name, d.Problems); err != nil {
		return c, err
	}
	var problems []strict.Problem
	for _, err := range c.Validate() {
		problems = append(problems, strict.Problem{
			Position: d.Places.Find(err.Field), Path: err.Field, Text: err.ErrorBody(),
		})
	}
	if err := strict.Failed(name, problems); err != nil {
		return c, err
	}
	c.Limits = append(c.Limits, own...)
	return c, nil
}

// Validate says what is wrong with it, by field.
func (c *Config) Validate() field.ErrorList {
	var errs field.ErrorList
	add := func(path string, value any, cure string) {
		errs = append(errs, field.Invalid(field.NewPath(path), value, cure))
	}
	const shortest, longest, most = time.Minute, 30 * 24 * time.Hour, 32
	for i, name := range c.Checks {
		if check := CheckOf(name); check == nil || check.Deep {
			errs = append(errs, field.NotSupported(field.NewPath("checks").Index(i), name, PeriodicNames()))
		} else if slices.Index(c.Checks, name) < i {
			errs = append(errs, field.Duplicate(field.NewPath("checks").Index(i), name))
		}
	}
	if d := c.Every.Duration; d < shortest || d > longest {
		add("every", d.String(), "must be between 1m and 720h: how often checks run")
	}
	if d := c.DeepEvery.Duration; d != 0 && (d < time.Hour || d > longest) {
		add("deepEvery", d.String(), "must be 0, for never, or between 1h and 720h")
	}
	if c.DeepLevel < 2 || c.DeepLevel > 4 {
		add("deepLevel", c.DeepLevel, "must be 2, 3 or 4, as dcgmi diag -r takes it")
	}
	if c.Neighbours < 0 || c.Neighbours > most {
		add("neighbours", c.Neighbours, "must be between 0 and 32")
	}
	if c.SlowPart < 0 || c.SlowPart > 1 {
		add("slowPart", c.SlowPart, "must be between 0 and 1, such as 0.5")
	}
	for _, list := range []struct {
		of    string
		names []string
	}{{"fatalTests", c.FatalTests}, {"deepTests", c.DeepTests}} {
		for i, name := range list.names {
			if len(strings.TrimSpace(name)) < 2 {
				at := field.NewPath(list.of).Index(i)
				errs = append(errs, field.Invalid(at, name, "must be the name of a test of DCGM, such as PCIe"))
			}
		}
	}
	if c.StorageClass != "" && len(validation.IsDNS1123Subdomain(c.StorageClass)) > 0 {
		add("storageClass", c.StorageClass, "must be the name of a storage class")
	}
	for i, l := range c.Limits {
		at := field.NewPath("limits").Index(i)
		if l.Model == "" {
			errs = append(errs, field.Required(at.Child("model"), "a part of the product's name, such as H100"))
		}
		for _, f := range []struct {
			name  string
			value float64
		}{
			{"minPCIe", l.MinPCIe},
			{"linkGen", float64(l.LinkGen)},
			{"linkWidth", float64(l.LinkWidth)},
			{"maxCelsius", float64(l.MaxCelsius)},
		} {
			if f.value < 0 {
				errs = append(
					errs,
					field.Invalid(at.Child(f.name), f.value, "must not be less than 0, which asks for nothing"),
				)
			}
		}
	}
	return errs
}

// String says in a line what is done when.
func (c *Config) String() string {
	deep := "no deep tests"
	if c.DeepEvery.Duration > 0 {
		deep = fmt.Sprintf("a deep test of level %d every %s", c.DeepLevel, c.DeepEvery.Duration)
	}
	return fmt.Sprintf("%s every %s, %s", strings.Join(c.Checks, ", "), c.Every.Duration, deep)
}
