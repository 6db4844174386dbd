package daemon

import (
	"net/http"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/tunnel"
	"github.com/belljar/belljar/internal/event"
)

// openTunnels opens the door to the ports of sessions. It shares the streams' tickets, so the streams come first.
func (d *server) openTunnels(edge *api.Edge, limits *api.Limits, events event.Sink, mux *http.ServeMux) error {
	door, err := tunnel.New(tunnel.Options{
		Engine: d.service, Auth: d.streams, OriginAllowed: edge.OriginAllowed, Connect: limits.Connect, Events: events, Logger: d.log,
	})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, door.Close)
	door.Register(mux)
	return nil
}
