// Package install brings into a cluster what mlbatch needs there: the
// definitions of its kinds, the webhook configurations, roles and accounts,
// and certificates for the webhooks.
//
// Applying is idempotent: it may be repeated at every start and after every
// upgrade, and changes only what belongs to mlbatch. It makes no queues,
// teams or priority classes; those are the admin's.
package install
