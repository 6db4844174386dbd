//go:build linux

package service_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// compiled returns a program in C for compilers that are shell scripts, by name. Their arguments are: -o PROGRAM SOURCE -lm.
func compiled(t *testing.T, text string, compilers map[string]string) belljar.RunRequest {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range compilers {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	req := code("c", text)
	req.WorkspaceExec, req.Env = true, map[string]string{"PATH": dir}
	return req
}

// takes copies the source to the program.
const takes = `cp "$3" "$2" && chmod +x "$2"` + "\n"

func TestBuild(t *testing.T) {
	b := newBench(t)
	req := compiled(t, "#!/bin/sh\necho program; echo err >&2; /bin/cat; exit 5\n", map[string]string{"cc": "echo a note; echo a warning >&2\n" + takes})
	req.RunSpec.Stdin = "input\n"
	r := b.run(req)
	r.want(t, belljar.PhaseFailed, 5, belljar.ReasonNonZeroExit)
	if r.stdout != "program\ninput\n" {
		t.Errorf("printed %q", r.stdout)
	}
	_, out, err := belljar.Collect(t.Context(), b, r.ID)
	if err != nil || out.Stdout != "program\ninput\n" || out.Stderr != "err\n" {
		t.Errorf("collected %+v, %v", out, err)
	}
	built := r.Build
	if built == nil || built.ExitCode == nil || *built.ExitCode != 0 || built.Usage == nil || built.DurationSec <= 0 ||
		!strings.Contains(built.Output, "a note\n") || !strings.Contains(built.Output, "a warning\n") || len(built.Output) != len("a note\na warning\n") {
		t.Fatalf("build %+v", built)
	}
	if want := []string{"cc", "-o", r.Command[0], "main.c", "-lm"}; !slices.Equal(built.Argv, want) {
		t.Errorf("argv %q, want %q", built.Argv, want)
	}
	var seen []string
	for _, f := range r.frames {
		switch {
		case f.Event == belljar.EventBuildStart || f.Event == belljar.EventBuildEnd:
			if f.Data["step"] != belljar.StepBuild {
				t.Errorf("event %s of %v", f.Event, f.Data)
			}
			seen = append(seen, f.Event)
		case f.Step == belljar.StepBuild && f.Type == belljar.FrameStderr:
			if seen[len(seen)-1] != "output" {
				seen = append(seen, "output")
			}
		case f.Event == belljar.EventStart:
			seen = append(seen, f.Event)
		}
	}
	if want := []string{"build_start", "output", "build_end", "start"}; !slices.Equal(seen, want) {
		t.Errorf("log %q, want %q", seen, want)
	}
	page, err := b.List(t.Context(), belljar.RunQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Build == nil || page.Items[0].Build.Output != "" {
		t.Errorf("listed %+v, %v", page.Items, err)
	}
}

// A failed build differs from a failed program.
func TestBuildFails(t *testing.T) {
	b := newBench(t, limited(func(l *belljar.Limits) { l.GraceSec = late })) // TERM ends the compiler even on a busy machine
	for name, test := range map[string]struct {
		compilers map[string]string
		status    int
		message   string
	}{
		"status": {map[string]string{"cc": "echo error >&2; exit 3\n"}, 3, "the compiler exited with status 3"},
		"signal": {map[string]string{"cc": "kill -SEGV $$\n"}, 139, "the compiler was killed by SIGSEGV"},
		"time":   {map[string]string{"cc": "echo late; exec sleep 1000\n"}, 143, "the compiler ran longer than 0.2 seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			req := compiled(t, "x", test.compilers)
			if name == "time" {
				req.BuildTimeoutSec = 0.2
			}
			r := b.run(req)
			if r.Phase != belljar.PhaseFailed || r.ReasonCode != belljar.ReasonCompileFailed || r.ExitCode != nil || r.StartedAt != nil ||
				r.Message != test.message || r.ExitStatus() != test.status || r.Build == nil || r.stdout != "" {
				t.Errorf("%+v\nbuild %+v", r.Run, r.Build)
			}
			if u := r.ResourceUsage; u.WallTimeSec != 0 || u.CPUTimeSec != nil || u.PeakRSSMB != nil || u.LogBytes != 0 {
				t.Errorf("a program that never ran has used %+v", u)
			}
		})
	}
}

func TestBuildWithoutCompiler(t *testing.T) {
	b := newBench(t)
	r := b.run(compiled(t, "x", nil))
	r.want(t, belljar.PhaseFailed, 127, belljar.ReasonExecFailed)
	if r.Message != "cc or gcc or clang: not found in the sandbox" || r.Hint == "" || r.Build != nil {
		t.Errorf("%+v", r.Run)
	}
	r = b.run(compiled(t, "#!/bin/sh\necho second", map[string]string{"gcc": takes}))
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "second\n" || r.Build.Argv[0] != "gcc" {
		t.Errorf("printed %q, built by %q", r.stdout, r.Build.Argv)
	}
}

func TestBuildCanceled(t *testing.T) {
	b := newBench(t)
	run := b.start(compiled(t, "x", map[string]string{"cc": "echo begun; exec sleep 1000\n"}))
	b.building(run.ID)
	if err := b.Cancel(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	r := b.follow(run.ID)
	if r.Phase != belljar.PhaseKilled || r.ReasonCode != belljar.ReasonCanceledByUser || r.ExitCode != nil || r.Build.ExitCode == nil {
		t.Errorf("%+v, %+v", r.Run, r.Build)
	}
}

// A compiler's output is kept up to a bound, does not use the program's bound, and truncates nothing.
func TestBuildOutput(t *testing.T) {
	b := newBench(t, limited(func(l *belljar.Limits) { l.LogBytes = 10 }))
	r := b.run(compiled(t, "#!/bin/sh\nprintf 0123456789", map[string]string{"cc": "head -c 200000 /dev/zero | tr '\\0' w\n" + takes}))
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.Truncated || r.stdout != "0123456789" || len(r.Build.Output) != belljar.MaxBuildOutput || !r.Build.OutputTruncated {
		t.Errorf("truncated %t, printed %q, %d bytes of the build, truncated %t", r.Truncated, r.stdout, len(r.Build.Output), r.Build.OutputTruncated)
	}
	r = b.run(compiled(t, "x", map[string]string{"cc": "printf '\\377'; exit 1\n"}))
	if r.Build.Output != base64.StdEncoding.EncodeToString([]byte{0xff}) || r.Build.OutputEncoding != "base64" {
		t.Errorf("output %q in %s", r.Build.Output, r.Build.OutputEncoding)
	}
}

// In a session an existing file is compiled, from the run's working directory, and only the program's own output remains.
func TestBuildInSession(t *testing.T) {
	b := newBench(t)
	x, err := b.service.As(service.Local()).Sessions().Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host", WorkspaceExec: true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	req := compiled(t, "", map[string]string{"cc": takes})
	req.SessionID, req.BaseImage, req.WorkspaceExec, req.Code = x.ID, "", false, ""
	req.Command = []string{"-own.c", "an arg", "$x"}
	req.Files = []belljar.InlineFile{{Path: "-own.c", Content: []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n")}}
	for range 2 {
		r := b.run(req)
		r.want(t, belljar.PhaseCompleted, 0, "")
		if r.stdout != "an arg|$x|" {
			t.Errorf("printed %q", r.stdout)
		}
		b.in(x.ID, "rm -r .tmp") // the next build makes it again
	}
	look := shell("ls -A .tmp") // the folder exists for every run
	look.SessionID, look.BaseImage = x.ID, ""
	b.service.WaitIdle()
	if r := b.run(look); r.stdout != "" {
		t.Errorf("left over: %q, %s", r.stdout, r.stderr)
	}
}

// building waits until the compiler of a run has printed output.
func (b *bench) building(id string) {
	b.t.Helper()
	for f, err := range b.Frames(b.context(), id, 1) {
		if err != nil {
			b.t.Fatal(err)
		}
		if f.Step == belljar.StepBuild {
			return
		}
	}
	b.t.Fatal("the run ended without a build")
}

// If the process dies during a build, the run is lost: neither is restarted, and the compiler ends. A running program continues, and its build stays on
// record.
func TestBuildAndItsProcess(t *testing.T) {
	for _, where := range []string{"one-shot", "session"} {
		t.Run(where, func(t *testing.T) {
			w := newWorld(t)
			p := w.boot()
			dir := t.TempDir()
			count, gate := filepath.Join(dir, "count"), filepath.Join(dir, "gate")
			if err := syscall.Mkfifo(gate, 0o600); err != nil {
				t.Fatal(err)
			}
			ask := func(text, compiler string) belljar.RunRequest {
				return compiled(t, text, map[string]string{"cc": compiler})
			}
			var s belljar.Session
			if where == "session" {
				s = p.open(func(r *belljar.SessionRequest) { r.WorkspaceExec = true })
				oneShot := ask
				ask = func(text, compiler string) belljar.RunRequest {
					req := oneShot(text, compiler)
					req.SessionID, req.BaseImage, req.WorkspaceExec = s.ID, "", false
					return req
				}
			}
			lost := p.start(ask("#!/bin/sh\necho program\n", "echo x >>"+count+"; echo compiling; exec sleep 1000\n"))
			p.building(lost.ID)
			p.kill()
			p = w.boot()
			got, out, err := belljar.Collect(p.context(), p, lost.ID)
			if err != nil || got.Phase != belljar.PhaseFailed || got.ReasonCode != belljar.ReasonNodeLost || got.ExitCode != nil || out.Stdout != "" {
				t.Errorf("%+v, printed %q, %v", got, out.Stdout, err)
			}
			runs := p.start(ask("#!/bin/sh\necho program\nread x <"+gate+"\nexit 4\n", "echo x >>"+count+"; echo compiled\n"+takes))
			p.waitFor(runs.ID, "program\n")
			p.kill()
			p = w.boot()
			open, err := os.OpenFile(gate, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			if _, err := open.WriteString("go\n"); err != nil {
				t.Fatal(err)
			}
			r := p.follow(runs.ID)
			r.want(t, belljar.PhaseFailed, 4, belljar.ReasonNonZeroExit)
			if r.stdout != "program\n" || r.Build == nil || r.Build.Output != "compiled\n" {
				t.Errorf("printed %q, build %+v", r.stdout, r.Build)
			}
			if text, err := os.ReadFile(count); err != nil || string(text) != "x\nx\n" {
				t.Errorf("compilers began %q, %v", text, err)
			}
			if where == "session" {
				p.end(s)
			}
			p.gone("")
		})
	}
}
