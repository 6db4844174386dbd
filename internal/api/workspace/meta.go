package workspace

import (
	"net/http"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/workspace"
)

// versionHeader is the version of the workspace API, for servers whose workspaces are here.
const versionHeader = "X-Workspace-API-Version"

// registerMeta adds the routes by which another server finds out whether it can have its workspaces here.
func (d *Door) registerMeta(mux *http.ServeMux) {
	for path, body := range map[string]map[string]string{
		Prefix + "/healthz":        {"status": "ok"},
		Prefix + "/__meta/version": {"version": workspace.APIVersion, "server": d.opts.Version},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			api.Route(r.Context(), r.Pattern)
			if _, _, err := d.identify(d.opts.Auth, r); err != nil {
				fail(w, r, err)
				return
			}
			w.Header().Set(versionHeader, workspace.APIVersion)
			write(w, http.StatusOK, body)
		})
	}
}
