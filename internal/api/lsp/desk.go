package lsp

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	gosync "sync"

	"github.com/creachadair/jrpc2"
)

// desk holds the editor's open documents, and the diagnostics and lenses shown for them.
type desk struct {
	*peer
	links

	mu       gosync.Mutex
	units    encoding
	noLenses bool
	folders  []*folder
	docs     map[string]*document
	shown    map[string]diagnostics // by file and target
	marks    map[string]string      // titles of lenses, by target
	newest   map[string]string      // ids of the latest runs, by target
	live     map[*plan]bool         // of runs that have not ended
	tokens   int
	begun    map[string]*run // whose progress is shown, by its token
}

// reporter notifies the editor about runs.
type reporter struct{ desk *desk }

// initialized registers for changes of settings and files that lenses and marks depend on, if the editor supports it.
func (s *desk) initialized(context.Context, *jrpc2.Request) (any, error) {
	settle()
	var list []registration
	if s.client.Workspace.DidChangeConfiguration.DynamicRegistration {
		list = append(list, registration{"belljar-settings", "workspace/didChangeConfiguration", map[string]any{"section": "tldw.sandbox.codeLens"}})
	}
	if s.client.Workspace.DidChangeWatchedFiles.DynamicRegistration {
		var watchers []map[string]any
		for _, pattern := range []string{"**/*.{" + strings.Join(extensions(), ",") + "}", "**/{" + strings.Join(buildFiles(), ",") + "}"} {
			watchers = append(watchers, map[string]any{"globPattern": pattern})
		}
		list = append(list, registration{"belljar-files", "workspace/didChangeWatchedFiles", map[string]any{"watchers": watchers}})
	}
	if len(list) > 0 {
		s.background(func(ctx context.Context) {
			_ = s.ask(ctx, "client/registerCapability", map[string]any{"registrations": list}, nil) // without it, they change at the next edit or run
		})
	}
	return nil, nil
}

func (s *desk) didOpen(p openParams) {
	d := p.TextDocument
	name, _ := fileOf(d.URI)
	s.docs[d.URI] = &document{uri: d.URI, path: name, language: d.LanguageID, version: d.Version, text: d.Text, edited: unsaved(name, d.Text)}
	// Diagnostics published before the file was open may be under another spelling of its URI.
	if other := uriOf(name); name != "" && other != d.URI && len(s.shown[other]) > 0 {
		list := s.shown[other]
		maps.Copy(list, s.shown[d.URI])
		delete(s.shown, other)
		s.publish(other)
		s.shown[d.URI] = list
		s.publish(d.URI)
	}
}

// uriOf returns the URI of an open file as the editor spells it, and of other files as Belljar spells it.
func (s *desk) uriOf(name string) string {
	for uri, d := range s.docs {
		if d.path == name {
			return uri
		}
	}
	return uriOf(name)
}

func (s *desk) didChange(p documentParams) {
	old, ok := s.docs[p.TextDocument.URI]
	if !ok {
		return
	}
	d := *old
	d.edited = true
	if p.TextDocument.Version != nil {
		d.version = *p.TextDocument.Version
	}
	moved := false
	for _, c := range p.ContentChanges {
		moved = s.move(d.uri, editOf(d.text, c)) || moved
		d.text = s.units.apply(d.text, c)
	}
	s.docs[d.uri] = &d
	if moved {
		s.publish(d.uri)
	}
}

func (s *desk) didSave(p documentParams) {
	if old, ok := s.docs[p.TextDocument.URI]; ok {
		d := *old
		d.edited = false
		s.docs[d.uri] = &d
	}
}

// didClose removes the marks of a text that the editor discards: they are at its lines, and not at those of the file.
func (s *desk) didClose(p documentParams) {
	uri := p.TextDocument.URI
	d, ok := s.docs[uri]
	delete(s.docs, uri)
	if !ok || !d.edited && d.path != "" {
		return
	}
	for p := range s.live {
		delete(p.edits, uri)
	}
	if len(s.shown[uri]) > 0 {
		delete(s.shown, uri)
		s.publish(uri)
	}
}

// didChangeConfiguration reads whether lenses are on. Editors merge settings of the folder, which may be hostile, into this
// message: it ignores all others.
func (s *desk) didChangeConfiguration(p configurationChanged) {
	if on := p.Settings.TLDW.Sandbox.CodeLens; on != nil && *on == s.noLenses {
		s.noLenses = !*on
		s.refreshLenses()
	}
}

// didChangeFiles removes the marks of files that changed on disk. It refreshes the lenses if a build file changed.
func (s *desk) didChangeFiles(p filesChanged) {
	for _, c := range p.Changes {
		if slices.Contains(buildFiles(), path.Base(c.URI)) {
			s.refreshLenses()
		}
		name, _ := fileOf(c.URI)
		for _, uri := range []string{c.URI, uriOf(name)} {
			if _, open := s.docs[uri]; !open && len(s.shown[uri]) > 0 {
				delete(s.shown, uri)
				s.publish(uri)
			}
		}
	}
}

// refreshLenses makes the editor request its lenses again.
func (s *desk) refreshLenses() {
	if s.client.Workspace.CodeLens.RefreshSupport {
		s.background(func(ctx context.Context) {
			_ = s.ask(ctx, "workspace/codeLens/refresh", nil, nil) // an editor that refuses shows them later
		})
	}
}
