package api

import (
	"log/slog"
	"net/http"
	"time"
)

// mostConns is how many connections a server has at once, WebSockets not counted.
const mostConns = 8192

// NewServer returns an HTTP server for h with the bounds that keep slow and greedy clients from holding it: 10 s and
// 64 KiB for a request's headers, 2 minutes for an idle connection and less if there are more than 8192. Bodies are
// the [Edge]'s. Answers may take as long as they like: streams do.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ConnState: newCrowd(mostConns).state,
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
