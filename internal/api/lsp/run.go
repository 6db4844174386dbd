package lsp

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// runArgs are the argument of tldw.sandbox.run. Paths are relative to the folder.
type runArgs struct {
	URI               string            `json:"uri,omitempty"`     // of the file to run, or of a text without a file
	Folder            string            `json:"folder,omitempty"`  // the URI of a folder, if uri is unset
	Files             []string          `json:"files,omitempty"`   // sends only these files, instead of the changed ones
	Archive           string            `json:"archive,omitempty"` // the URI of a .tar or .tar.gz that is sent instead of the folder
	Cwd               string            `json:"cwd,omitempty"`
	Runtime           string            `json:"runtime,omitempty"`
	BaseImage         string            `json:"base_image,omitempty"`
	Language          string            `json:"language,omitempty"` // of the file that command begins with
	Command           []string          `json:"command,omitempty"`
	Env               map[string]string `json:"env,omitempty"`
	StartupTimeoutSec float64           `json:"startup_timeout_sec,omitempty" minimum:"0.001"`
	TimeoutSec        float64           `json:"timeout_sec,omitempty" minimum:"0.001"`
	CapturePatterns   []string          `json:"capture_patterns,omitempty"`
	Interactive       bool              `json:"interactive,omitempty"`
	Rerun             bool              `json:"rerun,omitempty"` // repeats the last run
	Test              testArg           `json:"test,omitzero"`   // a test of the file
	Wait              bool              `json:"wait,omitempty"`  // respond when the run has ended
}

type testArg struct {
	Name string `json:"name,omitempty"`
}

// runAnswer is the response to tldw.sandbox.run. The fields about the end are set only with wait.
type runAnswer struct {
	RunID        string         `json:"run_id"`
	Phase        belljar.Phase  `json:"phase"`
	LogStreamURL string         `json:"log_stream_url,omitempty"`
	WebURL       string         `json:"web_url,omitempty"`
	SessionID    string         `json:"session_id,omitempty"`
	ExitCode     *int           `json:"exit_code,omitempty"`
	Reason       belljar.Reason `json:"reason_code,omitempty"`
	Message      string         `json:"message,omitempty"`
	Interactive  bool           `json:"interactive,omitempty"` // the run reads input, also as a rerun of one that does
}

// plan holds everything that a run needs before it starts.
type plan struct {
	args     runArgs
	folder   *folder // nil for a file outside of all folders, and for a text without a file
	rel      string  // path of the file in the folder
	settings settings
	spec     belljar.RunSpec
	texts    map[string]string // the editor's texts as they are sent, by path in the sandbox
	uris     map[string]string // URIs of files in the sandbox that are outside of the folder
	anchor   span              // the line of its lens
	edits    map[string][]edit // changes of documents since then, by URI; guarded by the desk's mutex
}

func (s *Server) run(ctx context.Context, args runArgs) (any, error) {
	p, err := s.plan(args)
	if err != nil {
		return nil, err
	}
	r, err := s.start(ctx, p)
	if err != nil {
		return nil, err
	}
	answer := runAnswer{RunID: r.id, Phase: r.started.Phase, LogStreamURL: s.reporter.desk.streamURL(r.id), WebURL: s.reporter.desk.webURL(r.id), SessionID: r.started.SessionID, Interactive: r.args.Interactive}
	if !args.Wait {
		return answer, nil
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, errors.Join(context.Canceled, s.stop(context.WithoutCancel(ctx), r.service, r.id))
	}
	if r.err != nil {
		return nil, r.err
	}
	answer.Phase, answer.ExitCode, answer.Reason, answer.Message = r.final.Phase, r.final.ExitCode, r.final.ReasonCode, r.final.Message
	return answer, nil
}

// last returns the arguments of the last run, for a rerun. The caller holds the mutex.
func (s *Server) last(args runArgs) (runArgs, error) {
	var last *runArgs
	f, _ := s.reporter.desk.holder(args.URI)
	if f == nil && (args.URI == "" || args.Folder != "") && (args.Folder != "" || len(s.reporter.desk.folders) == 1) {
		f, _ = s.reporter.desk.folderOf(args.Folder)
	}
	switch {
	case f != nil:
		last = f.last
	case len(s.order) > 0:
		last = &s.runs[s.order[len(s.order)-1]].args
	}
	if last == nil {
		return args, &belljar.Error{Code: belljar.CodeNotFound, Message: "nothing was run yet", Hint: "run something first"}
	}
	again := *last
	again.Wait = args.Wait
	return again, nil
}

// plan decides what to run.
func (s *Server) plan(args runArgs) (*plan, error) {
	s.reporter.desk.mu.Lock()
	defer s.reporter.desk.mu.Unlock()
	if args.Rerun {
		var err error
		if args, err = s.last(args); err != nil {
			return nil, err
		}
	}
	if name, ok := fileOf(args.URI); ok && s.reporter.desk.docs[args.URI] == nil {
		args.URI = s.reporter.desk.uriOf(name)
	}
	p := &plan{args: args}
	p.folder, p.rel = s.reporter.desk.holder(args.URI)
	if args.Folder != "" || args.URI == "" {
		f, err := s.reporter.desk.folderOf(args.Folder)
		if err != nil {
			return nil, err
		}
		if args.URI != "" && f != p.folder {
			return nil, refuse("folder", "the file is not in the folder", "leave folder out")
		}
		p.folder = f
	}
	for i, name := range args.Files {
		clean, err := cleanName(fmt.Sprintf("files[%d]", i), name)
		if err != nil {
			return nil, err
		}
		args.Files[i] = clean
	}
	if args.Cwd != "" && path.Clean(args.Cwd) != "." {
		clean, err := cleanName("cwd", args.Cwd)
		if err != nil {
			return nil, err
		}
		p.args.Cwd = clean
	}
	if args.Language != "" && len(args.Command) == 0 {
		return nil, refuse("language", "language is that of the file that command begins with, and command is unset", "leave language out")
	}
	if args.Archive != "" && len(args.Files) > 0 {
		return nil, refuse("archive", "archive and files exclude each other", "")
	}
	p.spec = belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, StartupTimeoutSec: args.StartupTimeoutSec, TimeoutSec: args.TimeoutSec, CapturePatterns: args.CapturePatterns,
		Interactive: args.Interactive,
	}
	plan := s.planFolder
	if p.folder == nil {
		plan = s.planLone
	}
	if err := plan(p); err != nil {
		return nil, err
	}
	s.reporter.desk.watchEdits(p)
	return p, nil
}

// planFolder plans a run in a folder. The caller holds the mutex.
func (s *Server) planFolder(p *plan) error {
	c, err := p.folder.store.settings()
	if err != nil {
		return err
	}
	args := p.args
	c.Runtime, c.BaseImage = cmp.Or(args.Runtime, c.Runtime), cmp.Or(args.BaseImage, c.BaseImage)
	p.settings = c
	p.texts = s.reporter.desk.buffers(p.folder)
	does := program{command: args.Command, language: args.Language, cwd: args.Cwd}
	if len(does.command) == 0 && p.rel != "" {
		_, text, _ := s.reporter.desk.textOf(args.URI)
		if does, err = programOf(p.folder, p.rel, args.Test.Name, text); err != nil {
			return err
		}
		does.cwd = cmp.Or(args.Cwd, does.cwd)
	}
	if len(does.command) == 0 {
		does = program{command: c.Command, cwd: args.Cwd}
	}
	if len(does.command) == 0 {
		return refuse("command", "nothing to run: neither uri nor command is given, and the folder has no command of its own", "set one with "+commandConfigure)
	}
	env := maps.Clone(c.Env)
	if env == nil {
		env = map[string]string{}
	}
	if kind(p.rel) == "go" && strings.HasPrefix(p.rel, "go/") && env["GOPATH"] == "" {
		env["GOPATH"] = path.Join(belljar.WorkspaceDir, ".cache/go") // by default it is go/ in the home folder, which is the workspace
	}
	maps.Copy(env, args.Env)
	does.cwd = path.Clean(does.cwd) // "." is the workspace, not the image's WORKDIR
	if does.language != "" && does.cwd != "." && len(args.Command) == 0 {
		does.command = slices.Clone(does.command)
		does.command[0] = path.Join(belljar.WorkspaceDir, does.command[0]) // the file's path is relative to the folder
	}
	p.spec.Command, p.spec.Language, p.spec.Cwd, p.spec.Env = does.command, does.language, does.cwd, env
	p.spec.TimeoutSec = cmp.Or(args.TimeoutSec, c.TimeoutSec)
	if len(args.CapturePatterns) == 0 {
		p.spec.CapturePatterns = c.CapturePatterns
	}
	check := p.spec
	check.BaseImage = "host" // the session has an image
	return check.Validate()
}

// planLone plans the run of a text without a folder. It sends only the file, not its directory. The caller holds the mutex.
func (s *Server) planLone(p *plan) error {
	args := p.args
	name, text, ok := s.reporter.desk.textOf(args.URI)
	if !ok {
		return &belljar.Error{Code: belljar.CodeNotFound, Message: fmt.Sprintf("%.200q is neither open in the editor nor a text file", args.URI)}
	}
	if len(args.Files) > 0 || args.Archive != "" || args.Test.Name != "" || len(args.Command) > 0 || path.Clean(args.Cwd) != "." {
		return refuse("uri", "the file is in no folder of the editor, so that only the file itself can be run", "open its folder")
	}
	language, file := kind(name), ""
	if path, is := fileOf(args.URI); is {
		file = filepath.Base(path)
	} else if d := s.reporter.desk.docs[args.URI]; d != nil {
		language = languageOf(d.language)
	}
	l, known := belljar.LanguageOf(language)
	switch {
	case !known && file != "":
		return refuse("uri", "no language is known for "+file, "open its folder, and give command")
	case !known:
		return refuse("uri", "the editor's language "+language+" is not one that Belljar runs", "choose the language of the text in the editor, or save it as a file")
	}
	p.spec.Language, p.spec.WorkspaceExec, p.spec.Runtime, p.spec.Env = l.Aliases[0], l.Executed(), args.Runtime, args.Env
	if file == "" {
		p.spec.Code, file = text, l.FileOf(text)
	} else {
		p.spec.Command, p.spec.Files = []string{file}, []belljar.InlineFile{{Path: file, Content: []byte(text)}}
	}
	p.settings = settings{Runtime: args.Runtime, BaseImage: args.BaseImage}
	p.texts, p.uris = map[string]string{file: text}, map[string]string{file: args.URI}
	return nil
}

// start starts a planned run, and follows it.
func (s *Server) start(ctx context.Context, p *plan) (begun *run, err error) {
	defer func() {
		if begun == nil {
			s.reporter.desk.forget(p)
		}
	}()
	service, err := s.engine(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{plan: p, service: service, done: make(chan struct{})}
	ctx, r.quit = context.WithCancel(ctx)
	defer r.quit()
	s.reporter.begin(ctx, r)
	ctx = s.o.onRetry(ctx, func(err error) { s.reporter.away(r, err) })
	switch {
	case p.folder == nil:
		p.spec.BaseImage = s.image(p.settings)
		r.files = texts{own: p.texts}
		r.started, err = accept(ctx, service, belljar.RunRequest{RunSpec: p.spec})
	case p.args.Archive != "":
		r.started, err = s.startArchive(ctx, service, p)
		r.files = texts{}
	default:
		r.started, err = s.startFolder(ctx, service, r)
	}
	if err != nil {
		s.reporter.progress(r, "end", words(err))
		return nil, err
	}
	followed, leave := context.WithCancelCause(s.reporter.desk.ctx)
	s.reporter.desk.mu.Lock()
	cancelled := ctx.Err() != nil
	if !cancelled {
		r.id, r.leave = r.started.ID, leave
		s.remember(r)
	}
	s.reporter.desk.mu.Unlock()
	if cancelled {
		leave(nil)
		stopping, stop := context.WithTimeout(context.WithoutCancel(ctx), mostAccepting)
		defer stop()
		err = errors.Join(context.Canceled, s.stop(stopping, service, r.started.ID))
		s.reporter.progress(r, "end", words(err))
		return nil, err
	}
	s.reporter.desk.background(func(context.Context) {
		defer leave(nil)
		s.follow(followed, r)
	})
	return r, nil
}

// mostAccepting limits how long a cancelled start waits for the server's answer.
const mostAccepting = 5 * time.Second

// accept starts a run. A cancellation does not end it at once: the run's id would be lost, and its program would go on.
func accept(ctx context.Context, service belljar.Service, req belljar.RunRequest) (belljar.Run, error) {
	if err := ctx.Err(); err != nil {
		return belljar.Run{}, err
	}
	starting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(mostAccepting, stop) })()
	return service.Runs().Start(starting, req)
}

// startFolder sends a folder and starts the run in its session. It makes the session again, once, if it has ended in the meantime.
func (s *Server) startFolder(ctx context.Context, service belljar.Service, r *run) (started belljar.Run, err error) {
	p, f := r.plan, r.plan.folder
	f.mu.Lock()
	defer f.mu.Unlock()
	want := sending{settings: p.settings, startup: p.args.StartupTimeoutSec, buffers: p.texts, only: p.args.Files, note: func(text string) { s.reporter.progress(r, "report", text) }}
	if p.rel != "" && len(want.only) == 0 {
		want.must = []string{p.rel}
	}
	for try := 0; ; try++ {
		x, err := s.ready(ctx, service, f, want)
		if err != nil {
			return started, err
		}
		r.files = texts{base: f.root.FS(), own: p.texts}
		p.spec.SessionID = x.id
		if x.waits && p.args.StartupTimeoutSec == 0 { // without a limit, the run would get the session's
			me, err := service.Node().Me(ctx)
			if err != nil {
				return started, err
			}
			p.spec.StartupTimeoutSec = me.Limits.StartupTimeoutSec
		}
		started, err = accept(ctx, service, belljar.RunRequest{RunSpec: p.spec})
		if err == nil || try > 0 || !gone(ctx, service, x.id) {
			return started, err
		}
		delete(f.sessions, p.settings.terms())
	}
}

// startArchive starts a one-shot run with the files of an archive.
func (s *Server) startArchive(ctx context.Context, service belljar.Service, p *plan) (started belljar.Run, err error) {
	name, ok := fileOf(p.args.Archive)
	if !ok || !strings.HasSuffix(name, ".tar") && !strings.HasSuffix(name, ".tar.gz") && !strings.HasSuffix(name, ".tgz") {
		return started, refuse("archive", fmt.Sprintf("archive %.200q is not the URI of a .tar or .tar.gz", p.args.Archive), "it looks like file:///tmp/files.tar.gz")
	}
	f, err := os.Open(name)
	if err != nil {
		return started, &belljar.Error{Code: belljar.CodeNotFound, Message: "the archive cannot be opened", Err: err, Details: map[string]any{"field": "archive"}}
	}
	defer f.Close()
	content := io.Reader(f)
	if !strings.HasSuffix(name, ".tar") {
		if content, err = gzip.NewReader(f); err != nil {
			return started, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the archive is not compressed by gzip", Err: err, Details: map[string]any{"field": "archive"}}
		}
	}
	spec := p.spec
	spec.Runtime, spec.BaseImage, spec.WorkspaceExec = p.settings.Runtime, s.image(p.settings), true
	spec.TrustLevel, spec.Isolation = p.settings.Policy.TrustLevel, p.settings.Policy.Isolation
	return accept(ctx, service, belljar.RunRequest{RunSpec: spec, Upload: content})
}
