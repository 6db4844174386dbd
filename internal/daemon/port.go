package daemon

import (
	"net"
	"net/http"
	"net/url"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/preview"
	"github.com/belljar/belljar/internal/api/tunnel"
	"github.com/belljar/belljar/internal/config"
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

// openPreviews puts the previews in front of all doors: requests for their host names never reach another door, and other requests
// never reach them.
func (d *server) openPreviews(cfg *config.Config, edge *api.Edge, events event.Sink) error {
	if cfg.PreviewDomain == "" {
		return nil
	}
	domain, _ := cfg.PreviewHost()
	var err error
	d.previews, err = preview.New(preview.Options{
		Domain: domain, Open: d.service.OpenPreview, Dial: d.service.DialPreview, MaxBody: int64(cfg.MaxUploadMB) << 20, Events: events, Logger: d.log,
	})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, d.previews.Close)
	d.handler = d.previews.Split(d.handler, edge.WrapForeign(d.previews))
	return nil
}

// previewURL returns the function for the addresses of previews. They are like the API's, with another host, and with the port of
// the setting if it has one.
func previewURL(cfg *config.Config, edge *api.Edge) func(r *http.Request, label string) string {
	if cfg.PreviewDomain == "" {
		return nil
	}
	domain, port := cfg.PreviewHost()
	return func(r *http.Request, label string) string {
		u, err := url.Parse(edge.URL(r, "/"))
		if err != nil {
			return ""
		}
		host := label + "." + domain
		if p := port; p != "" || u.Port() != "" {
			if p == "" {
				p = u.Port()
			}
			host = net.JoinHostPort(host, p)
		}
		return u.Scheme + "://" + host + "/"
	}
}
