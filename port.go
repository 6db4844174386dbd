package belljar

import (
	"context"
	"io"
)

// Port is a TCP port that a program in a session listens on.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"`           // that it listens on: 127.0.0.1, 0.0.0.0, ::1 or ::
	Program string `json:"program,omitempty"` // the name that it gives itself; "" if it cannot be seen
	PID     int    `json:"pid,omitempty"`     // in the sandbox
}

// Ports is how a caller reaches programs that listen in their sessions.
type Ports interface {
	// List returns the ports that programs listen on and that Dial reaches, in order, at most 256.
	List(ctx context.Context, sessionID string) ([]Port, error)
	// Dial connects to a port of the sandbox's loopback. [CodeNotFound] if no program listens there, [CodeQuotaExceeded] if the
	// session has too many connections. The bytes count as a use of the session, and its end resets the connection.
	Dial(ctx context.Context, sessionID string, port int) (PortConn, error)
}

// PortConn is a connection with a program in a session. It works like a TCP connection. Reads and writes may run at the same
// time.
type PortConn interface {
	io.ReadWriteCloser
	// CloseWrite ends the direction to the program, which reads the end of file.
	CloseWrite() error
	// Abort resets the connection at the program. Close, in contrast, ends it after the bytes written so far.
	Abort() error
}

// CheckPort refuses a number that is no TCP port. The error is [CodeInvalidRequest].
func CheckPort(port int) error {
	if port < 1 || port > 65535 {
		return invalid("port", "port must be 1 to 65535, got %d", port)
	}
	return nil
}
