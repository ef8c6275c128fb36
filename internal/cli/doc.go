// Package cli is what people read: it gathers what the API server says about a
// job and turns it into plain words. It decides nothing and changes nothing;
// the reasons it prints are the reasons that the engine gave and the controller wrote
// into the job's Workload, so that all who may read a job may also read why it
// waits.
//
// Gather fetches, facts.JobOf says how the job stands, Explain words it, Text prints.
package cli
