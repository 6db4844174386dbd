package rest

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// formParts yields the files of a multipart/form-data body as they arrive.
func formParts(body *source, boundary string, extract bool) iter.Seq2[belljar.UploadPart, error] {
	return func(yield func(belljar.UploadPart, error) bool) {
		fail := func(err error) {
			yield(belljar.UploadPart{}, body.cause(err))
		}
		if boundary == "" {
			fail(api.Refuse("Content-Type", "multipart/form-data without a boundary"))
			return
		}
		form := multipart.NewReader(body, boundary)
		for n := 0; ; n++ {
			part, err := form.NextRawPart()
			if err == io.EOF && n > 0 {
				return
			}
			if err != nil {
				if err == io.EOF {
					err = errors.New("it has no parts")
				}
				fail(api.Refuse("body", "the multipart body cannot be read: %v", err))
				return
			}
			p, err := filePart(part, n, extract)
			if err != nil {
				fail(err)
				return
			}
			p.Body = &partBody{part: part, source: body}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// filePart parses a part's header. It does not use Part.FileName, which drops the folders.
func filePart(part *multipart.Part, n int, extract bool) (belljar.UploadPart, error) {
	disposition, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || disposition != "form-data" {
		return belljar.UploadPart{}, api.Refuse(fmt.Sprintf("files[%d]", n), "part %d has no content disposition form-data", n+1)
	}
	if field := params["name"]; field != "files" && field != "files[]" {
		return belljar.UploadPart{}, api.Unknown("form field", field, field, []string{"files"})
	}
	at := fmt.Sprintf("files[%d].filename", n)
	name := params["filename"]
	if name == "" {
		return belljar.UploadPart{}, api.Refuse(at, "part %d has no file name", n+1)
	}
	if coding := part.Header.Get("Content-Transfer-Encoding"); coding != "" && !strings.EqualFold(coding, "binary") && !strings.EqualFold(coding, "8bit") {
		return belljar.UploadPart{}, api.Refuse(fmt.Sprintf("files[%d]", n), "content transfer encoding %.40q is not supported", coding)
	}
	format := belljar.UploadFile
	if extract {
		format = formatOf(name)
	}
	if format == belljar.UploadFile {
		if err := checkName(at, name); err != nil {
			return belljar.UploadPart{}, err
		}
	}
	return belljar.UploadPart{Name: name, Format: format}, nil
}

// formatOf returns the format for a file name.
func formatOf(name string) belljar.UploadFormat {
	name = strings.ToLower(name)
	for suffix, format := range map[string]belljar.UploadFormat{
		".tar": belljar.UploadTar, ".tar.gz": belljar.UploadTarGz, ".tgz": belljar.UploadTarGz, ".zip": belljar.UploadZip,
	} {
		if strings.HasSuffix(name, suffix) {
			return format
		}
	}
	return belljar.UploadFile
}

// checkName rejects a file name that is not a path in the workspace. The service would too, but this error names the field.
func checkName(field, name string) error {
	clean, err := belljar.CleanPath(name)
	if err == nil && clean == "." {
		err = errors.New("path is the workspace itself")
	}
	if err != nil {
		return api.Refuse(field, "%s %.200q: %v", field, name, err)
	}
	return nil
}

// partBody is a part whose read errors become the upload's error.
type partBody struct {
	part   *multipart.Part
	source *source
}

func (p *partBody) Read(b []byte) (int, error) {
	n, err := p.part.Read(b)
	if err != nil && err != io.EOF {
		err = p.source.cause(api.Refuse("body", "the multipart body cannot be read: %v", err))
	}
	return n, err
}
