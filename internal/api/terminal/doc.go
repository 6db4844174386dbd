// Package terminal is the door to the terminals in sessions, over a WebSocket (docs/compatibility.md#terminals).
//
//	GET /api/v1/sandbox/sessions/{session_id}/terminals   a new terminal: cols=, rows=, session_name=, shared=, command= (repeated)
//	GET /api/v1/sandbox/terminals                         reattach to one: session_id= (a token), or terminal_id=
//
// Without a WebSocket upgrade, the first path lists terminals; package rest serves that.
//
// # Messages
//
// The client sends text:
//
//	{"type":"input","data":"…"}                         "encoding":"base64" for other bytes; a binary message is input, too
//	{"type":"resize","cols":80,"rows":24}
//	{"type":"ping"}
//
// and the server:
//
//	{"type":"session","session_id":"…","terminal_id":"…","resumed":false,"expires_at":"…","terminal":{…}}
//	{"type":"history","data":"…"}                       earlier output; at most once, before any output
//	{"type":"output","data":"…"}                        history and output have "encoding":"base64" if the bytes are not UTF-8
//	{"type":"pong"}
//	{"type":"error","code":"…","message":"…"}           ends the connection, unless it is about a size
//	{"type":"exit","exit_code":0}
//	{"type":"session_not_found"}
//
// Text never ends within a character: the server holds its first bytes for at most 50 ms, then sends them as
// base64. session is the first message, and is sent again before its session_id expires; use the latest to reattach.
//
// # Reattaching
//
// The session_id that clients see is a signed token for one user, terminal and session, valid for [Options.TokenTTL]. An
// open connection outlives it. If it is expired, forged, of another user or of a terminal that is gone, the response is
// always the same session_not_found. Further parameters are session_name, provider (shell), resume (false omits the
// history), and force_new, which opens a new terminal in the same session.
//
// # Close codes
//
// The server reports errors over the WebSocket, with a message and one of these codes. Only a foreign origin (403), the
// rate limit (429) and an unknown path are HTTP errors.
//
//	1000  the program has ended (exit), or the client closed
//	1001  the server is shutting down; the terminal survives
//	1002  the client violated the WebSocket protocol
//	1007  a message that is not UTF-8, JSON or base64
//	1008  an unknown message, or a refused request; error gives the reason
//	1009  a message of more than 2 MiB
//	1011  an internal error of the server
//	1013  the session cannot be connected to now, or no pong for a minute
//	4001  authentication failed
//	4004  session_not_found: the terminal or session does not exist, or has ended
//	4008  the terminal was idle for too long, or its lifetime is over
//	4009  the client read too slowly: reattach for the history
//	4010  another client attached to a terminal that is not shared
package terminal
