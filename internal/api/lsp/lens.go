package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/belljar/belljar"
)

// lensTitle is the title of a lens whose program has not run yet.
const lensTitle = "▶ Run in Sandbox"

func (s *desk) codeLens(_ context.Context, p documentParams) (any, error) {
	uri := p.TextDocument.URI
	s.mu.Lock()
	defer s.mu.Unlock()
	file, text, ok := s.textOf(uri)
	list := []codeLens{}
	if !ok || s.noLenses {
		return list, nil
	}
	f, _ := s.holder(uri)
	for _, t := range targets(file, text, f != nil && f.built()) {
		line := text[t.at : t.at+t.to]
		lens := codeLens{
			Range: span{position{t.line, s.units.units(line[:t.from])}, position{t.line, s.units.units(line)}},
			Command: command{
				Title: lensTitle, Tooltip: "Send the folder to its sandbox and run this there", Command: commandRun,
				Arguments: []any{runArgs{URI: uri, Test: testArg{Name: t.test}}},
			},
		}
		if title := s.marks[targetOf(uri, t.test)]; title != "" {
			lens.Command.Title = title
		}
		list = append(list, lens)
	}
	return list, nil
}

// textOf returns the name and the text of a file: the editor's, or the file on disk if that is short. The caller holds the
// mutex.
func (s *desk) textOf(uri string) (file, text string, ok bool) {
	file, isFile := fileOf(uri)
	if d, open := s.docs[uri]; open {
		if !isFile {
			if l, known := belljar.LanguageOf(languageOf(d.language)); known {
				file = "main." + l.Extensions[0]
			}
		}
		return file, d.text, true
	}
	if !isFile {
		return "", "", false
	}
	raw, err := onDisk(file, mostScan)
	return file, string(raw), err == nil
}

// targetOf returns the name of the target of lenses and diagnostics.
func targetOf(uri, test string) string { return uri + "#" + test }

// anchor returns the line of a target in its file: the line of its lens, or the first. The caller holds the mutex.
func (s *desk) anchor(uri, test string) int {
	file, text, ok := s.textOf(uri)
	if !ok {
		return 0
	}
	for _, t := range targets(file, text, true) {
		if t.test == test {
			return t.line
		}
	}
	return 0
}

// mark sets the title of the lenses of a run's target, unless a newer run of it has started.
func (s *desk) mark(r *run) {
	s.mu.Lock()
	target, title := r.target(), r.title()
	changed := s.newest[target] == r.id && s.marks[target] != title
	if changed {
		s.marks[target] = title
	}
	s.mu.Unlock()
	if changed {
		s.refreshLenses()
	}
}

// codeAction offers actions for diagnostics.
func (s *desk) codeAction(_ context.Context, p actionParams) (any, error) {
	actions := []codeAction{}
	if only := p.Context.Only; len(only) > 0 && !slices.Contains(only, quickFix) {
		return actions, nil
	}
	for _, raw := range p.Context.Diagnostics {
		var d diagnostic
		if json.Unmarshal(raw, &d) != nil || d.Source != source {
			continue
		}
		data := d.Data
		if data == nil { // clients of old protocol versions do not send it
			data = s.dataOf(p.TextDocument.URI, d)
		}
		if data == nil {
			continue
		}
		add := func(title, name string, argument any) {
			actions = append(actions, codeAction{
				Title: title, Kind: quickFix, Diagnostics: []diagnostic{d}, Command: command{Title: title, Command: name, Arguments: []any{argument}},
			})
		}
		if len(data.Rerun) > 0 {
			add("Re-run in Sandbox", commandRun, data.Rerun)
		}
		if s.webURL(data.RunID) != "" {
			add(fullLogs, commandOpenRun, runArg{data.RunID})
		}
		add("Reveal in artifacts", commandArtifacts, runArg{data.RunID})
	}
	return actions, nil
}

// quickFix is the kind of all code actions.
const quickFix = "quickfix"

// fullLogs is the title of the link to a run's page.
const fullLogs = "View full logs in Web UI"

// dataOf finds the data of a diagnostic that was shown.
func (s *desk) dataOf(uri string, like diagnostic) *diagnosticData {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.shown[uri] {
		for _, d := range list {
			if d.Range == like.Range && d.Message == like.Message {
				return d.Data
			}
		}
	}
	return nil
}

// title returns the title of a lens after a run.
func (r *run) title() string {
	switch {
	case r.final.ExitCode != nil && *r.final.ExitCode == 0:
		return "✓ exit 0 · Run again"
	case r.final.ExitCode != nil:
		return fmt.Sprintf("✗ exit %d · Run again", *r.final.ExitCode)
	}
	return "✗ " + string(r.final.Phase) + " · Run again"
}

// label returns the name of a run in messages.
func (r *run) label() string {
	switch {
	case r.args.Test.Name != "":
		return r.args.Test.Name
	case r.args.URI != "":
		return path.Base(r.args.URI)
	case len(r.args.Command) > 0:
		return r.args.Command[0]
	}
	return "the program"
}
