package sqlite

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/store"
)

// Runs that are added go into the tables behind: a row stands in fourteen indexes and tables, whose pages cost as much to
// write for one row as for a hundred. What says that a run is on record is a line in a file beside the database, which
// survives the process as well as the database's own log. The next transaction takes the rows along; reads that could
// miss them make one first.

// Bounds of what is behind.
const (
	behindFor  = 50 * time.Millisecond // the longest, unless the database cannot be written
	behindRows = 4096                  // more wait for a transaction
)

// behind is the runs that are not in the tables yet. Two files take turns: one has the rows that a transaction takes, and
// is emptied when that is committed; the other has those that come meanwhile.
type behind struct {
	path string
	kick func() // has a transaction made, soon

	mu      sync.Mutex
	closed  bool
	files   [2]*os.File // nil until it is needed
	sizes   [2]int64
	now     int      // the file that takes rows
	waiting []runRow // those in it
	taken   []runRow // those in the other, which are in no table for sure
	timer   *time.Timer
}

func (b *behind) name(i int) string { return b.path + "-behind" + strconv.Itoa(i) }

// add puts a row behind. It reports false if there are too many.
func (b *behind) add(row runRow, r *store.Run) (ok bool, err error) {
	line, err := lineOf(r)
	if err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false, store.ErrClosed
	}
	if len(b.waiting)+len(b.taken) >= behindRows {
		return false, nil
	}
	if err := b.write(line); err != nil {
		return false, err
	}
	b.waiting = append(b.waiting, row)
	if b.timer == nil {
		b.timer = time.AfterFunc(behindFor, b.kick)
	}
	return true, nil
}

// write puts a whole line, or nothing, into the file that takes rows.
func (b *behind) write(line []byte) (err error) {
	f := b.files[b.now]
	if f == nil {
		if f, err = os.OpenFile(b.name(b.now), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
		b.files[b.now] = f
	}
	if _, err := f.WriteAt(line, b.sizes[b.now]); err != nil {
		return errors.Join(err, f.Truncate(b.sizes[b.now]))
	}
	b.sizes[b.now] += int64(len(line))
	return nil
}

// some reports whether rows are behind.
func (b *behind) some() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)+len(b.taken) > 0
}

// take is the rows that a transaction is to put into the tables. They are given again until it is committed.
func (b *behind) take() []runRow {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if len(b.taken) == 0 && len(b.waiting) > 0 {
		b.taken, b.waiting = b.waiting, nil
		b.now = 1 - b.now
	}
	return b.taken
}

// committed says that the rows that were taken are in the tables.
func (b *behind) committed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.taken) == 0 {
		return nil
	}
	b.taken = nil
	other := 1 - b.now
	b.sizes[other] = 0
	if b.files[other] == nil {
		return nil
	}
	return b.files[other].Truncate(0)
}

// failed has a transaction tried again later.
func (b *behind) failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.taken) > 0 && b.timer == nil && !b.closed {
		b.timer = time.AfterFunc(20*behindFor, b.kick)
	}
}

// end takes no more rows. Files without any go away; any others are for the next process.
func (b *behind) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	for i, f := range b.files {
		if f == nil {
			continue
		}
		f.Close()
		b.files[i] = nil
		if b.sizes[i] == 0 {
			_ = os.Remove(b.name(i))
		}
	}
}

// found is the rows that a former process left behind, and lines that are none.
func (b *behind) found() (rows []runRow, damaged int, err error) {
	for i := range b.files {
		f, err := os.Open(b.name(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		lines := bufio.NewReader(f)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) == 0 {
				break
			}
			row, bad := rowOf(line)
			if bad != nil {
				damaged++
			} else {
				rows = append(rows, row)
			}
			if err != nil {
				break
			}
		}
		f.Close()
	}
	return rows, damaged, nil
}

// forget removes what a former process left, once it is in the tables.
func (b *behind) forget() error {
	for i := range b.files {
		if err := os.Remove(b.name(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// lineOf is a run as a line: a checksum, and JSON.
func lineOf(r *store.Run) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	line := make([]byte, 0, len(text)+10)
	line = fmt.Appendf(line, "%08x ", crc32.ChecksumIEEE(text))
	return append(append(line, text...), '\n'), nil
}

// rowOf reads a line.
func rowOf(line []byte) (row runRow, err error) {
	sum, text, ok := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
	if !ok || string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) {
		return row, fmt.Errorf("%w: line without its sum", store.ErrCorrupt)
	}
	var r store.Run
	if err := json.Unmarshal(text, &r); err != nil {
		return row, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	if err := r.CheckEnded(); err != nil {
		return row, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return encodeRun(&r)
}
