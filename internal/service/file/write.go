package file

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// defaultMode is the mode of a new file whose request has none. It is the agent's, too.
const defaultMode = 0o644

// mergeTime bounds the merge of checked files into a workspace. The merge does not end with the caller's context, so that its outcome is definite.
const mergeTime = 2 * time.Minute

// sentAnyway is how many bytes a client sends before a response can stop it.
const sentAnyway = 64 << 10

// Write writes one file atomically.
func (v view) Write(ctx context.Context, id string, w belljar.FileWrite) (belljar.FileEntry, error) {
	tags, err := tagsOf(w.IfMatch)
	if err != nil {
		return belljar.FileEntry{}, err
	}
	path, err := checkWrite("path", &w)
	if err != nil {
		return belljar.FileEntry{}, err
	}
	u, err := v.stream(ctx, id)
	if err != nil {
		return belljar.FileEntry{}, err
	}
	defer u.end()
	body := &input{r: w.Content, size: w.Size, most: int64(u.Limits().WorkspaceMB) << 20, u: u, sum: sha256.New()}
	if w.Size > body.most {
		return belljar.FileEntry{}, body.tooLarge()
	}
	if len(tags) == 0 && !w.Overwrite && (w.Size <= 0 || w.Size > sentAnyway) { // otherwise the agent detects it in time
		if _, err := u.Agent.Stat(u.ctx, u.File(path)); err == nil {
			return belljar.FileEntry{}, u.fault(path, &wire.Error{Code: wire.CodeExists})
		}
	}
	req := u.File(path)
	req.Mode, req.Parents, req.NoReplace, req.IfMatch = w.Mode, len(tags) == 0, len(tags) == 0 && !w.Overwrite, tags
	info, err := u.write(req, body)
	if err != nil {
		if len(tags) > 0 {
			err = unmatched(err)
		}
		return belljar.FileEntry{}, u.fault(path, err)
	}
	info.Path = path
	v.wrote(u, info.Size, 1)
	entry := entryOf(info)
	entry.ETag = body.etag()
	return entry, nil
}

// write writes a file. When the session ends, it does not wait for a body that blocks.
func (u *use) write(req wire.FileRequest, body io.Reader) (wire.FileInfo, error) {
	type written struct {
		info wire.FileInfo
		err  error
	}
	done := make(chan written, 1)
	go func() {
		info, err := u.Agent.WriteFile(u.ctx, req, body)
		done <- written{info, err}
	}()
	select {
	case w := <-done:
		return w.info, w.err
	case <-u.ctx.Done():
		return wire.FileInfo{}, context.Cause(u.ctx)
	}
}

// checkWrite checks a request, sets its defaults, and returns the path of the file.
func checkWrite(field string, w *belljar.FileWrite) (string, error) {
	path, err := namedPath(field, w.Path)
	if err != nil {
		return "", err
	}
	if w.Path[len(w.Path)-1] == '/' {
		return "", badPath(field, w.Path, "is the name of a folder")
	}
	if w.Mode > 0o777 {
		return "", &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("mode %04o has more than permission bits", w.Mode), Details: map[string]any{"field": "mode"},
		}
	}
	if w.Content == nil {
		w.Content = bytes.NewReader(nil)
	}
	return path, nil
}

// input is the content of a file; reading it keeps the session alive.
type input struct {
	r    io.Reader
	u    *use
	size int64 // as announced; less than 1 if unknown
	most int64
	read int64
	last time.Time
	sum  hash.Hash // hash of the bytes read; nil after more than mostTagged
}

func (m *input) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.read += int64(n)
	m.add(p[:max(n, 0)])
	m.last = m.u.flows(m.last)
	switch {
	case m.read > m.most:
		return 0, m.tooLarge()
	case m.size > 0 && (m.read > m.size || err == io.EOF && m.read < m.size):
		return 0, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("the contents have %d bytes so far, %d were announced", m.read, m.size),
		}
	case err != nil && err != io.EOF && belljar.CodeOf(err) == belljar.CodeInternal:
		return n, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the contents could not be read to their end", Err: err}
	}
	return n, err
}

func (m *input) tooLarge() error {
	return &belljar.Error{
		Code: belljar.CodeTooLarge, Message: fmt.Sprintf("a file in this workspace is limited to %d bytes", m.most),
		Details: map[string]any{"maximum": m.most, "rule": "workspace_mb", "session_id": m.u.Session().ID},
		Hint:    m.u.larger(),
	}
}

// WriteAll writes many small files, all of them or none.
func (v view) WriteAll(ctx context.Context, id string, list []belljar.FileWrite) ([]belljar.FileEntry, error) {
	list, err := checkBatch(list)
	if err != nil {
		return nil, err
	}
	u, err := v.stream(ctx, id)
	if err != nil {
		return nil, err
	}
	defer u.end()
	packed, entries, size, err := u.pack(list, v.opts.Now())
	if err != nil || len(list) == 0 {
		return entries, err
	}
	// From here on the outcome is definite, whether the caller waits for it or not.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(u.ctx), mergeTime, errAnswerTime)
	defer cancel()
	defer context.AfterFunc(u.Context(), cancel)()
	merge := u.Agent.Merge
	if !list[0].Overwrite {
		merge = u.Agent.MergeNew
	}
	if _, err := merge(ctx, u.File("."), packed); err != nil {
		return nil, u.fault(batchPath(entries), err)
	}
	v.wrote(u, size, int64(len(list)))
	return entries, nil
}

// batchPath names the files of a batch for an error.
func batchPath(entries []belljar.FileEntry) string {
	if len(entries) == 1 {
		return entries[0].Path
	}
	return fmt.Sprintf("one of %d files", len(entries))
}

func batchTooLarge(what string, most int) error {
	return &belljar.Error{
		Code: belljar.CodeTooLarge, Message: fmt.Sprintf("a batch is limited to %d %s", most, what),
		Details: map[string]any{"field": "files", "maximum": most}, Hint: "send several batches, an archive, or large files one by one",
	}
}

// checkBatch checks files before they are read, and returns them with their defaults and their paths in the workspace.
func checkBatch(list []belljar.FileWrite) (checked []belljar.FileWrite, err error) {
	bad := func(field, format string, args ...any) ([]belljar.FileWrite, error) {
		return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Details: map[string]any{"field": field}}
	}
	if len(list) > maxBatchFiles {
		return nil, batchTooLarge("files", maxBatchFiles)
	}
	seen := make(map[string]bool, len(list))
	for i, f := range list {
		field := fmt.Sprintf("files[%d].path", i)
		path, err := checkWrite(field, &f)
		switch {
		case err != nil:
			return nil, err
		case seen[path]:
			return bad(field, "%s %.100q is given twice", field, f.Path)
		case f.IfMatch != "":
			return bad("files", "files[%d] has an IfMatch, which a batch does not compare", i)
		case f.Overwrite != list[0].Overwrite:
			return bad("overwrite", "overwrite must be the same for all files of a batch")
		}
		seen[path], f.Path = true, path
		checked = append(checked, f)
	}
	return checked, nil
}

// pack reads files of [checkBatch] into a tar stream.
func (u *use) pack(list []belljar.FileWrite, now time.Time) (packed *bytes.Buffer, entries []belljar.FileEntry, size int64, err error) {
	packed = &bytes.Buffer{}
	entries = []belljar.FileEntry{}
	w := tar.NewWriter(packed)
	var buf bytes.Buffer
	for i, f := range list {
		if f.Mode == 0 {
			f.Mode = u.modeOf(f.Path, f.Overwrite)
		}
		buf.Reset()
		n, err := io.Copy(&buf, io.LimitReader(f.Content, belljar.MaxBatchBytes-size+1))
		if err != nil {
			return nil, nil, 0, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("files[%d] could not be read", i), Err: err}
		}
		if size += n; size > belljar.MaxBatchBytes {
			return nil, nil, 0, batchTooLarge("bytes together", belljar.MaxBatchBytes)
		}
		// The time is the entry's. PAX keeps fractions of a second: a rounded time could be older than a file that was built earlier.
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: int64(f.Mode), Size: n, ModTime: now, Format: tar.FormatPAX})
		if err == nil {
			_, err = w.Write(buf.Bytes())
		}
		if err != nil {
			return nil, nil, 0, err
		}
		entries = append(entries, belljar.FileEntry{Path: f.Path, Type: "file", Size: n, Mode: fmt.Sprintf("%04o", f.Mode), MtimeUnix: now.Unix()})
	}
	return packed, entries, size, w.Close()
}

// modeOf is the mode of a file of a batch whose request has none: that of the file it replaces, if there is one.
func (u *use) modeOf(path string, overwrite bool) uint32 {
	if overwrite {
		if there, err := u.Agent.Stat(u.ctx, u.File(path)); err == nil && there.Type == "file" {
			return there.Mode & 0o777
		}
	}
	return defaultMode
}
