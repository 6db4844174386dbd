package service

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/store"
)

// Room refuses, with [belljar.CodeDiskFull], what would take space on the disk while it is nearly full. It is for doors that
// keep something there.
func (s *Service) Room() error { return s.room() }

// room refuses to begin anything new while the disk is nearly full.
func (s *Service) room() error {
	if s.opts.FreeBytes == nil {
		return nil
	}
	free, err := s.opts.FreeBytes()
	if err != nil {
		return &belljar.Error{Code: belljar.CodeInternal, Message: "free disk space could not be found out", Err: err}
	}
	if free < s.opts.MinFreeBytes {
		return &belljar.Error{
			Code:    belljar.CodeDiskFull,
			Message: fmt.Sprintf("the disk has %d MiB left, and below %d MiB nothing new begins", free>>20, s.opts.MinFreeBytes>>20),
			Details: map[string]any{"free_bytes": free, "minimum_bytes": s.opts.MinFreeBytes},
			Hint:    "free space on the server's disk",
		}
	}
	return nil
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
