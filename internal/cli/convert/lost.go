package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// lost lists what a value says and another one does not, the outermost only. What the other
// says besides is no loss.
func lost(was, is any, path string) []Loss {
	switch was := was.(type) {
	case map[string]any:
		other, same := is.(map[string]any)
		if !same {
			return []Loss{{path, "is left out"}}
		}
		var out []Loss
		for _, key := range slices.Sorted(maps.Keys(was)) {
			if path == "" && (key == "apiVersion" || key == "kind") {
				continue
			}
			at := strings.TrimPrefix(path+"."+key, ".")
			if strings.ContainsAny(key, "./") {
				at = path + "[" + key + "]"
			}
			value, there := other[key]
			if !there {
				out = append(out, Loss{at, leftOut(at, was[key])})
				continue
			}
			out = append(out, lost(was[key], value, at)...)
		}
		return out
	case []any:
		other, same := is.([]any)
		if !same {
			return []Loss{{path, "is left out"}}
		}
		if strings.HasSuffix(path, ".env") {
			return lostVariables(was, other, path)
		}
		var out []Loss
		for i := range was {
			at := fmt.Sprintf("%s[%d]", path, i)
			if i >= len(other) {
				out = append(out, Loss{at, "is left out: " + short(was[i])})
				continue
			}
			out = append(out, lost(was[i], other[i], at)...)
		}
		return out
	}
	if reflect.DeepEqual(was, is) {
		return nil
	}
	if strings.Contains(path, ".env[") && strings.HasSuffix(path, ".value") { // it may be secret
		return []Loss{{path, "is changed"}}
	}
	return []Loss{{path, fmt.Sprintf("becomes %s, and is %s", short(is), short(was))}}
}

// lostVariables compares variables by their names: their order says little.
func lostVariables(was, is []any, path string) []Loss {
	named := map[any]any{}
	for _, v := range is {
		if m, isMap := v.(map[string]any); isMap {
			named[m["name"]] = v
		}
	}
	var out []Loss
	for i, v := range was {
		at := fmt.Sprintf("%s[%d]", path, i)
		m, _ := v.(map[string]any)
		other, there := named[m["name"]]
		if !there {
			out = append(out, Loss{at, fmt.Sprintf("is left out: %v", m["name"])})
			continue
		}
		out = append(out, lost(v, other, at)...)
	}
	return out
}

func leftOut(path string, was any) string {
	if strings.Contains(path, ".env[") && strings.HasSuffix(path, ".value") { // it may be secret
		return "is left out"
	}
	return "is left out: " + short(was)
}

// short is a value for people; of objects only what they say something about.
func short(v any) string {
	const most = 60
	if m, is := v.(map[string]any); is {
		return "{" + strings.Join(slices.Sorted(maps.Keys(m)), ", ") + "}"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "..."
	}
	if text := []rune(string(data)); len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(data)
}
