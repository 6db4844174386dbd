package api

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

const (
	maxConns   = 8192 // open connections of a server, WebSockets not counted
	maxHeaders = 256  // of a request: empty ones take several times their size in memory while it runs, and need no credential
)

// NewServer returns an HTTP server for h with limits against slow clients: 10 s, 64 KiB and 256 names for the headers of a request,
// 2 minutes for an idle connection, and 8192 connections. The [Edge] limits bodies and writes; a response as a whole has
// no timeout, because of streams. A nil log discards the server's errors.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &http.Server{
		Handler: limitHeaders(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ConnState: newConnLimiter(maxConns).state,
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// limitHeaders answers 431 to requests with more than maxHeaders names of headers, and does not keep them.
func limitHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header) <= maxHeaders {
			next.ServeHTTP(w, r)
			return
		}
		r.Header = nil // the server keeps the request while it waits for its body
		w.Header().Set("Connection", "close")
		http.Error(w, fmt.Sprintf("the request has more than %d headers", maxHeaders), http.StatusRequestHeaderFieldsTooLarge)
	})
}
