// Package podmeta is what labels, annotations, gates and finalizers of a pod say of its group, its queue and
// its admission, and who may write them. All kinds write and read them: pods that are queued by themselves
// are a kind among others (package pod).
package podmeta
