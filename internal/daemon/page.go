package daemon

import (
	"net/http"

	"github.com/belljar/belljar/internal/api"
	webdoor "github.com/belljar/belljar/internal/api/web"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/web"
)

// openPage opens the web page, and the root, which leads to it or to the API's page.
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
