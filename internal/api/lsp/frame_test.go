package lsp

import (
	"bufio"
	"context"
	"io"
	"testing"

	"github.com/creachadair/jrpc2"
)

// A request that is cancelled before its handler begins gets the answer of one that is cancelled later.
func TestCancelledEarly(t *testing.T) {
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	input, requests := io.Pipe()
	answers, output := io.Pipe()
	server := jrpc2.NewServer(&Server{}, &jrpc2.ServerOptions{DisableBuiltin: true, NewContext: func() context.Context { return cancelled }})
	server.Start(&stream{in: bufio.NewReader(input), out: output, closed: func() { input.Close() }})
	_, err := io.WriteString(requests, "Content-Length: 37\r\n\r\n"+`{"jsonrpc":"2.0","id":7,"method":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&stream{in: bufio.NewReader(answers)}).read()
	if want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32800,"message":"the request was cancelled"}}`; string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	requests.Close()
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}
