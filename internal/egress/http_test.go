package egress

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// raw is a peer that records every request unchanged, and responds to each with its number.
type raw struct {
	mu   sync.Mutex
	got  []string
	uses int // number of connections
}

func (p *raw) serve(c net.Conn) {
	p.mu.Lock()
	p.uses++
	p.mu.Unlock()
	r := bufio.NewReader(c)
	for n := 1; ; n++ {
		var head bytes.Buffer
		length := 0
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
			if _, err := fmt.Sscanf(line, "Content-Length: %d", &length); err == nil {
				continue
			}
			if line == "\r\n" {
				break
			}
		}
		if _, err := io.CopyN(&head, r, int64(length)); err != nil {
			return
		}
		p.mu.Lock()
		p.got = append(p.got, head.String())
		p.mu.Unlock()
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX-Peer: yes\r\n\r\n%d", n%10)
	}
}

func (p *raw) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// statuses reads responses until the connection ends.
func statuses(t *testing.T, c net.Conn) (list []int, bodies string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	r := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Logf("after %v: %v", list, err)
			}
			return list, bodies
		}
		body, _ := io.ReadAll(resp.Body)
		list, bodies = append(list, resp.StatusCode), bodies+string(body)
	}
}

func TestHTTPHosts(t *testing.T) {
	const ok = "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n"
	for _, tt := range []struct {
		name    string
		sent    string
		status  []int
		arrived int
	}{
		{"plain", ok, []int{200}, 1},
		{"with its port", "GET / HTTP/1.1\r\nHost: a.example.com:80\r\n\r\n", []int{200}, 1},
		{"upper case", "GET / HTTP/1.1\r\nhost: A.EXAMPLE.COM\r\n\r\n", []int{200}, 1},
		{"two requests", ok + ok, []int{200, 200}, 2},
		{"absolute", "GET http://a.example.com/x HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{200}, 1},
		{"absolute, the header lies", "GET http://a.example.com/x HTTP/1.1\r\nHost: evil.org\r\n\r\n", []int{200}, 1}, // the Host header is not passed on
		{"absolute elsewhere", "GET http://evil.org/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{403}, 0},
		{"absolute https", "GET https://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{403}, 0},
		{"absolute with a user", "GET http://evil.org@a.example.com/x HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{200}, 1}, // the user is not passed on
		{"absolute, the user lies", "GET http://a.example.com@evil.org/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{403}, 0},
		{"absolute without a host", "GET http:////b.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{200}, 1}, // a path
		{"a URL in a URL", "GET http:http://evil.org/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{403}, 0},
		{"a host after a scheme", "GET http:evil.org HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{403}, 0},
		{"a host and a port", "GET evil.org:80 HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{403}, 0},
		{"a host alone", "GET evil.org HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{400}, 0},
		{"a path with two slashes", "GET //b.example.com/x HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{200}, 1},
		{"the server as a whole", "OPTIONS * HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{200}, 1},
		{"connect in lower case", "connect a.example.com:80 HTTP/1.1\r\nHost: a.example.com\r\n\r\n", []int{403}, 0},
		{"another host", "GET / HTTP/1.1\r\nHost: evil.org\r\n\r\n", []int{403}, 0},
		{"another port", "GET / HTTP/1.1\r\nHost: a.example.com:8080\r\n\r\n", []int{403}, 0},
		{"a longer host", "GET / HTTP/1.1\r\nHost: a.example.com.evil.org\r\n\r\n", []int{403}, 0},
		{"an address", "GET / HTTP/1.1\r\nHost: 203.0.113.10\r\n\r\n", []int{403}, 0},
		{"a user", "GET / HTTP/1.1\r\nHost: a.example.com@evil.org\r\n\r\n", []int{400}, 0},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a.example.com\r\nHost: evil.org\r\n\r\n", []int{400}, 0},
		{"two hosts in one", "GET / HTTP/1.1\r\nHost: a.example.com, evil.org\r\n\r\n", []int{400}, 0},
		{"no host", "GET / HTTP/1.1\r\n\r\n", []int{400}, 0},
		{"no host, old", "GET / HTTP/1.0\r\n\r\n", []int{403}, 0},
		{"an empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", []int{403}, 0},
		{"a folded host", "GET / HTTP/1.1\r\nHost: a.example.com\r\n evil.org\r\n\r\n", []int{400}, 0},
		{"a space before the colon", "GET / HTTP/1.1\r\nHost : evil.org\r\nHost: a.example.com\r\n\r\n", []int{400}, 0},
		{"a NUL", "GET / HTTP/1.1\r\nHost: a.example.com\x00evil\r\n\r\n", []int{400}, 0},
		{"a second request elsewhere", ok + "GET / HTTP/1.1\r\nHost: evil.org\r\n\r\n" + ok, []int{200, 403}, 1},
		{"a request in a body", "POST / HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 38\r\n\r\nGET / HTTP/1.1\r\nHost: evil.org.xx\r\n\r\n\r\n", []int{200}, 1},
		{"two lengths", "POST / HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n" + ok, []int{400}, 0},
		{"an unknown coding", "POST / HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: xchunked\r\n\r\n", []int{501}, 0},
		{"CONNECT", "CONNECT evil.org:443 HTTP/1.1\r\nHost: evil.org:443\r\n\r\n", []int{403}, 0},
		{"CONNECT to the host", "CONNECT a.example.com:80 HTTP/1.1\r\nHost: a.example.com:80\r\n\r\n", []int{403}, 0},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{403}, 0},
		{"TLS", "\x16\x03\x01\x00\x05hello\r\n\r\n", []int{400}, 0},
		{"something else", "SSH-2.0-OpenSSH\r\n\r\n", []int{400}, 0},
		{"an endless head", "GET / HTTP/1.1\r\nHost: a.example.com\r\nX: " + strings.Repeat("x", 2*maxHead), []int{431}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, p := newWorld(t, nil), &raw{}
			w.peer("a.example.com", public, 80, p.serve)
			c := w.connect("a.example.com", 80)
			go func() {
				_, _ = io.WriteString(c, tt.sent)
				_ = c.CloseWrite()
			}()
			got, _ := statuses(t, c)
			if !slices.Equal(got, tt.status) {
				t.Errorf("answers %v, want %v", got, tt.status)
			}
			requests := p.requests()
			if len(requests) != tt.arrived {
				t.Errorf("%d arrived: %q", len(requests), requests)
			}
			for _, r := range requests {
				head, _, _ := strings.Cut(r, "\r\n\r\n")
				if strings.Count(head+"\r\n", "\r\nHost: a.example.com\r\n") != 1 || strings.Contains(strings.ToLower(head), "evil") || strings.Contains(head, "://") {
					t.Errorf("arrived: %q", r)
				}
			}
			if slices.ContainsFunc(tt.status, func(s int) bool { return s >= 400 }) {
				w.denied("a.example.com", DNSMismatch)
			} else {
				c.Close()
				w.wait("the end", func() bool { w.gate.mu.Lock(); defer w.gate.mu.Unlock(); return len(w.gate.live) == 0 })
				if r := w.gate.Report(); r.Denied != 0 || r.Allowed != 1 {
					t.Errorf("report %+v", r)
				}
			}
		})
	}
}

// The program reads the reason of a denial in plain words.
func TestHTTPSaysWhy(t *testing.T) {
	w := newWorld(t, nil)
	w.peer("a.example.com", public, 80, new(raw).serve)
	c := w.connect("a.example.com", 80)
	write(t, c, "GET / HTTP/1.1\r\nHost: evil.org\r\n\r\n")
	status, body := statuses(t, c)
	want := `belljar: this connection is for a.example.com, the request is for "evil.org" (dns_mismatch)` + "\n"
	if !slices.Equal(status, []int{403}) || body != want {
		t.Errorf("%v %q", status, body)
	}
}

// Requests and responses pass unchanged.
func TestHTTPIsTransparent(t *testing.T) {
	w, p := newWorld(t, nil), &raw{}
	w.peer("a.example.com", public, 80, p.serve)
	c := w.connect("a.example.com", 80)
	head := "PUT /a%2Fb//c?x=1;y&z=%zz HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 4\r\nAccept-Encoding: br\r\nX-Forwarded-For: 192.0.2.1\r\nCookie: a=b\r\n\r\nbody"
	write(t, c, head)
	_ = c.CloseWrite()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); string(body) != "1" || resp.Header.Get("X-Peer") != "yes" || len(resp.Header) != 2 {
		t.Errorf("answer %q %v", body, resp.Header)
	}
	got := p.requests()
	if len(got) != 1 {
		t.Fatalf("arrived: %q", got)
	}
	sorted := func(s string) []string {
		lines := strings.Split(s, "\r\n")
		slices.Sort(lines[1:])
		return lines
	}
	if !slices.Equal(sorted(got[0]), sorted(head)) {
		t.Errorf("sent %q\narrived %q", head, got[0])
	}
}

// A response after an informational one contains the host's headers, too.
func TestHTTPEarlyHints(t *testing.T) {
	w := newWorld(t, nil)
	w.peer("a.example.com", public, 80, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	c := w.connect("a.example.com", 80)
	write(t, c, "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n")
	r := bufio.NewReader(c)
	for _, want := range []string{"Link", "Content-Length"} {
		if resp, err := http.ReadResponse(r, nil); err != nil || len(resp.Header) != 1 || resp.Header.Get(want) == "" {
			t.Errorf("%v, %v; want the header %s alone", resp, err, want)
		}
	}
}

// The requests of one connection share one connection to the host. If that ends, the next one is dialled at the
// pinned address.
func TestHTTPKeepsAlive(t *testing.T) { untimed(t, keepsAlive) }

func keepsAlive(t *testing.T) {
	w, p := newWorld(t, nil), &raw{}
	var once sync.Once
	w.peer("a.example.com", public, 80, func(c net.Conn) {
		first := false
		once.Do(func() { first = true })
		if !first {
			p.serve(c)
			return
		}
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n0")
		}
	})
	c := w.connect("a.example.com", 80)
	w.dns.set("a.example.com", []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	r := bufio.NewReader(c)
	for _, want := range []string{"0", "1", "2", "3"} {
		write(t, c, "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(resp.Body); string(body) != want {
			t.Errorf("answer %q, want %q", body, want)
		}
	}
	if got := w.dials(); len(got) != 2 || got[0] != got[1] || p.uses != 1 {
		t.Errorf("dialled %v, the second was used by %d connections", got, p.uses)
	}
}

// The upgrade to WebSocket passes. Another protocol, which could name other hosts inside, does not begin.
func TestHTTPUpgrades(t *testing.T) {
	w := newWorld(t, nil)
	upgrades := make(chan string, 1)
	w.peer("a.example.com", public, 80, func(c net.Conn) {
		r := bufio.NewReader(c)
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		upgrades <- req.Header.Get("Upgrade") + req.Header.Get("Connection") + req.Header.Get("Http2-Settings")
		if req.Header.Get("Upgrade") != "websocket" {
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, r)
	})
	c := w.connect("a.example.com", 80)
	write(t, c, "GET /ws HTTP/1.1\r\nHost: a.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(patience))
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	if got := <-upgrades; got != "websocketUpgrade" {
		t.Errorf("arrived: %q", got)
	}
	write(t, c, "\x81\x05hello")
	got := make([]byte, 7)
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "\x81\x05hello" {
		t.Errorf("read %q, %v", got, err)
	}
	w.gate.SetPolicy(policyOf(t, "example.org")) // cuts upgraded connections, too
	if _, err := r.ReadByte(); err == nil {
		t.Error("the upgraded connection was not cut")
	}
	w.denied("a.example.com", PolicyChanged)

	w.gate.SetPolicy(policyOf(t, "*.example.com"))
	c = w.connect("a.example.com", 80)
	write(t, c, "GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 204 {
		t.Error(resp, err)
	}
	if got := <-upgrades; got != "" {
		t.Errorf("arrived: %q", got)
	}
}

// Bytes of the host arrive immediately, and a body may be long in both directions.
func TestHTTPStreams(t *testing.T) {
	w := newWorld(t, nil)
	more := make(chan struct{})
	const size = 3 << 20
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(rw, n)
			return
		}
		fmt.Fprint(rw, "first\n")
		rw.(http.Flusher).Flush()
		<-more
		fmt.Fprint(rw, "second\n")
	})}
	conns := &feed{conns: make(chan net.Conn), closed: make(chan struct{})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(conns) }()
	defer func() { server.Close(); <-done }()
	w.peer("a.example.com", public, 80, func(c net.Conn) {
		kept := &closing{Conn: c, done: make(chan struct{})}
		conns.conns <- kept
		<-kept.done
	})
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return w.connect("a.example.com", 80), nil }}}
	defer client.CloseIdleConnections()

	resp, err := client.Get("http://a.example.com/events")
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(resp.Body)
	if line, err := r.ReadString('\n'); line != "first\n" {
		t.Errorf("%q, %v", line, err)
	}
	close(more)
	if rest, err := io.ReadAll(r); string(rest) != "second\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	resp.Body.Close()

	resp, err = client.Post("http://a.example.com/", "", io.LimitReader(zeros{}, size))
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); string(body) != fmt.Sprint(size) {
		t.Errorf("%q arrived", body)
	}
	resp.Body.Close()
	if got := w.gate.Report(); got.BytesOut < size {
		t.Errorf("report %+v", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// feed is a listener whose connections come from the test.
type feed struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (f *feed) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}
func (f *feed) Close() error   { f.once.Do(func() { close(f.closed) }); return nil }
func (f *feed) Addr() net.Addr { return &net.TCPAddr{} }

type closing struct {
	net.Conn
	once sync.Once
	done chan struct{}
}

func (c *closing) Close() error { defer c.once.Do(func() { close(c.done) }); return c.Conn.Close() }

// A host that closes without a response causes a 502 with a sentence.
func TestHTTPNoAnswer(t *testing.T) {
	w := newWorld(t, nil)
	w.peer("a.example.com", public, 80, func(c net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(c)) })
	c := w.connect("a.example.com", 80)
	write(t, c, "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n")
	status, body := statuses(t, c)
	if !slices.Equal(status, []int{502}) || body != "belljar: a.example.com did not answer\n" {
		t.Errorf("%v %q", status, body)
	}
}

// The head of an answer, and of a request, is bounded in bytes and in headers, and the program reads the reason.
func TestHTTPHeads(t *testing.T) {
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%x:\r\n", i)
		}
		return b.String()
	}
	long := func(n int) string { return strings.Repeat("Set-Cookie: "+strings.Repeat("x", 1000)+"\r\n", n) }
	for _, tt := range []struct {
		name                string
		asked, hint, answer string
		status              []int
		body                string
	}{
		{"usual", "", "", long(50) + names(900), []int{200}, ""},
		{"a large answer", "", "", long(70), []int{502}, "belljar: the head of the answer of a.example.com is larger than 64 KiB\n"},
		{"many headers", "", "", names(maxHeaders + 1), []int{502}, "belljar: the answer of a.example.com has more than 1000 headers\n"},
		{"a hint", "", "HTTP/1.1 103 Early Hints\r\n" + names(900) + "\r\n", "", []int{103, 200}, ""},
		{"a hint with many headers", "", "HTTP/1.1 103 Early Hints\r\n" + names(maxHeaders+1) + "\r\n", "", []int{200}, ""},
		{"a request with many headers", names(maxHeaders + 1), "", "", []int{431}, "belljar: the request has more than 1000 headers\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.peer("a.example.com", public, 80, func(c net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, tt.hint+"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+tt.answer+"\r\n")
				}
			})
			c := w.connect("a.example.com", 80)
			write(t, c, "GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n"+tt.asked+"\r\n")
			if status, body := statuses(t, c); !slices.Equal(status, tt.status) || body != tt.body {
				t.Errorf("%v %q", status, body)
			}
		})
	}
}
