// Package podmeta is what labels, annotations and gates of a pod say of its group, its queue and its admission. All kinds
// write and read them: pods that are queued by themselves are a kind among others (package pod).
package podmeta
