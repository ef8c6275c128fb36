// Package view has the values that are told of queues and workloads: one shape
// for all that print them. A controller fills them from its engine and its
// informers, a command from what the API says with the user's own rights;
// statuses, metrics and tables are printers of the same values.
//
// It holds values and fills them from API objects. It asks no server,
// decides nothing and words nothing.
package view
