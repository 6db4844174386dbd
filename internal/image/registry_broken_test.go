//go:build linux

package image_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// TestResume tests that a download resumes where its connection broke, with or without ranges.
func TestResume(t *testing.T) {
	layer := noise(t, 300<<10)
	for name, ranges := range map[string]bool{"ranges": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.put("app:latest", build(t, spec{layers: [][]byte{layer}}))
			var sent atomic.Int64
			h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, digest(layer)) {
					return false
				}
				from := 0
				if v := r.Header.Get("Range"); v != "" && ranges {
					if _, err := fmt.Sscanf(v, "bytes=%d-", &from); err != nil {
						t.Error(err)
					}
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(layer)-1, len(layer)))
					w.Header().Set("Content-Length", strconv.Itoa(len(layer)-from))
					w.WriteHeader(http.StatusPartialContent)
				}
				until := min(len(layer), from+150<<10)
				if !ranges {
					until = min(len(layer), int(sent.Load())+150<<10)
					w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
				}
				n, _ := w.Write(layer[from:until])
				sent.Add(int64(n))
				if until < len(layer) {
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
				return true
			})
			s := open(t, image.Options{}, h)
			pull(t, s, h.ref("app"))
			if ranges && sent.Load() != int64(len(layer)) {
				t.Errorf("%d bytes were sent for %d", sent.Load(), len(layer))
			}
		})
	}
}

// TestPlainBreaksOften tests that a connection may break any number of times, if enough bytes arrive in between.
func TestPlainBreaksOften(t *testing.T) {
	layer := noise(t, 14<<20)
	h := newHub(t)
	h.put("app:latest", build(t, spec{layers: [][]byte{layer}}))
	var breaks atomic.Int32
	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, digest(layer)) {
			return false
		}
		from := 0
		if v := r.Header.Get("Range"); v != "" {
			if _, err := fmt.Sscanf(v, "bytes=%d-", &from); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(layer)-1, len(layer)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(layer)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		until := min(len(layer), from+2<<20)
		_, _ = w.Write(layer[from:until])
		if until < len(layer) {
			breaks.Add(1)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		return true
	})
	pull(t, open(t, image.Options{}, h), h.ref("app"))
	if n := breaks.Load(); n < 6 {
		t.Errorf("it broke %d times", n)
	}
}

// TestUnknownAuthority tests that a registry with an untrusted certificate is refused, and that the error states why.
func TestUnknownAuthority(t *testing.T) {
	h := newHub(t)
	secure := httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	host := strings.TrimPrefix(secure.URL, "https://")
	_, err := open(t, image.Options{Registries: []string{host}}).Pull(t.Context(), host+"/app", false, nil)
	wantError(t, err, belljar.CodeImageUnavailable, "certificate", "SSL_CERT_FILE")
	if len(h.asked) > 0 {
		t.Errorf("it was asked for %v", h.asked)
	}
}

// TestStall tests that Pull gives up on a registry that stops in the middle, or sends a few bytes at a time.
func TestStall(t *testing.T) {
	layer := noise(t, 300<<10)
	for name, drip := range map[string]time.Duration{"stops": time.Hour, "drips": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.put("app:latest", build(t, spec{layers: [][]byte{layer}}))
			h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, digest(layer)) {
					return false
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
				_, _ = w.Write(layer[:100<<10])
				for i := 100 << 10; ; i++ {
					w.(http.Flusher).Flush()
					timer := time.NewTimer(drip)
					select {
					case <-r.Context().Done():
						timer.Stop()
						return true
					case <-timer.C:
						if _, err := w.Write(layer[i : i+1]); err != nil {
							return true
						}
					}
				}
			})
			// A transport without a limit of its own: on a busy machine any response may stall, and each is reported in the same
			// way.
			plain := &http.Transport{}
			defer plain.CloseIdleConnections()
			s := open(t, image.Options{StallTimeout: 2 * time.Second, Transport: plain}, h)
			_, err := s.Pull(t.Context(), h.ref("app"), false, nil)
			wantError(t, err, belljar.CodeImageUnavailable, "sends nothing, or next to nothing")
		})
	}
}

// TestSlowRegistry tests that a registry that sends a layer slowly delays no pull of that layer from another registry, and leaves nothing.
func TestSlowRegistry(t *testing.T) {
	layer := noise(t, 300<<10)
	slow, good := newHub(t), newHub(t)
	for _, h := range []*hub{slow, good} {
		h.put("app:latest", build(t, spec{layers: [][]byte{layer}}))
	}
	begun := make(chan struct{})
	seen := sync.OnceFunc(func() { close(begun) })
	slow.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, digest(layer)) {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
		_, _ = w.Write(layer[:1])
		w.(http.Flusher).Flush()
		seen()
		<-r.Context().Done()
		return true
	})
	path := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Options{Path: path, StallTimeout: time.Minute}, slow, good)
	ctx, cancel := context.WithCancel(t.Context())
	var hostile sync.WaitGroup
	hostile.Go(func() {
		if _, err := s.Pull(ctx, slow.ref("app"), false, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the slow pull: %v", err)
		}
	})
	<-begun
	pull(t, s, good.ref("app"))
	cancel()
	hostile.Wait()
	if err := s.Close(); err != nil { // waits for the end of the slow pull
		t.Error(err)
	}
	if left := leftovers(t, path); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestAddresses tests that private registries are refused unless the operator has named them.
func TestAddresses(t *testing.T) {
	h := newHub(t)
	h.put("app:latest", build(t, spec{}))
	s := open(t, image.Options{})
	for _, ref := range []string{h.ref("app"), "localhost:1/app", "[::1]:1/app", "10.0.0.1/app", "169.254.169.254/app"} {
		_, err := s.Pull(t.Context(), ref, false, nil)
		wantError(t, err, belljar.CodeImageUnavailable, "not a public address", "SANDBOX_IMAGE_REGISTRIES")
		if strings.Contains(ref, "localhost") && !strings.Contains(errorOf(err).Message, ": the address of localhost is not a public address") {
			t.Errorf("%q", errorOf(err).Message)
		}
	}
	if len(h.asked) > 0 {
		t.Errorf("it was asked for %v", h.asked)
	}
}

// TestDown tests registries that are down, that do not speak HTTP, and that have an untrusted certificate.
func TestDown(t *testing.T) {
	down := refusing(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	go func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 100))
			_, _ = c.Write([]byte("220 mail.example ESMTP\r\n"))
			_ = c.Close()
		}
	}()
	secure := httptest.NewTLSServer(newHub(t))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer secure.Close()
	for host, words := range map[string][]string{
		down:                            {"connection refused", "can be reached"},
		mute.Addr().String():            {"can be reached"},
		secure.Listener.Addr().String(): {"certificate"},
	} {
		s := open(t, image.Options{Registries: []string{host}})
		_, err := s.Pull(t.Context(), host+"/app", false, nil)
		wantError(t, err, belljar.CodeImageUnavailable, words...)
	}
}

// refusing returns an address without a listener, which no program can bind while the test runs.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*unix.SockaddrInet4).Port)
}
