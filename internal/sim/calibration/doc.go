// Package calibration measures how right estimates of when jobs start are.
//
// It runs a world, asks at intervals when the jobs that wait will start, and compares what
// was said with what became of it. What is asked knows what a controller would know at
// that moment: the picture, and how long jobs ran that have ended.
package calibration
