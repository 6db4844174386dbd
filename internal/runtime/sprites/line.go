package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// The streams of a session. The first byte of each binary message names its stream.
const (
	frameStdin    = 0
	frameStdout   = 1
	frameStderr   = 2
	frameExit     = 3 // the next byte is the status
	frameStdinEOF = 4
)

const (
	maxMessage = 4 << 20 // of a message; the agent's frames are far shorter
	maxTail    = 2 << 10 // how many bytes of the agent's stderr are kept, from its end
	// pingEvery and pongTime detect a dead connection.
	pingEvery = 15 * time.Second
	pongTime  = 45 * time.Second
)

// errLost means that a WebSocket ended before its session did.
var errLost = errors.New("the connection to the session was lost")

// line is a session's WebSocket: stdin and stdout as a byte stream. One goroutine reads, others may write.
type line struct {
	conn   *websocket.Conn
	ctx    context.Context // of the connection
	cancel context.CancelFunc
	part   io.Reader // the rest of the current stdout message

	mu      sync.Mutex
	session string // "" until the sprite has sent it
	exit    *int   // the session's status, once it has ended
	tail    []byte
}

func newLine(conn *websocket.Conn, session string) *line {
	l := &line{conn: conn, session: session}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	conn.SetReadLimit(maxMessage)
	go l.ping()
	return l
}

// ping ends the line when the other side no longer answers.
func (l *line) ping() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(l.ctx, pongTime)
		err := l.conn.Ping(ctx)
		cancel()
		if err != nil {
			l.Close()
			return
		}
	}
}

// Read returns the session's stdout. [io.EOF] is the session's end, errLost that of the connection.
func (l *line) Read(b []byte) (int, error) {
	for {
		if l.part != nil {
			n, err := l.part.Read(b)
			if err != nil {
				l.part = nil
			}
			if n > 0 || err != nil && err != io.EOF {
				return n, l.fault(err)
			}
			continue
		}
		kind, message, err := l.conn.Reader(l.ctx)
		if err != nil {
			return 0, l.fault(err)
		}
		if kind == websocket.MessageText {
			err = l.word(message)
		} else {
			err = l.frame(message)
		}
		if err != nil {
			return 0, err
		}
	}
}

// fault maps an error of the connection. It returns nil for nil and for the end of a message.
func (l *line) fault(err error) error {
	if err == nil || err == io.EOF {
		return nil
	}
	return errLost
}

// frame handles a binary message. It leaves those of stdout to Read.
func (l *line) frame(message io.Reader) error {
	var kind [1]byte
	if _, err := io.ReadFull(message, kind[:]); err != nil {
		return l.fault(err) // an empty message has no meaning
	}
	if kind[0] == frameStdout {
		l.part = message
		return nil
	}
	body, err := io.ReadAll(message)
	switch {
	case err != nil:
		return errLost
	case kind[0] == frameStderr:
		l.add(body)
	case kind[0] == frameExit && len(body) > 0:
		l.ended(int(body[0]))
		return io.EOF
	}
	return nil
}

// word handles a text message. It ignores unknown kinds.
func (l *line) word(message io.Reader) error {
	var w struct {
		Type      string          `json:"type"`
		SessionID json.RawMessage `json:"session_id"`
		ExitCode  *int            `json:"exit_code"`
	}
	if err := json.NewDecoder(message).Decode(&w); err != nil {
		return errLost
	}
	switch {
	case w.Type == "session_info":
		if id := plain(w.SessionID); validSession(id) {
			l.name(id)
		}
	case w.Type == "exit" && w.ExitCode != nil:
		l.ended(*w.ExitCode)
		return io.EOF
	}
	return nil
}

// plain returns a JSON string or number without quotes.
func plain(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }

// validSession refuses ids that would change the path of a request.
func validSession(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

func (l *line) name(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == "" {
		l.session = id
	}
}

// id returns the session's name; "" while it is unknown.
func (l *line) id() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

func (l *line) ended(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exit == nil {
		l.exit = &status
	}
}

// status returns how the session ended; nil if the sprite did not report it.
func (l *line) status() *int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exit
}

func (l *line) add(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, b...)
	l.tail = l.tail[max(0, len(l.tail)-maxTail):]
}

// stderr returns the end of the agent's stderr, for a log line.
func (l *line) stderr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%.200q", strings.TrimSpace(string(l.tail)))
}

// Write sends b to the session's stdin.
func (l *line) Write(b []byte) (int, error) {
	if err := l.send(frameStdin, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// end closes the session's stdin. The agent then ends its programs and itself.
func (l *line) end() error { return l.send(frameStdinEOF, nil) }

func (l *line) send(kind byte, b []byte) error {
	w, err := l.conn.Writer(l.ctx, websocket.MessageBinary)
	if err != nil {
		return errLost
	}
	if _, err := w.Write([]byte{kind}); err != nil {
		return errLost
	}
	if _, err := w.Write(b); err != nil {
		return errLost
	}
	if w.Close() != nil {
		return errLost
	}
	return nil
}

// Close ends the connection, but not the session. It does not wait for the other side, which takes seconds to
// close.
func (l *line) Close() error {
	l.cancel()
	return l.conn.CloseNow()
}
