package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

func TestHeaderThatCannotBeSent(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL, APIKey: "k", Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Runs().Start(t.Context(), belljar.RunRequest{IdempotencyKey: "a\nb"})
	if belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Error(err)
	}
}
