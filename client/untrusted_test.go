package client_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

func TestUntrustedCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL, APIKey: "k", Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Node().Me(t.Context())
	if belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || !strings.Contains(belljar.HintOf(err), "SSL_CERT_FILE") {
		t.Errorf("%v, hint %q", err, belljar.HintOf(err))
	}
}
