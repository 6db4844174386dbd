package lsp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path"
	"path/filepath"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/char"
)

type artifactItem struct {
	Path        string `json:"path"`
	Size        int64  `json:"size"`
	Type        string `json:"type"`
	DownloadURL string `json:"download_url,omitempty"`
	Skipped     string `json:"skipped,omitempty"`     // why it was not kept
	LinkTarget  string `json:"link_target,omitempty"` // of a link, which has no content
}

type artifactList struct {
	RunID  string         `json:"run_id"`
	Items  []artifactItem `json:"items"`
	WebURL string         `json:"web_url,omitempty"`
}

// openArtifacts lists the artifacts of a run. An editor without a panel shows the run's page.
func (s *Server) openArtifacts(ctx context.Context, args runArg) (any, error) {
	id, service, err := s.reach(ctx, args.RunID)
	if err != nil {
		return nil, err
	}
	list, err := service.Artifacts().List(ctx, id)
	if err != nil {
		return nil, err
	}
	out := artifactList{RunID: id, Items: []artifactItem{}, WebURL: s.reporter.desk.webURL(id)}
	for _, a := range list {
		kind := cmp.Or(mime.TypeByExtension(path.Ext(a.Path)), "application/octet-stream")
		item := artifactItem{Path: a.Path, Size: a.Size, Type: kind, Skipped: a.Skipped, LinkTarget: a.LinkTarget}
		if a.Skipped == "" && a.LinkTarget == "" {
			item.DownloadURL = s.reporter.desk.artifactURL(id, a.Path)
		}
		out.Items = append(out.Items, item)
	}
	if !s.reporter.desk.options.Notifications {
		if out.WebURL != "" {
			s.reporter.desk.show(ctx, out.WebURL)
		} else {
			s.reporter.desk.log(fmt.Sprintf("Belljar: run %s has left %d files", id, len(list)))
			for _, a := range list {
				switch {
				case a.Skipped != "":
					s.reporter.desk.log(fmt.Sprintf("Belljar: %s, not kept: %s", char.Quoted(a.Path), a.Skipped))
				case a.LinkTarget != "":
					s.reporter.desk.log(fmt.Sprintf("Belljar: %s, link to %s", char.Quoted(a.Path), char.Quoted(a.LinkTarget)))
				default:
					s.reporter.desk.log(fmt.Sprintf("Belljar: %s, %d bytes", char.Quoted(a.Path), a.Size))
				}
			}
		}
	}
	return out, nil
}

type fetchArgs struct {
	RunID string `json:"run_id,omitempty"`
	Path  string `json:"path"`
	To    string `json:"to"` // the URI of the file to write
}

// fetchArtifact stores an artifact as a file. The editor chooses the file's name; the program has no part in it.
func (s *Server) fetchArtifact(ctx context.Context, args fetchArgs) (any, error) {
	to, ok := fileOf(args.To)
	switch {
	case args.Path == "":
		return nil, refuse("path", "path is required", "it is that of an artifact")
	case !ok:
		return nil, refuse("to", fmt.Sprintf("to %.200q is not the URI of a file", args.To), "it looks like file:///home/ann/plot.png")
	}
	id, service, err := s.reach(ctx, args.RunID)
	if err != nil {
		return nil, err
	}
	a, body, err := service.Artifacts().Open(ctx, id, args.Path, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if err := writeWhole(to, body, 0o644); err != nil {
		return nil, &belljar.Error{Code: belljar.CodeConflict, Message: "the artifact cannot be stored", Err: err}
	}
	return map[string]any{"run_id": id, "path": a.Path, "size": a.Size, "uri": uriOf(to)}, nil
}

// writeWhole writes a file whole or not at all. A link in its place is replaced, not followed.
func writeWhole(name string, body io.Reader, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".belljar-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it may have been renamed
	}
	return err
}
