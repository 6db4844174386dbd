package admission

import (
	"context"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// Room refuses, with [belljar.CodeDiskFull], any new work while the disk is nearly full: below the watermark for users who store at least
// the average, and for work without a user (""); below half of it for all users.
func (a *Accounts) Room(ctx context.Context, user string) error { return a.RoomFor(ctx, user, 0) }

// FilesKept is the part of a disk's files below which all users are refused: one in FilesKept. Pulls of images stop at twice as many.
const FilesKept = 100

// roomForFiles refuses new work while the disk is nearly out of inodes, which it can be with many free bytes.
func (a *Accounts) roomForFiles() error {
	if a.FreeFiles == nil {
		return nil
	}
	free, all, err := a.FreeFiles()
	if err != nil {
		return &belljar.Error{Code: belljar.CodeInternal, Message: "free inodes of the disk could not be found out", Err: err}
	}
	if free >= all/FilesKept {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodeDiskFull, Message: fmt.Sprintf("the disk has room for %d more files; below %d nothing new begins", free, all/FilesKept),
		Details: map[string]any{"free_files": free, "minimum_files": all / FilesKept},
		Hint:    "remove files from the server's disk, as df -i counts them",
	}
}

// RoomFor is Room after so many more bytes are used.
func (a *Accounts) RoomFor(ctx context.Context, user string, bytes int64) error {
	if err := a.roomForFiles(); err != nil {
		return err
	}
	if a.FreeBytes == nil {
		return nil
	}
	free, err := a.FreeBytes()
	if err != nil {
		return &belljar.Error{Code: belljar.CodeInternal, Message: "free disk space could not be found out", Err: err}
	}
	least, left := a.MinFreeBytes, free
	free -= min(free, uint64(bytes))
	if free >= least {
		return nil
	}
	has := fmt.Sprintf("the disk has %d MiB left", left>>20)
	full := &belljar.Error{
		Code:    belljar.CodeDiskFull,
		Details: map[string]any{"free_bytes": left, "minimum_bytes": least},
		Hint:    "free space on the server's disk",
	}
	if bytes > 0 {
		has += fmt.Sprintf(", and %d MiB are asked for", bytes>>20)
		full.Details["asked_bytes"], full.Hint = bytes, "ask for less, or free space on the server's disk"
	}
	full.Message = has + fmt.Sprintf("; below %d MiB nothing new begins", least>>20)
	if user == "" || free < least/2 {
		return full
	}
	own, share, err := a.share(ctx, user)
	if err != nil {
		return err
	}
	if own < share {
		return nil
	}
	full.Message = has + fmt.Sprintf("; below %d MiB, users who store at least the average cannot start anything", least>>20)
	full.Details["kept_bytes"], full.Details["share_bytes"] = own, share
	full.Hint = a.Wait + ", and artifacts with them, and records of runs and sessions later; or free space on the server's disk"
	return full
}

// share returns how many bytes of artifacts, logs and records a user stores, and the average of all users that store any. Users who store only
// records whose logs are deleted do not lower it.
func (a *Accounts) share(ctx context.Context, user string) (own, share int64, err error) {
	used, err := a.Users.Usage(ctx, user, a.Now())
	if err != nil {
		return 0, 0, fault.Record("read the usage of "+user, err)
	}
	all, users, err := a.Users.Kept(ctx)
	if err != nil {
		return 0, 0, fault.Record("read the stored sizes", err)
	}
	records, recent, err := a.Users.Recorded(ctx, user)
	if err != nil {
		return 0, 0, fault.Record("read the size of the records of "+user, err)
	}
	own = used.ArtifactBytes + used.LogBytes + records
	recorded := used.ArtifactBytes+used.LogBytes+recent > 0
	for _, l := range []*ledger{&a.artifacts, &a.logs} {
		mine, everyones := l.flying(user)
		own, all = own+mine, all+everyones
	}
	if own > 0 && !recorded {
		users++
	}
	return own, all / int64(max(users, 1)), nil
}
