//go:build linux

package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// doubleVariable makes this test program act as the server that [client.Local] starts.
const doubleVariable = "BELLJAR_TEST_DOUBLE"

// Behaviours of the double.
const (
	playServe    = "serve"    // works
	playDie      = "die"      // works until the first request, then panics
	playRefuse   = "refuse"   // fails to start, with a message
	playOld      = "old"      // does not support private servers
	playStranger = "stranger" // is another program
	playSilent   = "silent"   // is never ready; ends when stopped
	playStubborn = "stubborn" // is never ready; must be killed
)

// play makes [client.Local] start this program.
func play(t *testing.T, mode string) {
	t.Helper()
	t.Setenv("BELLJAR_BIN", os.Args[0])
	t.Setenv(doubleVariable, mode)
}

// playBelljar is belljar serve --private with the fake runtime.
func playBelljar(mode string) int {
	switch mode {
	case playRefuse:
		fmt.Fprintln(os.Stderr, "belljar: data folder /srv is in use by another belljar\nhint: stop that one")
		return 125
	case playOld:
		fmt.Fprintln(os.Stderr, "belljar: unknown flag --private\nhint: belljar serve --help lists the flags")
		return 125
	case playStranger:
		fmt.Println("hello from somewhere else")
		return 0
	case playSilent:
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case playStubborn:
		select {}
	}
	if err := playServer(mode); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	return 0
}

func playServer(mode string) (err error) {
	dir, err := os.MkdirTemp("/tmp", "blj") // short: a socket's path has at most 107 bytes
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w, handler, err := assemble(dir, func(next http.Handler) http.Handler {
		if mode != playDie {
			return next
		}
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			fmt.Fprintln(os.Stderr, "panic: as told\ngoroutine 1 [running]:")
			_ = os.RemoveAll(dir)
			os.Exit(2)
		})
	})
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	w.server = httptest.NewUnstartedServer(handler)
	w.server.Listener.Close()
	w.server.Listener = l
	w.server.Start()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"socket": socket, "api_key": "alice", "version": "dev"}); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "it serves")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return w.close()
}
