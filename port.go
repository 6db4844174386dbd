package belljar

import (
	"context"
	"io"
	"time"
)

// Port is a TCP port that a program in a session listens on.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"`           // listening address: 127.0.0.1, 0.0.0.0, ::1 or ::
	Program string `json:"program,omitempty"` // the program's own name; "" if it is not visible
	PID     int    `json:"pid,omitempty"`     // in the sandbox
}

// Ports connects callers to programs that listen in their sessions.
type Ports interface {
	// List returns the ports that have a listener and that Dial reaches, in order, at most 256.
	List(ctx context.Context, sessionID string) ([]Port, error)
	// Dial connects to a port of the sandbox's loopback. [CodeNotFound] if no program listens there, [CodeQuotaExceeded] if the
	// session has too many connections. Traffic counts as activity of the session. The end of the session resets the connection.
	Dial(ctx context.Context, sessionID string, port int) (PortConn, error)
	// Preview makes a host name at which browsers reach a port until it expires or the session ends. [CodePolicyDenied] if
	// previews, or public ones, are disabled. Only this response has the token.
	Preview(ctx context.Context, sessionID string, spec PreviewSpec) (Preview, error)
	// Previews returns the previews of a session, oldest first.
	Previews(ctx context.Context, sessionID string) ([]Preview, error)
	// Revoke immediately ends a preview and its connections.
	Revoke(ctx context.Context, sessionID, label string) error
}

// PreviewSpec is a request for a preview.
type PreviewSpec struct {
	Port   int     `json:"port" minimum:"1" maximum:"65535"`
	Public bool    `json:"public,omitempty"`              // reachable without the token
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

// Preview is a host name of a session's port. It does not survive a restart of the server.
type Preview struct {
	Label     string    `json:"label"` // the first part of the host name
	SessionID string    `json:"session_id"`
	Port      int       `json:"port"`
	Public    bool      `json:"public"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Token     string    `json:"token,omitempty"`     // of a private preview, only when it is created
	URL       string    `json:"url,omitempty"`       // set by a server
	TokenURL  string    `json:"token_url,omitempty"` // URL with the token, for a browser; only when it is created
}

// PortConn is a connection to a program in a session. It behaves like a TCP connection. Reads and writes may run concurrently.
type PortConn interface {
	io.ReadWriteCloser
	// CloseWrite closes the direction to the program, which then reads end of file.
	CloseWrite() error
	// Abort resets the connection. Close, in contrast, delivers the written bytes first.
	Abort() error
}

// CheckPort refuses an invalid TCP port. The error is [CodeInvalidRequest].
func CheckPort(port int) error {
	if port < 1 || port > 65535 {
		return invalid("port", "port must be 1 to 65535, got %d", port)
	}
	return nil
}
