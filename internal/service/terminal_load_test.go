//go:build linux

package service_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// Input keeps a session alive. A terminal that is only watched does not.
func TestTerminalAndItsSession(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock, o.SessionTTL = clock, 10*time.Minute })
	x := b.open()
	s := b.watch(b.terminal(x.ID, "cat").ID)
	for range 4 {
		clock.pass(9 * time.Minute)
		s.typed("x\n")
		s.await("x\r\nx\r\n")
	}
	clock.pass(11 * time.Minute)
	if e := s.end(); e.Kind != belljar.TerminalClosed || e.Reason != "session" {
		t.Errorf("%+v", e)
	}
}

// A pasted megabyte arrives completely, although the program is slow.
func TestTerminalPaste(t *testing.T) {
	b := newBench(t)
	const size = 1 << 20
	s := b.watch(b.terminal(b.open().ID, "sh", "-c", "stty raw -echo; echo ready; head -c 1048576 | cksum").ID)
	s.await("ready")
	text := bytes.Repeat([]byte("0123456789abcdef\x00\xff\r\n\x03\x04zyxwvutsrq"), size/32)[:size]
	done := make(chan error, 1)
	go func() { done <- s.Write(b.context(), text) }()
	want := b.run(belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: "1.1", BaseImage: "host", Command: []string{"cksum"},
	}, Input: bytes.NewReader(text)})
	s.await(strings.TrimSpace(want.stdout))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.end()
}

// A viewer that is too slow for a flood of output is dropped, and others continue. Memory does not grow with its unread output.
func TestTerminalFlood(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *service.Options) { o.Terminals.ViewerTimeout = 10 * late * time.Second }) // two have a tenth
	x := b.open()
	made, err := b.terminals("").Open(b.context(), x.ID, belljar.TerminalSpec{Command: []string{"bash", "--norc"}, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	fast, slow := b.watch(made.ID), b.watch(made.ID)
	fast.prompt()
	fast.typed("yes\n")
	crowded := func() bool {
		now, err := b.terminals("").Get(b.context(), made.ID)
		return err == nil && now.Attached > 1
	}
	for taken := 0; taken < 4<<20 || crowded(); { // a reader that stops would be too slow itself
		if !fast.next() || fast.last != nil {
			t.Fatalf("who takes all is let go: %+v", fast.last)
		}
		taken += len(fast.seen)
		fast.seen = nil
	}
	if e := slow.end(); e.Kind != belljar.TerminalOverflow || len(slow.seen) != 0 {
		t.Errorf("%+v behind %d bytes", e, len(slow.seen))
	}
	fast.typed("\x03")
	fast.await("^C")
	fast.typed("echo o''ver\n")
	fast.await("over")
	if got := fast.Terminal(); got.Attached != 1 {
		t.Errorf("%+v", got)
	}
	// A dropped client reattaches, and gets the end of the output.
	slow = b.watch(made.ID)
	slow.await("over")
	if len(slow.seen) > 256<<10 {
		t.Errorf("%d bytes", len(slow.seen))
	}
}

// A flood without a viewer does not block its program, and the history contains its end.
func TestTerminalUnwatched(t *testing.T) {
	b := newBench(t)
	made := b.terminal(b.open().ID, "sh", "-c", "seq 1 200000; echo done; cat")
	s := b.watch(made.ID)
	_ = s.Close()
	var list []byte
	b.eventually("its end", func() bool {
		s := b.watch(made.ID)
		defer s.Close()
		s.next()
		list = s.seen
		return bytes.HasSuffix(list, []byte("done\r\n"))
	})
	lines := strings.Split(strings.TrimSuffix(string(list), "\r\ndone\r\n"), "\r\n")
	for i, line := range lines {
		if want := fmt.Sprint(200000 - len(lines) + 1 + i); line != want {
			t.Fatalf("line %d of the history is %q, want %q", i, line, want)
		}
	}
	if len(list) < 200<<10 || len(list) > 256<<10 {
		t.Errorf("history of %d bytes", len(list))
	}
}

// Only the last of several quick changes of size is sent.
func TestTerminalResizeStorm(t *testing.T) {
	b := newBench(t)
	x := b.open()
	s := b.watch(b.terminal(x.ID, "sh", "-c",
		`n=0; trap 'n=$((n+1)); stty size' WINCH; echo ready; while [ ! -e stop ]; do sleep 0.01; done; echo resized $n`).ID)
	s.await("ready")
	begun := time.Now()
	for i := range 1000 {
		if err := s.Resize(1+i, 1+i%1000); err != nil {
			t.Fatal(err)
		}
	}
	most := 2 + int(time.Since(begun)/(20*time.Millisecond)) // one size for each interval while sizes arrive, and the last one
	s.await("1000 1000")
	b.run(in(x, "touch stop")).want(t, belljar.PhaseCompleted, 0, "")
	s.await("resized ")
	var n int
	for !bytes.ContainsRune(s.seen, '\n') {
		s.next()
	}
	if _, err := fmt.Sscan(string(s.seen), &n); err != nil || n > most {
		t.Errorf("resized %d times of at most %d, %v", n, most, err)
	}
	for _, size := range [][2]int{{0, 24}, {80, 0}, {1001, 24}, {80, -1}} {
		if err := s.Resize(size[0], size[1]); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%v: %v", size, err)
		}
	}
}

// Input that is much too fast is refused once it would have to wait too long.
func TestTerminalInputRate(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Terminals.InputMessages = 5 })
	s := b.watch(b.terminal(b.open().ID, "cat").ID)
	ctx, cancel := context.WithCancel(b.context())
	refused := make(chan error, 100)
	for range 100 {
		go func() { refused <- s.Write(ctx, []byte("x")) }()
	}
	for {
		if err := <-refused; belljar.CodeOf(err) == belljar.CodeRateLimited {
			break
		}
	}
	cancel()
}
