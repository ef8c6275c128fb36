// Package appwrapper translates AppWrappers: which pods they run, how the
// objects they wrap are to be created, what those objects say of themselves,
// and what is wrong with one that cannot run.
//
// Everything here is a pure function of objects; nothing is fetched or written.
// internal/kube/controllers/appwrapper creates and deletes,
// internal/engine/lifecycle decides when.
//
// A component is the object in spec.components[i].template. Its name is fixed
// from the beginning, also where the user gave a generateName, so that creating
// it twice is impossible. Pod sets are numbered through all components and
// named <appwrapper>-<n>; every pod carries its pod set's name as a label.
package appwrapper
