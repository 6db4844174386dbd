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
	size := func(frame belljar.FailureFrame) int { return len(frame.File) + len(frame.Function) }
	for _, one := range t.Frames {
		frame := place(one, t, cwd)
		if room < size(frame) || len(f.Frames) == mostPlace {
			break
		}
		room -= size(frame)
		f.Frames = append(f.Frames, frame)
	}
	if _, own := f.Place(); own {
		return f
	}
	for _, one := range t.Frames[len(f.Frames):] { // those of libraries give way to the first frame of the program
		frame := place(one, t, cwd)
		if frame.Skipped != "" || size(frame) > mostFailure {
			continue
		}
		for room < size(frame) || len(f.Frames) == mostPlace {
			last := len(f.Frames) - 1
			room += size(f.Frames[last])
			f.Frames = f.Frames[:last]
		}
		f.Frames = append(f.Frames, frame)
		break
	}
	return f
}

// place converts a frame of a trace, with its file relative to the workspace.
func place(f trace.Frame, t trace.Trace, cwd string) belljar.FailureFrame {
	frame := belljar.FailureFrame{
		File: strings.Clone(f.File), Line: f.Line, Column: f.Column, Function: strings.Clone(f.Function), Skipped: f.Skipped,
	}
	if f.Source != "" {
		frame.Column = 0 // it counts from the first visible character of the line
	}
	if f.Skipped != "" || t.Kind != trace.KindMessage && strings.HasSuffix(f.File, ".java") {
		return frame
	}
	if t.Language == trace.Go && t.Kind != trace.KindMessage && f.File[0] != '.' && !path.IsAbs(f.File) && strings.Contains(f.File, "/") {
		frame.Skipped = trace.SkippedElsewhere // it begins with the import path of its package, whose folder is unknown
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
