//go:build linux

package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// Standard input continues at the command's position: input sent later by a caller arrives, and the request's input arrives once.
func TestStdinOutlivesItsProcess(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	req := in(s, "while read line; do echo got $line; done; echo over")
	req.Interactive = true
	talking := p.start(req)
	input := p.stdin(talking.ID)
	p.say(input, "one\n")
	p.waitFor(talking.ID, "got one\n")
	ended := p.start(req)
	input = p.stdin(ended.ID)
	p.say(input, "only\n")
	p.waitFor(ended.ID, "got only\n")
	gate := filepath.Join(t.TempDir(), "gate")
	text := seq(60_000) // larger than the buffers of a pipe and the agent
	given := in(s, "read a; echo $a; while [ ! -e "+gate+" ]; do sleep 0.01; done; cat")
	given.Stdin = text
	fed := p.start(given)
	p.waitFor(fed.ID, "1\n")
	p.kill()

	next := w.boot()
	input = next.stdin(talking.ID)
	next.say(input, "two\n")
	next.waitFor(talking.ID, "got two\n")
	next.kill()
	last := w.boot()
	for _, id := range []string{talking.ID, ended.ID} {
		input = last.stdin(id)
		if err := input.End(); err != nil {
			t.Error(err)
		}
	}
	if r := last.follow(talking.ID); r.stdout != "got one\ngot two\nover\n" {
		t.Errorf("printed %q", r.stdout)
	}
	if r := last.follow(ended.ID); r.stdout != "got only\nover\n" {
		t.Errorf("printed %q", r.stdout)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := last.follow(fed.ID)
	r.want(t, belljar.PhaseCompleted, 0, "")
	wantText(t, r.stdout, text)
	last.end(s)
}

// An input that a caller has ended stays ended, and a partial input from a lost stream does not pass for a complete one.
func TestStdinThatIsGone(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	gate := filepath.Join(t.TempDir(), "gate")
	req := in(s, "cat; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo over")
	req.Interactive = true
	ended := p.start(req)
	input := p.stdin(ended.ID)
	p.say(input, "all\n")
	p.waitFor(ended.ID, "all\n")
	if err := input.End(); err != nil {
		t.Fatal(err)
	}
	<-input.Closed()
	streams := in(s, "cat; echo over")
	slow := &slowly{text: []byte("begin\n"), gate: make(chan struct{})}
	defer close(slow.gate)
	streams.Input = slow
	fed := p.start(streams)
	p.waitFor(fed.ID, "begin\n")
	p.kill()
	next := w.boot()
	input = next.stdin(ended.ID)
	if _, err := input.Write([]byte("more\n")); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("an input that had ended: %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := next.follow(ended.ID); r.stdout != "all\nover\n" {
		t.Errorf("printed %q", r.stdout)
	}
	run, err := next.Get(next.context(), fed.ID)
	if err != nil || run.Phase != belljar.PhaseFailed || run.ReasonCode != belljar.ReasonNodeLost || !strings.Contains(run.Message, "input") {
		t.Errorf("%+v, %v", run, err)
	}
	next.end(s)
}

// slowly is a reader without end.
type slowly struct {
	text []byte
	gate chan struct{}
}

func (s *slowly) Read(b []byte) (int, error) {
	if len(s.text) == 0 {
		<-s.gate
		return 0, errors.New("closed")
	}
	n := copy(b, s.text)
	s.text = s.text[n:]
	return n, nil
}
