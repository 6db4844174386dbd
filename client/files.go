package client

import (
	"context"
	"io"

	"github.com/belljar/belljar"
)

// files are the workspaces of sessions on the server.
type files struct{ c *Client }

var _ belljar.Files = files{}

func unbuilt() error {
	return &belljar.Error{Code: belljar.CodeInternal, Message: "not built yet"}
}

func (files) Write(context.Context, string, belljar.FileWrite) (belljar.FileEntry, error) {
	return belljar.FileEntry{}, unbuilt()
}
func (files) WriteAll(context.Context, string, []belljar.FileWrite) ([]belljar.FileEntry, error) {
	return nil, unbuilt()
}
func (files) Read(context.Context, string, string, int64, int64) (belljar.FileEntry, io.ReadCloser, error) {
	return belljar.FileEntry{}, nil, unbuilt()
}
func (files) Stat(context.Context, string, string) (belljar.FileEntry, error) {
	return belljar.FileEntry{}, unbuilt()
}
func (files) List(context.Context, string, belljar.FileQuery) (belljar.FileList, error) {
	return belljar.FileList{}, unbuilt()
}
func (files) Mkdir(context.Context, string, string, uint32) error        { return unbuilt() }
func (files) Rename(context.Context, string, string, string, bool) error { return unbuilt() }
func (files) Delete(context.Context, string, string, bool) error         { return unbuilt() }
func (files) Search(context.Context, string, belljar.FileSearch) (belljar.FileMatches, error) {
	return belljar.FileMatches{}, unbuilt()
}
func (files) Archive(context.Context, string, string, belljar.UploadFormat, io.Writer) error {
	return unbuilt()
}
func (files) Space(context.Context, string) (belljar.Space, error) {
	return belljar.Space{}, unbuilt()
}
