// Package folder is a runtime that isolates nothing: an agent in this process whose workspace is one folder of this machine, and
// whose programs are those of the user who runs the server. It serves the workspace API's mode local. It is never one of the
// runtimes that requests can name, so it does not pass the suite of those: sandboxes share the folder, which outlives them.
package folder
