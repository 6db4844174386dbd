package api

import (
	"log/slog"
	"net/http"
	"time"
)

// NewServer returns an HTTP server for h with the bounds that keep slow and greedy clients from holding it: 10 s and
// 64 KiB for a request's headers, 2 minutes for an idle connection. Bodies are the [Edge]'s. Answers may take as
// long as they like: streams do.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
