package kernel

import (
	"time"

	"github.com/belljar/belljar/internal/store"
)

// Save returns the contexts in the form that is stored.
func (t *Table) Save() []store.SavedContext {
	var list []store.SavedContext
	all := t.all()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range all {
		list = append(list, store.SavedContext{Name: e.name, Language: e.language, Cwd: e.cwd, CreatedAt: e.made, Since: e.since, Lost: e.lost, Failed: e.failed})
	}
	return list
}

// Fresh reports, only once, that a context may not be on record. The next process needs the record of one that its agent does not report.
func (t *Table) Fresh(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.list[name]
	if e == nil || !e.fresh {
		return false
	}
	e.fresh = false
	return true
}

// Restore restores the contexts of a session that hibernates and whose variables are lost. Known contexts keep their queues.
func (t *Table) Restore(list []store.SavedContext, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.old, t.from = false, now // the session's next agent has this version
	for _, c := range list {
		e := t.list[c.Name]
		if e == nil {
			e = t.restore(c)
		}
		e.lost = true
	}
}

// restore adds a saved context. The caller holds the lock.
func (t *Table) restore(c store.SavedContext) *entry {
	e := &entry{name: c.Name, language: c.Language, cwd: c.Cwd, made: c.CreatedAt, since: c.Since, failed: c.Failed, queue: t.branch(), users: 1}
	t.list[c.Name] = e
	return e
}

// Keep records that the contexts of a resumed session still have their variables, unless these were already lost when it was saved.
func (t *Table) Keep(list []store.SavedContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range list {
		if e := t.list[c.Name]; e != nil {
			e.lost = c.Lost
		}
	}
}

// isLost returns the result of Lost without changing it.
func (t *Table) isLost(e *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.lost
}

// Lost reports, only once, that a context has lost its variables because its session was hibernated.
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
