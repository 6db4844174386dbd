// Package mcp is the door for models: Belljar's tools over the Model Context Protocol, on stdio ([Kit.Serve]) and on HTTP
// ([Door]).
//
//	compute   sandbox_run                                            one-shot runs
//	code      sandbox_open, sandbox_code, sandbox_exec,              a persistent session
//	          sandbox_exec_read, sandbox_exec_wait, sandbox_close
//	          sandbox_fs_write|read|list|delete
//	both      sandbox.run                                            see docs/compatibility.md
//
// A client session lasts from initialize to the end of the client. The operator sets its [Terms]; a model may request less,
// and the door refuses a request for more with the limit. The sandboxes of a client session end with it. If the operator
// named a workflow, they belong to the workflow and stay.
//
// A cancelled call cancels its run. If the client reports that it only stopped waiting, the run continues: the next result
// reports its id, and its output can be read.
package mcp
