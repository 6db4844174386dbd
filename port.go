package belljar

import (
	"context"
	"io"
	"time"
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
	// Preview makes a host name at which browsers reach a port until it expires or the session ends. [CodePolicyDenied] if the
	// server has no previews, or no public ones. The answer alone has the token.
	Preview(ctx context.Context, sessionID string, spec PreviewSpec) (Preview, error)
	// Previews returns those of a session, oldest first.
	Previews(ctx context.Context, sessionID string) ([]Preview, error)
	// Revoke ends a preview at once, and its connections with it.
	Revoke(ctx context.Context, sessionID, label string) error
}

// PreviewSpec asks for a preview.
type PreviewSpec struct {
	Port   int     `json:"port" minimum:"1" maximum:"65535"`
	Public bool    `json:"public,omitempty"`              // for all who have the address; otherwise for those who have the token
	TTLSec float64 `json:"ttl_sec,omitempty" minimum:"1"` // 0 is an hour
}

// Validate checks a request. The error is [CodeInvalidRequest].
func (s PreviewSpec) Validate() error {
	if err := CheckPort(s.Port); err != nil {
		return err
	}
	if s.TTLSec != 0 && (s.TTLSec < 1 || s.TTLSec > maxPreviewSec) {
		return invalid("ttl_sec", "ttl_sec must be 1 to %d, got %s", maxPreviewSec, plain(s.TTLSec))
	}
	return nil
}

// maxPreviewSec is the longest life of a preview, in seconds.
const maxPreviewSec = 7 * 24 * 3600

// Preview is a host name of a session's port. It is lost when the server restarts.
type Preview struct {
	Label     string    `json:"label"` // the first part of the host name
	SessionID string    `json:"session_id"`
	Port      int       `json:"port"`
	Public    bool      `json:"public"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Token     string    `json:"token,omitempty"`     // of a private one, once
	URL       string    `json:"url,omitempty"`       // from a server
	TokenURL  string    `json:"token_url,omitempty"` // URL with the token, once: who opens it in a browser may see the preview
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
