// Package terminal is the door to the terminals in sessions, over a WebSocket (docs/compatibility.md#terminals).
//
//	GET /api/v1/sandbox/sessions/{session_id}/terminals   a new terminal: cols=, rows=, session_name=, shared=, command= (repeated)
//	GET /api/v1/sandbox/terminals                         back to one: session_id= (a token), or terminal_id=
//
// The first of them is the listing's path as well, which the REST door answers to whoever asks for no WebSocket.
//
// # Messages
//
// The client's, text:
//
//	{"type":"input","data":"…"}                         "encoding":"base64" for bytes that are no text; a binary message is input, too
//	{"type":"resize","cols":80,"rows":24}
//	{"type":"ping"}
//
// and the server's:
//
//	{"type":"session","session_id":"…","terminal_id":"…","resumed":false,"expires_at":"…","terminal":{…}}
//	{"type":"history","data":"…"}                       what was on the terminal before; at most once, before any output
//	{"type":"output","data":"…"}                        either with "encoding":"base64" where the bytes are no UTF-8
//	{"type":"pong"}
//	{"type":"error","code":"…","message":"…"}           the connection goes on if it was about a size, and ends otherwise
//	{"type":"exit","exit_code":0}
//	{"type":"session_not_found"}
//
// Text never ends within a character: its first bytes wait for the rest, for [Options.Flush] at most, and go as base64
// then. session comes first, and again before its session_id expires; the latest one is the one to come back with.
//
// # Coming back
//
// The session_id that clients see is a sealed token, bound to its user, terminal and session, and good for
// [Options.TokenTTL]. A connection that is open outlives it. One that is expired, forged, another user's or of a terminal
// that is gone is answered with session_not_found, and nothing tells them apart. The API's other parameters are taken:
// session_name, provider (shell), resume (false leaves the history out), and force_new, which opens a new terminal in the
// session of the one that session_id names.
//
// # Ends
//
// Whoever asks for a WebSocket is answered on it, with a message and one of these codes. Only a foreign web page (403), one
// who connects too often (429) and a path that does not exist are told before.
//
//	1000  the program has ended (exit), or the client closed
//	1001  the server is shutting down: the terminal will be there again
//	1002  the peer broke the WebSocket protocol
//	1007  a message that is not UTF-8, JSON or base64
//	1008  a message that is none of the above, or a request that was refused; error says why
//	1009  a message of more than 2 MiB
//	1011  a failure of the server
//	1013  no pong for a minute
//	4001  nobody known
//	4004  session_not_found: no such terminal or session, or not any more
//	4008  the terminal was idle for too long, or its lifetime is over
//	4009  the reader was too slow: come back for the history
//	4010  somebody else attached to a terminal that is not shared
package terminal
