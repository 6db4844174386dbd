package daemon

import (
	"context"
	"net/http"
	"strings"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/auth"
	webdoor "github.com/belljar/belljar/internal/api/web"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/web"
)

// openPage opens the web page, and redirects the root to it or to the API's page.
func openPage(cfg *config.Config, edge *api.Edge, mux *http.ServeMux) error {
	home := http.Handler(http.RedirectHandler(edge.BasePath()+"/docs", http.StatusFound))
	if cfg.WebUI {
		files, err := web.Files()
		if err != nil {
			return err
		}
		door, err := webdoor.New(webdoor.Options{Files: files, BasePath: edge.BasePath()})
		if err != nil {
			return err
		}
		door.Register(mux)
		home = door.Home(home)
	}
	mux.Handle("GET /{$}", home)
	return nil
}

// pageURL returns the function for addresses of the web page, nil without a page.
func pageURL(cfg *config.Config, edge *api.Edge) func(*http.Request, string) string {
	if !cfg.WebUI {
		return nil
	}
	return func(r *http.Request, path string) string { return edge.URL(r, webdoor.Root+path) }
}

// announcePage prints the address of the web page. It adds a one-time sign-in code unless the output is kept.
func announcePage(ctx context.Context, h *Host, cfg *config.Config, n *server, url string, kept bool) {
	if !cfg.WebUI || !strings.HasPrefix(url, "http") {
		return
	}
	if cfg.PublicURL != "" {
		url = strings.TrimRight(cfg.PublicURL, "/")
	}
	if !kept {
		code, err := n.known.OperatorCode(ctx)
		if err == nil {
			h.Print("web page %s%s%s (signs in once, within 5 minutes)", url, webdoor.Root, auth.CodeFragment(code))
			return
		}
		h.Print("warning: no code for the web page can be made: %v", err)
	}
	h.Print("web page %s%s, where the API key signs in", url, webdoor.Root)
}
