package replay

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Recordings of state version 2 have other names for some fields, and the same meaning.

// names are names of version 2 and what became of them.
type names map[string]string

// upgrade returns a recorded state as this program would have recorded it. States of
// versions that it does not know come back as they are, for Load to refuse.
func (p *player) upgrade(raw []byte) ([]byte, error) {
	var is struct{ Version int }
	if err := json.Unmarshal(raw, &is); err != nil || is.Version != 2 {
		return raw, nil //nolint:nilerr // the decoder says what is wrong
	}
	state, err := rename(raw, names{
		"Doors":         "LocalQueues",
		"Works":         "Workloads",
		"Pledges":       "Reservations",
		"Facts":         "DrainAgain",
		"ContestedSeen": "BlockedSeen",
	})
	if err != nil {
		return nil, err
	}
	state["Version"] = json.RawMessage("3")
	if state["Workloads"], err = each(state["Workloads"], names{"Door": "LocalQueue"}, nil); err != nil {
		return nil, err
	}
	state["Queues"], err = each(
		state["Queues"],
		names{"Promised": "Reserved"},
		func(queue map[string]json.RawMessage) (err error) {
			if queue["Groups"], err = each(
				queue["Groups"],
				names{"Contested": "Blocked", "Contests": "BlockedPairs"},
				nil,
			); queue["Groups"] == nil {
				delete(queue, "Groups")
			}
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(state, func(_ string, value json.RawMessage) bool { return value == nil })
	renamed, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("state of version 2: %w", err)
	}
	var s cycle.Snapshot // decoded and encoded: in the order in which fields are recorded
	if err := p.codec.Decode(renamed, &s); err != nil {
		return nil, fmt.Errorf("state of version 2: %w", err)
	}
	return p.codec.Append(nil, &s)
}

// each renames the fields of every object of a list, and changes it otherwise.
func each(
	list json.RawMessage,
	as names,
	change func(map[string]json.RawMessage) error,
) (json.RawMessage, error) {
	var all []json.RawMessage
	if list == nil { // it was empty
		return nil, nil
	}
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, fmt.Errorf("state of version 2: %w", err)
	}
	out := make([]map[string]json.RawMessage, len(all))
	for i, x := range all {
		object, err := rename(x, as)
		if err == nil && change != nil {
			err = change(object)
		}
		if err != nil {
			return nil, err
		}
		out[i] = object
	}
	return json.Marshal(out)
}

// rename reads an object with other names for some of its fields.
func rename(object json.RawMessage, as names) (map[string]json.RawMessage, error) {
	var old map[string]json.RawMessage
	if err := json.Unmarshal(object, &old); err != nil {
		return nil, fmt.Errorf("state of version 2: %w", err)
	}
	out := make(map[string]json.RawMessage, len(old))
	for name, value := range old {
		if to, ok := as[name]; ok {
			name = to
		}
		out[name] = value
	}
	return out, nil
}
