package service

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/store"
)

// Room refuses, with [belljar.CodeDiskFull], what would take space on the disk for a user while it is nearly full. It is for
// doors that keep something there.
func (s *Service) Room(ctx context.Context, user string) error { return s.room(ctx, user) }

// room refuses to begin anything new while the disk is nearly full: below the watermark for users who keep as much there as
// the average user or more, and for what is of no user (""), below half of it for everyone.
func (s *Service) room(ctx context.Context, user string) error {
	if s.opts.FreeBytes == nil {
		return nil
	}
	free, err := s.opts.FreeBytes()
	if err != nil {
		return &belljar.Error{Code: belljar.CodeInternal, Message: "free disk space could not be found out", Err: err}
	}
	least := s.opts.MinFreeBytes
	if free >= least {
		return nil
	}
	full := &belljar.Error{
		Code:    belljar.CodeDiskFull,
		Message: fmt.Sprintf("the disk has %d MiB left, and below %d MiB nothing new begins", free>>20, least>>20),
		Details: map[string]any{"free_bytes": free, "minimum_bytes": least},
		Hint:    "free space on the server's disk",
	}
	if user == "" || free < least/2 {
		return full
	}
	own, share, err := s.share(ctx, user)
	if err != nil {
		return err
	}
	if own < share {
		return nil
	}
	full.Message = fmt.Sprintf("the disk has %d MiB left, and below %d MiB nothing new begins for users who keep as much on it as others or more",
		free>>20, least>>20)
	full.Details["kept_bytes"], full.Details["share_bytes"] = own, share
	full.Hint = s.logsGo() + ", and artifacts with them; or free space on the server's disk"
	return full
}

// share is how many bytes of artifacts and logs a user keeps, and how many the average user who keeps any does.
func (s *Service) share(ctx context.Context, user string) (own, share int64, err error) {
	used, err := s.opts.Store.Users().Usage(ctx, user, s.clock.Now())
	if err != nil {
		return 0, 0, recordError("read the usage of "+user, err)
	}
	all, users, err := s.opts.Store.Users().Kept(ctx)
	if err != nil {
		return 0, 0, recordError("read what is kept", err)
	}
	own = used.ArtifactBytes + used.LogBytes
	recorded := own > 0
	for _, l := range []*ledger{&s.artifacts, &s.logs} {
		mine, everyones := l.flying(user)
		own, all = own+mine, all+everyones
	}
	if own > 0 && !recorded {
		users++
	}
	return own, all / int64(max(users, 1)), nil
}

// full reports whether an error says that a disk is.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, store.ErrFull) || errors.Is(err, blob.ErrFull)
}

func diskFull(err error) error {
	return &belljar.Error{
		Code: belljar.CodeDiskFull, Message: "the server's disk is full", Hint: "free space on the server's disk", Err: err,
	}
}
