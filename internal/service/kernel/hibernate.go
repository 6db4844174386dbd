package kernel

import (
	"time"

	"github.com/belljar/belljar/internal/store"
)

// Save returns what is kept of the contexts.
func (t *Table) Save() []store.SavedContext {
	var list []store.SavedContext
	all := t.all()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range all {
		list = append(list, store.SavedContext{Name: e.name, Language: e.language, Cwd: e.cwd, CreatedAt: e.made, Since: e.since, Lost: e.lost})
	}
	return list
}

// Restore notes the contexts of a session that hibernates, whose variables are gone. Those that are known keep their queues.
func (t *Table) Restore(list []store.SavedContext, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.old, t.from = false, now // the session's next agent is of this version
	for _, c := range list {
		e := t.list[c.Name]
		if e == nil {
			e = t.restore(c)
		}
		e.lost = true
	}
}

// restore adds a context as it was saved. The caller holds the lock.
func (t *Table) restore(c store.SavedContext) *entry {
	e := &entry{name: c.Name, language: c.Language, cwd: c.Cwd, made: c.CreatedAt, since: c.Since, queue: t.branch()}
	t.list[c.Name] = e
	return e
}

// Keep notes that the contexts of a session that woke are as they were saved, with their variables unless these were gone by then.
func (t *Table) Keep(list []store.SavedContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range list {
		if e := t.list[c.Name]; e != nil {
			e.lost = c.Lost
		}
	}
}

// isLost reports what the next run of a context will.
func (t *Table) isLost(e *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.lost
}

// Lost reports, once, that a context has lost its variables because its session was hibernated.
func (t *Table) Lost(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.list[name]
	if e == nil || !e.lost {
		return false
	}
	e.lost = false
	return true
}
