package submit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// ReadTask reads a task file: a YAML object with the keys name, resources, nodes, setup, run and
// env, each of which may be left out. resources has options of the command line for keys. Setup
// and run go into the request itself.
func (r *Request) ReadTask(name string, data []byte) ([]Setting, error) {
	var file map[string]any
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	keys := []string{"name", "resources", "nodes", "setup", "run", "env"}
	var out []Setting
	add := func(option, value string) { out = append(out, Setting{option, value, name}) }
	for _, key := range slices.Sorted(maps.Keys(file)) {
		value := file[key]
		if !slices.Contains(keys, key) {
			return nil, fmt.Errorf("%s: %s: a task has no such key%s", name, key, orAll(Closest(key, keys), keys))
		}
		switch key {
		case "resources", "env":
			entries, is := value.(map[string]any)
			if !is && value != nil {
				return nil, fmt.Errorf("%s: %s: it has to be an object: KEY: VALUE", name, key)
			}
			for _, k := range slices.Sorted(maps.Keys(entries)) {
				texts, err := texts(entries[k], key == "resources")
				if err != nil {
					return nil, fmt.Errorf("%s: %s.%s: %w", name, key, k, err)
				}
				if key == "env" {
					add("env", k+"="+texts[0])
					continue
				}
				if !slices.Contains(resourceKeys(), k) {
					return nil, fmt.Errorf(
						"%s: resources.%s: there is no such key%s",
						name,
						k,
						orAll(Closest(k, resourceKeys()), resourceKeys()),
					)
				}
				for _, text := range texts {
					add(k, text)
				}
			}
		default:
			texts, err := texts(value, false)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", name, key, err)
			}
			switch key {
			case "name":
				add("job-name", texts[0])
			case "nodes":
				add("nodes", texts[0])
			case "setup":
				r.Setup = texts[0]
			case "run":
				r.Script = texts[0]
			}
		}
	}
	if strings.TrimSpace(r.Script) == "" {
		return nil, fmt.Errorf("%s: run is missing: the command, or the lines of a shell script", name)
	}
	r.Interpreter = []string{"/bin/sh"}
	if strings.HasPrefix(r.Script, "#!") {
		var err error
		if r.Interpreter, err = Interpreter(name, r.Script); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// resourceKeys are the options that may stand in resources.
func resourceKeys() (out []string) {
	for _, o := range Options() {
		if !slices.Contains([]string{"name", "job-name", "nodes", "env", "env-file"}, o.Name) {
			out = append(out, o.Name)
		}
	}
	return out
}

// texts is a value as it would be typed, or several if it is a list and may be.
func texts(value any, many bool) ([]string, error) { //nolint:revive // it is what a key allows
	switch v := value.(type) {
	case string:
		return []string{v}, nil
	case bool:
		return []string{strconv.FormatBool(v)}, nil
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}, nil
	case int64:
		return []string{strconv.FormatInt(v, 10)}, nil
	case []any:
		var out []string
		for _, x := range v {
			one, err := texts(x, false)
			if err != nil || !many {
				return nil, fmt.Errorf("it has to be one word or number")
			}
			out = append(out, one...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("it has to be a word or a number")
}

func orAll(like string, all []string) string {
	if like != "" {
		return "; did you mean " + like + "?"
	}
	return "; use " + strings.Join(all, ", ")
}
