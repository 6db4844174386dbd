// Package sprites runs sandboxes in a sprite: an existing virtual machine of Fly.io, in which the agent is installed. The runtime starts
// the agent as an exec session over a WebSocket, whose standard input and output carry the multiplexer, as the docker runtime does with a
// container. A session continues when its WebSocket breaks. The runtime reattaches to it, also after a restart of the server.
//
// The sprite is one machine with one folder of files, which stays when a sandbox ends. So it has one sandbox at a time. Its programs can
// use all of the machine and its network: only time is limited, and the capabilities state that.
//
//	sprites.go   the runtime: create, attach, list, remove
//	sandbox.go   a living sandbox and its end
//	exec.go      exec sessions: start, attach, list, kill
//	line.go      a session's WebSocket as a byte stream
//	record.go    the records for a restart of the server
package sprites
