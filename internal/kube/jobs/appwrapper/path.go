package appwrapper

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	pathSyntax = regexp.MustCompile(`^template(\.[A-Za-z0-9_-]+|\[[0-9]{1,4}\])*$`)
	pathStep   = regexp.MustCompile(`\.([A-Za-z0-9_-]+)|\[([0-9]+)\]`)
)

// lookup returns the object at path within template. A path is "template"
// followed by ".field" and "[n]" steps.
func lookup(template map[string]any, path string) (map[string]any, error) {
	if !pathSyntax.MatchString(path) {
		return nil, fmt.Errorf(
			`must be "template" followed by ".field" or "[n]" steps, for example template.spec.template`,
		)
	}
	var at any = template
	walked := "template"
	for _, m := range pathStep.FindAllStringSubmatch(strings.TrimPrefix(path, "template"), -1) {
		next, err := step(at, m[1], m[2])
		if err != nil {
			return nil, fmt.Errorf("%s %w", walked, err)
		}
		at, walked = next, walked+m[0]
	}
	out, ok := at.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", walked)
	}
	return out, nil
}

func step(at any, name, index string) (any, error) {
	if index == "" {
		object, ok := at.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("is not an object and has no field %q", name)
		}
		next, ok := object[name]
		if !ok {
			return nil, fmt.Errorf("has no field %q", name)
		}
		return next, nil
	}
	list, ok := at.([]any)
	if !ok {
		return nil, fmt.Errorf("is not a list and has no item [%s]", index)
	}
	i, err := strconv.Atoi(index)
	if err != nil || i >= len(list) {
		return nil, fmt.Errorf("has no item [%s], it has %d", index, len(list))
	}
	return list[i], nil
}
