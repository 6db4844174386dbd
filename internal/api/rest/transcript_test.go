package rest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestTranscripts replays the transcripts in testdata: requests in wire format, after the caller's name, each followed by
// the expected response: its status, some headers, and JSON that the body must contain. "*" matches any value, and other
// properties are ignored.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts: ", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			talk, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b := newBench(t)
			b.world.ports = harbour{}
			b.world.artifacts = map[string]string{"results.json": `{"ok": true}`, "out/a b.txt": "hello"}
			for i := 0; i+1 < len(talk.Files); i += 2 {
				as, ok := strings.CutPrefix(talk.Files[i].Name, "asks ")
				if !ok || talk.Files[i+1].Name != "hears" {
					t.Fatalf("%q, %q are not a request and its answer", talk.Files[i].Name, talk.Files[i+1].Name)
				}
				if as == "nobody" {
					as = ""
				}
				b.play(as, talk.Files[i].Data, talk.Files[i+1].Data)
			}
		})
	}
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
	var g, w any
	if err := json.NewDecoder(strings.NewReader(want)).Decode(&w); err != nil {
		b.t.Fatalf("%s: the transcript's answer: %v", line, err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		b.t.Fatalf("%s: %v in %.300q", line, err, got)
	}
	if at := differs(g, w, ""); at != "" {
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

// differs returns where got does not contain want, or "".
func differs(got, want any, at string) string {
	switch w := want.(type) {
	case string:
		if w == "*" {
			return ""
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for name, value := range w {
			if _, there := g[name]; !there && value != nil {
				return fmt.Sprintf("%s.%s is missing", at, name)
			}
			if d := differs(g[name], value, at+"."+name); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is %v, want %d entries", at, got, len(w))
		}
		for i := range w {
			if d := differs(g[i], w[i], fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
		return ""
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}
