// Package folder is a runtime without isolation: an agent in this process, whose workspace is one folder of this machine, and
// whose programs run as the server's user. It serves the workspace API's mode local. Requests cannot choose it, so it does not
// pass the conformance suite: its sandboxes share the folder, which outlives them.
package folder
