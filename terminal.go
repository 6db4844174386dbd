package belljar

import (
	"cmp"
	"context"
	"strings"
	"time"
)

// TerminalSpec is a request for a terminal in a session (docs/compatibility.md#terminals).
type TerminalSpec struct {
	Cols    int      `json:"cols,omitempty"` // 1 to 1000; 0 is 80
	Rows    int      `json:"rows,omitempty"` // 1 to 1000; 0 is 24
	Command []string `json:"command,omitempty"`
	Name    string   `json:"name,omitempty"`   // display name: session_name of its API
	Shared  bool     `json:"shared,omitempty"` // several attachments may write; else a new one replaces the previous one
}

// Bounds of a TerminalSpec.
const (
	maxTerminalSide = 1000 // columns, rows
	maxTerminalArgs = 256
	maxTerminalText = 128 << 10 // bytes of the command
)

// Validate checks a request. The error is [CodeInvalidRequest].
func (s TerminalSpec) Validate() error {
	if err := CheckTerminalSize(cmp.Or(s.Cols, 80), cmp.Or(s.Rows, 24)); err != nil {
		return err
	}
	if err := checkName(s.Name); err != nil {
		return invalid("name", "name: %v", err)
	}
	bytes := 0
	for i, arg := range s.Command {
		bytes += len(arg)
		if strings.ContainsRune(arg, 0) || i == 0 && arg == "" {
			return invalid("command", "command holds a NUL, or begins with nothing")
		}
	}
	if len(s.Command) > maxTerminalArgs || bytes > maxTerminalText {
		return invalid("command", "command is longer than %d arguments or %d bytes", maxTerminalArgs, maxTerminalText)
	}
	return nil
}

// CheckTerminalSize refuses a size that no terminal can have: each side is 1 to 1000. The error is [CodeInvalidRequest].
func CheckTerminalSize(cols, rows int) error {
	for _, side := range []struct {
		name string
		n    int
	}{{"cols", cols}, {"rows", rows}} {
		if side.n < 1 || side.n > maxTerminalSide {
			return invalid(side.name, "%s must be 1 to %d, got %d", side.name, maxTerminalSide, side.n)
		}
	}
	return nil
}

// Terminal is a PTY in a session that clients can detach from and reattach to.
type Terminal struct {
	ID         string    `json:"terminal_id"`
	SessionID  string    `json:"session_id"`
	UserID     string    `json:"user_id,omitempty"`
	Name       string    `json:"name,omitempty"`
	Command    []string  `json:"command"`
	Shared     bool      `json:"shared,omitempty"`
	Cols       int       `json:"cols"`
	Rows       int       `json:"rows"`
	CreatedAt  time.Time `json:"created_at"`
	LastInput  time.Time `json:"last_input_at,omitzero"`
	Attached   int       `json:"attached"`             // number of attached clients
	DetachedAt time.Time `json:"detached_at,omitzero"` // when the last client detached; zero while one is attached
	ExitCode   *int      `json:"exit_code,omitempty"`  // once its program has ended
}

// Terminals manages the terminals in a caller's sessions.
type Terminals interface {
	// Open starts a terminal, detached.
	Open(ctx context.Context, sessionID string, spec TerminalSpec) (Terminal, error)
	// Get returns a terminal; [CodeNotFound] if there is none or its reattach window has passed.
	Get(ctx context.Context, id string) (Terminal, error)
	// List returns a session's terminals, oldest first.
	List(ctx context.Context, sessionID string) ([]Terminal, error)
	// Attach follows a terminal: first its history, then new output.
	Attach(ctx context.Context, id string) (Attachment, error)
	// Close ends a terminal's program and the terminal.
	Close(ctx context.Context, id string) error
}

// Attachment is a client's attachment to a terminal. Methods are safe for concurrent use, except that only one Next may
// run at a time.
type Attachment interface {
	// Terminal returns the terminal's current state.
	Terminal() Terminal
	// Next waits for the next event. After [TerminalExit], [TerminalReplaced] and [TerminalOverflow] there are no more
	// events, and Next returns io.EOF.
	Next(ctx context.Context) (TerminalEvent, error)
	// Write sends input. It blocks while the program does not read. The error is [CodeRateLimited] if input arrives too
	// fast.
	Write(ctx context.Context, b []byte) error
	// Resize changes the size for all clients.
	Resize(cols, rows int) error
	// Close detaches from the terminal. The program continues for its reattach window.
	Close() error
}

// TerminalEventKind is the kind of a TerminalEvent.
type TerminalEventKind string

// The kinds of events.
const (
	TerminalHistory  TerminalEventKind = "history" // output from before the attachment: at most one, first
	TerminalOutput   TerminalEventKind = "output"
	TerminalExit     TerminalEventKind = "exit"     // the program has ended
	TerminalReplaced TerminalEventKind = "replaced" // a newer attachment took the terminal over
	TerminalOverflow TerminalEventKind = "overflow" // the reader was too slow: attach again to get the history
	TerminalClosed   TerminalEventKind = "closed"   // the session, the terminal or its time ended; Reason has the cause
)

// TerminalEvent is one event of an attachment.
type TerminalEvent struct {
	Kind     TerminalEventKind
	Data     []byte // history, output
	ExitCode int    // exit; 128+n if a signal ended it
	Reason   string // closed
}
