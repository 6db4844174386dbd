//go:build linux

package workspace_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/belljar/belljar/test/transcript"
)

// transcripts replays the transcripts in testdata: every source must give the same answers, to the last field. A part is named
//
//	sh                    its text is run in the workspace
//	http METHOD PATH      > is the body, < the status and then the answer
//	ws NAME PATH          opens a WebSocket; a later part "ws NAME" continues with it. > is sent, < is the next message, ~ is text that a
//	                      terminal prints, ! is the close code
//
// In sent text and scripts, $name is the value that an earlier answer had at "=name".
func transcripts(t *testing.T, s source) {
	transcript.Each(t, func(t *testing.T, parts []txtar.File) {
		w := newWorld(t, s)
		w.vars["root"], w.vars["mode"] = w.open().Root, w.source.Mode()
		w.vars["isolated"] = strconv.FormatBool(s.name != "local")
		conns := map[string]*websocket.Conn{}
		for _, part := range parts {
			w.part(conns, part.Name, string(part.Data))
		}
	})
}

func (w *world) fill(text string) string {
	for name, value := range w.vars {
		text = strings.ReplaceAll(text, "$"+name, value)
	}
	return text
}

func (w *world) part(conns map[string]*websocket.Conn, title, text string) {
	w.Helper()
	kind, rest, _ := strings.Cut(title, " ")
	switch kind {
	case "sh":
		w.sh(w.fill(text))
	case "http":
		method, path, _ := strings.Cut(w.fill(rest), " ")
		var body string
		var want []string
		for line := range strings.Lines(text) {
			if sent, ok := strings.CutPrefix(line, "> "); ok {
				body += w.fill(sent)
			} else if line, ok := strings.CutPrefix(line, "< "); ok {
				want = append(want, strings.TrimSpace(line))
			}
		}
		got := w.ask(w.key, method, path, body)
		if len(want) != 2 || strconv.Itoa(got.status) != want[0] {
			w.Fatalf("%s\nanswers %d %s", title, got.status, got.body)
		}
		w.match(title, []byte(got.body), want[1])
	case "ws":
		name, path, opens := strings.Cut(rest, " ")
		if opens {
			conns[name] = w.socket(w.fill(path))
		}
		conn := conns[name]
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if len(line) < 3 {
				continue
			}
			switch mark, line := line[0], line[2:]; mark {
			case '>':
				w.say(conn, w.fill(line))
			case '~':
				w.shows(conn, line)
			case '<':
				_, raw, err := conn.Read(w.context())
				if err != nil {
					w.Fatalf("%s: %v, want %s", title, err, line)
				}
				w.match(title, raw, line)
			case '!':
				if types, code := w.ends(conn); strconv.Itoa(int(code)) != line || len(types) > 0 {
					w.Fatalf("%s: closes with %d after %v, want %s", title, code, types, line)
				}
			}
		}
	default:
		w.Fatalf("part %q is none", title)
	}
}

// match compares an answer with the transcript's.
func (w *world) match(title string, raw []byte, want string) {
	w.Helper()
	if at := (transcript.Pattern{Exact: true, Keep: w.vars}).Differs(raw, []byte(w.fill(want))); at != "" {
		w.Fatalf("%s: %s\nin   %s\nwant %s", title, at, raw, want)
	}
}
