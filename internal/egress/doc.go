// Package egress decides what leaves a sandbox, and carries it.
//
// A sandbox has no route. The agent inside, which is not trusted, only asks: may a program have an address for this name, may this
// connection be carried? A [Gate] answers for one sandbox. It checks the name, the port and the rules of the run and of the
// server, resolves the name, pins its addresses, refuses special ones, dials a pinned address (never the name), checks that the
// program speaks to that name (the SNI of TLS on port 443, the Host of HTTP on port 80), and copies the bytes.
package egress
