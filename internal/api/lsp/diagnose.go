package lsp

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/char"
	"github.com/belljar/belljar/internal/trace"
)

// source is the source of all diagnostics.
const source = "belljar"

// Limits of the diagnostics of one run.
const (
	mostDiagnostics = 100
	mostRelated     = 20
)

// diagnose returns the diagnostics of a run that has ended.
func (s *reporter) diagnose(r *run) diagnostics {
	if r.final.Phase == belljar.PhaseCompleted || r.final.ReasonCode == belljar.ReasonCanceledByUser {
		return diagnostics{}
	}
	return s.failures(r)
}

// early shows a compiler's messages while the run continues. The last n bytes of the text are new.
func (s *reporter) early(r *run, text string, n int) {
	if !strings.Contains(text[len(text)-n:], "rror") && !strings.Contains(text[len(text)-n:], ".go:") {
		return // most output contains no compiler message
	}
	found := diagnostics{}
	for _, t := range trace.Parse(text) {
		if t.Kind == trace.KindMessage {
			s.add(found, r, t, false)
		}
	}
	if len(found) > 0 {
		s.desk.replace(r, found)
	}
}

// diagnostics are the diagnostics shown, by file.
type diagnostics map[string][]diagnostic

// replace replaces the diagnostics that the last run of the same target has shown, unless a newer one has started.
func (s *desk) replace(r *run, found diagnostics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	target := r.target()
	if s.newest[target] != r.id {
		return
	}
	for uri, by := range s.shown {
		if _, ok := by[target]; ok {
			delete(by, target)
			if _, again := found[uri]; !again {
				s.publish(uri)
			}
		}
	}
	for uri, list := range found {
		if s.shown[uri] == nil {
			s.shown[uri] = diagnostics{}
		}
		for _, e := range r.edits[uri] {
			list, _ = e.move(list)
		}
		s.shown[uri][target] = list
		s.publish(uri)
	}
}

// target names the lens or file that the run's diagnostics belong to.
func (r *run) target() string {
	if r.args.URI != "" {
		return targetOf(r.args.URI, r.args.Test.Name)
	}
	return r.folder.uri + "$" + strings.Join(r.spec.Command, "\x00")
}

// publish shows all diagnostics of a file. The caller holds the mutex.
func (s *desk) publish(uri string) {
	p := publishParams{URI: uri, Diagnostics: []diagnostic{}}
	if d, open := s.docs[uri]; open {
		p.Version = &d.version
	}
	for _, list := range s.shown[uri] {
		p.Diagnostics = append(p.Diagnostics, list...)
	}
	slices.SortStableFunc(p.Diagnostics, func(a, b diagnostic) int {
		if a.Range.Start.Line != b.Range.Start.Line {
			return a.Range.Start.Line - b.Range.Start.Line
		}
		return a.Range.Start.Character - b.Range.Start.Character
	})
	s.notify("textDocument/publishDiagnostics", p)
}

// failures are the diagnostics of a failed run.
func (s *reporter) failures(r *run) diagnostics {
	// stderr comes last: of two failures, the one on stderr ended the program.
	traces := append(trace.Parse(r.out[0].text()), trace.Parse(r.out[1].text())...)
	found := diagnostics{}
	why, any := trace.Failure(traces)
	placed := any && s.add(found, r, why, true)
	for _, t := range traces {
		if any && (t.Kind == trace.KindMessage || t.Kind == trace.KindTest) && t.Kind == why.Kind && !same(t, why) {
			s.add(found, r, t, false)
		}
	}
	switch {
	case placed:
	case r.args.URI != "":
		s.fallback(r, why, any, found)
	default:
		if place := r.inSandbox(why); place != "" {
			r.elsewhere = " at " + place + " (in the sandbox)"
			r.final.Message = strings.TrimSpace(r.final.Message + r.elsewhere)
		}
	}
	return found
}

// add adds a trace that has a place in the folder. It reports false if it has none, or the limit is reached.
func (s *reporter) add(found diagnostics, r *run, t trace.Trace, main bool) bool {
	count := 0
	for _, list := range found {
		count += len(list)
	}
	if count >= mostDiagnostics {
		return false
	}
	l := r.places.First(t)
	if l.File == "" {
		return false
	}
	uri, d := s.desk.uri(r, l.File), s.diagnostic(r, t, l, main)
	if !slices.ContainsFunc(found[uri], func(o diagnostic) bool { return o.Range == d.Range && o.Message == d.Message }) {
		found[uri] = append(found[uri], d)
	}
	return true
}

// same reports whether two traces are equal.
func same(a, b trace.Trace) bool {
	return a.Type == b.Type && a.Message == b.Message && slices.Equal(a.Frames, b.Frames)
}

// fallback reports a failure that has no place in the folder at the line of the run's lens.
func (s *reporter) fallback(r *run, why trace.Trace, any bool, found diagnostics) {
	message := r.status()
	data := r.data()
	if any {
		if name := titleOf(why.Type, firstLine(why.Message)); name != "" {
			message = name + " (" + message + ")"
		}
		if data.Frame = r.inSandbox(why); data.Frame != "" {
			message += " at " + data.Frame + " (in the sandbox): reveal in artifacts"
		}
	} else if line := lastLine(r.out[1].text()); line != "" {
		message += ": " + line
	} else if r.final.Message != "" {
		message += ": " + r.final.Message
	}
	found[r.args.URI] = append(found[r.args.URI], diagnostic{
		Range: r.anchor, Severity: severityError, Code: r.code(why.Type), CodeDescription: s.described(r), Source: source,
		Message: message, Data: data,
	})
}

// inSandbox returns the place of a failure that has none in the folder; "" if that is in no file, as bash:1, <string>:1 or node:internal.
func (r *run) inSandbox(why trace.Trace) string {
	f := r.places.First(why).Frame
	if f.File == "" || f.Skipped == trace.SkippedInline || f.Skipped == trace.SkippedRuntime && !path.IsAbs(f.File) {
		return ""
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// diagnostic returns the diagnostic of one failure at a place.
func (s *reporter) diagnostic(r *run, t trace.Trace, l trace.Location, main bool) diagnostic {
	uri := s.desk.uri(r, l.File)
	d := diagnostic{
		Range: s.desk.span(r, uri, l), Severity: severityError, Code: r.code(t.Type), CodeDescription: s.described(r), Source: source, Data: r.data(),
		Message: titleOf(t.Type, t.Message),
	}
	d.Data.Frame = fmt.Sprintf("%s:%d", l.Frame.File, l.Frame.Line)
	if t.Warning {
		d.Severity = severityWarning
	}
	if t.Kind == trace.KindMessage && t.Message != "" { // the severity replaces the words error: and warning:
		d.Message = t.Message
	}
	if d.Message == "" {
		d.Message = "it failed here"
	}
	if main {
		d.Message += " (" + r.status() + ")"
	}
	if !s.desk.client.TextDocument.PublishDiagnostics.RelatedInformation {
		return d
	}
	for _, other := range r.places.Places(t) {
		if other.File == "" || other.File == l.File && other.Line == l.Line || len(d.Related) == mostRelated {
			continue
		}
		at := s.desk.uri(r, other.File)
		text := "called from here"
		if other.Frame.Function != "" {
			text = "in " + other.Frame.Function
		}
		d.Related = append(d.Related, related{location{at, s.desk.span(r, at, other)}, text})
	}
	return d
}

// span returns the range of a place when the run began: its columns if they are known and the line is unchanged since, else the whole
// line.
func (s *desk) span(r *run, uri string, l trace.Location) span {
	line := max(l.Line-1, 0)
	now := line
	s.mu.Lock()
	d := s.docs[uri]
	for _, e := range r.edits[uri] {
		now, _ = e.line(now)
	}
	s.mu.Unlock()
	text := l.Text
	if d != nil {
		from, to, _ := lineAt(d.text, now)
		text = d.text[from:to]
	}
	whole := s.units.trimmed(text, 0)
	whole.Start.Line, whole.End.Line = line, line
	if from := l.Column - 1; from >= 0 && from < len(text) && text == l.Text {
		whole.Start.Character = s.units.units(text[:from])
		if to := l.EndColumn - 1; to > from && to <= len(text) {
			whole.End.Character = s.units.units(text[:to])
		}
		whole.End.Character = max(whole.End.Character, whole.Start.Character)
	}
	return whole
}

// uri returns the editor's URI of a file in the sandbox.
func (s *desk) uri(r *run, file string) string {
	if uri, ok := r.uris[file]; ok {
		return uri
	}
	if file == r.rel && r.args.URI != "" {
		return r.args.URI
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uriOf(filepath.Join(r.folder.dir, filepath.FromSlash(file)))
}

// status is how the run ended.
func (r *run) status() string {
	switch {
	case r.final.Phase == belljar.PhaseTimedOut:
		return "timed out"
	case r.final.ReasonCode == belljar.ReasonCompileFailed:
		return "it does not compile"
	case r.final.ExitCode != nil:
		return fmt.Sprintf("exit status %d", *r.final.ExitCode)
	}
	return string(r.final.ReasonCode)
}

// code is the name of the exception, or the reason why the run failed; "" while the run continues.
func (r *run) code(name string) string {
	if name != "" && name != "error" && name != "warning" {
		return name
	}
	return string(r.final.ReasonCode)
}

// described links a diagnostic to the run's page.
func (s *reporter) described(r *run) *codeDescription {
	page := s.desk.webURL(r.id)
	if page == "" || !s.desk.client.TextDocument.PublishDiagnostics.CodeDescriptionSupport {
		return nil
	}
	return &codeDescription{Href: page}
}

// data is the data that code actions need about a diagnostic.
func (r *run) data() *diagnosticData {
	args := r.args
	args.Wait = false
	again, err := json.Marshal(args)
	if err != nil {
		again = nil // without it there is no "run again" action
	}
	return &diagnosticData{RunID: r.id, Rerun: again}
}

// titleOf joins the name and the message of an exception. Either may be missing.
func titleOf(name, message string) string { return strings.Trim(name+": "+message, ": ") }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// lastLine returns the last line of a text that is not blank, at most 300 bytes.
func lastLine(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\ufffd"))
	return char.Short(text[strings.LastIndexAny(text, "\r\n")+1:], 300)
}
