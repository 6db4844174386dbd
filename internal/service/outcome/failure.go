package outcome

import (
	"path"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/trace"
)

// Bounds of a recorded failure, in bytes and frames.
const (
	mostFailure = 4 << 10 // of all frames
	mostReason  = 1 << 10 // of the message
	mostPlace   = 20      // frames
)

// Failure parses the reason of a failure from the output of a command that ran in cwd; nil if it finds none. cwd is absolute or
// relative to the workspace.
func Failure(stdout, stderr, cwd string) *belljar.RunFailure {
	t, ok := trace.Failure(append(trace.Parse(stdout), trace.Parse(stderr)...))
	if !ok {
		return nil
	}
	f := &belljar.RunFailure{
		Language: t.Language, Type: clip(t.Type, mostReason), Message: clip(t.Message, mostReason), Frames: []belljar.FailureFrame{},
	}
	room := mostFailure
	for _, one := range t.Frames {
		frame := place(one, cwd)
		if room -= len(frame.File) + len(frame.Function); room < 0 || len(f.Frames) == mostPlace {
			break
		}
		f.Frames = append(f.Frames, frame)
	}
	return f
}

// place converts a frame, with its file relative to the workspace.
func place(f trace.Frame, cwd string) belljar.FailureFrame {
	frame := belljar.FailureFrame{
		File: strings.Clone(f.File), Line: f.Line, Column: f.Column, Function: strings.Clone(f.Function), Skipped: f.Skipped,
	}
	if f.Source != "" {
		frame.Column = 0 // it counts from the first visible character of the line
	}
	if f.Skipped != "" || strings.HasSuffix(f.File, ".java") {
		return frame
	}
	file := f.File
	if !path.IsAbs(file) {
		if !path.IsAbs(cwd) {
			cwd = path.Join(belljar.WorkspaceDir, cwd)
		}
		file = path.Join(cwd, file)
	}
	below, ok := strings.CutPrefix(path.Clean(file), belljar.WorkspaceDir+"/")
	if !ok {
		frame.Skipped = trace.SkippedElsewhere
		return frame
	}
	frame.File = strings.Clone(below)
	return frame
}
