// Package docker builds sandboxes as containers of a Docker engine, local or remote, through its API. Podman offers the
// same API but ignores some of the protections: it is refused.
//
// A sandbox is one container. Its first process is the agent, which the engine gets once, as a read-only volume; the only
// way in is the container's stdin and stdout, one attached connection with the multiplexer of package wire on it. Nothing of
// the engine's host is mounted, nothing that the container prints is kept by the engine, and no path of this machine
// means anything: the engine may be another one.
//
// The engine is asked for every protection by name, and the container that it has made is read back before it is
// started: one that has less than it was asked for is removed, and the sandbox refused.
//
// What finds a sandbox again is on the engine: containers are called belljar-INSTALLATION-ID and have the installation as a
// label. A container that is made before it is known for whom gets its caller's id as its new name when it is claimed.
//
// A sandbox of its creator's lifetime ends with the attached connection, for the engine then closes the agent's stdin. A
// detached one is reattached to, by the next daemon too.
package docker
