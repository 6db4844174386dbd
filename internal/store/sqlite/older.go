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

// takeUp puts runs into the tables that an older version left in files beside the database when it was killed, and
// removes the files. Before version 5 of the tables short runs were there until a later transaction.
func (s *Store) takeUp(ctx context.Context) error {
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

// olderRun reads a line of such a file: a checksum, and JSON. What is no run that has ended is [store.ErrCorrupt].
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
