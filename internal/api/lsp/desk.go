package lsp

import (
	"context"
	gosync "sync"

	"github.com/creachadair/jrpc2"
)

// desk is what the editor has open, and what it shows of it.
type desk struct {
	*peer
	links

	mu      gosync.Mutex
	units   encoding
	folders []*folder
	docs    map[string]*document
	shown   map[string]map[string][]diagnostic // by file and target
	marks   map[string]string                  // titles of lenses, by target
	tokens  int
}

// reporter tells the editor about runs.
type reporter struct{ *desk }

func (s *desk) didOpen(_ context.Context, req *jrpc2.Request) (any, error) {
	var p openParams
	if err := params(req, &p); err != nil {
		return nil, err
	}
	d := p.TextDocument
	s.mu.Lock()
	defer s.mu.Unlock()
	s.docs[d.URI] = &document{uri: d.URI, language: d.LanguageID, version: d.Version, text: d.Text}
	return nil, nil
}

func (s *desk) didChange(_ context.Context, req *jrpc2.Request) (any, error) {
	var p documentParams
	if err := params(req, &p); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.docs[p.TextDocument.URI]
	if !ok {
		return nil, nil
	}
	d := *old
	d.edited = true
	if p.TextDocument.Version != nil {
		d.version = *p.TextDocument.Version
	}
	moved := false
	for _, c := range p.ContentChanges {
		moved = s.move(d.uri, d.text, c) || moved
		d.text = s.units.apply(d.text, c)
	}
	s.docs[d.uri] = &d
	if moved {
		s.publish(d.uri)
	}
	return nil, nil
}

func (s *desk) didSave(_ context.Context, req *jrpc2.Request) (any, error) {
	var p documentParams
	if err := params(req, &p); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.docs[p.TextDocument.URI]; ok {
		d := *old
		d.edited = false
		s.docs[d.uri] = &d
	}
	return nil, nil
}

func (s *desk) didClose(_ context.Context, req *jrpc2.Request) (any, error) {
	var p documentParams
	if err := params(req, &p); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.docs, p.TextDocument.URI)
	return nil, nil
}
