// Package landlock appends Landlock rules to a sandbox's setup program. They are a second protection of files: the mounts already
// forbid writes outside a few folders, and Landlock forbids them even if the mounts have a hole.
//
// The rules name folders as the child sees them, so the child makes them after it has changed its root; see [Ruleset.Append]. They
// apply permanently to the child and its descendants. A process under them cannot mount, unmount or change its root, so they are
// installed after that.
//
// The network is not restricted: a sandbox has only its own loopback. From version 6 on, abstract Unix sockets and signals do not
// leave the sandbox, either.
//
// Linux only.
package landlock
