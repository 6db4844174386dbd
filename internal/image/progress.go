package image

import (
	"io"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// meter reports how much has been read, at intervals.
type meter struct {
	r        io.Reader
	progress belljar.ImageProgress
	report   func(belljar.ImageProgress)
	reported time.Time
}

// wordEvery is how often a meter reports.
const wordEvery = 100 * time.Millisecond

func newMeter(r io.Reader, progress belljar.ImageProgress, report func(belljar.ImageProgress)) *meter {
	report(progress)
	return &meter{r: r, progress: progress, report: report, reported: time.Now()}
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.progress.Done += int64(n)
	if now := time.Now(); n > 0 && now.Sub(m.reported) >= wordEvery {
		m.reported = now
		m.report(m.progress)
	}
	return n, err
}

// end reports the final amount.
func (m *meter) end() {
	m.progress.Total = m.progress.Done
	m.report(m.progress)
}

// listener receives progress: one report at a time, and none after end.
type listener struct {
	mu    sync.Mutex
	to    func(belljar.ImageProgress)
	ended bool
}

func (l *listener) report(p belljar.ImageProgress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to != nil && !l.ended {
		l.to(p)
	}
}

func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
