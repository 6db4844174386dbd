package kernel

import "github.com/belljar/belljar/internal/store"

// Save returns what is kept of the contexts of a session that hibernates.
func (t *Table) Save() []store.SavedContext {
	var list []store.SavedContext
	all := t.all()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range all {
		list = append(list, store.SavedContext{Name: e.name, Language: e.language, Cwd: e.cwd, CreatedAt: e.made, Since: e.since})
	}
	return list
}

// Restore notes the contexts that Save returned, whose variables are gone. Those that are known keep their queues.
func (t *Table) Restore(list []store.SavedContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.old = false // the session's next agent is of this version
	for _, c := range list {
		e := t.list[c.Name]
		if e == nil {
			e = &entry{name: c.Name, language: c.Language, cwd: c.Cwd, made: c.CreatedAt, since: c.Since, queue: t.branch()}
			t.list[c.Name] = e
		}
		e.lost = true
	}
}

// Keep notes that the contexts of a session that woke are as they were, with their variables.
func (t *Table) Keep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.list {
		e.lost = false
	}
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
