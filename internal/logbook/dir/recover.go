package dir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/belljar/belljar/internal/logbook"
)

// load finds the log of id on the disk. It closes the file of a sealed log, and keeps any other open for appending.
func (b *Book) load(id string) (*Log, error) {
	l := &Log{book: b, id: id, path: b.file(id)}
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, logbook.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	sealed, err := l.readEnds(f)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("read log %s: %w", id, err)
	}
	if sealed {
		return l, nil
	}
	if l.file, err = os.OpenFile(l.path, os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if err := l.recover(); err != nil {
		l.file.Close()
		return nil, fmt.Errorf("read log %s: %w", id, err)
	}
	if l.now.sealed {
		l.retire()
	}
	return l, nil
}

// readEnds reads the log's state from the two ends of its file. It returns false if the file does not end with a seal.
func (l *Log) readEnds(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	at := info.Size() - sealSize
	if at < headSize {
		return false, nil
	}
	var head [headSize]byte
	var foot [sealSize]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return false, err
	}
	if _, err := f.ReadAt(foot[:], at); err != nil {
		return false, err
	}
	c, err := readHead(head[:])
	if errors.Is(err, errDamaged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	count := binary.LittleEndian.Uint64(foot[recordHead+8:])
	r, err := c.next(foot[:], count+1, false)
	if err != nil || !c.seals(r, count, at) {
		return false, nil
	}
	l.codec = c
	l.now = view{count: count, end: at, sealed: true}
	return true, nil
}

// recover reads the whole file of an unsealed log.
func (l *Log) recover() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	why, err := l.scan(size)
	if err != nil {
		return err
	}
	if lost := size - l.now.end; lost > 0 && !l.now.sealed {
		l.dirty = true
		l.book.logger.Warn("log ends with bytes that are not a frame; they are dropped", "log", l.id, "frames", l.now.count,
			"bytes", lost, "err", why)
	}
	return nil
}

// scan finds the last valid record of a file of size bytes. why is the reason that the next record is not valid.
func (l *Log) scan(size int64) (why, err error) {
	var v view
	piece, err := fill(l.file, 0, nil, headSize, size)
	if err == nil {
		l.codec, err = readHead(piece)
	}
	if errors.Is(err, errShort) || errors.Is(err, errDamaged) {
		l.codec = newCodec()
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	v.end = headSize
	piece = piece[headSize:]
	for v.end < size && !v.sealed {
		r, err := l.codec.next(piece, v.count+1, false)
		if errors.Is(err, errShort) {
			if piece, err = fill(l.file, v.end, piece, r.size, size); err == nil {
				continue
			}
		}
		if err == nil && r.kind != kindSeal {
			_, err = r.frame(v.count + 1)
		} else if err == nil && !l.codec.seals(r, v.count, v.end) {
			err = errDamaged
		}
		if errors.Is(err, errShort) || errors.Is(err, errDamaged) {
			why = err
			break
		}
		if err != nil {
			return nil, err
		}
		if r.kind == kindSeal {
			v.sealed = true
			break
		}
		v.count++
		l.addMark(mark{v.count, v.end})
		v.end += int64(r.size)
		piece = piece[r.size:]
	}
	l.now = v
	return why, nil
}
