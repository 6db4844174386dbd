package stream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

func TestLogs(t *testing.T) {
	b := newBench(t)
	finished(b, "r")
	b.add("quiet")
	live := b.add("live")
	live.print("a\n")
	live.say(belljar.Frame{Type: belljar.FrameStderr, Output: []byte("b\n")})
	b.add("swept", func(r *run) { r.first = 5 }).end()
	events := func(header ...string) http.Header {
		h := http.Header{"X-User": {"ann"}, "Accept": {"text/event-stream"}}
		if len(header) == 2 {
			h.Set(header[0], header[1])
		}
		return h
	}
	ndjson := strings.Join([]string{hello, world, ended, ""}, "\n")
	event1, event2, event3 := "id: 1\nevent: stdout\ndata: "+hello+"\n\n", "id: 2\nevent: stderr\ndata: "+world+"\n\n", "id: 3\nevent: event\ndata: "+ended+"\n\n"
	const retry = "retry: 1000\n\n"
	for _, test := range []struct {
		path   string
		header http.Header
		status int
		mime   string
		want   string
	}{
		{b.path("r", "logs"), as("ann"), 200, "text/plain; charset=utf-8", "hello\xff\xfe"},
		{b.path("r", "logs?follow=true"), as("ann"), 200, "text/plain; charset=utf-8", "hello\xff\xfe"},
		{b.path("r", "logs?stream=stdout"), as("ann"), 200, "text/plain; charset=utf-8", "hello"},
		{b.path("r", "logs?stream=stderr&format=text"), as("ann"), 200, "text/plain; charset=utf-8", "\xff\xfe"},
		{b.path("r", "logs?since_seq=1"), as("ann"), 200, "text/plain; charset=utf-8", "\xff\xfe"},
		{b.path("r", "logs?format=json"), as("ann"), 200, "application/x-ndjson", ndjson},
		{b.path("r", "logs?format=json&from_seq=3"), as("ann"), 200, "application/x-ndjson", ended + "\n"},
		{b.path("live", "logs"), as("ann"), 200, "text/plain; charset=utf-8", "a\nb\n"},
		{b.path("live", "logs?from_seq=2"), as("ann"), 200, "text/plain; charset=utf-8", "b\n"},
		{b.path("live", "logs?from_seq=3"), as("ann"), 200, "text/plain; charset=utf-8", ""},
		{b.path("live", "logs?from_seq=tail"), as("ann"), 200, "text/plain; charset=utf-8", ""},
		{b.path("quiet", "logs"), as("ann"), 200, "text/plain; charset=utf-8", ""},
		{b.path("swept", "logs"), as("ann"), 200, "text/plain; charset=utf-8", ""},
		{b.path("r", "logs"), events(), 200, "text/event-stream", retry + event1 + event2 + event3},
		{b.path("r", "logs?from_seq=1"), events("Last-Event-ID", "2"), 200, "text/event-stream", retry + event3},
		{b.path("r", "logs"), events("Last-Event-ID", "3"), 204, "", ""},
		{b.path("live", "logs?follow=false&since_seq=1"), events(), 200, "text/event-stream",
			retry + "id: 2\nevent: stderr\ndata: {\"type\":\"stderr\",\"encoding\":\"utf8\",\"data\":\"b\\n\",\"seq\":2}\n\n"},
		{b.path("swept", "logs"), events(), 200, "text/event-stream",
			retry + "event: event\ndata: {\"type\":\"event\",\"event\":\"resume\",\"data\":{\"delivered_from_seq\":5,\"lost_count\":4,\"requested_from_seq\":1},\"seq\":5}\n\n" +
				"id: 5\nevent: event\ndata: {\"type\":\"event\",\"event\":\"end\",\"data\":{\"exit_code\":0},\"seq\":5}\n\n"},
		{b.path("r", "logs?format=xml"), as("ann"), 400, "application/json", ""},
		{b.path("r", "logs?stream=stdin"), as("ann"), 400, "application/json", ""},
		{b.path("r", "logs?stream=stdout&format=json"), as("ann"), 400, "application/json", ""},
		{b.path("r", "logs?follow=maybe"), as("ann"), 400, "application/json", ""},
		{b.path("r", "logs?seq=1"), as("ann"), 400, "application/json", ""},
		{b.path("r", "logs?format=text"), events(), 400, "application/json", ""},
		{b.path("r", "logs"), events("Last-Event-ID", "x"), 400, "application/json", ""},
		{b.path("r", "logs"), as("bob"), 404, "application/json", ""},
		{b.path("r", "logs"), nil, 401, "application/json", ""},
	} {
		answer, text := b.get(test.path, test.header)
		if answer.StatusCode != test.status || answer.Header.Get("Content-Type") != test.mime && test.mime != "" || test.status < 300 && text != test.want {
			t.Errorf("%s %v: %d %s %q\nwant %d %s %q", test.path, test.header, answer.StatusCode, answer.Header.Get("Content-Type"), text, test.status, test.mime, test.want)
		}
		if answer.Header.Get("X-Content-Type-Options") != "nosniff" || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", test.path, answer.Header)
		}
	}
	if answer, text := b.do("HEAD", b.path("r", "logs"), as("ann"), ""); answer.StatusCode != 200 || text != "" {
		t.Errorf("HEAD: %d %q", answer.StatusCode, text)
	}
}

// follow opens a log and returns a scanner of its lines, and a function that ends the request.
func follow(b *bench, path string, header http.Header) (*bufio.Scanner, context.CancelFunc) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.context())
	req, err := http.NewRequestWithContext(ctx, "GET", b.url()+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header = header
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { cancel(); answer.Body.Close() })
	return bufio.NewScanner(answer.Body), cancel
}

// A followed log arrives as it is appended, to its end; the stream of a client that disconnects
// ends immediately.
func TestLogsFollow(t *testing.T) {
	b := newBench(t)
	r := b.add("r")
	text, _ := follow(b, b.path("r", "logs?follow=true"), as("ann"))
	events, leave := follow(b, b.path("r", "logs"), http.Header{"X-User": {"ann"}, "Accept": {"text/event-stream"}})
	if !events.Scan() || events.Text() != "retry: 1000" {
		t.Fatalf("the stream does not begin at once: %q", events.Text())
	}
	events.Scan()
	for _, line := range []string{"one", "two"} {
		r.print(line + "\n")
		if !text.Scan() || text.Text() != line {
			t.Fatalf("line %q, want %q", text.Text(), line)
		}
		for events.Scan() && events.Text() != "" {
			if data, ok := strings.CutPrefix(events.Text(), "data: "); ok && !strings.Contains(data, line) {
				t.Errorf("event %s", data)
			}
		}
	}
	leave()
	b.diary.await(t, event.StreamClosed, 1)
	r.end()
	if text.Scan() || text.Err() != nil {
		t.Errorf("after the end: %q %v", text.Text(), text.Err())
	}
	if got := b.diary.reasons(event.StreamClosed); got[0] != "client" {
		t.Errorf("closed by %v", got)
	}
}

// An idle stream of events sends comments as heartbeats.
func TestKeepAlive(t *testing.T) {
	b := newBench(t, func(o *Options) { o.PingEvery = 10 * time.Millisecond })
	b.add("r")
	events, _ := follow(b, b.path("r", "logs"), http.Header{"X-User": {"ann"}, "Accept": {"text/event-stream"}})
	for range 3 {
		for events.Scan() && !strings.HasPrefix(events.Text(), ":") {
			if strings.HasPrefix(events.Text(), "data") {
				t.Errorf("event %q", events.Text())
			}
		}
	}
	if events.Err() != nil {
		t.Error(events.Err())
	}
}

// If the log cannot be read to its end, the server cuts the connection.
func TestLogsCut(t *testing.T) {
	for name, breaks := range map[string]func(b *bench, r *run){
		"log fails": func(_ *bench, r *run) { r.change(func() { r.fail = errors.New("disk on fire") }) },
		"shutdown":  func(b *bench, _ *run) { go b.door.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := b.add("r")
			r.print("one\n")
			lines, _ := follow(b, b.path("r", "logs?follow=true"), as("ann"))
			if !lines.Scan() {
				t.Fatal(lines.Err())
			}
			breaks(b, r)
			if lines.Scan() || !errors.Is(lines.Err(), io.ErrUnexpectedEOF) {
				t.Errorf("%q, %v", lines.Text(), lines.Err())
			}
		})
	}
	b := newBench(t)
	r := b.add("r")
	r.fail, r.state.Phase = errors.New("disk on fire"), belljar.PhaseCompleted
	if answer, text := b.get(b.path("r", "logs?follow=true"), as("ann")); answer.StatusCode != 500 || strings.Contains(text, "fire") {
		t.Errorf("a log that fails at once: %d %s", answer.StatusCode, text)
	}
}

// A reader that reads nothing is dropped.
func TestLogsSlow(t *testing.T) {
	b := newBench(t, func(o *Options) { o.WriteTimeout = 500 * time.Millisecond })
	r := b.add("r")
	conn := b.tcp()
	if _, err := io.WriteString(conn, "GET "+b.path("r", "logs?follow=true")+" HTTP/1.1\r\nHost: x\r\nX-User: ann\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	b.diary.await(t, event.StreamOpened, 1)
	flood(r, 400)
	b.diary.await(t, event.StreamDropped, 1)
	b.diary.await(t, event.StreamClosed, 1)
}
