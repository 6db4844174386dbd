//go:build linux

package e2e

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dial opens a connection to the server, which ends with the test.
func (s *server) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	return conn
}

// size returns the server's memory, in bytes.
func (s *server) size() int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)) // empty after its end
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// descriptors returns the number of files and connections that the server has open.
func (s *server) descriptors() int {
	s.t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(open)
}

// TestAttackWire sends invalid HTTP.
func TestAttackWire(t *testing.T) {
	s := serve(t, t.TempDir())
	ann := s.user("ann")
	known := "Host: h\r\nX-API-KEY: " + ann + "\r\nConnection: close\r\n"
	for name, c := range map[string]struct {
		send string
		want string // beginning of the response; "" for a connection that is closed without one
	}{
		"no host":            {"GET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
		"HTTP/1.0":           {"GET " + api + "/me HTTP/1.0\r\nHost: h\r\nX-API-KEY: " + ann + "\r\n\r\n", "HTTP/1.0 200"},
		"no HTTP":            {"\x16\x03\x01\x00\x05hello\r\n\r\n", "HTTP/1.1 400"},
		"broken host":        {"GET /healthz HTTP/1.1\r\nHost: a\"b\r\nConnection: close\r\n\r\n", "HTTP/1.1 400"},
		"two hosts":          {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "HTTP/1.1 400"},
		"two lengths":        {"POST " + api + "/runs HTTP/1.1\r\n" + known + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 400"},
		"negative length":    {"POST " + api + "/runs HTTP/1.1\r\n" + known + "Content-Length: -1\r\n\r\n", "HTTP/1.1 400"},
		"unknown coding":     {"POST " + api + "/runs HTTP/1.1\r\n" + known + "Transfer-Encoding: x\r\n\r\n", "HTTP/1.1 501"},
		"broken chunk":       {"POST " + api + "/runs HTTP/1.1\r\n" + known + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
		"great chunk":        {"POST " + api + "/runs HTTP/1.1\r\n" + known + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "HTTP/1.1 400"},
		"header bomb":        {"GET /healthz HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("A: "+strings.Repeat("x", 1000)+"\r\n", 100), "HTTP/1.1 431"},
		"long address":       {"GET /" + strings.Repeat("a", 90_000), "HTTP/1.1 431"},
		"NUL in address":     {"GET " + api + "/runs/a\x00b HTTP/1.1\r\n" + known + "\r\n", "HTTP/1.1 400"},
		"NUL, encoded":       {"GET " + api + "/runs/a%00b HTTP/1.1\r\n" + known + "\r\n", "HTTP/1.1 404"},
		"newline, encoded":   {"GET " + api + "/runs/a%0d%0aX:y HTTP/1.1\r\n" + known + "\r\n", "HTTP/1.1 404"},
		"up":                 {"GET " + api + "/runs/../admin/runs HTTP/1.1\r\n" + known + "\r\n", "HTTP/1.1 400"},
		"up, encoded":        {"GET " + api + "/runs/x/artifacts/..%2f..%2fbelljar.db HTTP/1.1\r\n" + known + "\r\n", "HTTP/1.1 400"},
		"two keys":           {"GET " + api + "/me HTTP/1.1\r\n" + known + "X-API-KEY: x\r\n\r\n", "HTTP/1.1 401"},
		"key and token":      {"GET " + api + "/me HTTP/1.1\r\n" + known + "Authorization: Bearer x\r\n\r\n", "HTTP/1.1 401"},
		"method":             {"BREW " + api + "/runs HTTP/1.1\r\n" + known + "\r\n", "HTTP/1.1 405"},
		"stranger's body":    {"POST " + api + "/runs HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n", "HTTP/1.1 401"},
		"stranger continues": {"POST " + api + "/runs HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 401"},
		"many ranges":        {"GET " + api + "/runs/x/artifacts/y HTTP/1.1\r\n" + known + "Range: bytes=" + strings.Repeat("0-0,", 9000) + "1-1\r\n\r\n", "HTTP/1.1 404"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := s.dial()
			begun := time.Now()
			_, _ = io.WriteString(conn, c.send)               // the server may stop reading before the end
			line, _ := bufio.NewReader(conn).ReadString('\n') // the server sends this first
			if !strings.HasPrefix(line, c.want) || time.Since(begun) > promptly {
				t.Errorf("%q after %v", line, time.Since(begun))
			}
		})
	}
}

// TestAttackPages does what a hostile web page could do to a user who runs a server on their machine.
func TestAttackPages(t *testing.T) {
	s := serve(t, t.TempDir())
	const evil = "Origin: http://evil.example"
	for name, c := range map[string]struct {
		method, path, key string
		header            []string
		status            int
	}{
		"call":           {"GET", api + "/me", s.Key, []string{evil}, 200},
		"preflight":      {"OPTIONS", api + "/runs", "", []string{evil, "Access-Control-Request-Method: POST"}, 204},
		"WebSocket":      {"GET", api + "/runs/x/stream", s.Key, append(upgrading(), evil), 403},
		"no origin":      {"GET", api + "/runs/x/stream", s.Key, append(upgrading(), "Origin: null"), 403},
		"cookie":         {"GET", api + "/me", "", []string{evil, "Cookie: api_key=" + s.Key}, 401},
		"key in address": {"GET", api + "/me?api_key=" + s.Key, "", []string{evil}, 401},
		"in a frame":     {"GET", "/docs", "", []string{evil}, 200},
	} {
		status, header, answer := s.send(c.method, c.path, c.key, "", c.header...)
		if status != c.status {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		for _, allow := range []string{"Origin", "Credentials", "Private-Network"} {
			if got := header.Get("Access-Control-Allow-" + allow); got != "" {
				t.Errorf("%s: the page is allowed %s: %s", name, allow, got)
			}
		}
		if header.Get("X-Frame-Options") != "DENY" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", name, header)
		}
	}
}

// TestAttackIdle opens very many idle connections. Other clients are still served, and all resources are released.
func TestAttackIdle(t *testing.T) {
	s := serve(t, t.TempDir())
	key := s.user("ann")
	if status, _, _ := s.send("GET", api+"/me", key, ""); status != http.StatusOK {
		t.Fatal(status)
	}
	s.full() // ready sandboxes have descriptors, too
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before := s.descriptors()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var idle []net.Conn
	for range min(3000, limit.Cur/2) {
		idle = append(idle, s.dial())
	}
	begun := time.Now()
	if _, run := s.ask("POST", api+"/runs?wait=600s", oneShot("true"), "X-API-KEY: "+key); run["phase"] != "completed" || time.Since(begun) > promptly {
		t.Errorf("%v after %v", run, time.Since(begun))
	}
	for _, conn := range idle {
		conn.Close()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	deadline, tick := time.After(patience), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for s.descriptors() > before+10 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d descriptors before, %d after", before, s.descriptors())
		}
	}
}

// TestAttackFrames sends invalid WebSocket frames. The run is not affected.
func TestAttackFrames(t *testing.T) {
	s := serve(t, t.TempDir())
	ann := s.user("ann")
	id := s.made("/runs", ann, "run_id", map[string]any{
		"spec_version": "1.1", "base_image": "host", "command": []string{"sh", "-c", "read line; echo got $line"}, "interactive": true, "timeout_sec": longTime, "stdin_idle_timeout_sec": longTime,
	})
	const input = `{"type":"stdin","encoding":"utf8","data":"x"}`
	for name, c := range map[string]struct {
		send string
		want uint16 // close code
	}{
		"binary":            {masked(0x82, input), 1003},
		"no UTF-8":          {masked(0x81, "\xff\xfe"), 1007},
		"no JSON":           {masked(0x81, "{"), 1007},
		"deep JSON":         {masked(0x81, strings.Repeat("[", 100_000)), 1007},
		"unknown type":      {masked(0x81, `{"type":"exec"}`), 1008},
		"unknown field":     {masked(0x81, `{"type":"stdin","encoding":"utf8","data":"x","to":"y"}`), 1008},
		"a field twice":     {masked(0x81, `{"type":"stdin_close","type":"stdin"}`), 1008},
		"too long":          {masked(0x81, strings.Repeat("x", 600_000)), 1009},
		"unmasked":          {"\x81\x02{}", 1002},
		"reserved bits":     {masked(0xc1, input), 1002},
		"unknown operation": {masked(0x83, input), 1002},
		"no beginning":      {masked(0x80, input), 1002},
		"long ping":         {masked(0x89, strings.Repeat("x", 126)), 1002},
		"ping in pieces":    {masked(0x09, "x"), 1002},
		"another in one":    {masked(0x01, "a") + masked(0x81, "b"), 1002},
		"short close":       {masked(0x88, "\x03"), 1002},
	} {
		t.Run(name, func(t *testing.T) {
			conn := s.dial()
			fmt.Fprintf(conn, "GET %s/runs/%s/stream HTTP/1.1\r\nHost: h\r\nX-API-KEY: %s\r\n%s\r\n\r\n", api, id, ann, strings.Join(upgrading(), "\r\n"))
			in := bufio.NewReader(conn)
			answer, err := http.ReadResponse(in, nil)
			if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%v %v", answer, err)
			}
			_, _ = io.WriteString(conn, c.send) // the server may stop reading before the end
			if code := closing(t, in); code != c.want {
				t.Errorf("closed with %d, want %d", code, c.want)
			}
		})
	}
	conn := s.dial()
	fmt.Fprintf(conn, "GET %s/runs/%s/stream HTTP/1.1\r\nHost: h\r\nX-API-KEY: %s\r\n%s\r\n\r\n", api, id, ann, strings.Join(upgrading(), "\r\n"))
	in := bufio.NewReader(conn)
	if _, err := http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, masked(0x81, `{"type":"stdin","encoding":"utf8","data":"well\n"}`))
	if code := closing(t, in); code != 1000 {
		t.Errorf("after all that: closed with %d", code)
	}
	if got := s.textAs(ann, api+"/runs/"+id+"/logs"); got != "got well\n" {
		t.Errorf("the run has %q", got)
	}
}

// masked returns a client's WebSocket frame; head is its first byte. The mask is zero, which is allowed.
func masked(head byte, data string) string {
	b := []byte{head}
	switch n := len(data); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return string(append(b, 0, 0, 0, 0)) + data
}

// closing reads a WebSocket to its close frame and returns its code; 0 if there is none.
func closing(t *testing.T, in *bufio.Reader) uint16 {
	t.Helper()
	for {
		var head [2]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			t.Logf("no close: %v", err)
			return 0
		}
		n := uint64(head[1] & 0x7f)
		switch n {
		case 126:
			var l uint16
			_ = binary.Read(in, binary.BigEndian, &l)
			n = uint64(l)
		case 127:
			_ = binary.Read(in, binary.BigEndian, &n)
		}
		data := make([]byte, min(n, 1<<20))
		if _, err := io.ReadFull(in, data); err != nil {
			t.Logf("no close: %v", err)
			return 0
		}
		if head[0]&0xf == 8 && len(data) >= 2 {
			return binary.BigEndian.Uint16(data)
		}
	}
}

// textAs returns a text response to a user.
func (s *server) textAs(key, path string) string {
	s.t.Helper()
	status, _, text := s.send("GET", path, key, "")
	if status != http.StatusOK {
		s.t.Errorf("GET %s: %d %s", path, status, text)
	}
	return text
}
