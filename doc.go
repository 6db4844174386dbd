// Package belljar defines the types of Belljar: requests ([RunSpec], [Limits]), results ([Run], [Frame], [Artifact],
// [ResourceUsage]), errors ([Error], [Code]), and the small interfaces ([Runs]) that the service implements in process and the client
// implements over the network.
//
// It imports only the standard library and does no input or output. JSON names follow the sandbox HTTP API (docs/compatibility.md).
// The comment of a field says so if the name is Belljar's own.
//
// # Versions
//
// All of Belljar has one version, vMAJOR.MINOR.PATCH, by the rules of semantic versioning. It covers the interfaces that callers
// depend on:
//
//   - the exported names of this package and of client, and the public names of the Python and TypeScript clients
//   - routes, fields, frames, error codes and metrics of the server, under each spec_version that it supports
//   - commands, flags, exit statuses and --json output of the command line
//   - settings, and the data folder, which a later version of the same MAJOR can read
//
// It does not cover the text of messages and of help, figures, the packages internal and gvisor, and the format of files in the data
// folder. New fields, codes and values are not breaking changes: callers ignore those that they do not know.
//
// A PATCH fixes, a MINOR adds, a MAJOR may remove. Before 1.0.0 a MINOR may remove as well, after the same notice. A fix of a
// vulnerability may break callers that depend on it, in any release. A server takes over the sandboxes of the previous MINOR.
//
// # Deprecation
//
// Anything to be removed is deprecated first, for two MINOR releases and at least six months. It keeps working meanwhile. The
// changelog names the replacement, and so does each place of use: a "Deprecated:" comment here and in the clients, deprecated: true
// in spec/openapi.yaml, a warning of the command line, and a warning in the server's log for a setting.
package belljar
