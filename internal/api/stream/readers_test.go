package stream

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/internal/event"
)

// Fifty readers of a live run get the same bytes, whether or not they share encoded frames.
func TestManyReaders(t *testing.T) {
	for _, readers := range []int{2, 50} {
		t.Run(fmt.Sprint(readers), func(t *testing.T) {
			b := newBench(t)
			r := b.add("r")
			got := make([]bytes.Buffer, readers)
			var reading sync.WaitGroup
			for i := range readers {
				conn := b.open("r", "")
				reading.Go(func() {
					for {
						_, raw, err := conn.Read(b.context())
						if err != nil {
							return
						}
						got[i].Write(raw)
						got[i].WriteByte('\n')
					}
				})
			}
			for i := range 150 {
				switch i % 3 {
				case 0:
					r.print(fmt.Sprintf("line %d é\n", i))
				case 1:
					r.say(belljar.Frame{Type: belljar.FrameStderr, Output: bytes.Repeat([]byte{byte(i)}, 1+i*40)})
				case 2:
					r.say(belljar.Frame{Type: belljar.FrameHeartbeat, Time: time.Unix(int64(i), 0)})
				}
			}
			r.end()
			reading.Wait()
			for i := range got {
				if !bytes.Equal(got[i].Bytes(), got[0].Bytes()) || bytes.Count(got[i].Bytes(), []byte("\n")) != 151 {
					t.Fatalf("reader %d got %d bytes, reader 0 %d", i, got[i].Len(), got[0].Len())
				}
			}
			b.diary.await(t, event.StreamClosed, readers)
			b.door.Close()
			if len(b.door.shares.runs) != 0 || len(b.door.readers) != 0 {
				t.Errorf("not released: %v %v", b.door.shares.runs, b.door.readers)
			}
		})
	}
}

// Readers that connect and disconnect, with or without a close, leave nothing open. TestMain checks for leaked goroutines.
func TestDisconnectStorm(t *testing.T) {
	b := newBench(t)
	r := b.add("r", interactive)
	stop := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
				r.print(fmt.Sprintf("line %d\n", i))
			}
		}
	})
	var storm sync.WaitGroup
	for i := range 8 {
		storm.Go(func() {
			for j := range 12 {
				conn := b.open("r", "")
				switch (i + j) % 4 {
				case 0:
					conn.CloseNow()
				case 1:
					_, _, _ = b.read(conn)
					conn.CloseNow()
				case 2:
					_, _, _ = b.read(conn)
					_ = conn.Close(websocket.StatusNormalClosure, "")
				case 3:
					_ = conn.Write(b.context(), websocket.MessageText, []byte(`{"type":"stdin","encoding":"utf8","data":"x"}`))
					conn.CloseNow()
				}
			}
		})
	}
	storm.Wait()
	close(stop)
	saying.Wait()
	b.diary.await(t, event.StreamClosed, 96)
	r.stdin.mu.Lock()
	if r.stdin.holds != 0 || r.stdin.reason != "" {
		t.Errorf("%d holds on stdin are left, closed %q", r.stdin.holds, r.stdin.reason)
	}
	r.stdin.mu.Unlock()
	r.end()
	frames, _ := b.drain(b.open("r", ""))
	if frames[0].Seq != 1 || frames[len(frames)-1].Event != belljar.EventEnd {
		t.Errorf("%d frames", len(frames))
	}
}

// The server answers pings, and drops a client that does not answer its pings.
func TestPings(t *testing.T) {
	onLine(t, func(o *Options) { o.PingEvery = time.Second }, func(t *testing.T, b *bench, l *linetest.Line) {
		b.add("r")
		conn := b.open("r", "")
		pings := make(chan error, 1)
		go func() { pings <- conn.Ping(b.context()) }()
		ctx, cancel := context.WithCancel(b.context())
		reading := make(chan struct{})
		go func() {
			defer close(reading)
			_, _, _ = conn.Read(ctx)
		}()
		if err := <-pings; err != nil {
			t.Fatal(err)
		}
		silent := l.Dial() // reads everything and answers nothing
		defer silent.Close()
		askStream(silent, b, "r")
		in := answered(t, silent)
		for asked := false; ; asked = true {
			op, payload := readFrame(t, in)
			if op == 9 {
				continue
			}
			if op != 8 || string(payload[2:]) != "no pong, resume with from_seq=1" || !asked {
				t.Errorf("message %d %q", op, payload)
			}
			break
		}
		b.diary.await(t, event.StreamDropped, 1)
		if got := b.diary.reasons(event.StreamDropped); len(got) != 1 || got[0] != "silent" {
			t.Errorf("dropped as %v", got)
		}
		cancel()
		<-reading
	})
}

// A client that sends pings and reads nothing does not make the server buffer the answers.
func TestPingFlood(t *testing.T) {
	b := newBench(t)
	r := b.add("r")
	conn := rawSocket(t, b, "r")
	b.diary.await(t, event.StreamOpened, 1)
	flood(r, 200)
	ping := append([]byte{0x89, 0x80 | 100, 0, 0, 0, 0}, make([]byte, 100)...)
	pings := bytes.Repeat(ping, 100)
	for {
		if _, err := conn.Write(pings); err != nil {
			break
		}
	}
	b.diary.await(t, event.StreamClosed, 1)
	if got := b.diary.reasons(event.StreamClosed); got[0] != "client" {
		t.Errorf("closed by %v", got)
	}
}

// Over TLS, too, a slow reader gets the reason why it is dropped: the deadline must not break the record layer.
func TestTLS(t *testing.T) {
	known := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer known.Close()
	onLine(t, func(o *Options) { o.WriteTimeout = time.Second }, func(t *testing.T, b *bench, l *linetest.Line) {
		mux := http.NewServeMux()
		b.door.Register(mux)
		ours, theirs := net.Pipe()
		server, served := &http.Server{Handler: mux}, make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(&once{conn: tls.Server(theirs, known.TLS), closed: make(chan struct{})}) // serves until it is closed
		}()
		t.Cleanup(func() {
			_ = server.Close()
			<-served
		})
		carrier := &http.Transport{
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return ours, nil },
			TLSClientConfig: known.Client().Transport.(*http.Transport).TLSClientConfig,
		}
		r := b.add("r")
		conn, _, err := websocket.Dial(b.context(), "wss://example.com"+b.path("r", "stream"),
			&websocket.DialOptions{HTTPHeader: as("ann"), HTTPClient: &http.Client{Transport: carrier}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		conn.SetReadLimit(1 << 20)
		r.print("hello")
		b.want(conn, hello)
		flood(r, 20)
		b.diary.await(t, event.StreamDropped, 1)
		frames, closed := b.drain(conn)
		if want := fmt.Sprintf("slow reader, resume with from_seq=%d", len(frames)+2); closed.Code != 1013 || closed.Reason != want {
			t.Errorf("close %v after %d frames, want %s", closed, len(frames), want)
		}
	})
}

// once is a listener with one connection.
type once struct {
	conn   net.Conn
	closed chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	if conn := o.conn; conn != nil {
		o.conn = nil
		return conn, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}

func (o *once) Close() error   { close(o.closed); return nil }
func (o *once) Addr() net.Addr { return &net.UnixAddr{Name: "once"} }
