//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/tier"
)

// TestStorm kills servers during all operations of sessions: opening and closing by scope, writing files one by one, in
// batches and as streams, the shell, terminals, and the pool's work. The next servers are killed, too, before they are
// ready. Every answered operation is complete afterwards; every other one is complete or has not happened.
func TestStorm(t *testing.T) {
	rounds := tier.Rounds(t, 1, 20)
	data := t.TempDir()
	args := []string{"--set", "quota_sessions=0", "--set", "pool_size=3", "--set", "cancel_grace_seconds=0.5"}
	s := serve(t, data, args...)
	w := &storm{t: t, lives: map[string]string{}, closed: map[string]string{}, files: map[string]string{}, maybe: map[string]string{}}
	w.base = w.open(s, "base")
	if w.base == "" {
		t.Fatalf("no session\n%s", s.output)
	}
	for round := range rounds {
		var crowd sync.WaitGroup
		var over context.CancelFunc
		w.ctx, over = context.WithCancel(t.Context()) // a client would wait long for the server to come back
		for i, client := range []func(*server, string) bool{w.opens, w.opens, w.closes, w.writes, w.batches, w.streams, w.counts, w.looks} {
			crowd.Go(func() {
				for n := 0; client(s, fmt.Sprintf("%d-%d-%d", round, i, n)); n++ {
				}
			})
		}
		time.Sleep(50*time.Millisecond + rand.N(500*time.Millisecond))
		s.kill()
		over()
		crowd.Wait()
		for range rand.N(4) {
			s, _ = launch(t, data, args...)
			time.Sleep(rand.N(50 * time.Millisecond))
			s.kill()
		}
		s = serve(t, data, args...)
		w.hold(s, round)
		if t.Failed() {
			t.Logf("the log of the server:\n%s", s.output)
			break
		}
	}
	t.Logf("%d rounds, %d opened, %d closed, %d files, %d commands of the shell", rounds, w.opened, w.shut, w.written, w.counted)
	status, answer := s.ask(http.MethodPost, api+"/sessions/close", map[string]any{"key_prefix": "agent:storm"})
	if ids, _ := answer["closed"].([]any); status != http.StatusOK || len(ids) < 1 {
		t.Errorf("close all: %d %v", status, answer)
	}
	_, list := s.ask(http.MethodGet, api+"/sessions?limit=100", nil)
	items, _ := list["items"].([]any)
	for _, item := range items {
		if session, _ := item.(map[string]any); session["state"] == "active" {
			t.Errorf("lives on: %v", session)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the last server ended with %d\n%s", code, s.output)
	}
	if nothingLeft(t, data); t.Failed() {
		t.Logf("the log of the last server:\n%s", s.output)
	}
}

// storm records the requests to servers that die, and their responses.
type storm struct {
	t    *testing.T
	base string          // a session that outlives all servers
	ctx  context.Context // of one round

	mu                    sync.Mutex
	opened, shut, written int
	counted               int               // answered shell commands
	asked                 int               // sent shell commands
	lives                 map[string]string // answered sessions, by the name of their scope
	closed                map[string]string // sessions whose close was answered, by the name of their scope
	files                 map[string]string // contents of answered files
	maybe                 map[string]string // contents of files without an answer
	whole                 [][]string        // files of batches without an answer
}

// open opens a scope; "" if the server has died.
func (w *storm) open(s *server, name string) string {
	scope := map[string]any{"scope": map[string]any{"namespace": "agent", "id": "storm", "key": name}}
	status, session, err := s.try(http.MethodPost, api+"/sessions/open", scope)
	id, _ := session["session_id"].(string)
	switch {
	case err != nil:
		return ""
	case status/100 != 2 || id == "":
		w.t.Errorf("open %s: %d %v", name, status, session)
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened++
	w.lives[name] = id
	return id
}

func (w *storm) opens(s *server, name string) bool { return w.open(s, name) != "" }

// closes opens a scope and closes it.
func (w *storm) closes(s *server, name string) bool {
	id := w.open(s, name)
	if id == "" {
		return false
	}
	w.mu.Lock()
	delete(w.lives, name) // unknown until the response
	w.mu.Unlock()
	status, answer, err := s.try(http.MethodDelete, api+"/sessions/"+id, nil)
	if err != nil {
		return false
	}
	if status != http.StatusNoContent {
		w.t.Errorf("close %s: %d %v", name, status, answer)
	}
	w.mu.Lock()
	w.closed[name] = id
	w.mu.Unlock()
	return true
}

// keep records files, whether or not the write was answered.
func (w *storm) keep(answered bool, content string, names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if answered {
			w.files[name] = content
		} else {
			w.maybe[name] = content
		}
	}
	if !answered && len(names) > 1 {
		w.whole = append(w.whole, names)
	}
}

// asks sends a request that writes files.
func (w *storm) asks(s *server, method, path string, body any, content string, names ...string) bool {
	status, answer, err := s.try(method, api+"/sessions/"+w.base+path, body)
	if err == nil && status/100 != 2 {
		w.t.Errorf("%s: %d %v", path, status, answer)
		return false
	}
	w.keep(err == nil, content, names...)
	return err == nil
}

func (w *storm) writes(s *server, name string) bool {
	name = "new/" + name
	return w.asks(s, http.MethodPost, "/fs/write", map[string]any{"path": name, "contents": name}, name, name)
}

func (w *storm) batches(s *server, name string) bool {
	var files []map[string]any
	var names []string
	content := strings.Repeat(name+"\n", 50)
	for i := range 20 {
		names = append(names, fmt.Sprintf("new/%s-%d", name, i))
		files = append(files, map[string]any{"path": names[i], "contents": content})
	}
	return w.asks(s, http.MethodPost, "/fs/batch", map[string]any{"files": files}, content, names...)
}

func (w *storm) streams(s *server, name string) bool {
	content := strings.Repeat(name+"\n", 1<<18)[:1<<20]
	return w.asks(s, http.MethodPut, "/fs/raw?overwrite=true&path=stream", strings.NewReader(content), content, "stream")
}

// counts makes the shell count. Answered commands must be neither missing nor doubled.
func (w *storm) counts(s *server, _ string) bool {
	w.mu.Lock()
	w.asked++
	w.mu.Unlock()
	status, answer, err := s.try(http.MethodPost, api+"/sessions/"+w.base+"/shell", map[string]any{"cmd": "N=$((N+1)); echo $N >>/tmp/count; echo $N"})
	if err != nil {
		return false
	}
	if status != http.StatusOK || answer["exit_code"] != 0.0 {
		w.t.Errorf("shell: %d %v", status, answer)
		return false
	}
	w.mu.Lock()
	w.counted++
	w.mu.Unlock()
	return true
}

// looks opens terminals and closes them.
func (w *storm) looks(s *server, name string) bool {
	c := s.client()
	made, err := c.Terminals().Open(w.ctx, w.base, belljar.TerminalSpec{Name: name})
	var full *belljar.Error
	if errors.As(err, &full) && full.Code == belljar.CodeQuotaExceeded {
		w.t.Errorf("terminals do not go: %v", err)
	}
	if err != nil {
		return false
	}
	a, err := c.Terminals().Attach(w.ctx, made.ID)
	if err != nil {
		return false
	}
	defer a.Close()
	if a.Write(w.ctx, []byte("echo "+name+"\n")) != nil {
		return false
	}
	return c.Terminals().Close(w.ctx, made.ID) == nil
}

// hold checks that a server keeps the promises of earlier servers.
func (w *storm) hold(s *server, round int) {
	w.t.Helper()
	for name, id := range w.lives {
		status, session, err := s.try(http.MethodGet, api+"/sessions/"+id, nil)
		if err != nil || status != http.StatusOK || session["state"] != "active" {
			w.t.Errorf("round %d: session %s: %d %v %v", round, id, status, session, err)
		}
		if again := w.open(s, name); again != id {
			w.t.Errorf("round %d: scope %s was %s and is %s", round, name, id, again)
		}
	}
	for name, id := range w.closed {
		if _, session := s.ask(http.MethodGet, api+"/sessions/"+id, nil); session["state"] != "closed" {
			w.t.Errorf("round %d: session %s of %s was closed: %v", round, id, name, session)
		}
	}
	w.shut += len(w.closed)
	clear(w.closed)
	w.holdFiles(s, round)

	_, answer := s.ask(http.MethodPost, api+"/sessions/"+w.base+"/shell", map[string]any{"cmd": "touch /tmp/count; cat /tmp/count; echo ${N:-0}"})
	text, _ := answer["output"].(string)
	lines := strings.Fields(text)
	for i, line := range lines[:max(len(lines), 1)-1] {
		if line != strconv.Itoa(i+1) {
			w.t.Fatalf("round %d: the shell counted %v", round, lines)
		}
	}
	if n := len(lines) - 1; n < w.counted || n > w.asked || lines[n] != strconv.Itoa(n) {
		w.t.Errorf("round %d: %d commands of the shell were answered, %d asked, and it counted %d, %v", round, w.counted, w.asked, n, answer)
	}
	// About half of the open sessions stay for the next round.
	for name, id := range w.lives {
		if name != "base" && rand.N(2) == 0 {
			if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+id, nil); status != http.StatusNoContent {
				w.t.Errorf("round %d: delete: %d %v", round, status, answer)
			}
			delete(w.lives, name)
		}
	}
	c := s.client()
	list, err := c.Terminals().List(w.t.Context(), w.base)
	for _, terminal := range list {
		err = errors.Join(err, c.Terminals().Close(w.t.Context(), terminal.ID))
	}
	if err != nil {
		w.t.Errorf("round %d: terminals: %v", round, err)
	}
}

// holdFiles checks the files of this round, and removes them.
func (w *storm) holdFiles(s *server, round int) {
	w.t.Helper()
	last, was := w.files["stream"], w.maybe["stream"]
	delete(w.files, "stream")
	delete(w.maybe, "stream")
	there := map[string]string{}
	_, list := s.ask(http.MethodPost, api+"/sessions/"+w.base+"/fs/list", map[string]any{"path": ".", "recursive": true, "limit": 10000})
	items, _ := list["entries"].([]any)
	if list["truncated"] == true || len(items) == 0 && len(w.files) > 0 {
		w.t.Fatalf("round %d: %v", round, list)
	}
	for _, item := range items {
		entry, _ := item.(map[string]any)
		path, _ := entry["path"].(string)
		if entry["type"] != "file" {
			continue
		}
		there[strings.TrimPrefix(path, "/workspace/")] = s.text(api + "/sessions/" + w.base + "/fs/raw?path=" + path)
	}
	if got := there["stream"]; got != last && got != was {
		w.t.Errorf("round %d: a stream of %d bytes, %.20q, is neither %.20q nor %.20q", round, len(got), got, last, was)
	}
	for name, want := range w.files {
		if got, ok := there[name]; got != want {
			w.t.Errorf("round %d: %s, which was answered, has %d bytes of %d, %t", round, name, len(got), len(want), ok)
		}
	}
	for name, want := range w.maybe {
		if got, ok := there[name]; ok && got != want {
			w.t.Errorf("round %d: %s, which was not answered, has %d bytes of %d", round, name, len(got), len(want))
		}
	}
	for _, names := range w.whole {
		has := 0
		for _, name := range names {
			if _, ok := there[name]; ok {
				has++
			}
		}
		if has != 0 && has != len(names) {
			w.t.Errorf("round %d: %d files of a batch of %d", round, has, len(names))
		}
	}
	status, answer := s.ask(http.MethodPost, api+"/sessions/"+w.base+"/fs/delete", map[string]any{"path": "new", "recursive": true})
	if status != http.StatusOK && codeOf(answer) != "not_found" {
		w.t.Errorf("round %d: delete the files: %d %v", round, status, answer)
	}
	w.written += len(w.files)
	w.files, w.whole, w.maybe = map[string]string{"stream": there["stream"]}, nil, map[string]string{}
}
