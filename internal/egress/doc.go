// Package egress decides what leaves a sandbox, and carries it.
//
// A sandbox has no route. The agent inside is not trusted and can only ask whether a program may have an address for a name, and
// whether the gate carries a connection. A [Gate] answers for one sandbox. It checks the name, the port and the rules of the run
// and of the server, resolves the name, pins its addresses, refuses special ones, dials a pinned address (never the name), checks
// that the program speaks to that name (the SNI of TLS on port 443, the Host of HTTP on port 80), and copies the bytes.
package egress
