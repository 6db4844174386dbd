// Package tunnel is the door to the ports of sessions: a TCP connection with a program over a WebSocket.
//
//	GET /api/v1/sandbox/sessions/{session_id}/ports/{port}/tunnel
//
// # Messages
//
// A binary message is bytes of the connection, in both directions. The boundaries of messages have no meaning. Text messages are:
//
//	{"type":"open","session_id":"…","port":3000}      the server's first message: the program has accepted the connection
//	{"type":"eof"}                                    from either side: no more bytes follow, the other direction stays open
//	{"type":"error","code":"…","message":"…"}         from the server, before it closes
//
// A side that does not read stops the other one, as in TCP: the server holds at most one message in each direction. A client that
// leaves without sending eof resets the program's connection.
//
// # Close codes
//
// The server reports errors over the WebSocket, with a message and one of these codes. Only a foreign origin (403), the rate limit
// (429) and an unknown path are HTTP errors.
//
//	1000  both directions have ended
//	1001  the server is shutting down
//	1002  the client violated the WebSocket protocol
//	1008  an unknown message, or a refused request; error gives the reason
//	1011  an internal error of the server
//	1013  the session cannot be connected to now
//	4001  authentication failed
//	4004  the session does not exist or has ended, or no program listens on the port
//	4012  the program reset the connection
package tunnel
