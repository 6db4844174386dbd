package rest

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// artifact adds the download URL. Links and skipped files have none, nor do paths that [artifactPath] rejects.
type artifact struct {
	belljar.Artifact
	Type        string `json:"type" enum:"file,link"`
	DownloadURL string `json:"download_url,omitempty"`
}

type artifactList struct {
	Items []artifact `json:"items"`
}

func (d *Door) artifacts() {
	handle(d, huma.Operation{
		OperationID: "list-artifacts", Method: http.MethodGet, Path: api.Prefix + "/runs/{run_id}/artifacts", Tags: []string{"artifacts"},
		Summary:     "List a run's artifacts",
		Description: "Sorted by path, and empty until the run has ended. Symbolic links are listed and never followed.",
	}, func(c *call, p *runPath, _ *none) (artifactList, error) {
		found, err := c.Artifacts().List(c, p.ID)
		return artifactList{d.listed(p.ID, found)}, err
	})
	addDownload(d, "GET "+api.Prefix+"/runs/{run_id}/artifacts/{path...}", d.download)
}

func (d *Door) listed(run string, found []belljar.Artifact) []artifact {
	items := make([]artifact, 0, len(found))
	for _, a := range found {
		item := artifact{Artifact: a, Type: "file"}
		if a.LinkTarget != "" {
			item.Type = "link"
		}
		if _, err := artifactPath(a.Path); err == nil && a.LinkTarget == "" && a.Skipped == "" {
			item.DownloadURL = d.opts.BasePath + downloadURL(run, a.Path)
		}
		items = append(items, item)
	}
	return items
}

func downloadURL(run, path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return api.Prefix + "/runs/" + url.PathEscape(run) + "/artifacts/" + strings.Join(parts, "/")
}

// artifactPath checks the path of an artifact from a URL, unescaped once. It rejects control characters and paths that
// leave the run's artifacts, even after repeated unescaping, and those that are escaped ten times: each round costs time.
func artifactPath(given string) (string, error) {
	clean, err := belljar.CleanPath(given)
	bad := err != nil || clean != given || clean == "." || strings.HasPrefix(given, "/")
	for name, rounds := given, 1; !bad; rounds++ {
		bad = rounds > 10 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) || climbs(name)
		next, err := url.PathUnescape(name)
		if err != nil || next == name {
			break
		}
		name = next
	}
	if bad {
		return "", api.Refuse("path", "the path %.200q is not a path in the run's artifacts", given)
	}
	return clean, nil
}

// climbs reports whether a path has a ".." segment, with / or \ as the separator.
func climbs(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == ".." {
			return true
		}
	}
	return false
}
