// Package stream is the streaming door: a run's log over a WebSocket (docs/compatibility.md#frames), as server-sent events and
// as a download, and the tokens for clients that cannot set headers.
//
//	GET  /api/v1/sandbox/runs/{id}/stream   WebSocket: from_seq= (inclusive, or tail), since_seq= (exclusive)
//	GET  /api/v1/sandbox/runs/{id}/logs     text, format=json, or SSE; from_seq=, since_seq=, stream=, follow=
//	GET  /api/v1/sandbox/runs/{id}/usage    the usage of the run's sandbox: SSE, or one sample as JSON; sessions/{id}/usage, too
//	POST /api/v1/sandbox/tickets            a token that each of the above accepts once
//
// # The WebSocket
//
// Every message of the server is one [belljar.Frame] in its envelope, at most 64 KB of text, in the order of seq and without a
// gap. Two notes repeat a seq and must not be counted: resume before the first frame, when requested frames no longer exist,
// and stdin_closed. After the end event the server closes with 1000.
//
// The client of an interactive run sends text messages of at most 512 KB:
//
//	{"type":"stdin","encoding":"utf8"|"base64","data":"…"}
//	{"type":"stdin_close"}
//
// While the program does not read, the server reads only one message from that connection. It drops messages after
// stdin_closed. The end of a connection leaves the program's input open. A connection ends with these codes:
//
//	1000  the log is at its end
//	1001  the server is shutting down; connect again, with since_seq
//	1002  the peer broke the WebSocket protocol
//	1003  a binary message
//	1007  a message that is not UTF-8, JSON or base64
//	1008  a message with an unknown type or field, or any message to a run that is not interactive
//	1009  a message of more than 512 KB
//	1011  a failure of the server; connect again, with since_seq
//	1013  the reader took no message for 30 s, or sent no pong for a minute; the reason names the seq to resume from
//
// # Downloads and events
//
// Without follow=true a download ends at the last frame at the time of the request. Events (Accept: text/event-stream) follow
// the log unless follow=false. Their id is seq, so that a browser resumes with Last-Event-ID; after the end of the run the
// answer is 204, and the browser stops. The server cuts off an answer that it cannot complete: it never looks complete.
//
// # Limits
//
// A connection buffers at most [batchBytes] and one frame. The log is the queue: a slow reader reads it slowly, and delays no
// other reader. Readers of the same run share the encoded frames.
package stream
