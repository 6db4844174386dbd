package sync

import (
	"bytes"
	"path"
	"strings"
)

// control reports whether a name is a folder or file of version control. These never reach a sandbox: their hooks and settings,
// and the credentials that some contain, are useless there.
func control(name string) bool {
	switch strings.ToLower(name) { // file systems may ignore case
	case ".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "cvs":
		return true
	}
	return false
}

// made reports whether a name is a folder that tools generate. Such folders are large, and the sandbox generates them again.
func made(name string) bool {
	switch name {
	case "node_modules", "dist", "target", "build", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache",
		".ruff_cache", ".gradle", ".next", ".terraform":
		return true
	}
	return false
}

// binaryName reports whether a file's name is that of a binary file: a program, an archive, a picture or another medium.
func binaryName(name string) bool {
	switch strings.ToLower(strings.TrimPrefix(path.Ext(name), ".")) {
	case "exe", "dll", "so", "dylib", "a", "o", "obj", "lib", "class", "jar", "war", "ear", "pyc", "pyo", "pyd", "wasm", "bin", "node",
		"zip", "tar", "gz", "tgz", "bz2", "xz", "zst", "7z", "rar", "iso", "img", "dmg", "deb", "rpm", "whl",
		"png", "jpg", "jpeg", "gif", "bmp", "ico", "webp", "tiff", "psd", "mp3", "mp4", "avi", "mov", "mkv", "wav", "flac", "ogg",
		"pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "ttf", "otf", "woff", "woff2", "eot", "sqlite", "db", "parquet", "onnx", "pt":
		return true
	}
	return false
}

// sniffBytes is the size of the part of a file that decides whether it is text.
const sniffBytes = 8 << 10

// binaryText reports whether the content of a file is binary.
func binaryText(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), sniffBytes)], 0) >= 0
}
