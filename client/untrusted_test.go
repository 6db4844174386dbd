package client_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

func TestUntrustedCertificate(t *testing.T) {
	var met atomic.Int32
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			met.Add(1)
		}
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL, APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Node().Me(t.Context())
	if belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || met.Load() != 1 || !strings.Contains(belljar.HintOf(err), "SSL_CERT_FILE") {
		t.Errorf("%v, hint %q, after %d tries", err, belljar.HintOf(err), met.Load())
	}
}
