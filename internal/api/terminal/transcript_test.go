package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/test/transcript"
)

// TestTranscripts replays the transcripts in testdata. Each section is one step:
//
//	connect PATH as USER    $TOKEN is the latest session_id
//	server                  a message; "*" matches any value, and other properties are ignored
//	client, binary          a message; binary is quoted as in Go
//	typed                   the terminal's input, quoted
//	prints, exits, says     events of the terminal: quoted output, an exit status, a kind and reason
//	size                    the terminal's size
//	closes                  the close code
func TestTranscripts(t *testing.T) {
	transcript.Each(t, func(t *testing.T, sections []txtar.File) {
		// On a line with its fake clock: the server holds half a character only for a moment.
		onLine(t, func(*Options) {}, func(_ *testing.T, b *bench, _ *linetest.Line) {
			p := &play{bench: b}
			for i, section := range sections {
				p.at = fmt.Sprintf("section %d, %s", i+1, section.Name)
				p.act(section.Name, strings.TrimSuffix(string(section.Data), "\n"))
			}
		})
	})
}

type play struct {
	*bench
	at       string
	conn     *websocket.Conn
	token    string
	terminal string
}

func (p *play) fail(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", p.at, err)
	}
}

func (p *play) act(name, text string) {
	verb, rest, _ := strings.Cut(name, " ")
	quoted := func() string {
		s, err := strconv.Unquote(text)
		p.fail(err)
		return s
	}
	switch verb {
	case "connect":
		path, user, _ := strings.Cut(rest, " as ")
		p.conn = p.open(strings.ReplaceAll(path, "$TOKEN", p.token), user)
	case "server":
		p.hear(text)
	case "client":
		p.fail(p.conn.Write(p.context(), websocket.MessageText, []byte(text)))
	case "binary":
		p.fail(p.conn.Write(p.context(), websocket.MessageBinary, []byte(quoted())))
	case "typed":
		term, want := p.pty(p.terminal), quoted()
		term.await(p.t, p.at, func() bool { return term.typed == want })
	case "size":
		term := p.pty(p.terminal)
		term.await(p.t, p.at, func() bool { return fmt.Sprintf("%d %d", term.state.Cols, term.state.Rows) == text })
	case "prints":
		p.pty(p.terminal).say(belljar.TerminalEvent{Kind: belljar.TerminalOutput, Data: []byte(quoted())})
	case "exits":
		code, err := strconv.Atoi(text)
		p.fail(err)
		p.pty(p.terminal).say(belljar.TerminalEvent{Kind: belljar.TerminalExit, ExitCode: code})
	case "says":
		kind, reason, _ := strings.Cut(text, " ")
		p.pty(p.terminal).say(belljar.TerminalEvent{Kind: belljar.TerminalEventKind(kind), Reason: reason})
	case "closes":
		_, raw, err := p.conn.Read(p.context())
		var closed websocket.CloseError
		if !errors.As(err, &closed) || strconv.Itoa(int(closed.Code)) != text {
			p.t.Fatalf("%s: %v, %s", p.at, err, raw)
		}
	case "leaves":
		p.fail(p.conn.Close(websocket.StatusNormalClosure, ""))
		term := p.pty(p.terminal)
		term.await(p.t, p.at, func() bool { return term.state.Attached == 0 })
	default:
		p.t.Fatalf("%s: what is that?", p.at)
	}
}

func (p *play) hear(want string) {
	p.t.Helper()
	kind, raw, err := p.conn.Read(p.context())
	p.fail(err)
	if kind != websocket.MessageText {
		p.t.Fatalf("%s: a binary message", p.at)
	}
	if why := (transcript.Pattern{}).Differs(raw, []byte(want)); why != "" {
		p.t.Fatalf("%s: %s in %s", p.at, why, raw)
	}
	var got, wanted map[string]any
	p.fail(json.Unmarshal(raw, &got))
	p.fail(json.Unmarshal([]byte(want), &wanted))
	if got["type"] == "session" {
		p.token, _ = got["session_id"].(string)
		p.terminal, _ = got["terminal_id"].(string)
	}
	if _, present := got["encoding"]; present && wanted["encoding"] == nil {
		p.t.Fatalf("%s: encoded: %s", p.at, raw)
	}
}
