package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// CustomColumnsFormat begins an output format that names columns, as kubectl has it.
const CustomColumnsFormat = "custom-columns="

// fieldPath is a JSONPath as people type it: braces and the leading dot may be left out.
var fieldPath = regexp.MustCompile(`^\{?\.?([^{}]+)\}?$`)

// CustomColumns are the columns of TITLE:PATH,TITLE:PATH; a path leads to a field of what -o json
// prints of a row.
func CustomColumns[T any](spec string) ([]Column[T], error) {
	const form = "write TITLE:.field,TITLE:.field, with the fields that -o json shows"
	if spec == "" {
		return nil, errors.New("-o custom-columns= names no columns: " + form)
	}
	var out []Column[T]
	for part := range strings.SplitSeq(spec, ",") {
		title, path, found := strings.Cut(part, ":")
		m := fieldPath.FindStringSubmatch(path)
		if !found || title == "" || m == nil {
			return nil, fmt.Errorf("-o custom-columns: %q is no column: %s", part, form)
		}
		finder := jsonpath.New(title).AllowMissingKeys(true)
		if err := finder.Parse("{." + m[1] + "}"); err != nil {
			return nil, fmt.Errorf("-o custom-columns: %q is no path: %w", path, err)
		}
		out = append(out, Column[T]{Title: title, Text: func(row T) string { return field(finder, row) }})
	}
	return out, nil
}

// field is what a path leads to in a row, "" if it leads nowhere.
func field(finder *jsonpath.JSONPath, row any) string {
	data, err := json.Marshal(row)
	if err != nil {
		return ""
	}
	var fields any
	if err := json.Unmarshal(data, &fields); err != nil {
		return ""
	}
	found, err := finder.FindResults(fields)
	if err != nil {
		return ""
	}
	var parts []string
	for _, list := range found {
		for _, value := range list {
			switch is := value.Interface().(type) {
			case nil:
			case string:
				parts = append(parts, is)
			default:
				text, err := json.Marshal(is)
				if err == nil {
					parts = append(parts, string(bytes.Trim(text, "[]")))
				}
			}
		}
	}
	return strings.ReplaceAll(strings.Join(parts, ","), `"`, "")
}
