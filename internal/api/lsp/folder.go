package lsp

import (
	"cmp"
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
	gosync "sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/sync"
)

// folder is a folder of the editor, with the sessions that its runs use.
type folder struct {
	uri, dir, name string
	editor         string // part of its sessions' scope keys: another editor on the same folder may have other texts
	store          store

	mu       gosync.Mutex // held while files are sent
	root     *os.Root
	sessions map[string]*session // by their terms
	reported map[string]bool     // files that were reported as left out
	asked    bool                // the user agreed to send a folder as large as home

	last *runArgs // guarded by the server's mutex
}

// session is a session and the files in its workspace.
type session struct {
	id     string
	files  sync.Manifest
	limits belljar.Limits
	waits  bool // its startup limit is that of the run which opened it, not the server's default
}

// sessionTTL is how long an unused session lives, in seconds.
const sessionTTL = 15 * 60

// addFolder adds a folder. The caller holds the mutex.
func (s *Server) addFolder(w workspaceFolder) {
	dir, ok := fileOf(w.URI)
	if !ok {
		return // of a virtual file system, whose files cannot be sent
	}
	for _, f := range s.reporter.desk.folders {
		if f.dir == dir {
			return
		}
	}
	name := cmp.Or(w.Name, filepath.Base(dir))
	s.reporter.desk.folders = append(s.reporter.desk.folders, &folder{
		uri: w.URI, dir: dir, name: name, editor: belljar.NewID(), store: store{s.o.Config, hashOf(dir)},
		sessions: map[string]*session{}, reported: map[string]bool{},
	})
}

func (s *Server) didChangeFolders(p foldersChanged) {
	for _, gone := range p.Event.Removed {
		dir, _ := fileOf(gone.URI)
		for i, f := range s.reporter.desk.folders {
			if f.dir == dir {
				s.reporter.desk.folders = append(s.reporter.desk.folders[:i:i], s.reporter.desk.folders[i+1:]...)
				s.reporter.desk.background(func(context.Context) { f.close() }) // a run may be sending files
				break
			}
		}
	}
	for _, f := range p.Event.Added {
		s.addFolder(f)
	}
}

// close closes the folder's files. Its sessions stay until they expire, or the server ends.
func (f *folder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.root != nil {
		_ = f.root.Close() // it was only read from
		f.root = nil
	}
}

// open opens the folder. The caller holds its mutex.
func (f *folder) open() (*os.Root, error) {
	if f.root != nil {
		return f.root, nil
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, &belljar.Error{Code: belljar.CodeNotFound, Message: "the folder cannot be opened", Err: err}
	}
	f.root = root
	return root, nil
}

// holder returns the innermost folder that contains a file, and the file's path there. The caller holds the mutex.
func (s *desk) holder(uri string) (*folder, string) {
	name, ok := fileOf(uri)
	if !ok {
		return nil, ""
	}
	var in *folder
	var rel string
	for _, f := range s.folders {
		if at, ok := below(f.dir, name); ok && (in == nil || len(f.dir) > len(in.dir)) {
			in, rel = f, at
		}
	}
	return in, rel
}

// folderOf returns the folder with a URI; "" means the only folder. The caller holds the mutex.
func (s *desk) folderOf(uri string) (*folder, error) {
	if uri == "" {
		switch len(s.folders) {
		case 1:
			return s.folders[0], nil
		case 0:
			return nil, refuse("folder", "the editor has no folder open", "open a folder, or name a file with uri")
		}
		return nil, refuse("folder", fmt.Sprintf("folder is required: %d folders are open", len(s.folders)), "give the URI of one of them")
	}
	dir, ok := fileOf(uri)
	for _, f := range s.folders {
		if ok && f.dir == dir {
			return f, nil
		}
	}
	return nil, refuse("folder", fmt.Sprintf("folder %.200q is not open in the editor", uri), "give the URI of a folder of the workspace")
}

// buffers returns the unsaved texts in a folder, by path. The caller holds the server's mutex.
func (s *desk) buffers(f *folder) map[string]string {
	texts := map[string]string{}
	for _, d := range s.docs {
		if rel, in := below(f.dir, d.path); in && d.edited { // folders may contain each other
			texts[rel] = d.text
		}
	}
	return texts
}

// sure asks the user to confirm sending a whole home folder, or the whole machine.
func (s *Server) sure(ctx context.Context, f *folder) error {
	home, _ := os.UserHomeDir()
	if f.asked || f.dir != filepath.Clean(home) && filepath.Dir(f.dir) != f.dir {
		return nil
	}
	const send = "Send it"
	var chosen *messageAction
	err := s.reporter.desk.ask(ctx, "window/showMessageRequest", messageParams{
		Type: messageWarning, Message: fmt.Sprintf("Belljar: a run would send all files of %s to the sandbox. Is that folder meant?", f.dir),
		Actions: []messageAction{{send}, {"Cancel"}},
	}, &chosen)
	if err != nil || chosen == nil || chosen.Title != send {
		return &belljar.Error{Code: belljar.CodeCanceled, Message: f.dir + " was not sent", Hint: "open the folder of a project"}
	}
	f.asked = true
	return nil
}

// sending describes the files and settings that a run needs in its folder's session.
type sending struct {
	settings settings
	startup  float64 // limit for a session that is made, in seconds; 0 is the server's default
	buffers  map[string]string
	must     []string
	only     []string
	note     func(string)
}

// ready returns the folder's session with the folder's files in it. The caller holds the folder's mutex.
func (s *Server) ready(ctx context.Context, service belljar.Service, f *folder, want sending) (*session, error) {
	if err := s.sure(ctx, f); err != nil {
		return nil, err
	}
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		x, err := s.session(ctx, service, f, want)
		if err != nil {
			return nil, err
		}
		err = s.send(ctx, service, f, root, x, want)
		if err == nil || try > 0 || !gone(ctx, service, x.id) {
			return x, err
		}
		delete(f.sessions, want.settings.terms()) // it has expired: the next one gets all files
	}
}

// gone reports whether a session has ended.
func gone(ctx context.Context, service belljar.Service, id string) bool {
	x, err := service.Sessions().Get(ctx, id)
	return belljar.CodeOf(err) == belljar.CodeNotFound || err == nil && x.State.Ended()
}

// session returns the folder's session for its settings.
func (s *Server) session(ctx context.Context, service belljar.Service, f *folder, want sending) (*session, error) {
	c, terms := want.settings, want.settings.terms()
	if x, ok := f.sessions[terms]; ok {
		return x, nil
	}
	opened, _, err := service.Sessions().Open(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, Runtime: c.Runtime, BaseImage: s.image(c), TrustLevel: c.Policy.TrustLevel, Isolation: c.Policy.Isolation,
		StartupTimeoutSec: want.startup, WorkspaceExec: true, TTLSec: sessionTTL, Scope: belljar.Scope{Namespace: "user", ID: "lsp-" + f.store.hash, Key: terms + "-" + f.editor},
	}})
	if err == nil {
		s.reporter.desk.mu.Lock()
		s.opened = append(s.opened, opened.ID)
		s.reporter.desk.mu.Unlock()
		opened, err = belljar.Approved(ctx, service.Sessions(), opened)
	}
	if err != nil {
		return nil, err
	}
	x := &session{id: opened.ID, limits: opened.Limits, waits: want.startup != 0}
	f.sessions[terms] = x
	return x, nil
}

// image returns the image for settings that name none: the first of the runtime's.
func (s *Server) image(c settings) string {
	if c.BaseImage != "" {
		return c.BaseImage
	}
	s.reporter.desk.mu.Lock()
	defer s.reporter.desk.mu.Unlock()
	if r, ok := s.runtimeInfo(c.Runtime); ok && len(r.DefaultImages) > 0 {
		return r.DefaultImages[0]
	}
	return "host"
}

// runtimeInfo describes a runtime, the default one for "". The caller holds the mutex.
func (s *Server) runtimeInfo(name string) (belljar.RuntimeInfo, bool) {
	for _, r := range s.found.Runtimes {
		if r.Name == name || name == "" && r.Default {
			return r, true
		}
	}
	return belljar.RuntimeInfo{}, false
}

// Bounds of one archive.
const (
	mostArchiveFiles = 1000
	mostArchiveBytes = 64 << 20
)

// send synchronizes the session's workspace with the folder.
func (s *Server) send(ctx context.Context, service belljar.Service, f *folder, root *os.Root, x *session, want sending) error {
	s.reporter.desk.mu.Lock()
	info, _ := s.runtimeInfo(want.settings.Runtime)
	s.reporter.desk.mu.Unlock()
	plan, err := sync.Scan(ctx, root, sync.Options{
		Ignore: want.settings.Sync.Ignore, Allow: want.settings.Sync.Allow, Buffers: want.buffers, Must: want.must, Only: want.only,
		MaxFile: cmp.Or(int64(info.MaxUploadMB)<<20, mostArchiveBytes), MaxTotal: int64(x.limits.WorkspaceMB) << 20,
	}, x.files)
	if err != nil {
		return err
	}
	for _, skip := range plan.Skipped {
		if !f.reported[skip.Path] {
			f.reported[skip.Path] = true
			s.reporter.desk.log(fmt.Sprintf("Belljar: %s is not sent: %s", skip.Path, skip.Reason))
		}
	}
	if len(plan.Upload)+len(plan.Delete) == 0 {
		x.files = plan.Next
		return nil
	}
	if want.note != nil {
		want.note(fmt.Sprintf("sending %d files", len(plan.Upload)))
	}
	x.files = plan.Doubt()
	for _, name := range plan.Delete {
		err := service.Files().Delete(ctx, x.id, name, true)
		switch belljar.CodeOf(err) {
		case "", belljar.CodeNotFound, belljar.CodeConflict, belljar.CodePathEscapes: // it is already gone: its folder may be a program's file or link
		default:
			return err
		}
	}
	bounds := sync.Bounds{Files: mostArchiveFiles, Bytes: mostArchiveBytes, Depth: info.MaxUploadDepth}
	if info.MaxUploadFiles > 0 {
		bounds.Files = min(bounds.Files, info.MaxUploadFiles)
	}
	if info.MaxUploadMB > 0 {
		bounds.Bytes = min(bounds.Bytes, int64(info.MaxUploadMB)<<20)
	}
	for _, a := range plan.Archives(bounds) {
		err := upload(ctx, service, x.id, plan, a)
		if belljar.CodeOf(err) == belljar.CodeConflict {
			if err = clearWay(ctx, service.Files(), x.id, a.Names); err == nil {
				err = upload(ctx, service, x.id, plan, a)
			}
		}
		if err != nil {
			return err
		}
	}
	x.files = plan.Next
	return nil
}

// clearWay deletes whatever occupies the place of a sent file or folder: folders at files' paths, and files at folders'
// paths.
func clearWay(ctx context.Context, files belljar.Files, id string, names []string) error {
	folder := map[string]bool{".": true} // true if the path that is sent is a folder
	for _, name := range names {
		for is := false; name != "."; name, is = path.Dir(name), true {
			folder[name] = is
		}
	}
	for _, name := range slices.Sorted(maps.Keys(folder)) { // a folder before its entries
		if !folder[name] {
			continue
		}
		list, err := files.List(ctx, id, belljar.FileQuery{Path: name, Limit: 10_000})
		for _, there := range list.Entries {
			if is, sent := folder[there.Path]; sent && err == nil && is != (there.Type == "dir") {
				err = files.Delete(ctx, id, there.Path, true)
			}
		}
		if err != nil && belljar.CodeOf(err) != belljar.CodeNotFound {
			return err
		}
	}
	return nil
}

// upload sends one archive.
func upload(ctx context.Context, service belljar.Service, id string, plan *sync.Plan, a sync.Archive) error {
	read, write := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := plan.Pack(write, a)
		write.CloseWithError(err)
		packed <- err
	}()
	parts := func(yield func(belljar.UploadPart, error) bool) {
		yield(belljar.UploadPart{Format: belljar.UploadTar, Body: read}, nil)
	}
	_, err := service.Sessions().Upload(ctx, id, belljar.Upload{Dir: a.Dir, Parts: parts})
	read.Close()
	if why := <-packed; why != nil && !errors.Is(why, io.ErrClosedPipe) {
		return &belljar.Error{Code: belljar.CodeConflict, Message: "the folder changed while it was sent", Err: why, Hint: "run it again"}
	}
	return err
}

// buildFiles returns the files of build tools that run the tests of a folder's Java files.
func buildFiles() []string { return []string{"pom.xml", "build.gradle", "build.gradle.kts"} }

// built reports whether the folder has a build file.
func (f *folder) built() bool { return slices.ContainsFunc(buildFiles(), f.tool) }

func (f *folder) tool(name string) bool {
	info, err := os.Lstat(filepath.Join(f.dir, name))
	return err == nil && info.Mode().IsRegular()
}

// up looks for a file in a directory of the folder, and in the directories above it. It returns the directory, relative to
// the folder.
func (f *folder) up(dir, name string) (string, bool) {
	for {
		if f.tool(filepath.Join(filepath.FromSlash(dir), name)) {
			return dir, true
		}
		if dir == "." || dir == "" {
			return "", false
		}
		if i := strings.LastIndexByte(dir, '/'); i >= 0 {
			dir = dir[:i]
		} else {
			dir = "."
		}
	}
}
