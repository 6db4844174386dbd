package thread

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/char"
)

// respond sends the response for a run: answer, the run's output, and note after stderr.
func (c *call) respond(run belljar.Run, out belljar.Output, answer map[string]any, note string) {
	long := out.StdoutOmittedBytes > 0 || out.StderrOmittedBytes > 0
	if run.Truncated || !long && out.StdoutTruncated {
		answer["stdout_truncated"] = true
	}
	if run.Truncated || !long && out.StderrTruncated {
		answer["stderr_truncated"] = true
	}
	if !long {
		answer["stdout"], answer["stderr"] = text(out.Stdout, out.StdoutEncoding), addLine(text(out.Stderr, out.StderrEncoding), note)
		api.WriteJSON(c.w, http.StatusOK, answer)
		return
	}
	// The log has the middle of the output, too. It is read once for each stream, so that no more than a frame is in memory.
	head, err := json.Marshal(answer)
	if err != nil {
		c.fail(err)
		return
	}
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(head[:len(head)-1]) // writes fail only if the client is gone
	c.stream(run, belljar.FrameStdout, "")
	c.stream(run, belljar.FrameStderr, note)
	_, _ = io.WriteString(c.w, "}\n")
}

// stream sends one stream of a run's output as a field of the response, with note at its end. It closes the connection if the log cannot be
// read.
func (c *call) stream(run belljar.Run, kind belljar.FrameType, note string) {
	fmt.Fprintf(c.w, `,"%s":"`, kind)
	send := func(text string) {
		quoted, _ := json.Marshal(text) // cannot fail
		_, _ = c.w.Write(quoted[1 : len(quoted)-1])
	}
	var rest []byte // begins a character
	last := ""
	for f, err := range c.service.Runs().Frames(c.r.Context(), run.ID, 1) {
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if f.Type != kind || f.Step != "" {
			continue
		}
		rest = append(rest, f.Output...)
		if n := len(rest) - char.Unfinished(rest); n > 0 {
			last = replaced(rest[:n])
			rest = append([]byte(nil), rest[n:]...)
			send(last)
		}
	}
	if run.Truncated { // the log's cap split the character
		rest = nil
	}
	send(addLine(last+replaced(rest), note)[len(last):])
	_, _ = io.WriteString(c.w, `"`)
}

// addLine appends a message of the server to a command's output.
func addLine(text, message string) string {
	if message == "" {
		return text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + fmt.Sprintf("sandbox: %s\n", message)
}

// text returns output of an answer as UTF-8.
func text(data, encoding string) string {
	if encoding != "base64" {
		return data
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return data // cannot happen: the service encoded it
	}
	return replaced(raw)
}

// replaced returns output with U+FFFD for each sequence of bytes that is no character, as errors="replace" of Python does: for the beginning
// of a character together, and for every other byte.
func replaced(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		for r == utf8.RuneError && n < len(b) && !utf8.FullRune(b[:n+1]) {
			n++
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}
