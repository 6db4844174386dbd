package rest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// queryNames are the query parameters of an operation.
func queryNames(op *huma.Operation) []string {
	names := []string{}
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}

// checkVersion refuses a version of the specification that the server does not offer to clients.
func checkVersion(d *Door, v string) error {
	if d.opts.SpecVersions == nil {
		return nil
	}
	return belljar.CheckVersion(v, d.opts.SpecVersions)
}

// versionError returns the error for a body with a version that the server does not offer. It comes before errors about
// other fields, which are for other servers.
func versionError(d *Door, body []byte) error {
	var named struct {
		SpecVersion json.RawMessage `json:"spec_version"`
	}
	if json.Unmarshal(body, &named) != nil || string(named.SpecVersion) == "null" {
		return nil
	}
	v := ""
	if given := string(named.SpecVersion); given != "" && json.Unmarshal(named.SpecVersion, &v) != nil && d.opts.SpecVersions != nil {
		return &belljar.Error{
			Code: belljar.CodeInvalidSpecVersion, Message: "spec_version must be a string",
			Details: map[string]any{"field": "spec_version", "supported": d.opts.SpecVersions, "provided": given},
		}
	}
	if v == "" {
		return nil
	}
	return checkVersion(d, v)
}

// RequireCleanPath rejects paths with dot segments or empty segments, which a mux would redirect.
func RequireCleanPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if strings.HasPrefix(path, api.Prefix) {
			for segment := range strings.SplitSeq(path[1:], "/") {
				if segment == "" || segment == "." || segment == ".." {
					e := api.Refuse("path", "the path has an empty or a dot segment")
					e.Hint = "a variable in the URL may be unset"
					api.Fail(w, r, e)
					return
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}
