// Package kernel manages the contexts of sessions: running interpreters whose variables persist between runs. An interpreter is a named shell
// of the session's agent, which owns its process. This package tracks the requested contexts.
package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/store"
)

// Limits bounds the contexts of one session. A zero field has its default.
type Limits struct {
	Most int           // maximum number; 0 is 8
	Idle time.Duration // idle time after which an interpreter ends; 0 is 1 h, less than 0 never
}

func (l Limits) complete() Limits {
	l.Most, l.Idle = cmp.Or(l.Most, 8), cmp.Or(l.Idle, time.Hour)
	return l
}

// Table is the contexts of one session.
type Table struct {
	limits Limits
	branch func() *queue.Queue

	mu   sync.Mutex
	list map[string]*entry
	from time.Time // when the list was recovered, or a context was removed: new contexts are younger
	old  bool      // the session's agent does not support kernels
}

// entry is one context.
type entry struct {
	name, language, cwd string
	made                time.Time
	since               time.Time // earlier code is not replayed
	queue               *queue.Queue
	failed              bool // its code could not be executed again, and it has no interpreter
	lost                bool // its session was hibernated, and it has not run code since
	fresh               bool // it is not on record
	users               int  // requests that made or used it, without those that failed to start it; at least 1 if it was restored
}

// NewTable returns a table without contexts. branch makes the queue for the runs of one context.
func NewTable(limits Limits, branch func() *queue.Queue) *Table {
	return &Table{limits: limits.complete(), branch: branch, list: map[string]*entry{}}
}

// prefix begins a context's name among the shells of an agent.
const prefix = "context/"

// mostShells is the maximum number of shells that an agent has. It does not depend on Limits.Most, which may be lower than it was.
const mostShells = 16

// Recover restores the contexts that an agent knows from a previous process, and those on record: the agent of a resumed session knows only
// those that were used since. err is the agent's error: an older agent does not support contexts.
func (t *Table) Recover(shells []wire.ShellInfo, err error, saved []store.SavedContext, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var refused *wire.Error
	if t.old, t.from = errors.Is(err, agent.ErrProtocol) || errors.As(err, &refused), now; t.old {
		return
	}
	first := map[string]bool{} // contexts in which no run has ended

	// A hijacked agent may send any number of shells, with any names.
	for _, s := range shells[:min(len(shells), mostShells)] {
		if name, ok := strings.CutPrefix(s.Name, prefix); ok && belljar.CheckContextName("name", name) == nil {
			first[name] = s.Runs == 0 || s.Runs == 1 && s.Busy
			made := now.Add(-time.Duration(s.AgeMS) * time.Millisecond)
			e := &entry{name: name, language: language(s.Kernel), made: made, since: made.Add(-time.Second), queue: t.branch(), users: 1, fresh: true} // about: we asked later
			if dir, below := strings.CutPrefix(s.Cwd, belljar.WorkspaceDir+"/"); below {
				e.cwd = dir
			}
			t.list[name] = e
		}
	}
	for _, c := range saved {
		switch e := t.list[c.Name]; {
		case e == nil:
			t.restore(c).lost = c.Lost
		case e.language == c.Language:
			e.made, e.since, e.lost, e.failed, e.fresh = c.CreatedAt, c.Since, c.Lost && first[c.Name], c.Failed && first[c.Name], false
		}
	}
}

// kernelOf maps languages to kernels. "" is a shell.
var kernelOf = map[string]string{"python": wire.KernelPython, "ipython": wire.KernelIPython, "javascript": wire.KernelNode, "bash": ""}

func language(kernel string) string {
	for name, of := range kernelOf {
		if of == kernel {
			return name
		}
	}
	return "bash"
}

// Check checks that a run may use a context, or create it with a language if it does not exist. It returns the context's language.
func (t *Table) Check(name, wanted string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, language, err := t.check(belljar.ContextSpec{Name: name, Language: wanted})
	if e != nil {
		language = e.language
	}
	return language, err
}

// Use creates the context of a run, if it does not exist. undo reverts that for a run that does not start.
func (t *Table) Use(name, wanted string, now time.Time) (undo func(), err error) {
	e, _, err := t.enter(belljar.ContextSpec{Name: name, Language: wanted}, now)
	if err != nil {
		return nil, err
	}
	return func() { t.leave(e) }, nil
}

// enter finds a context, or creates it if the spec has a language. made reports that it is new.
func (t *Table) enter(spec belljar.ContextSpec, now time.Time) (e *entry, made bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, language, err := t.check(spec)
	if e != nil {
		e.users++
	}
	if e != nil || err != nil {
		return e, false, err
	}
	e = &entry{name: spec.Name, language: language, cwd: spec.Cwd, made: now, since: t.from, queue: t.branch(), users: 1, fresh: true}
	t.list[e.name] = e
	return e, true, nil
}

// check finds a context; nil for one that can be created with language wanted. The caller holds the lock.
func (t *Table) check(spec belljar.ContextSpec) (e *entry, wanted string, err error) {
	wanted, _ = belljar.ContextLanguage(spec.Language)
	e = t.list[spec.Name]
	switch {
	case t.old:
		return nil, "", &belljar.Error{
			Code: belljar.CodeConflict, Message: "the session was made by an earlier version of belljar, and has no contexts", Hint: "make a new session",
		}
	case e == nil && wanted == "":
		return nil, "", notFound(spec.Name)
	case e != nil && wanted != "" && wanted != e.language:
		return nil, "", &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("context %q is of language %s", spec.Name, e.language),
			Details: map[string]any{"context": spec.Name, "language": e.language}, Hint: "leave the language out, or use another name",
		}
	case e != nil:
		return e, wanted, nil
	case len(t.list) >= t.limits.Most:
		return nil, "", &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("the session has all of its %d contexts", t.limits.Most),
			Details: map[string]any{"quota": "contexts_per_session", "used": len(t.list), "limit": t.limits.Most}, Hint: "delete one that is no longer needed",
		}
	}
	return nil, wanted, nil
}

// find returns a context.
func (t *Table) find(name string) (*entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.list[name]; e != nil {
		return e, nil
	}
	return nil, notFound(name)
}

func notFound(name string) error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("context %q does not exist", name),
		Details: map[string]any{"context": name}, Hint: "make it, or send the language with the code",
	}
}

// remove removes a context. Code from before now is not replayed.
func (t *Table) remove(name string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.list, name)
	t.from = now
}

// leave reverts enter for a request that failed to start a context. It removes a context that no other request has, and reports whether none of
// the name is left.
func (t *Table) leave(e *entry) (gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.users--; e.users == 0 && t.list[e.name] == e {
		delete(t.list, e.name)
	}
	return t.list[e.name] == nil
}

// restart prevents the replay of code from before a time, and resets the loss of variables.
func (t *Table) restart(e *entry, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.since, e.lost, e.failed = now, false, false
}

// Renew prevents the replay of code from before a run that began in a new interpreter without a replay. It reports whether the table has changed.
func (t *Table) Renew(name string, began time.Time, exit *wire.ShellExit) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.list[name]
	if e == nil || !began.After(e.since) { // it was deleted or restarted meanwhile
		return false
	}
	if !exit.Renewed && (!e.failed || exit.Replaced) { // after a failed replay, the agent takes the next interpreter for the first
		return false
	}
	e.since, e.failed = began, false
	return true
}

// all returns the contexts, sorted by name.
func (t *Table) all() []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.Collect(maps.Values(t.list))
	slices.SortFunc(list, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	return list
}

// Queue returns the queue of a context's runs; nil if it does not exist.
func (t *Table) Queue(name string) *queue.Queue {
	if e, err := t.find(name); err == nil {
		return e.queue
	}
	return nil
}

// Direct directs a command to a context, which then executes its code.
func (t *Table) Direct(e wire.Exec, name, code string) wire.Exec {
	of, err := t.find(name)
	if err != nil { // it was deleted meanwhile: the agent refuses an unknown kernel
		e = t.direct(e, &entry{name: name}, code)
		e.Shell.Kernel = "deleted"
		return e
	}
	return t.direct(e, of, code)
}

func (t *Table) direct(e wire.Exec, of *entry, code string) wire.Exec {
	e.Argv, e.CPUTimeMS, e.KillAll = nil, 0, false
	e.Shell = &wire.ShellRun{Name: prefix + of.name, Cmd: []byte(code), Separate: true, Kernel: kernelOf[of.language]}
	if t.limits.Idle > 0 {
		e.Shell.IdleMS = t.limits.Idle.Milliseconds()
	}
	e.Cwd = "" // the workspace: the image's folder has none of the session's files, and is read-only
	if of.cwd != "" {
		e.Cwd = belljar.WorkspaceDir + "/" + of.cwd
	}
	e.Env = Unattended(e.Env)
	return e
}

// Unattended adds variables that stop programs from waiting for a user at a terminal.
func Unattended(env []string) []string {
	has := func(name string) bool {
		return slices.ContainsFunc(env, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
	}
	for _, pair := range [][2]string{{"PAGER", "cat"}, {"GIT_PAGER", "cat"}, {"GIT_TERMINAL_PROMPT", "0"}} {
		if !has(pair[0]) {
			env = append(env, pair[0]+"="+pair[1])
		}
	}
	return env
}
