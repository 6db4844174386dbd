// Package mcp is the door for models: Belljar's tools over the Model Context Protocol, on stdio ([Kit.Serve]) and on HTTP
// ([Door]).
//
//	compute   sandbox_run                                            one-shot runs
//	code      sandbox_open, sandbox_exec, sandbox_exec_read,         a session that lasts
//	          sandbox_exec_wait, sandbox_fs_write|read|list|delete, sandbox_close
//	both      sandbox.run                                            see docs/compatibility.md
//
// A client from its initialize to its end is a visit. Its [Terms] are the operator's: a model asks for less, never for
// more, and what it asks beyond them is refused with the bound. A visit's sandboxes are its own, unless the operator named a
// workflow: then they are the workflow's, and stay when the visit is over.
//
// A cancelled call cancels its run. A call whose client only stopped waiting does not: the run goes on, its id is told with
// the next result, and its output is there to be read.
package mcp
