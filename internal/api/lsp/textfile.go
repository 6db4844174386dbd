package lsp

import (
	"io/fs"
	"strings"
	"time"
)

// textFile is a text of the editor as a file.
type textFile struct {
	*strings.Reader
	name string
	size int64
}

// Close implements [fs.File].
func (f *textFile) Close() error { return nil }

// Stat implements [fs.File].
func (f *textFile) Stat() (fs.FileInfo, error) { return textInfo{f}, nil }

type textInfo struct{ *textFile }

// Name implements [fs.FileInfo], as the rest.
func (i textInfo) Name() string { return i.name }

// Size is in bytes.
func (i textInfo) Size() int64 { return i.size }

// Mode is that of a regular file.
func (i textInfo) Mode() fs.FileMode { return 0o444 }

// ModTime is not known.
func (i textInfo) ModTime() time.Time { return time.Time{} }

// IsDir is false.
func (i textInfo) IsDir() bool { return false }

// Sys has nothing.
func (i textInfo) Sys() any { return nil }
