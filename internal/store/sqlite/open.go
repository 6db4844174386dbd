package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

//go:embed migration/*.sql
var migrations embed.FS

// The first migration sets the file's application id, the last one its version.
const (
	applicationID = 0x424c4a52 // BLJR
	schemaVersion = 11
)

// checkpointPages is the size of SQLite's log, in pages of 4 KiB, at which a commit merges it into the file and syncs both. A
// run writes about ten pages. With SQLite's default of 1,000, one run in a hundred waited for the merge.
const checkpointPages = 4000

// readers is the number of concurrent reads, other than lists.
const readers = 4

// Options configure a store.
type Options struct {
	Path   string       // of the file; its folder must exist. Required
	Logger *slog.Logger // nil discards
}

// Open opens or creates the store and migrates its tables. It refuses a file that is damaged, belongs to another
// program or comes from a newer Belljar, and leaves it unchanged.
func Open(ctx context.Context, opts Options) (*Store, error) {
	log := cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	path, err := filepath.Abs(opts.Path)
	if opts.Path == "" || err != nil {
		return nil, openFailed(opts.Path, errors.Join(errors.New("no path"), err), "set the path of the store")
	}
	if err := makeFile(path); err != nil {
		return nil, openFailed(path, err, "make the folder and let belljar write to it")
	}
	if err := checkLog(path); err != nil {
		return nil, openFailed(path, err, "remove "+path+"-wal and "+path+"-shm if you have restored the store from a backup")
	}
	write, err := sql.Open("sqlite", source(path, fmt.Sprintf("_pragma=foreign_keys(1)&_pragma=wal_autocheckpoint(%d)", checkpointPages)))
	if err != nil {
		return nil, openFailed(path, err, "")
	}
	write.SetMaxOpenConns(1)
	s := &Store{path: path, log: log, writeDB: write}
	if err := s.start(ctx); err != nil {
		if s.writer != nil {
			s.writer.close()
		}
		s.closeDBs()
		return nil, openFailed(path, err, "")
	}
	return s, nil
}

func (s *Store) start(ctx context.Context) error {
	if err := migrate(ctx, s.writeDB); err != nil {
		return err
	}
	s.warnSlack(ctx)
	for _, pool := range []struct {
		to    **sql.DB
		conns int
	}{{&s.readDB, readers}, {&s.listDB, listers}} {
		db, err := sql.Open("sqlite", source(s.path, "_pragma=query_only(1)&_pragma=cache_size(-4096)"))
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(pool.conns)
		db.SetMaxIdleConns(pool.conns)
		*pool.to = db
	}
	conn, err := s.writeDB.Conn(ctx)
	if err != nil {
		return err
	}
	s.writer = newWriter(conn, s.path)
	if err := s.importOlder(ctx); err != nil {
		return err
	}
	s.stmts, err = prepare(ctx, s.readDB)
	return err
}

// source returns the driver's name for a file. A path may contain any character.
func source(path, params string) string {
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(10000)&" + params}
	return u.String()
}

// migrate brings the tables up to date. It fails for a file that is not Belljar's.
func migrate(ctx context.Context, db *sql.DB) error {
	version, err := identify(ctx, db)
	if err != nil {
		return err
	}
	if version == 0 { // a new file can shrink; setting this later would need a VACUUM, and fail on a full disk
		if _, err := db.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
			return err
		}
	}
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	if version == schemaVersion {
		return nil
	}
	dir, err := fs.Sub(migrations, "migration")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring the tables up to date: %w", err)
	}
	return nil
}

// identify returns the version of the file's tables: 0 for an empty file. It fails for a file that is not Belljar's.
func identify(ctx context.Context, db *sql.DB) (version int, err error) {
	var application, tables int
	row := db.QueryRowContext(ctx, "SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_schema WHERE name NOT IN ('goose_db_version', 'sqlite_sequence')) FROM pragma_application_id a, pragma_user_version v")
	if err := row.Scan(&application, &version, &tables); err != nil {
		return 0, err
	}
	switch {
	case application == 0 && version == 0 && tables == 0:
		return 0, nil
	case application != applicationID:
		return 0, &belljar.Error{
			Code:    belljar.CodeInternal,
			Message: "the file is a database of another program",
			Details: map[string]any{"application_id": application},
			Hint:    "name another file, or another data folder",
		}
	case version > schemaVersion:
		return 0, &belljar.Error{
			Code:    belljar.CodeInternal,
			Message: fmt.Sprintf("the tables have version %d, this belljar knows them up to version %d", version, schemaVersion),
			Details: map[string]any{"found": version, "supported": schemaVersion},
			Hint:    "run the newer belljar that wrote the file, or name another data folder",
		}
	}
	return version, nil
}

// openFailed returns the error for a store that cannot be opened, with a hint.
func openFailed(path string, err error, hint string) error {
	var known *driver.Error
	if hint == "" {
		hint = belljar.HintOf(err)
	}
	if errors.As(err, &known) {
		switch known.Code() & 0xff {
		case lib.SQLITE_NOTADB, lib.SQLITE_CORRUPT:
			hint = hintDamaged
		case lib.SQLITE_FULL, lib.SQLITE_IOERR:
			if err = mapError(path, err); errors.Is(err, store.ErrFull) {
				hint = "free space on the disk"
			}
		case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
			hint = "another process has the file open: end it first"
		case lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_READONLY, lib.SQLITE_AUTH:
			hint = "let belljar read and write the file and its folder"
		}
	}
	return &belljar.Error{
		Code:    belljar.CodeInternal,
		Message: fmt.Sprintf("cannot open the store %s", path),
		Details: map[string]any{"path": path},
		Hint:    hint,
		Err:     err,
	}
}
