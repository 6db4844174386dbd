// Package landlock writes a sandbox's second protection of files into its setup program: what the mounts already forbid, writing
// outside a few folders, is forbidden once more by the kernel's Landlock, which a hole in the mounts does not lift.
//
// The rules speak of folders as the child sees them, so they are made in the child, after it has changed its root; see
// [Ruleset.Append]. They bind the child and everything it starts, for good. A process under them can also no longer
// mount, unmount or change its root: they come after all of that.
//
// The network is left alone (a sandbox has only its own loopback, where servers are welcome). From version 6 on,
// abstract unix sockets and signals do not leave the sandbox either.
//
// Linux only.
package landlock
