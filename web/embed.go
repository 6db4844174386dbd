// Package web holds the files of the web page, as make web builds them.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files returns the page's files: index.html, and what it loads.
func Files() (fs.FS, error) { return fs.Sub(dist, "dist") }
