//go:build linux

package client_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// newProxy starts an HTTP proxy that requires a password and drops Upgrade from requests, and returns its URL.
func newProxy(t *testing.T) *url.URL {
	t.Helper()
	plain := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		for _, name := range []string{"Connection", "Upgrade"} {
			r.Out.Header.Del(name)
		}
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Proxy-Authorization") != "Basic YW5uOnB3": // ann:pw
			w.WriteHeader(http.StatusProxyAuthRequired)
		case r.Method == http.MethodConnect:
			splice(w, r.Host)
		default:
			plain.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword("ann", "pw")
	return address
}

// splice connects a CONNECT request to an address.
func splice(w http.ResponseWriter, to string) {
	out, err := net.Dial("tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer out.Close()
	w.WriteHeader(http.StatusOK)
	in, read, err := http.NewResponseController(w).Hijack() // read may already contain the first byte of the tunnel
	if err != nil {
		return
	}
	defer in.Close()
	go func() {
		_, _ = io.Copy(out, read)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

func TestProxy(t *testing.T) {
	proxy := newProxy(t)
	w := newWorld(t, nil)
	via := func(proxy *url.URL) func(*client.Options) {
		return func(o *client.Options) {
			o.HTTP = &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
		}
	}
	req := shell("read -r line; echo got $line")
	req.Input = strings.NewReader("typed\n")
	if run, out := finish(t, w.client(via(proxy)), req); run.Phase != belljar.PhaseCompleted || string(out.Stdout) != "got typed\n" {
		t.Errorf("%+v, %q", run, out.Stdout)
	}
	stranger := *proxy
	stranger.User = nil
	_, err := w.client(via(&stranger), patience(-1)).Terminals().Attach(within(t), "x")
	if e := want(t, err, belljar.CodeRuntimeUnavailable); !strings.Contains(e.Error(), "407") {
		t.Error(err)
	}
}
