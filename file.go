package belljar

import "io"

// MaxBatchBytes is the most bytes that the files of one [FileWriter.WriteAll] may have together.
const MaxBatchBytes = 2 << 20

// FileEntry is one file, directory or link in a workspace (docs/compatibility.md#tools). Its path is relative to the workspace.
type FileEntry struct {
	Path      string `json:"path"`
	Type      string `json:"type"` // file | dir | symlink | other
	Size      int64  `json:"size"` // bytes
	Mode      string `json:"mode"` // octal permission bits: "0644"
	MtimeUnix int64  `json:"mtime_unix"`
	MtimeNs   int64  `json:"-"`                // the same in nanoseconds, to sort lists; 0 through a client
	Target    string `json:"target,omitempty"` // of a symlink. Belljar's own
	ETag      string `json:"etag,omitempty"`   // SHA-256 of the content in hexadecimal, in quotes; none after a write of over 8 MiB. Belljar's own
}

// FileWrite is one file to write. Missing parent directories are created. The write is atomic.
type FileWrite struct {
	Path      string    // "x" and "/workspace/x" are the same file
	Content   io.Reader // read to its end; nil is an empty file
	Size      int64     // bytes that Content will bring, 0 or -1 if not known; reports early that they are too many
	Mode      uint32    // permission bits; 0 means those of the file that is replaced, or else 0644
	Overwrite bool      // replace a file that is there; else that is [CodeConflict]. A link to a file is followed. Not needed with IfMatch
	IfMatch   string    // replace only a file with one of these ETags ([FileEntry.ETag], separated by commas; "*" is any), else [CodePrecondition]
}

// FileQuery selects the entries of a listing.
type FileQuery struct {
	Path      string       // of a directory; "" is the workspace. A file lists itself
	Recursive bool         // include all levels below, parents first
	Limit     int          // entries; 0 is 1000, at most 10000
	Ready     func() error // may refuse a valid query once the session has started or woken; nil allows it. A client ignores it
}

// FileList is a listing, sorted by path, without following links. If one directory is truncated, its directories are kept before its files.
type FileList struct {
	Entries   []FileEntry `json:"entries"`
	Truncated bool        `json:"truncated"` // entries are missing: more than the limit, very long paths, or deeper than 255 directories
}

// FileSearch finds files by name, by content, or both; at least one is required. Without Content it finds entries of any type; with it,
// only regular files. It does not follow links.
type FileSearch struct {
	Path       string       `json:"path,omitempty"`        // directory to look in; "" is the workspace
	Name       string       `json:"name,omitempty"`        // glob: without a slash of the name at any depth (*.go), with one of the path below Path (src/**/*.ts)
	Content    string       `json:"content,omitempty"`     // text to find, or a regular expression (RE2) with Regexp
	Regexp     bool         `json:"regexp,omitempty"`      // Content is a regular expression
	IgnoreCase bool         `json:"ignore_case,omitempty"` // of Content
	MaxResults int          `json:"max_results,omitempty"` // matches; 0 is 100, at most 1000
	Ready      func() error `json:"-"`                     // as in [FileQuery]
}

// FileMatch is one match: a file, or with Content a line of a file. The content of binary files (with a NUL near the beginning) is not searched.
type FileMatch struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"` // from 1
	Text string `json:"text,omitempty"` // the line, at most 500 bytes of it around the match
}

// FileMatches are the matches of a search, sorted by path and line.
type FileMatches struct {
	Matches       []FileMatch `json:"matches"`
	Truncated     bool        `json:"truncated"` // it reached a bound (matches, files, bytes, time), or skipped the rest of a very long file or line
	FilesSearched int         `json:"files_searched"`
}

// Space is the usage and capacity of a workspace.
type Space struct {
	Bytes    int64 `json:"bytes"` // allocated by files on its file system
	Files    int64 `json:"files"` // files, directories and links
	MaxBytes int64 `json:"max_bytes"`
	MaxFiles int64 `json:"max_files"`
}
