// Package keep looks after one sandbox whose agent can be reached over a single byte stream only, its standard input and
// output: a stream that lives as long as a process holds its two ends, and that a daemon must not take with it when it ends.
//
// A keep is a process of its own, the first of a process namespace. It starts the program that makes the sandbox, gives it
// the byte stream, runs the host's side of the multiplexer on it, and listens: each connection to its socket is a stream to
// the agent. On a second socket it takes orders, programs that it runs in its namespace: pause, save. It is the parent and
// reaper of everything that the programs leave running, and its end is the end of all of it, however it comes: by the
// kernel's hand. Other processes know by the locks on its descriptors that it lives.
//
// It ends when the byte stream does, and writes down why; when its lifeline breaks; or when it is killed.
//
//	config.go   its configuration
//	keep.go     its life
//	relay.go    connections and streams
//	order.go    the second socket, both sides
//	family.go   its children
package keep
