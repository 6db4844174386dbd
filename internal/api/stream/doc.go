// Package stream is the streaming door: a run's log over a WebSocket (docs/compatibility.md#frames), as server-sent
// events and as a download, and the tokens by which a client connects that cannot set headers.
//
//	GET  /api/v1/sandbox/runs/{id}/stream   WebSocket: from_seq= (inclusive, or tail), since_seq= (exclusive)
//	GET  /api/v1/sandbox/runs/{id}/logs     text, format=json, or SSE; from_seq=, since_seq=, stream=, follow=
//	POST /api/v1/sandbox/tickets            a token that is good once, on either of the above
//
// # The WebSocket
//
// Every message of the server is one [belljar.Frame] in its envelope, at most 64 KB of text, in the order of seq and
// without a gap. Two notes borrow a seq and must not be counted: resume before the first frame, when frames that were
// asked for are gone, and stdin_closed. Behind the end event the server closes with 1000.
//
// The client of an interactive run sends text messages of at most 512 KB:
//
//	{"type":"stdin","encoding":"utf8"|"base64","data":"…"}
//	{"type":"stdin_close"}
//
// While the program does not read, the server does not read from that connection either, but for one message. What comes
// after stdin_closed is dropped. A connection that ends leaves the program's input open. Anything else ends the
// connection:
//
//	1000  the log is at its end
//	1001  the server is shutting down; connect again, with since_seq
//	1002  the peer broke the WebSocket protocol
//	1003  a binary message
//	1007  a message that is not UTF-8, JSON or base64
//	1008  a message of no known type or field, or any to a run that is not interactive
//	1009  a message of more than 512 KB
//	1011  a failure of the server; connect again, with since_seq
//	1013  the reader did not take a message for 30 s, or no pong for a minute; the reason says from which seq to go on
//
// # Downloads and events
//
// Without follow=true a log ends where it stood when it was asked for. Events (Accept: text/event-stream) follow unless
// follow=false; their id is seq, so that a browser that comes back with Last-Event-ID goes on where it was, and a run whose
// end it has seen answers 204, after which it stays away. What cannot be sent to its end is cut, never ended politely.
//
// # How it is bounded
//
// A connection holds at most [batchBytes] and one frame on their way. The log is the queue: a reader who is slow has it
// read slowly, and nobody else notices. Readers of the same run share what is encoded.
package stream
