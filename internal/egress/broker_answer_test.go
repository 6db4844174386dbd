package egress

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestBrokerEcho: a host that sends the secret back does not reveal it, in any place of the response.
func TestBrokerEcho(t *testing.T) {
	hidden := "Bearer " + strings.Repeat("*", len(secretValue))
	compress := func(coding string, into func(io.Writer) io.WriteCloser) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header["Accept-Encoding"]; !slices.Equal(got, []string{"identity"}) {
				t.Errorf("asked for %q", got)
			}
			w.Header().Set("Content-Encoding", coding)
			z := into(w)
			_, _ = io.WriteString(z, r.Header.Get("Authorization"))
			z.Close()
		}
	}
	for name, serve := range map[string]http.HandlerFunc{
		"body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(rendered)))
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		},
		"one byte in a chunk": func(w http.ResponseWriter, r *http.Request) {
			for _, b := range []byte(r.Header.Get("Authorization")) {
				_, _ = w.Write([]byte{b})
				w.(http.Flusher).Flush()
			}
		},
		"an error": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		},
		"gzip":      compress("gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"x-gzip":    compress("X-GZip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"zlib":      compress("deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"raw flate": compress("deflate", func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 9); return z }),
	} {
		t.Run(name, func(t *testing.T) {
			resp := newAPI(t, serve, nil).send(t, get+"Accept-Encoding: gzip, br\r\nRange: bytes=0-9\r\n\r\n")
			if got := body(t, resp); got != hidden || resp.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s %q, encoded %q", resp.Status, got, resp.Header["Content-Encoding"])
			}
		})
	}
	t.Run("headers", func(t *testing.T) {
		a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Early", r.Header.Get("Authorization"))
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("X-Seen", "a "+r.Header.Get("Authorization")+" z")
			w.Header()[secretValue] = []string{"1"}
			w.Header().Set("X-"+secretValue, "1")
			w.Header().Set("Trailer", "X-Late, "+secretValue)
			w.Header().Set("Set-Cookie", "a="+secretValue)
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			w.Header().Set("X-Late", r.Header.Get("Authorization"))
			w.Header().Set(http.TrailerPrefix+"X-Unannounced", secretValue)
		}, nil)
		c := a.secure(t)
		write(t, c, get+"Te: trailers\r\nConnection: close\r\n\r\n")
		all, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ToLower(string(all))
		if strings.Contains(text, secretValue) {
			t.Errorf("revealed:\n%s", all)
		}
		for _, part := range []string{"HTTP/1.1 103", "X-Early: " + hidden, "X-Seen: a " + hidden + " z", "X-Late: " + hidden, "X-Unannounced: ****"} {
			if !strings.Contains(string(all), part) {
				t.Errorf("%q is missing in\n%s", part, all)
			}
		}
	})
	for _, coding := range []string{"br", "zstd", "gzip, gzip", "gzip,br", "compress"} {
		t.Run(coding, func(t *testing.T) {
			a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", coding)
				_, _ = io.WriteString(w, r.Header.Get("Authorization"))
			}, nil)
			resp := a.send(t, get+"\r\n")
			if got := body(t, resp); resp.StatusCode != 502 || !strings.Contains(got, "encoded") || strings.Contains(got, secretValue) {
				t.Errorf("%s %q", resp.Status, got)
			}
		})
	}
}

// TestBrokerRanges: no header makes a host send the secret in parts.
func TestBrokerRanges(t *testing.T) {
	for name, tt := range map[string]struct {
		asks   string // the header that the host reads as Range
		status int
		header [2]string
		want   int
	}{
		"Range":             {"Range", 206, [2]string{"Content-Range", "bytes 8-99/100"}, 200},
		"Request-Range":     {"Request-Range", 206, [2]string{"Content-Range", "bytes 8-99/100"}, 200},
		"its own header":    {"X-Ms-Range", 206, [2]string{"Content-Range", "Bytes 8-99/100"}, 502},
		"several":           {"X-Ms-Range", 206, [2]string{"Content-Type", "multipart/x-byteranges; boundary=1"}, 502},
		"without its place": {"X-Ms-Range", 206, [2]string{"X-Other", "1"}, 502},
		"another status":    {"X-Ms-Range", 200, [2]string{"Content-Range", "bytes 8-99/100"}, 502},
		"rows":              {"X-Ms-Range", 206, [2]string{"Content-Range", "0-9/100"}, 206},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
				answer := r.Header.Get("Authorization")
				if r.Header.Get(tt.asks) != "" {
					w.Header().Set(tt.header[0], tt.header[1])
					w.WriteHeader(tt.status)
					if tt.want == 502 {
						answer = answer[8:]
					}
				}
				_, _ = io.WriteString(w, answer)
			}, nil)
			resp := a.send(t, get+tt.asks+": bytes=8-99\r\n\r\n")
			if got := body(t, resp); resp.StatusCode != tt.want || strings.Contains(got, secretValue[1:]) {
				t.Errorf("%s %q", resp.Status, got)
			}
		})
	}
}

// TestBrokerAfterEncoding: bytes after the end of an encoded body are not delivered.
func TestBrokerAfterEncoding(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "deflate")
		z := zlib.NewWriter(w)
		_, _ = io.WriteString(z, "begin")
		z.Close()
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}, nil)
	resp := a.send(t, get+"\r\n")
	if got, _ := io.ReadAll(resp.Body); strings.Contains(string(got), secretValue) {
		t.Errorf("%q", got)
	}
}

// TestBrokerStreams: the parts of a streamed response arrive as the host sends them.
func TestBrokerStreams(t *testing.T) {
	next := make(chan struct{})
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
			<-next
		}
	}, nil)
	resp := a.send(t, get+"\r\n")
	buf := make([]byte, 9)
	for range 3 {
		if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != "data: x\n\n" {
			t.Fatalf("%q, %v", buf, err)
		}
		next <- struct{}{}
	}
}

// TestBrokerUpgrade: no other protocol can begin, because the gate could not check its contents.
func TestBrokerUpgrade(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			http.Error(w, "no upgrade", http.StatusUpgradeRequired)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n%s", r.Header.Get("Upgrade"), rendered)
	}, nil)
	for _, protocol := range []string{"websocket", "h2c"} {
		resp := a.send(t, get+"Connection: Upgrade\r\nUpgrade: "+protocol+"\r\n\r\n")
		if got := body(t, resp); resp.StatusCode == 101 || strings.Contains(got, secretValue) {
			t.Errorf("%s: %s %q", protocol, resp.Status, got)
		}
	}
}

// TestBrokerBreaks: an interrupted response does not look complete.
func TestBrokerBreaks(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, nil)
	resp := a.send(t, "GET / HTTP/1.0\r\nHost: a.example.com\r\n\r\n")
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("a broken answer of %d bytes looks complete", len(got))
	}
}

// TestBrokerEnds: after a complete response the program reads the end of the connection. A reset could overtake the response.
func TestBrokerEnds(t *testing.T) {
	a := newAPI(t, ok, nil)
	c := a.secure(t)
	if _, err := io.WriteString(c, get+"Connection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || !strings.HasSuffix(string(got), "fine") {
		t.Errorf("%q, %v", got, err)
	}
	if n, err := c.NetConn().Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end of TLS: %d bytes, %v; want the end of the connection", n, err)
	}
}

// TestBrokerLimit: the sandbox's limit also applies to the decoded size of an encoded response. Reports count the received bytes.
func TestBrokerLimit(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.CopyN(z, zeros{}, 8<<20)
		z.Close()
	}, func(o *Options) { o.Limits.Bytes = 1 << 20 })
	resp := a.send(t, get+"\r\n")
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil || n > 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	a.denied("a.example.com", Limit)
	a.refused("a.example.com", 443, Limit)
	if r := a.gate.Report(); r.BytesIn != r.Hosts[0].BytesIn || r.BytesIn > 100<<10 {
		t.Errorf("%d bytes came in, %d of them from the host", r.BytesIn, r.Hosts[0].BytesIn)
	}
}

// The work for a header of an answer does not grow with the number of secrets and their words, and each header is looked at once.
func TestBrokerManyWords(t *testing.T) {
	b := &Broker{}
	for i := range 31 {
		b.Credentials = append(b.Credentials, Credential{"a.example.com", "X-Key", strings.Repeat(fmt.Sprintf("Abcdefg%d ", i), 800)})
	}
	h := http.Header{"X-Abcdefg12": {""}, "X-Plain-Name": {""}}
	b.hide(h)
	if len(h) != 1 || h["X-Plain-Name"] == nil {
		t.Errorf("headers %v", h)
	}
	if n := testing.AllocsPerRun(10, func() { b.hide(h) }); n > 10 {
		t.Errorf("%.0f allocations for a header", n)
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Plain-Name", "")
	(&answer{w, b}).WriteHeader(http.StatusOK)
	if len(w.Header()) > 0 || w.Result().Header["X-Plain-Name"] == nil {
		t.Errorf("headers %v are left for the trailers", w.Header())
	}
}
