package main

import "testing"

// What nobody asked for is not shown to everybody.
func TestS21MetricsArePrivateByDefault(t *testing.T) {
	if f := newControllerCommand().Flags().Lookup("metrics-secure"); f == nil || f.DefValue != "true" {
		t.Errorf("metrics-secure is %v by default", f)
	}
}
