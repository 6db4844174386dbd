package api

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"
)

// maxConns limits the open connections of a server, WebSockets not counted.
const maxConns = 8192

// NewServer returns an HTTP server for h with limits against slow clients: 10 s and 64 KiB for the headers of a request,
// 2 minutes for an idle connection, and 8192 connections. The [Edge] limits bodies and writes; a response as a whole has
// no timeout, because of streams. A nil log discards the server's errors.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ConnState: newConnLimiter(maxConns).state,
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
