package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"github.com/belljar/belljar/internal/store"
)

// importOlder imports runs from files next to the database and removes the files. Versions before schema 5 kept short
// runs there until a later transaction, so a killed process may have left them.
func (s *Store) importOlder(ctx context.Context) error {
	for _, name := range []string{s.path + "-behind0", s.path + "-behind1"} {
		lines, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = s.writer.do(ctx, write{durable: true, do: func(t *tx) error {
			for line := range bytes.Lines(lines) {
				row, err := olderRun(line)
				if err != nil {
					s.log.Warn("a run that was added before a loss of power cannot be read", "path", name, "err", err)
				} else if err := addRun(t, row); err != nil {
					return err
				}
			}
			return nil
		}})
		if err == nil {
			err = os.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// olderRun parses a line of such a file: a checksum and JSON. It returns [store.ErrCorrupt] for anything but a run that
// has ended.
func olderRun(line []byte) (row runRow, err error) {
	sum, text, _ := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
	if string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) {
		return row, fmt.Errorf("%w: line without its sum", store.ErrCorrupt)
	}
	var r store.Run
	err = json.Unmarshal(text, &r)
	if err == nil {
		err = r.CheckEnded()
	}
	if err != nil {
		return row, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return encodeRun(&r)
}
