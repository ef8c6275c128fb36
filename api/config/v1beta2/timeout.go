package v1beta2

import (
	"encoding/json"
	"errors"
	"time"
)

// Timeout is a duration that may be written as whole nanoseconds too, which is
// what the field it is for takes in Kueue.
type Timeout struct{ time.Duration }

// UnmarshalJSON reads "2m" or 120000000000.
func (t *Timeout) UnmarshalJSON(b []byte) error {
	var ns int64
	if err := json.Unmarshal(b, &ns); err == nil {
		t.Duration = time.Duration(ns)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("is neither a duration nor a number of nanoseconds")
	}
	d, err := time.ParseDuration(s)
	t.Duration = d
	return err
}

// MarshalJSON writes it as a duration.
func (t Timeout) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }
