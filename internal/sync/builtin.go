package sync

import (
	"bytes"
	"path"
	"strings"
)

// control are the folders and files of version control. They never reach a sandbox: their hooks and settings, and the credentials
// that some hold, are of no use there.
func control(name string) bool {
	switch strings.ToLower(name) { // file systems may ignore case
	case ".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "cvs":
		return true
	}
	return false
}

// made are folders that tools make. They are large, and made again where they are needed.
func made(name string) bool {
	switch name {
	case "node_modules", "dist", "target", "build", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache",
		".ruff_cache", ".gradle", ".next", ".terraform":
		return true
	}
	return false
}

// binaryName reports whether a file's name says that it is binary: a program, an archive, a picture or another medium.
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

// sniffBytes is how much of a file tells whether it is text.
const sniffBytes = 8 << 10

// binaryText reports whether the content of a file is no text.
func binaryText(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), sniffBytes)], 0) >= 0
}
