// Package keep runs the host's end for one sandbox whose agent has only a single byte stream, its standard input and output. The
// stream ends when the process that holds it ends, so a process other than the daemon must hold it.
//
// A keep is a process of its own, the first of a PID namespace. It starts the program that makes the sandbox, gives it the byte
// stream, and runs the host's side of the multiplexer on it. Each connection to its socket is a stream to the agent. On a second
// socket it takes orders, which are programs that it runs in its namespace: pause, save. It adopts and reaps all processes that
// the programs leave, and the kernel kills all of them when the keep ends. The locks on its descriptors show other processes that
// it is alive.
//
// It ends, and records the reason, when the byte stream ends. It also ends when its lifeline breaks or when it is killed.
//
//	config.go   its configuration
//	keep.go     its life
//	relay.go    connections and streams
//	order.go    the second socket, both sides
//	reaper.go   its child processes
package keep
