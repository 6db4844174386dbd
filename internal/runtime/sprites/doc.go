// Package sprites runs sandboxes in a sprite: a virtual machine of Fly.io that exists, with the agent in it. The runtime starts the agent
// as an exec session over a WebSocket, whose standard input and output carry the multiplexer, as the docker runtime does with a container.
// A session goes on when its WebSocket breaks and is attached to again, after a restart of the server too.
//
// The sprite is one machine with one folder of files, which stays when a sandbox ends. So it has one sandbox at a time. What runs in it can
// use all of the machine and its network: no limit but time is enforced, and the capabilities say so.
//
//	sprites.go   the runtime: create, attach, list, remove
//	sandbox.go   a living sandbox and its end
//	exec.go      exec sessions: start, attach, list, kill
//	line.go      a session's WebSocket as a byte stream
//	record.go    what a restart of the server needs
package sprites
