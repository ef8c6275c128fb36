package main

import "testing"

// Metrics that no user asked for are not shown to everybody.
func TestS21MetricsArePrivateByDefault(t *testing.T) {
	if f := newControllerCommand().Flags().Lookup("metrics-secure"); f == nil || f.DefValue != "true" {
		t.Errorf("metrics-secure is %v by default", f)
	}
}
