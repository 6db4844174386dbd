// Package docker builds sandboxes as containers of a Docker engine, local or remote, through its API. Podman offers the same
// API but ignores some of the protections, so it is refused.
//
// A sandbox is one container. Its first process is the agent, which the engine gets once, as a read-only volume. The only
// connection to the agent is the container's stdin and stdout: one attached stream, with the multiplexer of package wire on
// it. A container has no mounts of the engine's host, and the engine keeps no output of it. Paths of this machine have no
// meaning for the engine, which may be on another.
//
// Belljar requests every protection by name, and reads the new container's settings back before it starts the container. If
// one is weaker than requested, Belljar removes the container and refuses the sandbox.
//
// The engine stores everything that finds a sandbox again: containers are called belljar-INSTALLATION-ID and have the
// installation as a label. A container that is made in advance is renamed to its caller's id when it is claimed.
//
// A sandbox of its creator's lifetime ends with the attached connection, because the engine then closes the agent's stdin. A
// detached one is reattached to, by the next daemon too.
package docker
