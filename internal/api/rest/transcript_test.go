package rest_test

import (
	"bufio"
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/belljar/belljar/test/transcript"
)

// TestTranscripts replays the transcripts in testdata: requests in wire format, after the caller's name. Each is followed
// by the expected response: its status, some headers, and JSON that the body must contain, as [transcript.Pattern]
// defines it.
func TestTranscripts(t *testing.T) {
	transcript.Each(t, func(t *testing.T, parts []txtar.File) {
		b := newBench(t)
		b.world.ports = harbour{}
		b.world.artifacts = map[string]string{"results.json": `{"ok": true}`, "out/a b.txt": "hello"}
		if len(parts)%2 != 0 {
			t.Fatal("the last request has no answer")
		}
		for i := 0; i < len(parts); i += 2 {
			as, ok := strings.CutPrefix(parts[i].Name, "asks ")
			if !ok || parts[i+1].Name != "hears" {
				t.Fatalf("%q, %q are not a request and its answer", parts[i].Name, parts[i+1].Name)
			}
			if as == "anonymous" {
				as = ""
			}
			b.play(as, parts[i].Data, parts[i+1].Data)
		}
	})
}

func (b *bench) play(as string, request, answer []byte) {
	b.t.Helper()
	line, header, body := message(b.t, request)
	method, path, _ := strings.Cut(line, " ")
	path = strings.ReplaceAll(path, "/~/", prefix+"/")
	resp := b.send(method, path, as, header, body)
	got := read(b.t, resp)

	status, wanted, want := message(b.t, answer)
	if strconv.Itoa(resp.StatusCode) != status {
		b.t.Errorf("%s answers %d, want %s: %.600s", line, resp.StatusCode, status, got)
		return
	}
	for name, values := range wanted {
		if resp.Header.Get(name) != values[0] {
			b.t.Errorf("%s: header %s is %q, want %q", line, name, resp.Header.Get(name), values[0])
		}
	}
	if !strings.HasPrefix(want, "{") {
		return // prose
	}
	if at := (transcript.Pattern{}).Differs(got, []byte(want)); at != "" {
		b.t.Errorf("%s: %s\nin %.1000s", line, at, got)
	}
}

// message splits a request or a response into first line, headers and body.
func message(t *testing.T, raw []byte) (first string, header http.Header, body string) {
	t.Helper()
	header = http.Header{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Scan()
	first = strings.TrimSpace(lines.Text())
	for lines.Scan() && lines.Text() != "" {
		name, value, ok := strings.Cut(lines.Text(), ": ")
		if !ok {
			t.Fatalf("%q is no header", lines.Text())
		}
		header.Add(name, value)
	}
	if _, after, ok := bytes.Cut(raw, []byte("\n\n")); ok {
		body = strings.TrimSuffix(string(after), "\n")
	}
	return first, header, body
}
