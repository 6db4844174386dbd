package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// line is a byte stream whose agent end stays while hosts come and go: the next host receives what the previous one left unread.
type line struct{ toAgent, toHost *halfLine }

func newLine() *line { return &line{toAgent: newHalfLine(), toHost: newHalfLine()} }

func (l *line) agentEnd() io.ReadWriteCloser {
	return &lineEnd{r: l.toAgent, w: l.toHost, agent: true, reads: -1, writes: -1}
}

// attach returns a host's end that fails after a number of bytes read or written; -1 is never.
func (l *line) attach(reads, writes int) io.ReadWriteCloser {
	return &lineEnd{r: l.toHost, w: l.toAgent, reads: reads, writes: writes}
}

// halfLine has the capacity of a pipe.
type halfLine struct {
	mu   sync.Mutex
	cond sync.Cond
	buf  bytes.Buffer
	shut bool
}

func newHalfLine() *halfLine {
	h := &halfLine{}
	h.cond.L = &h.mu
	return h
}

type lineEnd struct {
	r, w          *halfLine
	agent         bool
	mu            sync.Mutex
	closed        bool
	reads, writes int
}

func (e *lineEnd) gone(left *int, n int) (allowed int, vanish bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, true
	}
	if *left < 0 || n < *left {
		if *left >= 0 {
			*left -= n
		}
		return n, false
	}
	n, *left = *left, 0
	e.closed = true
	return n, true
}

func (e *lineEnd) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

func (e *lineEnd) Read(p []byte) (int, error) {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	for e.r.buf.Len() == 0 && !e.r.shut && !e.isClosed() {
		e.r.cond.Wait()
	}
	n, vanish := e.gone(&e.reads, min(len(p), e.r.buf.Len(), 1+rand.IntN(40<<10)))
	n, _ = e.r.buf.Read(p[:n])
	e.r.cond.Broadcast()
	if n > 0 {
		return n, nil
	}
	if vanish || e.r.shut {
		return 0, io.EOF
	}
	return 0, nil
}

func (e *lineEnd) Write(p []byte) (int, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	for done := 0; ; {
		for e.w.buf.Len() >= 64<<10 && !e.w.shut && !e.isClosed() {
			e.w.cond.Wait()
		}
		if e.w.shut {
			return done, io.ErrClosedPipe
		}
		n, vanish := e.gone(&e.writes, min(len(p)-done, 64<<10-e.w.buf.Len()))
		e.w.buf.Write(p[done : done+n])
		e.w.cond.Broadcast()
		if done += n; done == len(p) && !vanish {
			return done, nil
		}
		if vanish {
			return done, io.ErrClosedPipe
		}
	}
}

func (e *lineEnd) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	for _, h := range []*halfLine{e.r, e.w} {
		h.mu.Lock()
		h.shut = h.shut || e.agent
		h.cond.Broadcast()
		h.mu.Unlock()
	}
	return nil
}

// echo sends back all bytes of each stream.
func echo(l net.Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		all.Go(func() {
			defer c.Close()
			io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{c}, make([]byte, 5000))
		})
	}
}

// pattern returns a byte of a stream; adjacent bytes and streams differ.
func pattern(stream, i int) byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(stream+1)*0x9e3779b97f4a7c15+uint64(i)*0xbf58476d1ce4e5b9)
	return b[0] ^ b[3]&b[5]
}

// exchange sends size bytes in pieces and returns how many came back, checking all of them.
func exchange(c net.Conn, stream, size, piece int) (got int, wrong bool, err error) {
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = pattern(stream, i)
	}
	go func() {
		for b := sent; len(b) > 0; {
			n, err := c.Write(b[:min(piece, len(b))])
			if err != nil {
				return
			}
			b = b[n:]
		}
	}()
	buf := make([]byte, 3000)
	for got < size {
		n, err := c.Read(buf)
		if !bytes.Equal(buf[:n], sent[got:min(got+n, size)]) {
			return got, true, err
		}
		got += n
		if err != nil {
			return got, false, err
		}
	}
	return got, false, nil
}

// TestMuxSurvivesHosts disconnects hosts at random bytes in either direction. No stream delivers a wrong, lost or duplicate byte,
// and the last host receives everything.
func TestMuxSurvivesHosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLine()
		agent := wire.NewMuxAgent(l.agentEnd())
		var served sync.WaitGroup
		served.Go(func() { echo(agent) })
		defer served.Wait()
		defer agent.Close()

		hosts := rapid.IntRange(1, 5).Draw(t, "hosts")
		for h := range hosts {
			last := h == hosts-1
			reads, writes := -1, -1
			if !last {
				reads = rapid.IntRange(0, 200_000).Draw(t, "reads")
				writes = rapid.IntRange(0, 200_000).Draw(t, "writes")
			}
			host := wire.NewMuxHost(l.attach(reads, writes))
			var all sync.WaitGroup
			for s := range rapid.IntRange(1, 8).Draw(t, "streams") {
				size := rapid.IntRange(0, 150_000).Draw(t, "size")
				piece := rapid.SampledFrom([]int{1, 7, 253, 254, 255, 4096, 70_000}).Draw(t, "piece")
				if piece < 10 {
					size = min(size, 2000)
				}
				all.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					c, err := host.Dial(ctx)
					if err != nil {
						if last || ctx.Err() != nil {
							t.Errorf("host %d dials: %v", h, err)
						}
						return
					}
					defer c.Close()
					c.SetDeadline(time.Now().Add(time.Minute))
					got, wrong, err := exchange(c, s, size, piece)
					if wrong {
						t.Errorf("host %d stream %d: wrong bytes at %d", h, s, got)
					}
					if last && got != size || errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("host %d stream %d: %d of %d bytes, %v", h, s, got, size, err)
					}
				})
			}
			all.Wait()
			host.Close()
		}
	})
}

func pair(t testing.TB) (*wire.MuxHost, *wire.MuxAgent) {
	l := newLine()
	agent, host := wire.NewMuxAgent(l.agentEnd()), wire.NewMuxHost(l.attach(-1, -1))
	t.Cleanup(func() { host.Close(); agent.Close() })
	return host, agent
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func dial(t testing.TB, host *wire.MuxHost, agent *wire.MuxAgent) (at, in net.Conn) {
	t.Helper()
	at, err := host.Dial(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if in, err = agent.Accept(); err != nil {
		t.Fatal(err)
	}
	return at, in
}

func TestMuxCloseDeliversWhatWasWritten(t *testing.T) {
	host, agent := pair(t)
	at, in := dial(t, host, agent)
	if _, err := at.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	at.Close()
	got, err := io.ReadAll(in)
	if string(got) != "last words" || err != nil {
		t.Fatalf("read %q, %v", got, err)
	}
	if _, err := in.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to a stream closed by the peer: %v", err)
	}
	if _, err := at.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read from a closed stream: %v", err)
	}
}

func TestMuxWindowBoundsAWriter(t *testing.T) {
	host, agent := pair(t)
	at, in := dial(t, host, agent)
	n := fill(t, at, wire.MuxWindow)
	if n != wire.MuxWindow {
		t.Fatalf("wrote %d; want one window", n)
	}
	// Another stream is not blocked, and the first continues when it is read.
	at2, in2 := dial(t, host, agent)
	go at2.Write([]byte("free"))
	free := make([]byte, 4)
	if _, err := io.ReadFull(in2, free); string(free) != "free" {
		t.Fatal(string(free), err)
	}
	at.SetWriteDeadline(time.Time{})
	go at.Write([]byte("!"))
	got := make([]byte, n+1)
	if _, err := io.ReadFull(in, got); err != nil || got[n] != '!' {
		t.Fatalf("last byte %q, %v", got[n], err)
	}
}

// fill writes to an unread stream until at least this many bytes are accepted and the write blocks for a while, and returns the
// number of bytes.
func fill(t *testing.T, c net.Conn, least int) (n int) {
	t.Helper()
	patience := within(t)
	for quiet := 0; quiet < 2; {
		c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		wrote, err := c.Write(make([]byte, 1<<20))
		if n += wrote; !errors.Is(err, os.ErrDeadlineExceeded) || n > 1<<20 {
			t.Fatalf("wrote %d, %v; want a deadline", n, err)
		}
		if wrote == 0 && (n >= least || patience.Err() != nil) { // a busy machine may pause for a while
			quiet++
		}
	}
	return n
}

func TestMuxReadDeadline(t *testing.T) {
	host, agent := pair(t)
	at, in := dial(t, host, agent)
	at.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := at.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	at.SetReadDeadline(time.Time{})
	go in.Write([]byte("x"))
	if _, err := at.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestMuxBoundsStreams(t *testing.T) {
	host, agent := pair(t)
	var first, firstIn net.Conn
	for i := range wire.MaxMuxStreams - wire.MuxReserved {
		at, in := dial(t, host, agent)
		if i == 0 {
			first, firstIn = at, in
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := host.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("one stream too many: %v", err)
	}
	var urgent []net.Conn
	for range wire.MuxReserved {
		at, err := host.Dial(wire.Urgent(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		in, err := agent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		urgent = append(urgent, at, in)
	}
	last, stop := context.WithTimeout(wire.Urgent(t.Context()), 20*time.Millisecond)
	defer stop()
	if _, err := host.Dial(last); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("one urgent stream too many: %v", err)
	}
	for _, c := range append(urgent, first, firstIn) {
		c.Close()
	}
	dial(t, host, agent)
}

func TestMuxNewHostDisconnectsTheOld(t *testing.T) {
	l := newLine()
	agent := wire.NewMuxAgent(l.agentEnd())
	defer agent.Close()
	old := wire.NewMuxHost(l.attach(-1, -1))
	_, in := dial(t, old, agent)
	old.Close()
	host := wire.NewMuxHost(l.attach(-1, -1))
	defer host.Close()
	at, fresh := dial(t, host, agent)
	if _, err := in.Read(make([]byte, 1)); err == nil {
		t.Error("the old host's stream continues")
	}
	go at.Write([]byte("x"))
	if _, err := fresh.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// TestMuxAgentWritesOnlyWhatWasGranted: the agent sends a host that has gone no more than the grant.
func TestMuxAgentWritesOnlyWhatWasGranted(t *testing.T) {
	l := newLine()
	agent := wire.NewMuxAgent(l.agentEnd())
	defer agent.Close()
	host := wire.NewMuxHost(l.attach(-1, -1))
	_, in := dial(t, host, agent)
	host.Close()
	if n := fill(t, in, 1); n > wire.MuxGrant || n == 0 {
		t.Errorf("wrote %d", n)
	}
	l.toHost.mu.Lock()
	defer l.toHost.mu.Unlock()
	if n := l.toHost.buf.Len(); n > wire.MuxGrant {
		t.Errorf("%d bytes wait without a reader", n)
	}
}

// TestMuxDamageEndsTheEpoch flips one bit on the way to the agent.
func TestMuxDamageEndsTheEpoch(t *testing.T) {
	l := newLine()
	agent := wire.NewMuxAgent(l.agentEnd())
	defer agent.Close()
	end := &bitFlipper{ReadWriteCloser: l.attach(-1, -1)}
	host := wire.NewMuxHost(end)
	defer host.Close()
	at, in := dial(t, host, agent)
	end.flip.Store(true)
	at.Write([]byte("precious"))
	if b, err := io.ReadAll(in); len(b) > 0 || err == nil {
		t.Errorf("the agent read %q, %v", b, err)
	}
	<-host.Done()
	if !errors.Is(host.Err(), wire.ErrMux) {
		t.Errorf("the host received %v", host.Err())
	}
}

// files is a byte stream over two kernel pipes.
type files struct{ r, w *os.File }

func (f files) Read(p []byte) (int, error)  { return f.r.Read(p) }
func (f files) Write(p []byte) (int, error) { return f.w.Write(p) }
func (f files) Close() error                { return errors.Join(f.r.Close(), f.w.Close()) }

// BenchmarkMux sends to the host, the direction that needs both kinds of credit.
func BenchmarkMux(b *testing.B) {
	agentReads, hostWrites, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	hostReads, agentWrites, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	agent, host := wire.NewMuxAgent(files{agentReads, agentWrites}), wire.NewMuxHost(files{hostReads, hostWrites})
	b.Cleanup(func() { host.Close(); agent.Close() })
	at, in := dial(b, host, agent)
	chunk := bytes.Repeat([]byte("a line of output as programs print them\n"), 1600)
	b.SetBytes(int64(len(chunk)))
	done := make(chan error, 1)
	b.ResetTimer()
	go func() {
		for range b.N {
			if _, err := in.Write(chunk); err != nil {
				done <- err
				return
			}
		}
		done <- in.Close()
	}()
	n, err := io.Copy(io.Discard, struct{ io.Reader }{at})
	if werr := <-done; err != nil || werr != nil || n != int64(b.N)*int64(len(chunk)) {
		b.Fatal(n, err, werr)
	}
}
