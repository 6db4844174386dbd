// Package idmap gives every sandbox a range of host user and group ids of its own.
//
// A claim is a lock on a file, held through [Range.Lock]. The sandbox's agent inherits that descriptor, so the claim lasts
// exactly as long as the sandbox: it survives a restart of the daemon and needs no cleanup after a crash.
//
// Root claims 65,536 ids at a time from a part of the id space that no other program uses. An ordinary user claims from the
// user's own entries in /etc/subuid and /etc/subgid, which newuidmap and newgidmap map; without them all of the user's
// sandboxes share the user's own id, and report it.
package idmap
