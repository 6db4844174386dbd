package api

import (
	"sync"
	"time"
)

// LogThrottle limits how often a fault that lasts is logged, which each request would otherwise do. Its zero value is ready.
type LogThrottle struct {
	mu   sync.Mutex
	last map[string]logged
}

type logged struct {
	cause string
	at    time.Time
}

// Due reports whether to log a fault now: for the first time, with another cause than the last time, or once a minute.
func (l *LogThrottle) Due(fault string, cause error, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, found := l.last[fault]
	if found && last.cause == cause.Error() && now.Sub(last.at) < time.Minute {
		return false
	}
	if l.last == nil {
		l.last = map[string]logged{}
	}
	l.last[fault] = logged{cause.Error(), now}
	return true
}
