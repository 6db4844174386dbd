package lsp

import "strings"

// edit is what a change does to the lines of a document: those from first to last change, and those after them move.
type edit struct{ first, last, by int }

// editOf returns the edit of a text.
func editOf(text string, c contentChange) edit {
	if c.Range == nil {
		return edit{first: 0, last: lineCount(text)}
	}
	e := edit{first: c.Range.Start.Line, last: c.Range.End.Line}
	e.by = lineCount(c.Text) - (e.last - e.first)
	// Inserting or deleting whole lines leaves the following line unchanged.
	if c.Range.Start.Character == 0 && c.Range.End.Character == 0 && (c.Text == "" || strings.HasSuffix(c.Text, "\n")) {
		e.last--
	}
	return e
}

// line returns where a line is after the edit. It reports false if the edit changes the line.
func (e edit) line(at int) (int, bool) {
	switch {
	case at < e.first:
		return at, true
	case at > e.last:
		return at + e.by, true
	}
	return at, false
}

// move returns the diagnostics after the edit, without those whose line changes. It reports whether any moved or was removed.
func (e edit) move(list []diagnostic) (kept []diagnostic, moved bool) {
	for _, d := range list {
		first, ok := e.line(d.Range.Start.Line)
		last, also := e.line(d.Range.End.Line)
		moved = moved || !ok || !also || first != d.Range.Start.Line
		if ok && also {
			d.Range.Start.Line, d.Range.End.Line = first, last
			kept = append(kept, d)
		}
	}
	return kept, moved
}

// move keeps diagnostics at their lines while a text is edited. Those of runs that have not ended follow. It reports whether any moved
// or was removed. The caller holds the mutex.
func (s *desk) move(uri string, e edit) (moved bool) {
	for target, list := range s.shown[uri] {
		kept, any := e.move(list)
		s.shown[uri][target], moved = kept, moved || any
	}
	for p := range s.live {
		// Typing in one line changes it again and again.
		if list := p.edits[uri]; e.by != 0 || len(list) == 0 || list[len(list)-1] != e {
			p.edits[uri] = append(list, e)
		}
	}
	return moved
}

// watchEdits records the edits during a run, whose failures have the places of its beginning. The caller holds the mutex.
func (s *desk) watchEdits(p *plan) {
	_, text, _ := s.textOf(p.args.URI)
	p.anchor = s.units.trimmed(text, s.anchor(p.args.URI, p.args.Test.Name))
	p.edits = map[string][]edit{}
	s.live[p] = true
}

// forget ends the record of a run's edits.
func (s *desk) forget(p *plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, p)
	p.edits = nil
}
