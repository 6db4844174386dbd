//go:build linux

package security

import (
	"compress/flate"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/test/peer"
)

// lentSecret goes to api.test in its header, and nowhere else. Its base64 and percent-encoded forms differ from it.
const lentSecret = "s3cr3t+t0ken/0123456789"

// brokered gives the sandbox a secret for api.test, which it never sees, and a network with that host and other.test.
func brokered(t *testing.T, tr *trial) func(outcome) {
	p := peer.Start(t, "api.test", "other.test")
	authority := filepath.Join(tr.dir, "peer.pem")
	if err := os.WriteFile(authority, p.CA, 0o644); err != nil {
		t.Fatal(err)
	}
	tr.env = append(tr.env, "SANDBOX_EGRESS_RESOLVER="+p.Resolver, "SSL_CERT_FILE="+authority, "TOKEN="+lentSecret)
	letters := []byte(lentSecret) // a program that knows the secret anyway
	slices.Reverse(letters)
	tr.flags = append(tr.flags, "--secret", "TOKEN", "--broker", "TOKEN=api.test", "--env", "LANE_REVERSED="+string(letters))
	for _, rule := range []string{"api.test", "other.test", p.Address} {
		tr.flags = append(tr.flags, "--allow", rule)
	}
	var mu sync.Mutex
	var wrong []string
	lent := 0
	handle := func(path string, h func(w http.ResponseWriter, r *http.Request, secret string)) {
		p.Handle(path, func(w http.ResponseWriter, r *http.Request) {
			all := fmt.Sprint(r.Header, r.URL, r.Trailer)
			secret := r.Header.Get("Authorization")
			mu.Lock()
			if r.TLS != nil && r.Host == "api.test" {
				lent++
				if len(r.Header["Authorization"]) != 1 || secret != "Bearer "+lentSecret || strings.Contains(fmt.Sprint(r.Trailer), "guest") {
					wrong = append(wrong, "without its secret: "+all)
				}
			} else if strings.Contains(all, lentSecret) || r.Host == "api.test" {
				wrong = append(wrong, r.Host+" got "+all)
			}
			mu.Unlock()
			h(w, r, secret)
		})
	}
	handle("/who", func(w http.ResponseWriter, _ *http.Request, secret string) {
		if secret == "Bearer "+lentSecret {
			fmt.Fprintln(w, "granted")
			return
		}
		fmt.Fprintln(w, "anonymous")
	})
	handle("/away", func(w http.ResponseWriter, r *http.Request, _ string) {
		http.Redirect(w, r, "https://other.test/who", http.StatusFound)
	})
	handle("/smuggled", func(w http.ResponseWriter, _ *http.Request, _ string) {
		mu.Lock()
		wrong = append(wrong, "a request in a request arrived")
		mu.Unlock()
		fmt.Fprintln(w, "smuggled")
	})
	handle("/upgrade", func(w http.ResponseWriter, r *http.Request, secret string) {
		if r.Header.Get("Upgrade") == "" {
			http.Error(w, "no upgrade", http.StatusUpgradeRequired)
			return
		}
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			defer c.Close()
			fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n%s", r.Header.Get("Upgrade"), secret)
		}
	})
	handle("/echo", echoes)
	return func(got outcome) {
		mu.Lock()
		defer mu.Unlock()
		for _, w := range wrong {
			t.Error(w)
		}
		if lent == 0 {
			t.Error("control: no request had the secret")
		}
		hidden(t, got.Stdout, lentSecret)
		if output := got.Stdout + got.Stderr; strings.Contains(output, lentSecret) {
			t.Errorf("the program had the secret: %s", output)
		}
	}
}

// echoes sends the secret back in the place that the query names.
func echoes(w http.ResponseWriter, r *http.Request, secret string) {
	token := strings.TrimPrefix(secret, "Bearer ")
	encoded := func(coding string, into func() io.WriteCloser) {
		w.Header().Set("Content-Encoding", coding)
		z := into()
		_, _ = io.WriteString(z, secret)
		_ = z.Close()
	}
	switch r.URL.RawQuery {
	case "header":
		w.Header().Set("X-Seen", secret)
	case "cookie":
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: token})
	case "early":
		w.Header().Set("Link", secret)
		w.WriteHeader(http.StatusEarlyHints)
	case "trailer":
		_, _ = io.WriteString(w, "body\n")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Seen", secret)
	case "chunks":
		for i := range len(secret) {
			_, _ = io.WriteString(w, secret[i:i+1])
			_ = http.NewResponseController(w).Flush()
		}
	case "gzip":
		encoded("gzip", func() io.WriteCloser { return gzip.NewWriter(w) })
	case "deflate":
		encoded("deflate", func() io.WriteCloser { z, _ := flate.NewWriter(w, flate.BestSpeed); return z })
	case "br":
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, secret)
	case "base64":
		_, _ = io.WriteString(w, base64.StdEncoding.EncodeToString([]byte("x"+token)))
	case "basic":
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "Basic "+base64.StdEncoding.EncodeToString([]byte("user:"+token)))
	case "hex":
		_, _ = io.WriteString(w, hex.EncodeToString([]byte(token)))
	case "url":
		_, _ = io.WriteString(w, url.QueryEscape(token))
	default:
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(secret))
	}
}
