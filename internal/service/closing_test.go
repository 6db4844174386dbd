//go:build linux

package service_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// A service that closes reports neither as ended nor as missing what continues in the next process: clients repeat such requests.
func TestRequestsOfAServiceThatCloses(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	d := p.cabinet()
	d.write("large", strings.Repeat("x", 8<<20))
	_, reading, err := d.Read(p.context(), d.ID, "large", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	bodies, failed := map[string]*io.PipeWriter{}, map[string]chan error{}
	for name, send := range map[string]func(io.Reader) error{
		"write": func(r io.Reader) error {
			_, err := d.Write(p.context(), d.ID, belljar.FileWrite{Path: "x", Content: r})
			return err
		},
		"upload": func(r io.Reader) error {
			_, err := p.mine().Upload(p.context(), d.ID, packed(belljar.UploadFile, r))
			return err
		},
	} {
		r, body := io.Pipe()
		bodies[name], failed[name] = body, make(chan error, 1)
		go func() { failed[name] <- send(r) }()
		if _, err := body.Write([]byte("half of it")); err != nil {
			t.Fatal(err)
		}
	}
	term := p.terminal(d.ID, "cat")
	viewer := p.watch(term.ID)
	req := in(d.Session, "while read line; do echo got $line; done")
	req.Interactive = true
	talking := p.start(req)
	input := p.stdin(talking.ID)
	p.say(input, "one\n")
	p.waitFor(talking.ID, "got one\n")
	if err := p.service.Close(); err != nil {
		t.Fatal(err)
	}

	stopping := func(what string, err error) {
		t.Helper()
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["retry_after_sec"] == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, body := range bodies {
		stopping(name, <-failed[name])
		body.CloseWithError(io.ErrClosedPipe)
	}
	_, err = io.Copy(io.Discard, reading)
	stopping("read", err)
	for viewer.next() {
	}
	terminals := p.terminals("")
	_, err = terminals.Get(p.context(), term.ID)
	stopping("terminal", err)
	_, err = terminals.Attach(p.context(), term.ID)
	stopping("attach", err)
	_, err = terminals.List(p.context(), d.ID)
	stopping("terminals", err)
	wantReason(t, input, "connection_lost")
	_, err = input.Write([]byte("two\n"))
	stopping("input", err)

	next := w.boot()
	if _, err := next.terminals("").Get(next.context(), term.ID); err != nil {
		t.Errorf("the terminal in the next process: %v", err)
	}
	input = next.stdin(talking.ID)
	next.say(input, "two\n")
	next.waitFor(talking.ID, "got two\n")
	next.end(d.Session)
}
