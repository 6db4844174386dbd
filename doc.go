// Package belljar holds the nouns of Belljar: what a caller asks for ([RunSpec], [Limits]), what happened
// ([Run], [Frame], [Artifact], [ResourceUsage]), how things fail ([Error], [Code]), and the small interfaces
// ([Runs]) that the service implements in process and a client implements over the network.
//
// It imports the standard library only and does no input or output. JSON names follow the sandbox HTTP API
// (docs/compatibility.md); where a name is Belljar's own, its comment says so.
//
// # Versions
//
// All of Belljar has one version, vMAJOR.MINOR.PATCH, by the rules of semantic versioning. It covers what callers write down:
//
//   - the exported names of this package and of client, and the public names of the Python and TypeScript clients
//   - routes, fields, frames, error codes and metrics of the server, under each spec_version that it supports
//   - commands, flags, exit statuses and --json output of the command line
//   - settings, and the data folder, which a later version of the same MAJOR can read
//
// It does not cover the text of messages and of help, figures, what internal and gvisor contain, and the form of files in the data
// folder. New fields, codes and values are no break: callers ignore what they do not know.
//
// A PATCH fixes; a MINOR adds; a MAJOR may remove. Before 1.0.0 a MINOR may remove as well, after the same notice. A fix of a
// vulnerability may break a caller that depends on it, in any release. A server takes over the sandboxes of the MINOR before its own.
//
// # Deprecation
//
// What will be removed is deprecated first, for two MINOR releases and at least six months. It keeps working meanwhile. The changelog
// says what replaces it, and so does the place where it is used: a "Deprecated:" comment here and in the clients, deprecated: true in
// spec/openapi.yaml, a warning of the command line, and a warning in the server's log for a setting.
package belljar
