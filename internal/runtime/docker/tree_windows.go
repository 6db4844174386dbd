package docker

import (
	"errors"
	"io/fs"
)

// fileID is what a file is known by, whatever its names.
type fileID struct{}

func identify(fs.FileInfo) (fileID, bool) { return fileID{}, false }

// hold would keep an image from being removed. Belljar unpacks none on Windows.
func hold(path string) (release func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	return nil, errors.New("unpacked images cannot be used on Windows")
}
