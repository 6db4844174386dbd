package thread

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// framing is the maximum overhead of a form, in bytes.
const framing = 1 << 20

// maxField limits a text field, in bytes.
const maxField = 8 << 10

// form is an upload; its fields may arrive in any order.
type form struct {
	session, filename, name string // name is the file name of the part
	file                    *os.File
	temporary               string // the name of file, if only closing it allows to remove it
	size                    int64
}

func (f *form) close() {
	if f.file != nil {
		f.file.Close()
	}
	if f.temporary != "" {
		_ = os.Remove(f.temporary)
	}
}

// errTooLarge means that a file exceeds the limit.
var errTooLarge = errors.New("file too large")

// upload puts one file into a workspace.
func (c *call) upload() {
	limit := int64(c.door.opts.MaxFileMB) << 20
	api.LimitBody(c.w, c.r, limit+framing)
	begun := c.door.opts.Now()
	f, err := c.receive(limit)
	defer f.close()
	if errors.Is(err, errTooLarge) || belljar.CodeOf(err) == belljar.CodeTooLarge {
		size := max(f.size, c.r.ContentLength)
		c.log("resource_limit_exceeded", line{session: f.session, bytes: size, reason: "file size"})
		api.WriteJSON(c.w, http.StatusRequestEntityTooLarge, fault{
			"error": "File size exceeds maximum allowed size", "max_size_mb": c.door.opts.MaxFileMB, "uploaded_size_mb": megabytes(size),
		})
		return
	}
	if err != nil {
		if !c.gone(err, f.session) {
			c.limited(err, f.session, "")
			c.fail(err)
		}
		return
	}
	name := cmp.Or(f.filename, f.name)
	switch {
	case !c.required([2]string{"session_id", f.session}):
		return
	case f.file == nil:
		api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": "No file provided"})
		return
	case !c.required([2]string{"filename", name}):
		return
	}
	clean, ok := cleanName(name)
	if !ok || suspicious(name) {
		api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": "Invalid filename", "filename": cut(name, shownCommand)})
		return
	}
	unlock, err := c.door.uploads.Lock(c.r.Context(), f.session)
	if err != nil {
		c.left()
		return
	}
	defer unlock()
	before, fits := c.fits(f)
	if !fits {
		return
	}
	_, err = c.service.Files().Write(c.r.Context(), f.session, belljar.FileWrite{Path: clean, Content: f.file, Size: f.size, Overwrite: true})
	if err != nil {
		c.uploadFailed(f, err)
		return
	}
	c.log("file_uploaded", line{session: f.session, bytes: f.size, took: c.door.opts.Now().Sub(begun)})
	c.door.opts.Events.Record(event.Event{Name: event.Thread, Kind: event.ThreadWorkspace, Component: "thread", Count: before + f.size})
	api.WriteJSON(c.w, http.StatusOK, map[string]any{
		"status": "uploaded", "filename": clean, "path": path.Join(belljar.WorkspaceDir, clean), "size_bytes": f.size,
	})
}

func (c *call) uploadFailed(f *form, err error) {
	switch {
	case c.gone(err, f.session):
	case belljar.CodeOf(err) == belljar.CodeDiskFull:
		space, spaceErr := c.service.Files().Space(c.r.Context(), f.session) // hidden files and /tmp count, too
		if spaceErr != nil {
			c.fail(err)
			return
		}
		c.full(f, space.Bytes)
	default:
		c.limited(err, f.session, "")
		c.fail(err)
	}
}

// fits checks the limits of the workspace and returns its size. If one is exceeded, fits responds and returns false.
func (c *call) fits(f *form) (size int64, ok bool) {
	n, bytes, err := c.usage(f.session)
	switch {
	case err != nil:
		if !c.gone(err, f.session) {
			c.fail(err)
		}
	case n >= c.door.opts.MaxFiles:
		c.log("resource_limit_exceeded", line{session: f.session, reason: "file count"})
		api.WriteJSON(c.w, http.StatusInsufficientStorage, fault{
			"error": "Maximum file count exceeded", "max_files": c.door.opts.MaxFiles, "current_files": n,
		})
	case bytes+f.size > int64(c.door.opts.MaxWorkspaceMB)<<20:
		c.full(f, bytes)
	default:
		return bytes, true
	}
	return 0, false
}

// full responds if the workspace is full.
func (c *call) full(f *form, bytes int64) {
	c.log("resource_limit_exceeded", line{session: f.session, bytes: f.size, reason: "workspace size"})
	api.WriteJSON(c.w, http.StatusInsufficientStorage, fault{
		"error": "Workspace size limit exceeded", "max_workspace_mb": c.door.opts.MaxWorkspaceMB,
		"current_workspace_mb": megabytes(bytes), "file_size_mb": megabytes(f.size),
	})
}

// megabytes returns a size in MiB, rounded to two decimals.
func megabytes(n int64) float64 { return math.Round(float64(n)/(1<<20)*100) / 100 }

// receive reads the form and spools the file to the disk, since other fields may follow it. The caller must close the
// form, even after an error.
func (c *call) receive(limit int64) (*form, error) {
	f := &form{}
	media, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" || params["boundary"] == "" {
		return f, badForm(errors.New("it is not multipart/form-data"))
	}
	reader := multipart.NewReader(c.r.Body, params["boundary"])
	for {
		part, err := reader.NextRawPart()
		if err == io.EOF {
			return f, nil
		}
		if err == nil {
			err = c.readPart(f, part, limit)
		}
		if err != nil {
			return f, badForm(err)
		}
	}
}

func badForm(err error) error {
	var known *belljar.Error
	if errors.As(err, &known) || errors.Is(err, errTooLarge) {
		return err
	}
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("Invalid form: %v", err)}
}

// readPart reads one part.
func (c *call) readPart(f *form, part *multipart.Part, limit int64) error {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return err
	}
	switch name := params["name"]; name {
	case "session_id", "filename":
		value, err := io.ReadAll(io.LimitReader(part, maxField+1))
		switch {
		case err != nil:
			return err
		case len(value) > maxField:
			return fmt.Errorf("%s is too long", name)
		case name == "session_id":
			f.session = string(value)
		default:
			f.filename = string(value)
		}
		return nil
	case "file":
		if f.file != nil {
			return errors.New("more than one file")
		}
		f.name = params["filename"]
		if f.session != "" { // a client should not send 100 MB for nothing
			session, err := c.service.Sessions().Get(c.r.Context(), f.session)
			if err == nil && session.State.Ended() {
				err = &belljar.Error{Code: belljar.CodeNotFound, Message: "the session has ended", Details: map[string]any{"session_id": session.ID}}
			}
			if err != nil {
				return err
			}
		}
		return f.spool(bounded{part, c.room}, c.door.opts.TempDir, limit)
	default:
		return fmt.Errorf("unknown field %.40q", name)
	}
}

// room returns an error if there is no room for more of an upload.
func (c *call) room() error {
	if c.door.opts.Room == nil {
		return nil
	}
	return c.door.opts.Room(c.r.Context(), c.caller.ID)
}

// bounded checks for room before each read.
type bounded struct {
	in   io.Reader
	room func() error
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.room(); err != nil {
		return 0, err
	}
	return b.in.Read(p)
}

// spool writes the file's bytes to a temporary file, without a name where the system allows that.
func (f *form) spool(part io.Reader, dir string, limit int64) (err error) {
	if f.file, err = os.CreateTemp(dir, ".belljar-upload-*"); err != nil {
		return &belljar.Error{Code: belljar.CodeInternal, Message: "keep an upload", Err: err}
	}
	if os.Remove(f.file.Name()) != nil { // only Unix can remove an open file
		f.temporary = f.file.Name()
	}
	f.size, err = io.Copy(f.file, io.LimitReader(part, limit+1))
	if err != nil {
		return err
	}
	if f.size > limit {
		return errTooLarge
	}
	_, err = f.file.Seek(0, io.SeekStart)
	return err
}

// suspicious reports whether a file name could leave a folder on some system. A program can make a file with such a name in the workspace.
func suspicious(name string) bool {
	return strings.Contains(name, "..") || strings.ContainsRune(name, '\\')
}

// cleanName returns a file name as a path in the workspace; false if it is not one.
func cleanName(name string) (string, bool) {
	if strings.HasPrefix(name, "/") {
		return "", false
	}
	clean, err := belljar.CleanPath(name)
	if err == nil {
		err = belljar.CheckPlace(clean)
	}
	return clean, err == nil && clean != "."
}
